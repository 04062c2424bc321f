"""Turns an edited rendered prompt back into a template: what was not touched keeps its conditions and values.

The template is taken apart into bits, each with what it renders to for the values at hand; these are looked for in the
edited text. A list of choices is found however it is laid out now, as long as every choice is laid out alike.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from core.debugger.diff import word_diff
from core.errors import UsageError
from core.prompts import Prompt
from core.prompts.sandbox import ENVIRONMENT, rendered

_SHOWN = 60
"""Characters of a value that an error message shows."""
_PLAIN_VALUE = re.compile(r"\{\{-?\s*(\w+)\s*-?\}\}")
_KEYWORD = re.compile(r"\{%[-+]?\s*(\w+)")
Choices = Sequence[str | Sequence[str]]
"""Choices alone, or each after its letter."""


@dataclass(frozen=True)
class _Span:
    """A stretch of the edited text that a template's source stands for."""

    start: int
    end: int
    source: str


def template_of(edited: str, prompt: Prompt, values: Mapping[str, Any]) -> str:
    """Return a template that rendered with ``values`` gives ``edited`` again (white space at its ends apart).

    Where a condition or a value of the prompt is untouched, it stays; elsewhere a value's words become its place
    again, and everything else stands as it was written. Raises ``UsageError`` where a value that the prompt shows no
    longer occurs.
    """
    text, values = edited.strip(), prompt.taken(values)
    bits = _Reader(values).bits(_items(prompt.source))
    shown = prompt.render(**values)
    if "".join(bit.text for bit in bits).strip() != shown:
        bits = [_Bit("text", shown, shown)]
    alignment = _Alignment("".join(bit.text for bit in bits), text)
    kept: list[_Span] = []
    lost: list[_Bit] = []
    untouched: list[_Span] = []  # where literals stand word by word as they were
    position = 0
    for bit in bits:
        end = position + len(bit.text)
        if bit.kind == "tag":
            place = alignment.place(position)
            kept.append(_Span(place, place, bit.source))
        elif bit.kind == "text":
            pieces = [(max(position, i), min(end, i + n), j - i) for i, j, n in alignment.equal]
            untouched += [_Span(first + by, last + by, "") for first, last, by in pieces if first < last]
        elif (at := alignment.whole(position, end)) is not None:
            kept.append(_Span(at, at + len(bit.text), bit.source))
        else:
            lost.append(bit)
        position = end
    for with_tags in (True, False):
        spans = [span for span in kept if with_tags or span.end > span.start]
        spans += _found(lost, text, spans, untouched, prompt)
        for bit in lost:  # lists that are laid out in another way now
            name = next((n for n, value in values.items() if n in bit.source and isinstance(value, list | tuple)), None)
            if not bit.source.startswith("{%") or name is None:
                continue
            if (loop := _loop_over(text, name, values[name])) is None:
                raise _gone(bit, prompt)
            spans.append(_Span(*loop))
        source = _written(text, spans)
        if _renders_to(source, prompt, values, text):
            return source
    if any(isinstance(value, list | tuple) for value in values.values()):
        raise _unwritable(prompt)
    return literal_template(text, prompt, values)


class _Alignment:
    """Where the words of one text stand in another."""

    def __init__(self, before: str, after: str) -> None:
        self.equal: list[tuple[int, int, int]] = []
        i = j = 0
        for piece in word_diff(before, after):
            if piece.op == "equal":
                self.equal.append((i, j, len(piece.text)))
            i += len(piece.text) if piece.op != "insert" else 0
            j += len(piece.text) if piece.op != "delete" else 0

    def whole(self, start: int, end: int) -> int | None:
        """Return where an untouched stretch stands now, or ``None`` where it was touched."""
        return next((j + start - i for i, j, n in self.equal if i <= start and end <= i + n), None)

    def place(self, position: int) -> int:
        """Return where a place between two words is now."""
        number = bisect_right([i for i, _, _ in self.equal], position) - 1
        if number < 0:
            return 0
        i, j, n = self.equal[number]
        return j + min(position - i, n)


