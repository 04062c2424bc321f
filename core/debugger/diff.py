"""Compares two texts word by word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from typing import Literal

Op = Literal["equal", "insert", "delete"]
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_LONG = 4_000
"""Words and spaces of both texts; above this, frequent words do not align them."""
_MIN_EQUAL = 0.35
"""Below this share of equal letters, nearly every word of two texts differs."""


@dataclass(frozen=True)
class DiffPiece:
    """A stretch of both texts (``equal``), of only the second (``insert``), or of only the first (``delete``)."""

    op: Op
    text: str


def word_diff(before: str, after: str) -> tuple[DiffPiece, ...]:
    """Return pieces: the equal and deleted ones joined are ``before``, the equal and inserted ones ``after``."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    prefix = _common_length(zip(old, new, strict=False))
    suffix = _common_length(zip(reversed(old[prefix:]), reversed(new[prefix:]), strict=False))
    middle = _middle(old[prefix : len(old) - suffix], new[prefix : len(new) - suffix])
    pieces = [DiffPiece("equal", "".join(old[:prefix])), *middle, DiffPiece("equal", "".join(old[len(old) - suffix :]))]
    # adjacent pieces with the same operation become one
    neighbours = groupby((piece for piece in pieces if piece.text), key=lambda piece: piece.op)
    return tuple(DiffPiece(op, "".join(piece.text for piece in group)) for op, group in neighbours)


def differing_words(first: str, second: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the words that only one of two texts has, each with its offset; none if little is equal."""
    pieces = word_diff(first, second)
    letters = [(piece.op, sum(not c.isspace() for c in piece.text)) for piece in pieces]
    # a letter in both texts counts twice; blanks do not count
    equal = 2 * sum(count for op, count in letters if op == "equal")
    if equal < _MIN_EQUAL * (equal + sum(count for op, count in letters if op != "equal")):
        return [], []
    own: dict[Op, list[tuple[str, int]]] = {"delete": [], "insert": []}
    for op, words in own.items():
        start = 0
        for piece in pieces:
            if piece.op == op:
                words.append((piece.text, start))
            start += len(piece.text) * (piece.op in ("equal", op))
    return own["delete"], own["insert"]


def _common_length(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _middle(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffPiece]:
    long = len(old) + len(new) > _LONG
    for op, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=long).get_opcodes():
        if op == "equal":
            yield DiffPiece("equal", "".join(old[i1:i2]))
            continue
        yield DiffPiece("delete", "".join(old[i1:i2]))
        yield DiffPiece("insert", "".join(new[j1:j2]))
