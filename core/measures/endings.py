"""Why conversations ended and how long they were, by model.

From one row for each trial, as ``core.store.queries.accuracy.conversation_endings`` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd

from core.events import EndReason
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import Interval

END_REASONS: tuple[EndReason, ...] = get_args(EndReason)


@dataclass(frozen=True)
class EndingRow:
    """How a model's conversations ended.

    ``without`` trials held no conversation and are in no other number. ``reasons`` counts conversations.
    ``unconcluded`` of them ended without the words "final diagnosis" in their last message; ``unconcluded_share`` is
    that share (0 to 1) of each case's conversations, then the mean over cases, with the 95 % interval of resampled
    cases. Turns are the doctor's messages after the greeting.
    """

    model: str
    conversations: int
    without: int
    cases: int
    reasons: dict[EndReason, int]
    unconcluded: int
    unconcluded_share: float
    unconcluded_interval: Interval
    turns_mean: float
    turns_median: float
    turns_most: int


@dataclass(frozen=True)
class TurnRow:
    """How many of a model's conversations had so many doctor turns, and which share (0 to 1) that is."""

    model: str
    turns: int
    conversations: int
    share: float


def chosen_rows(
    table: pd.DataFrame,
    *,
    case_sets: Sequence[str] = (),
    models: Sequence[str] = (),
    datasets: Sequence[str] = (),
    specialties: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the rows that fit; an empty list is no restriction."""
    kept = np.ones(len(table), dtype=bool)
    asked = (("case_set", case_sets), ("model", models), ("dataset", datasets), ("specialty", specialties))
    for name, values in asked:
        if values:
            kept &= table[name].isin(list(values)).to_numpy()
    return table[kept]


def endings(table: pd.DataFrame) -> list[EndingRow]:
    """Return a row for each model, in the order of names."""
    return [_ending(str(model), rows) for model, rows in table.groupby("model", observed=True)]


def turn_rows(table: pd.DataFrame) -> list[TurnRow]:
    """Return the distribution of doctor turns of each model, without the numbers of turns that none has."""
    found = []
    for model, rows in table.groupby("model", observed=True):
        talks = rows[rows["end_reason"].notna()]
        turns, counts = np.unique(talks["doctor_turns"].dropna().to_numpy(dtype=np.int64), return_counts=True)
        shares = zip(turns.tolist(), counts.tolist(), (counts / max(1, counts.sum())).tolist(), strict=True)
        found += [TurnRow(str(model), *row) for row in shares]
    return found


def _ending(model: str, trials: pd.DataFrame) -> EndingRow:
    rows = trials[trials["end_reason"].notna()]
    counts = rows["end_reason"].value_counts()
    open_ended = ~rows["concluded"]
    by_case = open_ended.groupby(rows["case_key"], observed=True).mean().to_numpy(dtype=np.float64)
    turns = rows["doctor_turns"].dropna().to_numpy(dtype=np.float64)
    return EndingRow(
        model=model,
        conversations=len(rows),
        without=len(trials) - len(rows),
        cases=by_case.size,
        reasons={reason: int(counts[reason]) for reason in END_REASONS if counts.get(reason, 0)},
        unconcluded=int(open_ended.sum()),
        unconcluded_share=float(by_case.mean()) if by_case.size else float("nan"),
        unconcluded_interval=bootstrap_interval(by_case),
        turns_mean=float(turns.mean()) if turns.size else float("nan"),
        turns_median=float(np.median(turns)) if turns.size else float("nan"),
        turns_most=int(turns.max(initial=0)),
    )