def _found(
    lost: Sequence[_Bit], text: str, taken: Sequence[_Span], untouched: Sequence[_Span], prompt: Prompt
) -> list[_Span]:
    """Return where the words of touched values stand, the longest first; raise where one is gone.

    Words that the template itself holds, as in an example, are taken for a value only where there are no others.
    """
    found: list[_Span] = []
    for value in sorted({bit.text for bit in lost}, key=len, reverse=True):
        filled = [bit for bit in lost if bit.text == value and bit.name]
        at = [_Span(start, start + len(value), "") for start in _occurrences(text, value)]
        free = [place for place in at if not any(_overlap(place, s) for s in (*taken, *found))]
        own = [p for p in free if not any(s.start <= p.start and p.end <= s.end for s in untouched)]
        if filled and not free:
            raise _gone(filled[0], prompt)
        for number, place in enumerate(own or free if filled else ()):
            found.append(replace(place, source=filled[min(number, len(filled) - 1)].source))
    return found


def _overlap(one: _Span, other: _Span) -> bool:
    return one.start < other.end and other.start < one.end


def _gone(bit: _Bit, prompt: Prompt) -> UsageError:
    words = bit.text.strip()
    shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN].rstrip()}…"
    what = f"the {bit.name}" if bit.name else "the lines"
    return UsageError(
        f"The edited text no longer holds {what} that {prompt.name}.md fills in ({shown!r}): put it back as it was, so "
        "that it can be filled in for other cases."
    )


def _occurrences(text: str, words: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(words), text)]


def _written(text: str, spans: Sequence[_Span]) -> str:
    """Return the text as a template, with the sources in their places; what would overlap stays as it was written."""
    parts: list[str] = []
    position = 0
    for span in sorted(spans, key=lambda s: s.start):  # stable: tags of one place stay in the template's order
        if span.start < position:
            continue
        parts += [_after(parts, text[position : span.start]), span.source]
        position = span.end
    return "".join([*parts, _after(parts, text[position:])])


def _after(parts: Sequence[str], literal: str) -> str:
    """Return a literal as a template; the line break right after a tag would be swallowed, so it is a value there."""
    before = next((part for part in reversed(parts) if part), "")
    swallowed = before.endswith("%}") and literal.startswith("\n")
    return '{{ "\\n" }}' + escaped(literal[1:]) if swallowed else escaped(literal)


def literal_template(text: str, prompt: Prompt, values: Mapping[str, Any]) -> str:
    """Return a template of ``text`` in which values that are words stand wherever these occur, and no conditions.

    A value that the prompt only asks about, as which kind of question it is, has no place.
    """
    text, values = text.strip(), prompt.taken(values)
    shown = {
        name
        for name, value in values.items()
        if isinstance(value, str) and value.strip() and re.search(rf"{{{{-?\s*{name}\b", prompt.source)
    }
    spans: list[_Span] = []
    for name in sorted(shown, key=lambda name: (-len(values[name]), name)):
        places = [_Span(at, at + len(values[name]), f"{{{{ {name} }}}}") for at in _occurrences(text, values[name])]
        spans += [place for place in places if not any(_overlap(place, s) for s in spans)]
    source = _written(text, spans)
    if not _renders_to(source, prompt, values, text):
        raise _unwritable(prompt)
    return source


def _unwritable(prompt: Prompt) -> UsageError:
    return UsageError(f"The edited text cannot be made a template of {prompt.name}.md: write the template by hand.")


def _renders_to(source: str, prompt: Prompt, values: Mapping[str, Any], text: str) -> bool:
    try:
        return prompt.with_source(source).render(**values) == text
    except Exception:  # a template that was cut in two can fail in any way; it is then written in another one
        return False


@dataclass(frozen=True)
class _Bit:
    """A bit of a template; the texts of all joined are what it renders to, but for white space at its ends.

    ``text`` is a literal; a ``tag`` shows nothing (conditions, with what they leave out); a ``value`` is filled in.
    ``name`` is the input where the value is nothing but it.
    """

    kind: Literal["text", "tag", "value"]
    source: str
    text: str = ""
    name: str | None = None


@dataclass(frozen=True)
class _Item:
    """A literal, an expression, or one tag; ``keyword`` is a tag's first word."""

    source: str
    keyword: str = ""
    literal: bool = False


def escaped(literal: str) -> str:
    """Return a literal as a template that renders to it: braces that would open a tag are values.

    So is a carriage return, which a template would make a line break of, and what follows a brace may be one.
    """
    return re.sub(r"\{(?=[{%#\r]|$)", '{{ "{" }}', literal).replace("\r", '{{ "\\r" }}')


