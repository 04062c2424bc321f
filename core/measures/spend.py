"""Costs: the calls of every run and job, including those of unfinished and deleted trials."""

from __future__ import annotations

from collections.abc import Iterable

from core.frameworks.starts import CAMPAIGN
from core.measures.base import Listed, MetricRequest, metric, section_of
from core.store.queries.calls import replies_cut
from core.store.queries.runs import spending


@metric("spend", "run", empty="No model was called yet.", noted=False, starts=(CAMPAIGN,), page="accuracy")
def spend(request: MetricRequest) -> Iterable[Listed]:
    """List calls, tokens and US dollars of every run and job, by model and role, including unfinished trials.

    Of the replies, cut ended at a limit of their length; of ending_unknown no reason for the end is stored.
    """
    with request.store.read() as cursor:
        endings = {tuple(ended[:3]): ended for ended in replies_cut(cursor, request.selection.runs)}
        rows = spending(cursor, request.selection.runs)
    for row in rows:
        ended = endings.get((row["run_id"], row["model"], row["role"]))
        row |= {"cut": ended.cut if ended else 0, "ending_unknown": ended.unknown if ended else 0}
    return rows


SECTIONS = (SPEND,) = (section_of(spend, "accuracy"),)
