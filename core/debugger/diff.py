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
