"""Beliefs over many conversations: when the right diagnosis leads, stops too early or too late, and mean curves.

Every figure is the mean over a case's conversations, then over cases, with a 95 % interval that resamples cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from core.measures.belief import Belief, Trajectory
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import Interval

Quantity = Literal["right", "leading", "leads"]
QUANTITIES: tuple[Quantity, ...] = ("right", "leading", "leads")
"""Probability of the right diagnosis, probability of the leader, and whether the leader is right (1 or 0)."""
SHARES: tuple[int, ...] = tuple(range(10, 101, 10))
"""Per cent of a conversation's replies at which curves are read."""


@dataclass(frozen=True)
class Course:
    """The belief of one model in one conversation about one case."""

    model: str
    case_key: str
    trajectory: Trajectory


class Mean(NamedTuple):
    """A mean over cases with its interval (NaN without cases), and the conversations in it."""

    value: float
    interval: Interval
    n_cases: int
    n_conversations: int


@dataclass(frozen=True)
class BeliefRow:
    """What one model believed.

    Shares (0 to 1) of conversations: ``ever_led``: the right diagnosis led at some probe; ``leads_at_end``; ``lost``:
    it led and did not at the end; ``premature`` closure, of those in which that is known. ``over_asked``: mean number
    of needless questions. ``first_led``: mean turn at which it first led, of the conversations in which it did.
    """

    model: str
    ever_led: Mean
    leads_at_end: Mean
    lost: Mean
    premature: Mean
    over_asked: Mean
    first_led: Mean


@dataclass(frozen=True)
class CurvePoint:
    """The mean of a quantity of one model once ``per_cent`` of the patient's replies had been given."""

    model: str
    quantity: Quantity
    per_cent: int
    mean: Mean


def belief_rows(courses: Iterable[Course]) -> list[BeliefRow]:
    """Return a row for each model, in the order of names; conversations without a probe are left out."""
    return [
        BeliefRow(
            model=model,
            ever_led=_mean(held, lambda t: t.first_led is not None),
            leads_at_end=_mean(held, lambda t: t.leads_at_end),
            lost=_mean(held, lambda t: t.lost),
            premature=_mean(held, lambda t: t.premature),
            over_asked=_mean(held, lambda t: t.over_asked, shares=False),
            first_led=_mean(held, lambda t: t.first_led, shares=False),
        )
        for model, held in by_model(courses)
    ]


def curves(courses: Iterable[Course]) -> list[CurvePoint]:
    """Return the mean curves of each model over the share of the dialogue.

    At a share s of n probed replies, the value is that of probe number ⌈s · n⌉: what was believed once at least that
    share of the replies was in.
    """
    return [
        CurvePoint(model, quantity, share, _mean(held, _reader(quantity, share)))
        for model, held in by_model(courses)
        for quantity in QUANTITIES
        for share in SHARES
    ]


def at_share(found: Trajectory, per_cent: int) -> Belief:
    """Return the belief that holds once ``per_cent`` (1 to 100) of the probed replies were in."""
    return found.beliefs[-(-per_cent * len(found.beliefs) // 100) - 1]


def by_model(courses: Iterable[Course]) -> list[tuple[str, list[Course]]]:
    """Return the conversations that have a probe, grouped by model, in the order of names and cases."""
    probed = sorted((c for c in courses if c.trajectory.beliefs), key=lambda c: (c.model, c.case_key))
    return [(model, list(held)) for model, held in groupby(probed, key=lambda c: c.model)]


def _reader(quantity: Quantity, per_cent: int) -> Callable[[Trajectory], float]:
    return lambda found: float(getattr(at_share(found, per_cent), quantity))


def _mean(courses: Sequence[Course], read: Callable[[Trajectory], float | None], shares: bool = True) -> Mean:
    """Return the mean of what is read, leaving out conversations in which it is ``None``."""
    by_case: dict[str, list[float]] = {}
    for course in courses:
        value = read(course.trajectory)
        if value is not None:
            by_case.setdefault(course.case_key, []).append(float(value))
    means = np.array([np.mean(values) for values in by_case.values()])
    value = float(means.mean()) if means.size else float("nan")
    return Mean(value, bootstrap_interval(means, shares=shares), means.size, sum(map(len, by_case.values())))
