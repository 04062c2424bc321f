"""Costs: the calls of every run and job, including those of unfinished and deleted trials."""

from __future__ import annotations

from collections.abc import Iterable

from core.frameworks.starts import CAMPAIGN
from core.measures.base import Listed, MetricRequest, metric
from core.store.queries.runs import spending


@metric("spend", "run", empty="No model was called yet.", noted=False, starts=(CAMPAIGN,))
def spend(request: MetricRequest) -> Iterable[Listed]:
    """List calls, tokens and US dollars of every run and job, by model and role, including unfinished trials."""
    with request.store.read() as cursor:
        return spending(cursor, request.selection.runs)
