"""Three equal groups of cases by their number of items: whether longer histories go worse (Liao et al., analyses)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from core.measures.history.figures import Figure, figures_of
from core.measures.history.measures import SCALARS

GROUPS = 3


@dataclass(frozen=True)
class ItemGroup:
    """A third of the cases: its number (0 has the fewest items), least and most items of its cases, and the cases."""

    number: int
    least: int
    most: int
    cases: tuple[str, ...]


@dataclass(frozen=True)
class GroupRow:
    """One measure of one model in one group of cases."""

    model: str
    group: ItemGroup
    measure: str
    figure: Figure


def item_groups(table: pd.DataFrame) -> list[ItemGroup]:
    """Divide the cases of ``read_history``'s table into three groups of equal size (but for one case).

    Cases are ranked by their number of items, those with as many by their keys: neighbouring groups may share a number.
    """
    counts = table.dropna(subset=["n_items"]).groupby("case_key")["n_items"].max()
    ranked = [(int(n), str(key)) for key, n in counts.items()]
    ranked.sort()
    bounds = [len(ranked) * i // GROUPS for i in range(GROUPS + 1)]
    parts = [ranked[low:high] for low, high in pairwise(bounds)]
    return [ItemGroup(i, p[0][0], p[-1][0], tuple(key for _, key in p)) for i, p in enumerate(parts) if p]


def group_rows(table: pd.DataFrame, measures: Sequence[str] = SCALARS) -> list[GroupRow]:
    """Return the measures of every model in each group, in the order of groups, models and measures."""
    rows = []
    for group in item_groups(table):
        part = table[table["case_key"].isin(group.cases)]
        figures = figures_of(part, measures)
        rows += [
            GroupRow(model, group, measure, figures[model, measure])
            for model in sorted(part["model"].unique())
            for measure in measures
        ]
    return rows
