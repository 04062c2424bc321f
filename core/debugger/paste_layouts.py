"""The layouts in which choices, answers and rows of data files are pasted: JSON, CSV, and lists of every usual kind."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from core.datasets.readers import FORMATS
from core.datasets.readers.item import known_specialty
from core.text.questions import split_question

_LETTERS = "ABCDEFGHIJ"
_MOST = len(_LETTERS)
_NAMES = (_LETTERS, _LETTERS.lower(), [str(number) for number in range(1, _MOST + 1)])
_DECORATION = r"(?:(?:\*{1,3}|__|[✓✔✅→➔►]|[=-]?>)\s*)"
_LINE = re.compile(
    rf"^(?P<mark>{_DECORATION})?(?:[-•–▪◦·]\s+)?(?P<bold>\*\*|__)?[(\[]?(?P<name>[A-Ja-j]|10|[1-9])"
    r"(?:[.:](?:\*\*|__)?\s+|[)\]][.:]?(?:\*\*|__)?\s*|\s[-–—]\s+)(?P<text>\S.*)$"
)
_BULLET = re.compile(rf"^(?:[-*•–▪◦·]\s+)(?P<box>\[[ xX]\]\s*)?(?P<mark>{_DECORATION})?(?P<text>\S.*)$")
_HEADER = re.compile(
    r"^[*_#\s]*(?:answer |the |possible |response )?(?:options|choices|answers|alternatives|select one|choose one)"
    r"(?: are| is)?\s*[:.]?[*_\s]*[:.]?[*_\s]*(?P<rest>.*)$",
    re.IGNORECASE,
)
_INLINE = re.compile(
    r"(?:(?<=\s)|^)(?P<mark>\*{1,2})?[(\[]?(?P<name>[A-Ja-j]|10|[1-9])(?P<close>[.:)\]])(?:\*\*)?\s*(?=\S)"
)
_MARKED_END = re.compile(r"\s*(?:\*{1,3}|[✓✔✅←]|<-+|[(\[](?:correct|right|answer|key|true)[)\]])$", re.IGNORECASE)
_LONGEST_BARE = 12
"""A line of more words than this is no choice where the lines have neither letters nor bullets."""


@dataclass(frozen=True)
class FoundChoices:
    """The choices with the text around them; ``starred`` is the one that alone is marked as right."""

    before: str
    choices: tuple[str, ...]
    starred: str | None
    after: str
    bare: bool = False
    """The lines had neither letters nor bullets."""


@dataclass(frozen=True)
class _Item:
    line: int
    kind: str
    ordinal: int
    text: str
    marked: bool


def find_choices(text: str) -> FoundChoices | None:
    """Return the last list of choices in the text, or ``None``."""
    lines = text.split("\n")
    return _lettered(lines) or _bulleted(lines) or _on_one_line(lines) or _after_header(lines) or _bare_lines(lines)


def is_header(line: str) -> bool:
    """Say whether a line only announces the choices."""
    found = _HEADER.match(line)
    return found is not None and not found["rest"].strip()


def _found(
    lines: Sequence[str], start: int, end: int, items: Sequence[tuple[str, bool]], bare: bool = False
) -> FoundChoices:
    before = list(lines[:start])
    while before and (not before[-1].strip() or is_header(before[-1])):
        before.pop()
    cleaned = [_clean(text, marked) for text, marked in items]
    texts = [text for text, _ in cleaned]
    # the full stop that all choices end with, on one line all but the last
    if all(text.endswith(".") for text in texts[:-1]):
        texts = [text.removesuffix(".") for text in texts]
    stars = [text for text, (_, marked) in zip(texts, cleaned, strict=True) if marked]
    starred = stars[0] if len(stars) == 1 else None
    return FoundChoices("\n".join(before).strip(), tuple(texts), starred, "\n".join(lines[end:]).strip(), bare)


def _clean(text: str, marked: bool) -> tuple[str, bool]:
    """Return a choice without its marks, and whether it had any."""
    text = text.strip()
    end = _MARKED_END.search(text)
    bold = re.fullmatch(r"(?:\*\*|__)(.+?)(?:\*\*|__)?", text) or re.fullmatch(r"(.+?)(?:\*\*|__)", text)
    if bold:
        text, marked = bold[1], True
    elif end:
        text, marked = text[: end.start()], True
    text = text.strip().rstrip(",;").strip()
    return (text.removesuffix('"').strip() if text.count('"') == 1 else text), marked


def _item(number: int, line: str) -> _Item | None:
    found = _LINE.match(line)
    if not found:
        return None
    name = found["name"]
    kind = "number" if name.isdigit() else "upper" if name.isupper() else "lower"
    ordinal = int(name) - 1 if name.isdigit() else _LETTERS.index(name.upper())
    return _Item(number, kind, ordinal, found["text"], bool(found["mark"] or found["bold"]))


def _runs(lines: Sequence[str]) -> Iterator[list[_Item]]:
    """Yield runs of items A, B, C … of one kind; between two items may stand the rest of the first."""
    run: list[_Item] = []
    for item in filter(None, (_item(number, line) for number, line in enumerate(lines))):
        follows = run and item.kind == run[-1].kind and item.ordinal == run[-1].ordinal + 1
        if follows and len([line for line in lines[run[-1].line + 1 : item.line] if line.strip()]) <= 2:
            run.append(item)
        elif item.ordinal == 0:
            if len(run) > 1:
                yield run
            run = [item]
    if len(run) > 1:
        yield run


def _lettered(lines: Sequence[str]) -> FoundChoices | None:
    for run in reversed(list(_runs(lines))):
        end = run[-1].line + 1
        if run[0].kind == "number" and len(" ".join(lines[end:]).split()) > 2 * _LONGEST_BARE:
            continue  # a numbered list of findings within the vignette
        ends = [item.line for item in run[1:]] + [end]
        items = [
            (
                " ".join([item.text, *(line.strip() for line in lines[item.line + 1 : stop] if line.strip())]),
                item.marked,
            )
            for item, stop in zip(run, ends, strict=True)
        ]
        return _found(lines, run[0].line, end, items)
    return None


def _bulleted(lines: Sequence[str]) -> FoundChoices | None:
    """Return a bullet list at the end, if a question or a header stands before it."""
    end = len(lines)
    start = end
    while start and (not lines[start - 1].strip() or _BULLET.match(lines[start - 1])):
        start -= 1
    bullets = [found for line in lines[start:end] if (found := _BULLET.match(line))]
    introduced = start > 0 and (lines[start - 1].rstrip(" *_").endswith(("?", ":")) or is_header(lines[start - 1]))
    if len(bullets) < 2 or not introduced:
        return None
    items = [(found["text"], bool(found["mark"]) or "x" in (found["box"] or "").lower()) for found in bullets]
    return _found(lines, start, end, items)


def _on_one_line(lines: Sequence[str]) -> FoundChoices | None:
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        asked = line.rfind("?") + 1
        marks = _sequence([m for m in _INLINE.finditer(line) if m.start() >= asked])
        if not marks or len(marks) < (2 if asked or not line[: marks[0].start()].strip() else 3):
            continue
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        items = [(line[m.end() : end], bool(m["mark"])) for m, end in zip(marks, ends, strict=True)]
        items[-1] = (items[-1][0].strip().removesuffix("."), items[-1][1])
        head = line[: marks[0].start()].rstrip()
        announced = re.sub(r"(?:^|\s)(?:answer )?(?:options|choices)\s*:$", "", head, flags=re.IGNORECASE)
        spread = [*lines[:number], announced, *lines[number + 1 :]]
        return _found(spread, number + 1, number + 1, items)
    return None


def _sequence(marks: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the longest chain A, B, C … (or 1, 2, 3 …) of one style that starts with the first."""
    best: list[re.Match[str]] = []
    for names in _NAMES if len(marks) > 1 else ():
        for close in ".:)]":
            chain: list[re.Match[str]] = []
            for mark in marks:
                if mark["close"] == close and len(chain) < _MOST and mark["name"] == names[len(chain)]:
                    chain.append(mark)
            best = max(best, chain, key=len)
    return best if len(best) > 1 else []


