"""The four parts of CARE as one figure: their mean, or a mean weighted as experts choose between consultations.

The parts have different ranges (``RANGES``), so each is scaled to 0 to 1 by its own before the mean.

Weights: experts choose the better of two conversations on one case. The log-odds of a choice are a weighted sum of the
differences of four figures of each conversation: the answer is right (1 or 0), 100 / words per query if it is right,
rating / 5, no failure (1 or 0). Their means are the parts, but for the accuracy's penalty, which no conversation has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import UsageError
from core.frameworks.automedic.measures.profile import (
    BEST_RATING,
    CORNERS,
    PARTS,
    PER_CENT,
    CareDimension,
    care_groups,
    item_rows,
    penalised,
    read_care,
)
from core.frameworks.automedic.queries import RULES
from core.measures.base import Columns, Row
from core.measures.opinions import read_opinions
from core.measures.preferences import SHARES, question_of
from core.reviews.state import read_review, states
from core.stats.bootstrap import weighted_interval
from core.stats.choices import LogOdds, weights
from core.stats.intervals import NOTHING, Interval
from core.store.database import Store
from core.store.review_records import parse_item
from core.store.selection import Selection

Floats = NDArray[np.float64]
EQUAL: Final = "equal"
"""The name of the unweighted composite."""
RANGES: Final[Mapping[CareDimension, tuple[float, float]]] = {
    "accuracy": (0.0, 1.0),
    "efficiency": (0.0, float(PER_CENT)),  # at most: every query is one word
    "empathy": (1 / BEST_RATING, 1.0),
    "robustness": (0.0, 1.0),
}
"""Part → its lowest and highest possible value."""
_FIGURES: Final = ("conv", "static", "efficiency", "empathy", "failed")
_RESAMPLES = 4_000
_WEIGHT: Final = Columns("weight", "low", "high", "n", "excluded")
_COMPOSITE: Final = Columns("composite", n="n_items")


class FittedWeights(NamedTuple):
    """Weights of the parts in log-odds per unit, from ``choices`` of experts; ``spread`` is that of the differences.

    ``excluded`` counts choices by the reason why they do not enter.
    """

    review: str
    parts: Mapping[CareDimension, LogOdds]
    spread: Mapping[CareDimension, float]
    choices: int
    excluded: Mapping[str, int]

    @property
    def determined(self) -> bool:
        return not any(np.isnan(weight.value) for weight in self.parts.values())


def preference_reviews(store: Store) -> list[str]:
    """Return the names of unblinded reviews of pairs whose form asks for the better one, the newest first."""
    return [state.review.name for state in states(store) if state.review.unblinded and question_of(state.form)]


def fit_weights(store: Store, review: str | None = None) -> FittedWeights:
    """Fit the weights to the choices of a review, or of the newest one of pairs.

    Every answer of an expert is a choice; choices on one case are a cluster. Raises ``UsageError`` if the review is
    blinded, missing or not about pairs.
    """
    if review is None:
        review = next(iter(preference_reviews(store)), None)
        if review is None:
            raise UsageError("No review of pairs of consultations is unblinded: plan one on Trust, under Experts.")
    state = read_review(store, review)
    question = question_of(state.form)
    if not question:
        raise UsageError(f"In the review {state.review.name} nobody chooses between two consultations.")
    opinions = read_opinions(store, None, state.form.name, state.review.review_id).opinions
    judged = next(each for each in opinions if each.question.id == question)
    figures = conversation_figures(store, [trial for item in judged.items for trial in parse_item(item).trials])
    differences, shares, cases, excluded = list[Floats](), list[float](), list[str](), Counter[str]()
    for choice in judged.people:
        first, second = (figures.get(trial) for trial in parse_item(choice.subject).trials)
        if choice.value not in SHARES:
            excluded["cannot be judged"] += 1
        elif first is None or second is None or np.isnan(first - second).any():
            excluded["a part is missing"] += 1
        else:
            differences.append(first - second)
            shares.append(SHARES[choice.value])
            cases.append(judged.case(choice.subject))
    table = np.array(differences).reshape(len(differences), len(PARTS))
    fitted = weights(table, shares, cases)
    spread = table.std(axis=0) if len(table) else np.zeros(len(PARTS))
    return FittedWeights(
        state.review.name,
        dict(zip(PARTS, fitted, strict=True)),
        dict(zip(PARTS, map(float, spread), strict=True)),
        len(shares),
        excluded,
    )


def conversation_figures(store: Store, trials: Sequence[str]) -> dict[str, Floats]:
    """Return trial → its four figures in the order of ``PARTS``, NaN where it has none.

    A conversation that was followed by both kinds of questions has the figures of the answer with choices.
    """
    figures: dict[str, Floats] = {}
    for question_type in reversed(RULES):
        table = read_care(store, question_type, Selection(trials=list(trials)))
        if not table.empty:
            # a row for each trial instead of one for each case
            rows = item_rows(table.assign(case_key=table["trial_id"].astype(str)))
            values = np.column_stack(
                [rows["conv"], rows["efficiency"] * PER_CENT, rows["empathy"], 1 - rows["failed"]]
            ).astype(np.float64)
            figures |= dict(zip(rows["case_key"], values, strict=True))
    return figures


def weight_rows(fitted: FittedWeights) -> Iterator[Row]:
    """Yield a row for each part; ``per_spread`` is the weight of a usual difference between two conversations."""
    for part, weight in fitted.parts.items():
        value = None if np.isnan(weight.value) else weight.value
        more = {"per_spread": None if value is None else value * fitted.spread[part]}
        yield Row(
            {"review": fitted.review, "measure": part},
            value,
            *weight.interval,
            fitted.choices,
            dict(fitted.excluded),
            more,
            unit="choices",
            columns=_WEIGHT,
        )


def composite_rows(
    trials: pd.DataFrame, fitted: FittedWeights | None = None, *, by_dataset: bool = False
) -> Iterator[Row]:
    """Yield the composite of each condition of ``read_care``'s table: Σ weight × part / Σ |weight|.

    Each part is scaled to 0 to 1 by its range, and its weight is that of the whole range. Without ``fitted``, all
    weights are equal. A condition without one of the parts has no composite; ``missing`` in ``more`` names the parts.
    The interval of a composite with fitted weights does not contain the error of the weights.
    """
    name = EQUAL if fitted is None else fitted.review
    spans = [high - low for low, high in RANGES.values()]
    values = np.ones(len(PARTS)) if fitted is None else np.array([fitted.parts[part].value for part in PARTS]) * spans
    shares = values / np.abs(values).sum()
    lowest, highest = RANGES["empathy"]
    for label, _, items in care_groups(trials, by_dataset):
        figures = {figure: items[figure].to_numpy(np.float64) for figure in _FIGURES}
        figures["empathy"] = (figures["empathy"] - lowest) / (highest - lowest)
        parts = _parts_of(figures, np.ones((1, len(items))))[0]
        missing = [part for part, value in zip(PARTS, parts, strict=True) if np.isnan(value)]
        estimate = float(parts @ shares)
        low, high = composite_interval(figures, shares)
        yield Row(
            {**label, "weights": name},
            None if np.isnan(estimate) else estimate,
            low,
            high,
            len(items),
            more={"missing": ", ".join(missing)},
            unit="items",
            columns=_COMPOSITE,
        )


def composite_interval(figures: Mapping[str, Floats], shares: Floats) -> Interval:
    """Return the 95 % interval of ``shares`` @ parts: the figures of an item share a random weight.

    Pseudo-items are all pairs of the worst and the best value, one for ``conv``, ``efficiency`` and ``empathy``, the
    other for ``static`` and ``failed``.
    ``figures`` are columns of ``item_rows``, empathy between 0 and 1, with NaN for an item without the figure.
    """
    if np.isnan(_parts_of(figures, np.ones((1, len(figures["conv"]))))).any():
        return NOTHING
    best = {name: np.nanmax(values, initial=0.0) if name == "efficiency" else 1.0 for name, values in figures.items()}
    first, second = CORNERS.T
    pseudo = {"static": second, "failed": 1 - second}
    padded = {name: np.append(values, pseudo.get(name, first) * best[name]) for name, values in figures.items()}
    counts = np.ones(len(figures["conv"]))
    return weighted_interval(lambda weights: _parts_of(padded, weights) @ shares, counts, len(CORNERS), _RESAMPLES)


def _parts_of(figures: Mapping[str, Floats], weights: Floats) -> Floats:
    """Return the parts, between 0 and 1, in the order of ``PARTS`` for each row of item weights; NaN without items."""
    both = ~np.isnan(figures["conv"]) & ~np.isnan(figures["static"])
    conv, static = (_means(np.where(both, figures[name], np.nan), weights) for name in ("conv", "static"))
    others = (figures["efficiency"], figures["empathy"], 1 - figures["failed"])
    return np.column_stack([penalised(conv, static), *(_means(values, weights) for values in others)])


def _means(values: Floats, weights: Floats) -> Floats:
    present = ~np.isnan(values)
    if not present.any():
        return np.full(len(weights), np.nan)
    return np.asarray(weights[:, present] @ values[present] / weights[:, present].sum(axis=1))
