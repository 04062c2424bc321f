"""Finds the answer in pasted text and says which of the choices it means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.debugger.paste_choices import find_choices

_NAME = (
    r"(?:the )?(?:(?:correct|right|best|final|gold|true) )?(?:answer(?: key)?|ans\.?|key)|"
    r"(?:the )?correct (?:option|choice|diagnosis)|correct|(?:final |most likely )?diagnosis|solution"
)
_LABELLED = re.compile(
    rf"^[*_#>\s]*(?:{_NAME})[*_\s]*(?:[:=]|\s[-–—]\s|\s+is\b\s*:?|$)[*_\s]*(?P<value>.*)$", re.IGNORECASE
)
_LABEL_LETTER = re.compile(r"^[*_\s]*(?:answer|ans|key)\s+(?P<value>[(\[]?[A-J][)\].]?)[*_\s]*$", re.IGNORECASE)
_WITHIN = re.compile(
    r"(?<=[\s.;,])[*_(\[]*(?:(?:The )?[Cc]orrect [Aa]nswer|Answer|ANSWER|Ans|ANS|Key)\.?[*_]*\s*(?:[:=]|is\b)\s*"
    r"(?P<value>\S.*)$"
)
_EXPLANATION = re.compile(
    r"(?:^|(?<=[.\s]))[*_#]*(?:explanation|rationale|reasoning|educational objective|references?|discussion)\b[*_]*"
    r"\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_LETTER = re.compile(r"^[(\[]?(?P<name>[A-Ja-j]|10|[1-9])(?:[)\].:,]+\s*|\s+[-–—]\s*|\s*$)(?P<rest>.*)$", re.DOTALL)
_OPTION = re.compile(r"^(?:option|choice|letter|number)\s+(?=[(\[]?\w{1,2}\b)", re.IGNORECASE)
_FEW_WORDS = 8


@dataclass(frozen=True)
class CutAnswer:
    """The text without its answer, the answer as it was written, and what else was left out."""

    text: str
    answer: str | None
    notes: tuple[str, ...] = ()


def cut_answer(text: str) -> CutAnswer:
    """Cut the answer and what follows it (explanations, references) from the text."""
    explained = _EXPLANATION.search(text)
    if not explained or not text[: explained.start()].strip():
        return _cut(text)
    head = _cut(text[: explained.start()].rstrip(" *_#\n"))
    answer = head.answer or _cut(text[explained.start() :]).answer
    return CutAnswer(head.text, answer, (*head.notes, "An explanation was left out: it would tell the answer."))


def _cut(text: str) -> CutAnswer:
    lines = text.split("\n")
    for number in range(len(lines) - 1, -1, -1):
        value, before, end = _answer_at(lines, number)
        if value:
            left, rest = "\n".join([*lines[:number], before]).strip(), "\n".join(lines[end:]).strip()
            kept = _kept(left, rest)
            dropped = rest and kept == left
            notes = ("What follows the answer was left out of the vignette.",) if dropped else ()
            return CutAnswer(kept, value, notes)
    return CutAnswer(text, None)


def _answer_at(lines: Sequence[str], number: int) -> tuple[str | None, str, int]:
    """Return the answer that a line names, what stands before it in the line, and the line after it."""
    line = lines[number]
    found = _LABELLED.match(line) or _LABEL_LETTER.match(line)
    if found and line.lower().lstrip("*_#> ").startswith(("diagnosis", "most likely", "final diagnosis")):
        found = found if not any(part.strip() for part in lines[number + 1 :]) else None
    if not found:
        found = _WITHIN.search(line)
        return (_bare(found["value"]), line[: found.start()], number + 1) if found else (None, line, number + 1)
    end = number + 1
    value = found["value"]
    while not value.strip(" *_") and end < len(lines):
        value, end = lines[end], end + 1
    return _bare(value), "", end


def _bare(value: str) -> str:
    return value.strip(' *_"“”').rstrip(".").strip()


def _kept(before: str, after: str) -> str:
    """Return what is not the answer: all of it where the answer stood first or between question and choices."""
    stands_first = len(before.split()) < _FEW_WORDS
    between = after and find_choices(after) is not None and find_choices(before) is None
    return f"{before}\n{after}".strip() if stands_first or between else before


def meant(answer: str, choices: Sequence[str]) -> tuple[str | None, str | None]:
    """Return (the answer that is meant, a note): a letter, a number or a name is looked up among the choices."""
    answer = _OPTION.sub("", answer.strip())
    named = _named(answer, choices)
    if named is not None:
        return named, None
    found = _LETTER.match(answer)
    if not found:
        return (answer or None), f"The answer '{answer}' is none of the choices: correct it." if choices else None
    index = int(found["name"]) - 1 if found["name"].isdigit() else ord(found["name"].upper()) - ord("A")
    rest = found["rest"].strip(" .")
    if not choices and rest:
        return rest, None
    if index >= len(choices):
        what = "no such choice was" if choices else "no choices were"
        return None, f"The answer is given as '{found['name']}', but {what} recognised: name it."
    by_name = _named(rest, choices) if rest else None
    if by_name is not None and by_name != choices[index]:
        return by_name, f"Letter and words of the answer differ ({found['name']}, {by_name}): the words were taken."
    return choices[index], None


def _named(answer: str, choices: Sequence[str]) -> str | None:
    """Return the choice whose name the answer is, or begins with where words of explanation follow."""
    plain = _plain(answer)
    for choice in choices:
        if _plain(choice) == plain:
            return choice
    begun = [choice for choice in choices if re.match(rf"{re.escape(_plain(choice))}(?:[.,;:]| [(–-])", plain)]
    return max(begun, key=len) if begun else None


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("’", "'").split()).rstrip(".")
