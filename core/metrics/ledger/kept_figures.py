"""Figures from kept summaries: what models never ask, by topic, and what patients invent.

The same figures as ``never_asked`` and ``invented_per_conversation`` of ``core.metrics.ledger.overview`` give on the
ledgers themselves: the unit is the case, whose conversations are joined first; intervals (95 %) resample cases, all of
them at once for every model and topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.metrics.history.resampling import column_intervals
from core.metrics.ledger.overview import Share, TopicRow
from core.metrics.ledger.topics import TOPICS
from core.stats.intervals import NOTHING

RESAMPLES = 2_000
_MARKS = ("asked", "volunteered", "never_elicited", "withheld")


@dataclass(frozen=True)
class TalkRow:
    """The marked conversations of a model; ``missing`` ones are not marked yet, ``broken`` ones broke off.

    ``invented`` and ``denials``: statements a conversation that the case does not hold, plain denials apart.
    ``with_invented``, ``with_withheld`` and ``with_leaked``: shares (0 to 1) of conversations in which the patient did
    so at least once. All are means over a case's conversations, then over cases.
    """

    model: str
    cases: int
    conversations: int
    missing: int
    broken: int
    invented: Share
    denials: Share
    with_invented: Share
    with_withheld: Share
    with_leaked: Share


def topic_rows(sums: pd.DataFrame) -> dict[str, list[TopicRow]]:
    """Return model → a row for each of its topics in the order of a history, from ``core.store.ledgers.topic_sums``."""
    if sums.empty:
        return {}
    shares = sums[["model", "topic", "case_key"]].copy()
    for mark in _MARKS:
        shares[mark] = sums[mark] / sums["facts"]
    figures = _figures(shares.pivot(index="case_key", columns=["model", "topic"], values=list(_MARKS)))
    totals = sums.groupby(["model", "topic"])["facts"].agg(["size", "sum"])
    return {
        model: [
            TopicRow(
                topic, int(totals.loc[(model, topic), "size"]), int(totals.loc[(model, topic), "sum"]),
                *(figures[mark, model, topic] for mark in _MARKS),
            )
            for topic in TOPICS if (model, topic) in totals.index
        ]
        for model in sorted(sums["model"].unique())
    }  # fmt: skip


def talk_rows(sums: pd.DataFrame) -> list[TalkRow]:
    """Return a row for each model that has a conversation, from ``core.store.ledgers.talk_sums``."""
    marked = sums[sums["marked"] > 0]
    means = marked[["model", "case_key"]].copy()
    for name in _PER_TALK:
        means[name] = marked[name] / marked["marked"]
    figures = _figures(means.pivot(index="case_key", columns=["model"], values=list(_PER_TALK))) if len(means) else {}
    return [_talk_row(str(model), held, figures) for model, held in sums.groupby("model")]


def _talk_row(model: str, held: pd.DataFrame, figures: dict[tuple[str, ...], Share]) -> TalkRow:
    counts = held[["marked", "missing", "broken"]].sum()
    return TalkRow(
        model, int((held["marked"] > 0).sum()), int(counts["marked"]), int(counts["missing"]), int(counts["broken"]),
        *(figures.get((name, model), _NOTHING) for name in _PER_TALK),
    )  # fmt: skip


def _figures(wide: pd.DataFrame) -> dict[tuple[str, ...], Share]:
    """Return column → mean over the cases that have it, with its interval."""
    matrix = wide.to_numpy(dtype=np.float64, na_value=np.nan)
    shares = [column[0] not in _COUNTS for column in wide.columns]
    bounds = column_intervals(matrix, shares=shares, resamples=RESAMPLES)
    means = np.nanmean(matrix, axis=0) if matrix.size else np.zeros(0)
    return {
        tuple(column): Share(float(mean), interval)
        for column, mean, interval in zip(wide.columns, means, bounds, strict=True)
    }


_PER_TALK = ("invented", "denials", "with_invented", "with_withheld", "with_leaked")
_COUNTS = ("invented", "denials")
_NOTHING = Share(float("nan"), NOTHING)
