"""Reads a patient's rating out of a model's reply: one whole number from 1 to 5, and the words beside it."""

from __future__ import annotations

import re

_LABELLED = re.compile(r"\brating\b\W{0,8}?(?:is |of )?\W{0,4}?(-?\d+(?:[.,]\d+)?)(\s?(?:-|–|to)\s?\d)?", re.IGNORECASE)
_ALONE = re.compile(r"\A\W{0,4}(-?\d+(?:[.,]\d+)?)(\s?[-–]\s?\d)?\b")
_OUT_OF = re.compile(r"\A[\s*_]*(?:(?:/|out of|of)\s*5\b)?\W*", re.IGNORECASE)
_REASON = re.compile(r"\A\W*reason\b\W*", re.IGNORECASE)
_LONGEST = 500
"""Characters of the rater's words that are kept."""


def read_rating(reply: str) -> tuple[int, str]:
    """Return rating and words; raise ``ValueError`` where there is no such number, or several.

    The number follows the word "Rating", or stands alone at the beginning.
    """
    text = reply.strip()
    if not text:
        raise ValueError("it was empty")
    labelled = list(_LABELLED.finditer(text))
    first = labelled[0] if labelled else _ALONE.match(text)
    if first is None:
        raise ValueError("it held no line that begins with Rating")
    if len({found[1] for found in labelled}) > 1:
        raise ValueError("it held several ratings")
    if first[2] or first[1] not in ("1", "2", "3", "4", "5"):
        raise ValueError(f"{first[0].strip()!r} is no whole number from 1 to 5")
    return int(first[1]), _words(text, first)


def _words(text: str, rating: re.Match[str]) -> str:
    """Return what stands beside a rating that begins its line, or the whole text where it is part of a sentence."""
    before, after = text[: rating.start()], text[rating.end() :]
    if re.search(r"\w", before.rpartition("\n")[2]):
        before, told = text, ""
    else:
        told = _REASON.sub("", _OUT_OF.sub("", after))
    return " ".join(f"{before} {told}".split()).strip(' *_#{}"')[:_LONGEST]