def _items(source: str) -> list[_Item]:
    items: list[_Item] = []
    open_: list[str] = []
    for _, kind, text in ENVIRONMENT.lex(source):
        if not open_ and kind == "data":
            items.append(_Item(text, literal=True))
            continue
        open_.append(text)
        if kind in ("variable_end", "block_end", "comment_end", "raw_end"):
            whole, open_ = "".join(open_), []
            keyword = _KEYWORD.match(whole)
            items.append(_Item(whole, "raw" if kind == "raw_end" else keyword[1] if keyword else ""))
    return items


class _Reader:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._preamble = ""
        """What sets variables that later bits use."""

    def bits(self, items: Sequence[_Item]) -> list[_Bit]:
        found: list[_Bit] = []
        left = list(items)
        while left:
            item = left.pop(0)
            if item.literal:
                found.append(_Bit("text", item.source, item.source))
            elif item.keyword == "if":
                found += self._condition(item, _take_block(left, "if"))
            elif item.keyword == "set" and "=" in item.source:
                self._preamble += item.source
                found.append(_Bit("tag", item.source))
            elif item.keyword in ("", "raw"):
                name = _PLAIN_VALUE.fullmatch(item.source)
                found.append(self._value(item.source, name[1] if name else None))
            else:
                block = _take_block(left, item.keyword)
                found.append(self._value(item.source + _source(block)))
        return found

    def _value(self, source: str, name: str | None = None) -> _Bit:
        text = self._rendered(source)
        return _Bit("value" if text else "tag", source, text, name if name in self._values else None)

    def _condition(self, opening: _Item, rest: Sequence[_Item]) -> list[_Bit]:
        """Return the branch that is taken as bits of its own, between what is left out."""
        branches: list[tuple[_Item, list[_Item]]] = [(opening, [])]
        depth = 0
        for item in rest[:-1]:
            depth += (item.keyword == "if") - (item.keyword == "endif")
            if depth == 0 and item.keyword in ("elif", "else"):
                branches.append((item, []))
            else:
                branches[-1][1].append(item)
        numbered = "".join(f"{tag.source}{number}" for number, (tag, _) in enumerate(branches))
        taken = self._rendered(numbered + rest[-1].source).strip()
        if not taken:
            return [_Bit("tag", opening.source + _source(rest))]
        number = int(taken)
        before = "".join(tag.source + _source(body) for tag, body in branches[:number]) + branches[number][0].source
        after = "".join(tag.source + _source(body) for tag, body in branches[number + 1 :]) + rest[-1].source
        return [_Bit("tag", before), *self.bits(branches[number][1]), _Bit("tag", after)]

    def _rendered(self, source: str) -> str:
        return rendered(ENVIRONMENT.from_string(self._preamble + source), "The prompt", self._values)


def _take_block(left: list[_Item], keyword: str) -> list[_Item]:
    """Take the items up to the end of a block that was just opened, the closing tag included."""
    taken: list[_Item] = []
    depth = 1
    while left and depth:
        item = left.pop(0)
        depth += (item.keyword == keyword) - (item.keyword == f"end{keyword}")
        taken.append(item)
    return taken


def _source(items: Sequence[_Item]) -> str:
    return "".join(item.source for item in items)


def _loop_over(text: str, name: str, choices: Choices) -> tuple[int, int, str] | None:
    """Return where the choices stand (first to last) and a loop that renders to that, or ``None``.

    Between two choices must stand the same words, but for the next one's letter.
    """
    letters = [None if isinstance(choice, str) else choice[0] for choice in choices]
    places, at, end = list[tuple[int, int]](), 0, 0
    for choice in (choice if isinstance(choice, str) else choice[1] for choice in choices):
        if not choice or (at := text.find(choice, end)) < 0:
            return None
        end = at + len(choice)
        places.append((at, end))
    between: set[tuple[str, str]] = set()  # what stands before the next one's letter, and after it
    for (_, before), (after, _), letter in zip(places, places[1:], letters[1:], strict=False):
        gap = text[before:after]
        if letter and letter not in gap:
            return None
        parts = gap.rpartition(letter) if letter else (gap, "", "")
        between.add((parts[0], parts[2]))
    if len(between) != 1:
        return None
    # a line break after a tag would be swallowed
    first, last = (escaped(words).replace("\n", '{{ "\\n" }}') for words in between.pop())
    item, letter_of_it = ("letter, choice", "{{ loop.nextitem[0] }}") if letters[0] else ("choice", "")
    body = f"{{{{ choice }}}}{{% if not loop.last %}}{first}{letter_of_it}{last}{{% endif %}}"
    return places[0][0], places[-1][1], f"{{%+ for {item} in {name} %}}{body}{{% endfor %}}"
