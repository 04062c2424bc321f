"""CARE of each seat: accuracy, conversational efficiency and strategy, empathy, robustness; and how it converses.

Source: Oh, Park, Kim, arXiv 2512.10195, CARE. An item is one question of one seat, each figure of it the mean over its
trials; all figures are means over items. Intervals (95 %) resample items (``core.stats.smoothed``). What a provider
broke is in no figure and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.events import EndReason
from core.frameworks.automedic.queries import CAUSES, MISUSES, CareQuestion, Cause, FailureKind, trial_rows
from core.frameworks.automedic.tags import TagMisuse
from core.stats.bootstrap import RESAMPLES, SEED
from core.stats.intervals import NOTHING, Interval
from core.stats.smoothed import mean_interval, pseudo_shape, tail_share
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.selection import Selection

BEST_RATING = 5


def read_care(store: Store, question_type: CareQuestion = "mcq", selection: Selection | None = None) -> pd.DataFrame:
    """Return ``core.frameworks.automedic.queries.trial_rows`` of a selection, its condition in ``seat`` as well."""
    with store.read() as cursor:
        table = trial_rows(cursor, selection, question_type)
    names = table["model"].astype(str)
    return table.assign(seat=pd.Categorical(names, categories=list(dict.fromkeys(names))))


def without_blank(trials: pd.DataFrame) -> pd.DataFrame:
    """Return ``read_care``'s table with blank answers left out: they are excluded, and their trials are no failures.

    As the table comes, a blank answer is an invalid one: it is not correct, and its trial has failed.
    """
    blank = trials["conv"] == "empty"
    return trials.assign(
        counted=trials["counted"] & ~blank,
        static_counted=trials["static_counted"] & (trials["static"] != "empty"),
        role_breaking=trials["role_breaking"] & ~blank,
        abrupt=trials["abrupt"].mask(blank),
        invalid=trials["invalid"].mask(blank),
    )


def item_rows(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each seat and case of ``read_care``'s table, in their order.

    Columns: ``seat``, ``model``, ``dataset``, ``specialty``, ``case_key``, ``trials``, and means over those trials that
    have the figure (NaN where none has):
    ``conv``, ``static``: 1 where the answer is right and else 0, over answers that count;
    ``per_word``: queries over the words of their messages, in tags and outside, over counted trials;
    ``efficiency``: the same where the answer is right and else 0;
    ``empathy``: rating over 5; ``failed``: 1 where a counted trial has any failure and else 0;
    ``turns``: queries of a whole conversation; ``words_per_turn``: of those with any query.
    """
    counted, whole = trials["counted"], trials["whole"]
    right = (trials["conv"] == "correct").astype(float)
    failed = trials["role_breaking"] | trials["abrupt"].notna() | trials["invalid"].notna()
    per_word = (trials["turns"] / trials["words"].where(trials["words"] > 0)).fillna(0.0)
    figures = pd.DataFrame(
        {
            "conv": right.where(counted),
            "static": (trials["static"] == "correct").astype(float).where(trials["static_counted"]),
            "per_word": per_word.where(counted),
            "efficiency": (right * per_word).where(counted),
            "empathy": trials["rating"].astype(float) / BEST_RATING,
            "failed": failed.astype(float).where(counted),
            "turns": trials["turns"].astype(float).where(whole),
            "words_per_turn": (trials["words"] / trials["turns"].where(trials["turns"] > 0)).where(whole),
        }
    )
    names = ["seat", "case_key"]
    groups = pd.concat([trials[names], figures], axis=1).groupby(names, observed=True, sort=True)
    told = trials.groupby(names, observed=True, sort=True)[["model", "dataset", "specialty"]].first()
    return told.assign(trials=groups.size()).join(groups.mean()).reset_index()


