"""Finds a list of choices in a text however it is laid out, as long as every choice is laid out alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from core.debugger.template_bits import escaped

Choices = Sequence[str | Sequence[str]]
"""Choices alone, or each after its letter."""


def loop_over(text: str, name: str, choices: Choices) -> tuple[int, int, str] | None:
    """Return where the choices stand (first to last) and a loop that renders to that, or ``None``.

    Between two choices must stand the same words, but for the next one's letter.
    """
    letters = [None if isinstance(choice, str) else choice[0] for choice in choices]
    spans = _in_order(text, [choice if isinstance(choice, str) else choice[1] for choice in choices])
    if spans is None or len(spans) < 2:
        return None
    gaps = [text[one[1] : two[0]] for one, two in pairwise(spans)]
    split = {_around(gap, letter) for gap, letter in zip(gaps, letters[1:], strict=True)}
    between = split.pop()
    if split or between is None:
        return None
    before, after = between
    next_letter = "" if after is None else f"{{{{ loop.nextitem[0] }}}}{_words(after)}"
    item = "letter, choice" if letters[0] else "choice"
    body = f"{{{{ choice }}}}{{% if not loop.last %}}{_words(before)}{next_letter}{{% endif %}}"
    return spans[0][0], spans[-1][1], f"{{%+ for {item} in {name} %}}{body}{{% endfor %}}"


def _in_order(text: str, names: Sequence[str]) -> list[tuple[int, int]] | None:
    spans: list[tuple[int, int]] = []
    position = 0
    for name in names:
        at = text.find(name, position) if name else -1
        if at < 0:
            return None
        position = at + len(name)
        spans.append((at, position))
    return spans


def _around(gap: str, letter: str | None) -> tuple[str, str | None] | None:
    """Return what stands before and after the next choice's letter, ``None`` where it is not there."""
    if letter is None:
        return gap, None
    before, found, after = gap.rpartition(letter)
    return (before, after) if found else None


def _words(literal: str) -> str:
    """Return a literal for the inside of a loop, where a line break after a tag would be swallowed."""
    return escaped(literal).replace("\n", '{{ "\\n" }}')
