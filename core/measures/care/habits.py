"""How a doctor converses under AutoMedic: turns, words, whom it asks, repeats, misused tags, endings and ratings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.events import EndReason, TagMisuse
from core.measures.care.items import BEST_RATING, item_rows
from core.measures.care.profile import USED, Slice, slices
from core.store.queries.care import MISUSES
from core.store.selection import doctor_of

_MISUSED = [f"misused_{kind}" for kind in MISUSES]
_USED = [*USED, "end_reason", "to_staff", "repeated", *_MISUSED]


@dataclass(frozen=True)
class Habits:
    """One seat's conversations that came to an end of their own, over all or those of one group.

    ``turns`` (queries that were answered) and ``words_per_turn`` are means over items; ``to_staff`` is the share of all
    queries that went to the clinical staff, ``repeated`` that of those asked before in the same conversation; ``None``
    where there is nothing to divide by. ``misuses`` counts messages, ``endings`` conversations, ``ratings`` how often
    each rating from 1 to 5 was given.
    """

    seat: str
    doctor: str
    group: str | None
    items: int
    conversations: int
    queries: int
    turns: float | None
    words_per_turn: float | None
    to_staff: float | None
    repeated: float | None
    misuses: dict[TagMisuse, int]
    endings: dict[EndReason, int]
    ratings: dict[int, int]


def habits_of(trials: pd.DataFrame, by: Slice | None = None) -> list[Habits]:
    """Return the habits of each seat of ``read_care``'s table, and each group if asked, by group and seat."""
    found: list[Habits] = []
    for group, members in slices(trials[_USED], by):
        items = {str(seat): own for seat, own in item_rows(members).groupby("seat", observed=True)}
        for seat, own in members.groupby("seat", observed=True, sort=True):
            found.append(_habits(group, own, items[str(seat)]))
    return found


def _habits(group: str | None, trials: pd.DataFrame, items: pd.DataFrame) -> Habits:
    whole = trials[trials["whole"]]
    given = Counter(int(rating) for rating in whole["rating"].dropna())
    sums = whole[["turns", "to_staff", "repeated", *_MISUSED]].sum()
    return Habits(
        seat=str(trials["seat"].iat[0]),
        doctor=doctor_of(str(trials["seat"].iat[0])),
        group=group,
        items=int(items["turns"].notna().sum()),
        conversations=len(whole),
        queries=int(sums["turns"]),
        turns=_number(items["turns"].mean()),
        words_per_turn=_number(items["words_per_turn"].mean()),
        to_staff=_share(sums["to_staff"], sums["turns"]),
        repeated=_share(sums["repeated"], sums["turns"]),
        misuses={kind: int(sums[name]) for kind, name in zip(MISUSES, _MISUSED, strict=True)},
        endings=dict(Counter(whole["end_reason"].astype(str)).most_common()),  # type: ignore[arg-type]
        ratings={rating: given[rating] for rating in range(1, BEST_RATING + 1)},
    )


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