def _after_header(lines: Sequence[str]) -> FoundChoices | None:
    for number in range(len(lines) - 1, -1, -1):
        found = _HEADER.match(lines[number])
        if found and ":" in lines[number] and found["rest"].strip():
            separator = r"\s*[;|]\s*" if re.search("[;|]", found["rest"]) else ","
            parts = [part for part in re.split(separator, found["rest"]) if part.strip()]
            if len(parts) > 1:
                return _found(lines, number, number + 1, [(part, False) for part in parts])
    return None


def _bare_lines(lines: Sequence[str]) -> FoundChoices | None:
    """Return short lines after a question or a header, each taken for a choice."""
    last = max((n for n, line in enumerate(lines) if line.rstrip(" *_").endswith("?") or is_header(line)), default=-1)
    rest = [line for line in lines[last + 1 :] if line.strip()] if last >= 0 else []
    if not 2 <= len(rest) <= _MOST or any(len(line.split()) > _LONGEST_BARE or line.endswith("?") for line in rest):
        return None
    return _found(lines, last + 1, len(lines), [(line, False) for line in rest], bare=True)


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
            # what is not the answer: all of it where the answer stood first or between question and choices
            stands_first = len(left.split()) < _FEW_WORDS
            between = rest and find_choices(rest) is not None and find_choices(left) is None
            kept = f"{left}\n{rest}".strip() if stands_first or between else left
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
    begun = [choice for choice in choices if re.match(rf"{re.escape(_plain(choice))}(?:[.,;:]| [(–-])", plain)]
    same = (choice for choice in choices if _plain(choice) == plain)
    return next(same, max(begun, key=len, default=None))


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("’", "'").split()).rstrip(".")


