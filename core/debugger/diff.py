"""What differs between two texts, word by word, and between the messages of two steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, takewhile, zip_longest
from typing import Literal

from core.asking.parts import Part

Op = Literal["equal", "insert", "delete"]
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_LONG = 4_000
"""Words (with the spaces between them) of both texts together from which frequent ones are not used to align them."""


@dataclass(frozen=True)
class Piece:
    """A stretch of text that is in both (``equal``), in the second only (``insert``), or in the first only."""

    op: Op
    text: str


@dataclass(frozen=True)
class MessageDiff:
    """One message beside its counterpart; ``None`` where the other side has none."""

    before: Part | None
    after: Part | None
    pieces: tuple[Piece, ...]

    @property
    def changed(self) -> bool:
        """Whether any word or the role differs."""
        roles = {message.role for message in (self.before, self.after) if message is not None}
        return len(roles) > 1 or any(piece.op != "equal" for piece in self.pieces)


def word_diff(before: str, after: str) -> tuple[Piece, ...]:
    """Return the pieces whose equal and deleted ones spell ``before``, and whose equal and inserted ones ``after``."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    first = _alike(zip(old, new, strict=False))
    last = _alike(zip(reversed(old[first:]), reversed(new[first:]), strict=False))
    middle = _middle(old[first : len(old) - last], new[first : len(new) - last])
    pieces = [Piece("equal", "".join(old[:first])), *middle, Piece("equal", "".join(old[len(old) - last :]))]
    # neighbours that are equal in both texts are one piece
    neighbours = groupby((piece for piece in pieces if piece.text), key=lambda piece: piece.op)
    return tuple(Piece(op, "".join(piece.text for piece in group)) for op, group in neighbours)


def _alike(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many pairs from the first on are of one word."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _middle(old: Sequence[str], new: Sequence[str]) -> Iterator[Piece]:
    long = len(old) + len(new) > _LONG
    for op, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=long).get_opcodes():
        if op == "equal":
            yield Piece("equal", "".join(old[i1:i2]))
            continue
        yield Piece("delete", "".join(old[i1:i2]))
        yield Piece("insert", "".join(new[j1:j2]))


def message_diff(before: Sequence[Part], after: Sequence[Part]) -> tuple[MessageDiff, ...]:
    """Return the messages of two steps (or of a step and its variant) beside each other, in their order."""
    return tuple(
        MessageDiff(a, b, word_diff(a.content if a else "", b.content if b else ""))
        for a, b in zip_longest(before, after)
    )