Floats = NDArray[np.float64]
Part = Literal["accuracy", "efficiency", "empathy", "robustness"]
PARTS: tuple[Part, ...] = get_args(Part)
Slice = Literal["dataset", "specialty"]
PER_CENT = 100
USED = [
    "seat", "model", "case_key", "dataset", "specialty", "whole", "counted", "conv", "static",
    "static_counted", "turns", "words", "rating", "role_breaking", "abrupt", "invalid",
]  # fmt: skip
"""The columns of the trials that items and profiles are made of: fewer are quicker to divide."""
_CORNERS = np.array([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
"""Pseudo-items right or wrong after the conversation and on the whole question: each pair of answers that there is."""


@dataclass(frozen=True)
class Estimate:
    """A figure over ``n`` items with its 95 % interval; all ``None`` if no item has it, bounds where nothing varies."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True)
class CareProfile:
    """The four parts for one seat, over all its items or those of one group.

    ``accuracy`` is S_A = Acc_conv × ``penalty``, with penalty = min(1, Acc_conv / Acc_static), and 1 where Acc_static
    is 0, because nothing is lost then. The formula printed in the paper is not known to us: this one is our choice
    from its description, so both accuracies stand beside it. All three are figured on the items in which both answers
    count; ``conv_all`` and ``static_all`` take every item that has the one. Both are None-valued where no run asks it.
    ``efficiency`` is S_C: 100 × the mean of 1 / (mean words a query, those outside tags included) where the answer is
    right and else 0; a conversation without a query has 0. ``empathy`` is S_E, the mean rating over 5; ``unrated``
    whole conversations have none. ``robustness`` is S_R = 1 − the share of items that failed in any way.

    ``excluded`` counts trials whose conversation does not count, ``excluded_static`` those whose answer to the whole
    question does not, by verdict. ``causes`` counts failures by kind and cause; a trial may have one of each kind,
    ``failed`` trials have any.
    """

    seat: str
    doctor: str
    group: str | None
    accuracy: Estimate
    efficiency: Estimate
    empathy: Estimate
    robustness: Estimate
    acc_conv: Estimate
    acc_static: Estimate
    penalty: float | None
    conv_all: Estimate
    static_all: Estimate
    items: int
    trials: int
    unrated: int
    failed: int
    excluded: dict[str, int] = field(default_factory=dict)
    excluded_static: dict[str, int] = field(default_factory=dict)
    causes: dict[tuple[FailureKind, Cause], int] = field(default_factory=dict)

    def part(self, name: Part) -> Estimate:
        """Return one of the four."""
        found: Estimate = getattr(self, name)
        return found

    @property
    def kinds(self) -> dict[FailureKind, int]:
        """How many trials failed in each way."""
        return {kind: sum(self.causes[kind, cause] for cause in causes) for kind, causes in CAUSES.items()}


def profiles(trials: pd.DataFrame, by: Slice | None = None) -> list[CareProfile]:
    """Return a profile for each seat of ``read_care``'s table, and each group if asked, by group and seat."""
    found: list[CareProfile] = []
    for group, members in slices(trials[USED], by):
        items = item_rows(members)
        efficiency = _efficiencies(items)
        parts = {str(seat): part for seat, part in members.groupby("seat", observed=True, sort=True)}
        for seat, own in items.groupby("seat", observed=True, sort=True):
            found.append(_profile(group, parts[str(seat)], own, efficiency[str(seat)]))
    return found


def penalty(conv: float, static: float) -> float:
    """Return by what the accuracy is lowered for what the conversation lost: 1 where nothing, also from 0 to more."""
    return conv / static if conv < static else 1.0


def penalised_interval(conv: Floats, static: Floats) -> Interval:
    """Return the interval of S_A: pairs of an item are weighted together, and both means and their ratio resampled.

    Weights are drawn as ``core.stats.smoothed`` has them, with a fixed seed: of either accuracy alone the interval is
    the one there. Items with the same pair of values are one column.
    """
    n = conv.size
    if not n:
        return NOTHING
    distinct, counts = np.unique(np.column_stack([conv, static]), axis=0, return_counts=True)
    shapes = np.append(counts, np.full(len(_CORNERS), pseudo_shape(n) / 2))
    weights = np.random.default_rng(SEED).standard_gamma(shapes, (RESAMPLES, shapes.size))
    means = weights @ np.vstack([distinct, _CORNERS]) / weights.sum(axis=1, keepdims=True)
    lost = means[:, 0] < means[:, 1]
    remaining = np.divide(means[:, 0], means[:, 1], out=np.ones(RESAMPLES), where=lost)
    tail = tail_share(n, 0.95)
    low, high = np.quantile(means[:, 0] * remaining, [tail, 1 - tail])
    return Interval(float(low) if conv.any() else 0.0, float(high) if conv.min() < 1 else 1.0)


def slices(trials: pd.DataFrame, by: Slice | None) -> Iterator[tuple[str | None, pd.DataFrame]]:
    """Yield the trials of each group with its name; all of them under ``None`` where no split is asked."""
    if by is None:
        yield None, trials
    else:
        yield from ((str(group), members) for group, members in trials.groupby(by, observed=True, sort=True))


def _efficiencies(items: pd.DataFrame) -> dict[str, Estimate]:
    """Return seat → S_C; the most that an item could come to is the shortest queries' value, were the answer right.

    No interval where a doctor asks nothing, as a bound does: its 0 is no estimate.
    """
    efficiencies = {}
    for seat, own in items.groupby("seat", observed=True):
        counted = own[own["efficiency"].notna()]
        values, most = counted["efficiency"].to_numpy(np.float64) * PER_CENT, counted["per_word"].max() * PER_CENT
        efficiencies[str(seat)] = _estimate(values, mean_interval(values, high=float(most)))
    return efficiencies


def _profile(group: str | None, trials: pd.DataFrame, items: pd.DataFrame, efficiency: Estimate) -> CareProfile:
    values = {name: items[name].to_numpy(dtype=np.float64) for name in ("conv", "static", "empathy", "failed")}
    conv, static = values["conv"], values["static"]
    both = ~np.isnan(conv) & ~np.isnan(static)
    acc_conv, acc_static = _mean(conv[both]), _mean(static[both])
    counted = trials[trials["counted"]]
    failed = counted["role_breaking"] | counted["abrupt"].notna() | counted["invalid"].notna()
    found: Counter[str] = Counter(counted["abrupt"].dropna()) + Counter(counted["invalid"].dropna())
    found["speaks_for_others"] = int(counted["role_breaking"].sum())
    # "no_tag" ends a conversation and "no_diagnosis" is an answer: no two kinds share a cause
    return CareProfile(
        seat=str(items["seat"].iat[0]),
        doctor=doctor_of(str(items["seat"].iat[0])),
        group=group,
        accuracy=_accuracy(conv[both], static[both]),
        efficiency=efficiency,
        empathy=_mean(values["empathy"]),
        robustness=_mean(1 - values["failed"]),
        acc_conv=acc_conv,
        acc_static=acc_static,
        penalty=(
            None if acc_conv.value is None or acc_static.value is None else penalty(acc_conv.value, acc_static.value)
        ),
        conv_all=_mean(conv),
        static_all=_mean(static),
        items=len(items),
        trials=len(trials),
        unrated=int((trials["whole"] & trials["rating"].isna()).sum()),
        failed=int(failed.sum()),
        excluded=_by_verdict(trials.loc[~trials["counted"], "conv"]),
        excluded_static=_by_verdict(trials.loc[~trials["static_counted"], "static"]),
        causes={(kind, cause): found[cause] for kind, causes in CAUSES.items() for cause in causes},
    )


def _by_verdict(verdicts: pd.Series) -> dict[str, int]:
    return dict(sorted(Counter(str(verdict) for verdict in verdicts.dropna()).items()))


def _accuracy(conv: Floats, static: Floats) -> Estimate:
    if not conv.size:
        return Estimate()
    mean_conv, mean_static = float(conv.mean()), float(static.mean())
    bounds = penalised_interval(conv, static)
    return Estimate(mean_conv * penalty(mean_conv, mean_static), bounds.low, bounds.high, conv.size)


def _mean(values: Floats) -> Estimate:
    held = values[~np.isnan(values)]
    return _estimate(held, mean_interval(held))


def _estimate(values: Floats, bounds: Interval) -> Estimate:
    if not values.size:
        return Estimate()
    low, high = (None if np.isnan(bound) else bound for bound in bounds)
    return Estimate(float(values.mean()), low, high, values.size)


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
