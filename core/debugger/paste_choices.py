"""Finds the choices in pasted text: lettered, numbered or bulleted lines, all on one line, or after "Choices:"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LETTERS = "ABCDEFGHIJ"
_MOST = len(_LETTERS)
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
    return _lettered(lines) or _bulleted(lines) or _on_one_line(lines) or _after_header(lines) or _bare(lines)


def is_header(line: str) -> bool:
    """Say whether a line only announces the choices."""
    found = _HEADER.match(line)
    return bool(found) and not found["rest"].strip() if found else False


def _found(
    lines: Sequence[str], start: int, end: int, items: Sequence[tuple[str, bool]], bare: bool = False
) -> FoundChoices:
    before = list(lines[:start])
    while before and (not before[-1].strip() or is_header(before[-1])):
        before.pop()
    cleaned = [_clean(text, marked) for text, marked in items]
    texts = _without_common_stop([text for text, _ in cleaned])
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


def _without_common_stop(texts: list[str]) -> list[str]:
    """Strip the full stop that all choices (on one line: all but the last) end with."""
    return [text.removesuffix(".") for text in texts] if all(t.endswith(".") for t in texts[:-1]) else texts


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
        if len(marks) < (2 if asked or not line[: marks[0].start()].strip() else 3) if marks else True:
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
    for names in (_LETTERS, _LETTERS.lower(), tuple(str(n) for n in range(1, _MOST + 1))):
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
            parts = (
                re.split(r"\s*[;|]\s*", found["rest"]) if re.search("[;|]", found["rest"]) else found["rest"].split(",")
            )
            parts = [part for part in parts if part.strip()]
            if len(parts) > 1:
                return _found(lines, number, number + 1, [(part, False) for part in parts])
    return None


def _bare(lines: Sequence[str]) -> FoundChoices | None:
    """Return short lines after a question or a header, each taken for a choice."""
    last = max((n for n, line in enumerate(lines) if line.rstrip(" *_").endswith("?") or is_header(line)), default=-1)
    rest = [line for line in lines[last + 1 :] if line.strip()] if last >= 0 else []
    if not 2 <= len(rest) <= _MOST or any(len(line.split()) > _LONGEST_BARE or line.endswith("?") for line in rest):
        return None
    return _found(lines, last + 1, len(lines), [(line, False) for line in rest], bare=True)