_STEMS = ("case_vignette", "vignette", "context", "case", "stem", "question")
_OPTION_COLUMNS = (
    ("choice_1", "choice_2", "choice_3", "choice_4", "choice_5"), ("opa", "opb", "opc", "opd", "ope"),
    ("option_a", "option_b", "option_c", "option_d", "option_e"), ("a", "b", "c", "d", "e"),
)  # fmt: skip
_ANSWERS = ("answer", "correct_answer", "answer_text", "answer_idx", "label", "correct_option", "key")
ROWS_OF = tuple(
    one.title for one in FORMATS.values() if set(_STEMS) & set(one.needs) and set(_ANSWERS) & set(one.needs)
)
"""The titles of the formats of which a pasted row is read: those with a column of the story and one of the answer."""
_LISTED = re.compile(r"""['"]([A-J])['"]\s*:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""")


@dataclass(frozen=True)
class Pasted:
    """What was recognised, each part empty or ``None`` where it was not; ``notes`` are sentences for the user.

    A ``specialty`` is named by a pasted row only.
    """

    vignette: str
    question: str
    choices: tuple[str, ...]
    answer: str | None
    specialty: str | None
    notes: tuple[str, ...]


def read_row(text: str) -> Pasted | None:
    """Return the first row of pasted JSON or CSV, or ``None`` where the text is neither."""
    rows = _json_rows(text) or _csv_rows(text)
    if not rows:
        return None
    notes = [f"{len(rows)} rows were pasted: the first was taken."] if len(rows) > 1 else []
    row = {str(key).strip().lower(): value for key, value in rows[0].items() if key is not None}
    vignette, question = _stem(row)
    choices = _choices(row)
    answer, note = _answer(row, choices)
    notes += [note] if note else []
    return Pasted(vignette, question, choices, answer, known_specialty(str(row.get("category") or "")), tuple(notes))


def _json_rows(text: str) -> list[dict[str, Any]]:
    if not text.lstrip().startswith(("{", "[")):
        return []
    for candidate in (text, f"[{','.join(line for line in text.splitlines() if line.strip())}]"):
        try:
            read = orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
        rows = read if isinstance(read, list) else [read]
        return [
            row
            for row in rows
            if isinstance(row, dict) and any(stem in {str(key).strip().lower() for key in row} for stem in _STEMS)
        ]
    return []


def _csv_rows(text: str) -> list[dict[str, Any]]:
    first = text.lstrip("\ufeff \n").split("\n", 1)[0]
    delimiter = max(",\t;", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter, strict=True) if any(row)]
    except csv.Error:
        return []
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if len(rows) > 1 and set(header) & {"case_vignette", "question", "vignette"} and set(header) & set(_ANSWERS):
        return [dict(zip(header, row, strict=False)) for row in rows[1:]]
    return [found for row in rows if (found := _headless(row))] if len(rows) == 1 else []


def _headless(values: Sequence[str]) -> dict[str, Any] | None:
    """Return a row of a published file without its header, with or without the number in front.

    Only of a format that names the answer in full and a specialty, for by these a row is known from prose with commas.
    """
    for one in (one for one in FORMATS.values() if {"answer", "category"} <= set(one.needs)):
        for start in (0, 1):
            row: dict[str, Any] = dict(zip(one.needs, values[start:], strict=False))
            known = len(row) == len(one.needs) and known_specialty(row["category"])
            if known and row["answer"].strip() in _choices(row):
                return row
    return None


def _stem(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return (vignette, question); the question is empty where the row has none."""
    story = next((row[name] for name in _STEMS if row.get(name)), "")
    asked = str(row.get("question") or "").strip()
    parts = [str(part).strip() for part in story] if isinstance(story, list) else None
    vignette = " ".join(p if p.endswith((".", "?", "!")) else f"{p}." for p in parts) if parts else str(story).strip()
    if asked and vignette != asked:
        return vignette, asked
    split, question = split_question(vignette)
    return (split, question) if split != vignette else (vignette, "")


def _choices(row: Mapping[str, Any]) -> tuple[str, ...]:
    options = row.get("options") or row.get("choices")
    if isinstance(options, str):
        options = _written_out(options)
    if isinstance(options, dict):
        options = [options[key] for key in sorted(options)]
    if isinstance(options, list):
        named = [
            option.get("value") or option.get("text") if isinstance(option, dict) else option for option in options
        ]
        return tuple(str(option).strip() for option in named if option)
    for names in _OPTION_COLUMNS:
        found = [str(row[name]).strip() for name in names if str(row.get(name) or "").strip()]
        if len(found) > 1:
            return tuple(found)
    return ()


def _written_out(options: str) -> object:
    """Return options that a cell holds as text: JSON, or a dictionary as Python prints it."""
    try:
        return orjson.loads(options)
    except orjson.JSONDecodeError:
        return {letter: single or double for letter, single, double in _LISTED.findall(options)}


def _answer(row: Mapping[str, Any], choices: tuple[str, ...]) -> tuple[str | None, str | None]:
    for name in _ANSWERS:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return meant(value, choices)
    index = row.get("answer_index")
    if isinstance(index, int) and 0 <= index < len(choices):
        return choices[index], None
    return None, None
