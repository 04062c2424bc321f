"""Finds texts that are nearly the same among thousands, without comparing every pair letter by letter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process

_ROWS = 256
"""Texts whose letters are counted against those of the others at a time."""
_LETTERS = 64
"""Buckets in which the letters of a text are counted."""
_ROUNDING = 1e-9


def nearest_earlier(texts: Sequence[str], similar: float) -> list[tuple[int, int]]:
    """Return (index, index of the nearest earlier text) of each text with an earlier one that is nearly the same.

    Compared are the different words of a text in alphabetical order, by rapidfuzz's ``ratio``; ``similar`` is its least
    value, 0–100, most 99.
    """
    plain = [" ".join(sorted(set(text.lower().split()))) for text in texts]
    score, nearest = np.zeros(len(plain)), np.full(len(plain), -1)
    for one, others in _candidates(plain, 1 - similar / 100):
        found = process.cdist(
            [plain[one]], [plain[i] for i in others], scorer=fuzz.ratio, score_cutoff=similar, dtype=np.float64
        )[0]
        alike = found > 0
        for other, ratio in zip(others[alike].tolist(), found[alike].tolist(), strict=True):
            later, earlier = max(one, other), min(one, other)
            if (ratio, -earlier) > (score[later], -nearest[later]):
                score[later], nearest[later] = ratio, earlier
    return [(int(later), int(nearest[later])) for later in np.flatnonzero(nearest >= 0)]


def _candidates(texts: Sequence[str], changed: float) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each text with those whose lengths and letters allow that at most the share ``changed`` differs.

    That share of both lengths together is the number of letters put in or taken out, and the counts of letters differ
    by no more than that. So no pair is missed, each comes once, and few are left to be compared letter by letter.
    """
    from scipy.spatial.distance import cdist  # type: ignore[import-untyped]  # slow to load

    lengths = np.array([len(text) for text in texts], dtype=float)
    order = np.argsort(lengths, kind="stable")
    counts = np.array([_letter_counts(texts[i]) for i in order]).reshape(len(texts), _LETTERS)
    sizes = lengths[order]
    longest = np.searchsorted(sizes, sizes * (1 + changed) / (1 - changed) + _ROUNDING, side="right")
    for start in range(0, len(texts), _ROWS):
        stop = min(start + _ROWS, len(texts))
        end = int(longest[stop - 1])
        apart = cdist(counts[start:stop], counts[start:end], "cityblock")
        allowed = changed * (sizes[start:stop, None] + sizes[None, start:end]) + _ROUNDING
        near = apart <= allowed
        for row in range(stop - start):
            columns = np.flatnonzero(near[row, row + 1 :]) + row + 1
            if len(columns):
                yield int(order[start + row]), order[start + columns]


def _letter_counts(text: str) -> npt.NDArray[np.float64]:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32) % _LETTERS
    return np.bincount(codes, minlength=_LETTERS).astype(np.float64)
