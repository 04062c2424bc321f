"""Takes a template apart into bits, each with its source and with what it renders to for given values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.prompts import ENVIRONMENT, Prompt, rendered

_PLAIN_VALUE = re.compile(r"\{\{-?\s*(\w+)\s*-?\}\}")
_KEYWORD = re.compile(r"\{%[-+]?\s*(\w+)")


@dataclass(frozen=True)
class Bit:
    """A bit of a template.

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


def bits_of(prompt: Prompt, values: Mapping[str, Any]) -> list[Bit]:
    """Return the bits of a prompt; their texts joined are what it renders to, but for white space at its ends."""
    bits = _Reader(values).bits(_items(prompt.source))
    whole = "".join(bit.text for bit in bits).strip()
    rendered = prompt.render(**values)
    return bits if whole == rendered else [Bit("text", rendered, rendered)]


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

    def bits(self, items: Sequence[_Item]) -> list[Bit]:
        found: list[Bit] = []
        left = list(items)
        while left:
            item = left.pop(0)
            if item.literal:
                found.append(Bit("text", item.source, item.source))
            elif item.keyword == "if":
                found += self._condition(item, _take_block(left, "if"))
            elif item.keyword == "set" and "=" in item.source:
                self._preamble += item.source
                found.append(Bit("tag", item.source))
            elif item.keyword in ("", "raw"):
                name = _PLAIN_VALUE.fullmatch(item.source)
                found.append(self._value(item.source, name[1] if name else None))
            else:
                block = _take_block(left, item.keyword)
                found.append(self._value(item.source + _source(block)))
        return found

    def _value(self, source: str, name: str | None = None) -> Bit:
        text = self._rendered(source)
        return Bit("value" if text else "tag", source, text, name if name in self._values else None)

    def _condition(self, opening: _Item, rest: Sequence[_Item]) -> list[Bit]:
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
            return [Bit("tag", opening.source + _source(rest))]
        number = int(taken)
        before = "".join(tag.source + _source(body) for tag, body in branches[:number]) + branches[number][0].source
        after = "".join(tag.source + _source(body) for tag, body in branches[number + 1 :]) + rest[-1].source
        return [Bit("tag", before), *self.bits(branches[number][1]), Bit("tag", after)]

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
