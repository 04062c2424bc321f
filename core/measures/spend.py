"""What was paid for: the calls of every run and job, those of unfinished and deleted trials too."""

from __future__ import annotations

from collections.abc import Iterable

from core.measures.base import Asked, Listed, metric
from core.store.queries.runs import spending


@metric("spend", "run", empty="Nothing was asked of a model yet.", noted=False)
def spend(asked: Asked) -> Iterable[Listed]:
    """List calls, tokens and US dollars of every run and job, by model and role, unfinished trials too."""
    with asked.store.read() as cursor:
        return spending(cursor, asked.selection.runs)
