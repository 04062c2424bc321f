"""The two halves of a vignette, and how close a completion comes to the second (MELD; Johri et al. 2025, Methods).

The vignette is cut at the word boundary nearest its middle. The distance is Levenshtein's over the longer of the two
texts. A similarity from 0.95 on flags a case as likely training data: a flag is seldom wrong, but a case without one
may have been seen all the same, so how many are missed is unknown.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from core.errors import UsageError

FLAG = 0.95
"""Similarity from which a case is likely training data."""
_GAP = re.compile(r"\s+")


class Halves(NamedTuple):
    """A vignette cut in two, without the white space between."""

    first: str
    second: str

    @property
    def words(self) -> int:
        """How many words the second half has, which is how many are asked for."""
        return len(self.second.split())


def halves(vignette: str) -> Halves:
    """Cut a vignette at the gap between words nearest its middle, the earlier of two as near.

    Raises ``UsageError`` for a text of one word.
    """
    text = vignette.strip()
    gaps = list(_GAP.finditer(text))
    if not gaps:
        raise UsageError("A text of one word has no second half.")
    cut = min(gaps, key=lambda gap: abs(gap.start() + gap.end() - len(text)))
    return Halves(text[: cut.start()], text[cut.end() :])


def similarity(second: str, completion: str) -> float:
    """Return 1 − Levenshtein distance / length of the longer text, between 0 and 1; white space around is no matter."""
    return float(Levenshtein.normalized_similarity(second.strip(), completion.strip()))
