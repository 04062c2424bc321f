"""Figures from kept summaries and judgements: what models never ask, by topic, and what patients did wrong.

The same figures as ``never_asked`` of ``overview`` gives on the ledgers themselves: the unit is the
case, whose conversations are joined first; intervals (95 %) resample cases, all of them at once for every model and
topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.measures.history.resampling import column_intervals
from core.measures.ledger.overview import Share, TopicRow
from core.stats.intervals import NOTHING
from core.text.topics import TOPICS

RESAMPLES = 2_000
_MARKS = ("asked", "volunteered", "never_elicited")


@dataclass(frozen=True)
class TalkRow:
    """The marked conversations of a model; ``missing`` ones are not marked yet, ``broken`` ones broke off.

    ``with_leaked``: share (0 to 1) of the marked ones in which the patient named the diagnosis, by rule. ``judged``
    conversations have been judged by a model, ``with_invented`` and ``with_withheld`` are shares of these. All are
    means over a case's conversations, then over cases; NaN where there is none.
    """

    model: str
    cases: int
    conversations: int
    missing: int
    broken: int
    with_leaked: Share
    judged: int
    with_invented: Share
    with_withheld: Share


def topic_rows(sums: pd.DataFrame) -> dict[str, list[TopicRow]]:
    """Return model → a row for each of its topics in the order of a history, from ``facts.topic_sums``."""
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


def talk_rows(sums: pd.DataFrame, judged: pd.DataFrame | None = None) -> list[TalkRow]:
    """Return a row for each model that has a conversation, from ``core.store.queries.facts.talk_sums``.

    ``judged`` holds one judge's sums (``core.store.queries.facts.judged_sums``), ``None`` where nobody judged.
    """
    leaks = _shares(sums, "marked", ("with_leaked",))
    faults = _shares(judged, "judged", ("with_invented", "with_withheld")) if judged is not None else {}
    looked = {} if judged is None else {str(m): int(n) for m, n in judged.groupby("model")["judged"].sum().items()}
    groups = ((str(model), held) for model, held in sums.groupby("model", sort=False))
    return [_talk_row(model, held, looked.get(model, 0), leaks | faults) for model, held in groups]


def _talk_row(model: str, held: pd.DataFrame, judged: int, shares: Mapping[tuple[str, ...], Share]) -> TalkRow:
    counts = held[["marked", "missing", "broken"]].sum()
    leaked, invented, withheld = (
        shares.get((name, model), _NOTHING) for name in ("with_leaked", "with_invented", "with_withheld")
    )
    return TalkRow(
        model, int((held["marked"] > 0).sum()), int(counts["marked"]), int(counts["missing"]), int(counts["broken"]),
        leaked, judged, invented, withheld,
    )  # fmt: skip


def _shares(sums: pd.DataFrame, of: str, names: Sequence[str]) -> dict[tuple[str, ...], Share]:
    """Return (name, model) → mean over cases of the share of a case's conversations."""
    held = sums[sums[of] > 0]
    means = held[["model", "case_key"]].copy()
    for name in names:
        means[name] = held[name] / held[of]
    return _figures(means.pivot(index="case_key", columns=["model"], values=list(names))) if len(means) else {}


def _figures(wide: pd.DataFrame) -> dict[tuple[str, ...], Share]:
    """Return column → mean over the cases that have it, with its interval."""
    matrix = wide.to_numpy(dtype=np.float64, na_value=np.nan)
    bounds = column_intervals(matrix, shares=[True] * len(wide.columns), resamples=RESAMPLES)
    means = np.nanmean(matrix, axis=0) if matrix.size else np.zeros(0)
    return {
        tuple(column): Share(float(mean), interval)
        for column, mean, interval in zip(wide.columns, means, bounds, strict=True)
    }


_NOTHING = Share(float("nan"), NOTHING)
