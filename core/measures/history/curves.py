"""How a history unfolds: measures against the share of the dialogue done, and in which order topics come up.

Source: Liao et al., arXiv 2309.02077, analyses. 0 % is the opening alone, 100 % the whole conversation; after k of n
exchanges k/n of the dialogue is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from core.measures.history.figures import Figure, figures_of
from core.measures.history.measures import CURVES, SHARES
from core.text.topics import TOPICS, Topic


@dataclass(frozen=True)
class CurvePoint:
    """One measure of one model when ``share`` per cent of the dialogue is done."""

    model: str
    measure: str
    share: int
    figure: Figure


@dataclass(frozen=True)
class OrderRow:
    """One topic in one model's conversations, over the cases whose items have it.

    ``position``: mean share (0–1) of the dialogue at which the patient first tells it, over the conversations where
    that happens; ``told``: the share of conversations where it does.
    """

    model: str
    topic: Topic
    position: Figure
    told: Figure


def curve_points(table: pd.DataFrame, measures: Sequence[str] = CURVES) -> list[CurvePoint]:
    """Return the curves of every model (``read_history``'s table), in the order of models, measures and shares.

    A doctor's precision begins with its first query: conversations without one yet do not count at that share.
    """
    wanted = [(m, share, f"{m}_at_{i}") for m in measures for i, share in enumerate(SHARES)]
    figures = figures_of(table, [column for _, _, column in wanted])
    return [
        CurvePoint(model, measure, share, figures[model, column])
        for model in _models(table)
        for measure, share, column in wanted
    ]


def order_rows(table: pd.DataFrame) -> list[OrderRow]:
    """Return the topics of every model, by the mean position; topics that no case has are left out."""
    columns = [f"{kind}_{topic}" for kind in ("order", "told") for topic in TOPICS]
    figures = figures_of(table, columns)
    rows = [
        OrderRow(model, topic, figures[model, f"order_{topic}"], figures[model, f"told_{topic}"])
        for model in _models(table)
        for topic in TOPICS
        if figures[model, f"told_{topic}"].n_cases
    ]
    return sorted(rows, key=lambda r: (r.model, r.position.mean is None, r.position.mean or 0.0))


def _models(table: pd.DataFrame) -> list[str]:
    return sorted(table["model"].unique())
