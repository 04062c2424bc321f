"""The doctor's beliefs during a conversation, and whether it stopped too early or asked too long.

A probe is the belief after one reply of the patient: up to five diagnoses with probabilities (``core.agents.probe``),
or the five likeliest of the reference doctor's posterior. A diagnosis is right by the rules of the reference grader:
the case's answer, its synonyms and its broader names. This project defines the measures and their thresholds.

The rules
- Probability of the right diagnosis: the sum over the listed diagnoses that are right; 0 if none is listed.
- Leader: the likeliest diagnosis; if several are equally likely, the first listed. All right diagnoses count as one.
- Premature closure: the doctor ended the conversation by a diagnosis or by asking no more (not at the cap, nor by a
  failure), facts that the patient could have told were never elicited, and at the last probe the leader was wrong or
  less likely than ``CLOSURE``. Unknown if no model has judged what became of the facts.
- Over-asking: the number of answered questions after the first probe from which on the right diagnosis led at every
  probe with a probability of at least ``SETTLED``.

Closure and over-asking are about one conversation. The curve over many is the mean over a case's conversations, then
over cases, with a 95 % interval that resamples cases.

Calibration: how far the probability of the leading diagnosis agrees with how often it is right.

Each case weighs the same, and the probes of a case share its weight, so that long conversations do not weigh more.
Brier score: the mean squared distance of the leader's probability from 1 if it is right and from 0 if not (0 is best).
Expected calibration error: over ten bins of equal width ([0, 0.1), …, [0.9, 1]), the mean distance between the mean
probability of a bin and the share that is right in it, weighted by the bin (Naeini et al. 2015). Intervals (95 %)
resample cases; the interval of the calibration error is biased upwards: chance alone moves every bin off the diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.case import Case
from core.events import EndReason, Probed
from core.frameworks.starts import BELIEF, CAMPAIGN
from core.knowledge.base import knowledge, normalise_name
from core.measures.base import (
    CASES_OF_RUNS,
    Columns,
    Measure,
    MetricRequest,
    Record,
    Row,
    Score,
    Section,
    bounded,
    metric,
)
from core.stats.bootstrap import column_intervals
from core.stats.intervals import unless_alike
from core.stats.ratios import RESAMPLES, percentiles, resampled_sums
from core.store.queries.scores import TrialPart, Trials, series_of_trials
from core.text.extraction import names_answer

CLOSURE = 0.5
"""With a leader less likely than this, stopping while facts are missing is premature."""
SETTLED = 0.9
"""From this probability of the right diagnosis on, further questions count as needless."""
RIGHT = "the right diagnosis"
_ENDED_BY_DOCTOR: tuple[EndReason, ...] = ("final_diagnosis", "no_question")


@dataclass(frozen=True)
class Belief:
    """The belief after message ``turn``: the probability of the right diagnosis, the leader and its probability."""

    turn: int
    right: float
    leader: str
    leading: float
    leads: bool
    """Whether the leader is right."""


@dataclass(frozen=True)
class Trajectory:
    """The beliefs of one conversation in order, and the figures derived from them.

    Turns are numbers of messages (0 is the greeting). ``first_led``: the first turn at which the right diagnosis led;
    ``led_for_good``: the first from which it led to the end; ``last_change``: the last turn at which the leader
    changed. Each is ``None`` if there is no such turn. ``premature`` and ``over_asked`` follow the module's rules;
    ``over_asked`` is 0 if the right diagnosis never reached ``SETTLED``.
    """

    beliefs: tuple[Belief, ...]
    first_led: int | None
    led_for_good: int | None
    last_change: int | None
    premature: bool | None
    over_asked: int

    @property
    def leads_at_end(self) -> bool:
        return bool(self.beliefs) and self.beliefs[-1].leads

    @property
    def lost(self) -> bool:
        """Whether the right diagnosis led at some probe but not at the last."""
        return self.first_led is not None and not self.leads_at_end


def trajectory(
    case: Case, probes: Sequence[Probed], end_reason: EndReason | None = None, never_elicited: int | None = None
) -> Trajectory:
    """Return the course of a doctor's belief; without a probe everything is empty.

    ``never_elicited`` is the number of facts that the patient could tell and that never came up (``None``: unknown).
    """
    diagnoses = {name for probe in probes for name, _ in probe.differential}
    right = {name for name in diagnoses if is_right(case, name)}
    beliefs = tuple(_belief(probe, right) for probe in sorted(probes, key=lambda p: p.turn) if probe.differential)
    settled = _from_which(beliefs, [b.leads and b.leading >= SETTLED for b in beliefs])
    leaders = [RIGHT if belief.leads else normalise_name(belief.leader) for belief in beliefs]
    changes = [
        belief.turn
        for belief, leader, previous in zip(beliefs[1:], leaders[1:], leaders[:-1], strict=True)
        if leader != previous
    ]
    premature = None
    if beliefs and end_reason is not None and never_elicited is not None:
        unsure = not beliefs[-1].leads or beliefs[-1].leading < CLOSURE
        premature = end_reason in _ENDED_BY_DOCTOR and never_elicited > 0 and unsure
    return Trajectory(
        beliefs=beliefs,
        first_led=next((b.turn for b in beliefs if b.leads), None),
        led_for_good=_from_which(beliefs, [b.leads for b in beliefs]),
        last_change=(changes[-1] if changes else None),
        premature=premature,
        over_asked=0 if settled is None else (beliefs[-1].turn - settled) // 2,
    )


def is_right(case: Case, diagnosis: str) -> bool:
    """Return whether a diagnosis counts as the case's answer by the rules of the reference grader."""
    return names_answer(case, diagnosis, knowledge())


def _belief(probe: Probed, right: Set[str]) -> Belief:
    ranked = sorted(probe.differential, key=lambda entry: -entry[1])
    leader, leading = ranked[0]
    probability_of_right = sum(probability for name, probability in ranked if name in right)
    return Belief(probe.turn, min(1.0, probability_of_right), leader, leading, leader in right)


def _from_which(beliefs: Sequence[Belief], conditions: Sequence[bool]) -> int | None:
    """Return the first turn from which a condition is true at every probe to the end."""
    turn = None
    for belief, is_true in zip(reversed(beliefs), reversed(conditions), strict=True):
        if not is_true:
            break
        turn = belief.turn
    return turn


BeliefQuantity = Literal["right", "leading", "leads"]
QUANTITIES: tuple[BeliefQuantity, ...] = ("right", "leading", "leads")
"""Probability of the right diagnosis, probability of the leader, and whether the leader is right (1 or 0)."""
SHARES: tuple[int, ...] = tuple(range(10, 101, 10))
"""Per cent of a conversation's replies at which curves are read."""


def series_of(course: Trajectory) -> dict[str, tuple[float, ...]]:
    return {name: tuple(float(getattr(belief, name)) for belief in course.beliefs) for name in QUANTITIES}


def belief_table(courses: Iterable[tuple[str, str, Mapping[str, Sequence[float]]]]) -> pd.DataFrame:
    """Return a row for each belief, in the order of turns; conversations are numbered.

    ``courses`` are the model, the case's key and the ``series_of`` each conversation.
    Columns: model, case_key, ``conversation`` (the number), and the ``QUANTITIES``.
    Conversations without a probe have no row.
    """
    rows = [
        (model, case_key, conversation, *belief)
        for conversation, (model, case_key, course) in enumerate(courses)
        for belief in zip(*(course[name] for name in QUANTITIES), strict=True)
    ]
    types = dict.fromkeys(QUANTITIES, "float64") | {"leads": "bool", "model": "str", "case_key": "str"}
    return pd.DataFrame(rows, columns=["model", "case_key", "conversation", *QUANTITIES]).astype(types)


def curves(beliefs: pd.DataFrame) -> list[Row]:
    """Return the mean curves of each model over the share of the dialogue, from a ``belief_table``.

    At a share s of n probed replies, the value is that of probe number ⌈s · n⌉: the belief once at least that share of
    the replies was received.
    """
    sizes = beliefs.groupby("conversation", sort=False).size().to_numpy()
    starts = sizes.cumsum() - sizes
    at = {share: starts - (-share * sizes // 100) - 1 for share in SHARES}
    points = {f"{quantity} {share}": (quantity, share) for quantity in QUANTITIES for share in SHARES}
    values = {name: beliefs[quantity].to_numpy(np.float64)[at[share]] for name, (quantity, share) in points.items()}
    rows = []
    for model, conversations in beliefs.iloc[starts][["model", "case_key"]].assign(**values).groupby("model"):
        by_case = conversations.groupby("case_key")[list(points)]
        matrix, trials = by_case.mean().to_numpy(), by_case.count().to_numpy(np.float64)
        bounds = column_intervals(matrix, shares=[True] * len(points), trials=trials, resamples=RESAMPLES)
        for (quantity, share), column, interval in zip(points.values(), matrix.T, bounds, strict=True):
            label = {"model": model, "quantity": quantity, "per_cent": share}
            more = {"n_conversations": len(conversations)}
            rows.append(Row(label, float(column.mean()), *interval, len(column), more=more))
    return rows


Floats = NDArray[np.float64]
BINS = 10


def calibrations(beliefs: pd.DataFrame) -> list[Row]:
    """Return Brier score and calibration error of each model's leading diagnosis, at every probe and at the end.

    ``beliefs`` is a ``belief_table``.
    """
    ends = beliefs.drop_duplicates("conversation", keep="last")
    return [
        _calibration({"model": model, "when": when}, table[table["model"] == model])
        for model in sorted(beliefs["model"].unique())
        for when, table in (("every probe", beliefs), ("at the end", ends))
    ]


def _calibration(label: dict[str, Any], beliefs: pd.DataFrame) -> Row:
    case, keys = pd.factorize(beliefs["case_key"], sort=True)
    leading, leads, n_cases = beliefs["leading"].to_numpy(), beliefs["leads"].to_numpy(), len(keys)
    share = 1 / np.bincount(case)[case]
    # each table is case × bin: sums of weight, weight × probability, weight × right
    tables = np.zeros((3, n_cases, BINS))
    for table, values in zip(tables, (share, share * leading, share * leads), strict=True):
        np.add.at(table, (case, bin_of(leading)), values)
    sums = np.hstack(list(tables))
    brier = np.bincount(case, share * (leading - leads) ** 2).astype(np.float64)
    error = float(_ece(sums.sum(axis=0)[None])[0])
    error_bounds = unless_alike(percentiles(_ece(resampled_sums(sums)), n_cases))
    return Row(
        {**label, "n_cases": n_cases, "n_probes": len(beliefs)},
        float(brier.mean()),
        *column_intervals(brier[:, None], shares=[True], resamples=RESAMPLES)[0],
        n_cases,
        more=bounded("ece", error, error_bounds),
        columns=Columns("brier", "brier_low", "brier_high", None),
    )


def bin_of(probability: Floats) -> NDArray[np.int64]:
    """Return the bin of each probability; 1 is in the last bin."""
    return np.minimum(BINS - 1, (probability * BINS + 1e-9).astype(np.int64))


def _ece(sums: Floats) -> Floats:
    """Return the calibration error of each row of sums: Σ over bins |Σ w p − Σ w right| / Σ w."""
    weight, probability, right = np.split(sums, 3, axis=1)
    return np.asarray(np.abs(probability - right).sum(axis=1) / weight.sum(axis=1))


class Beliefs(Measure):
    """The doctor's belief after each probe: the scores ``QUANTITIES`` at the end, with their course as series."""

    name = "belief"
    title = "Beliefs"
    page = "failures"
    reads: ClassVar[Trials] = "probed"
    needs: ClassVar[tuple[TrialPart, ...]] = ("probes",)

    def scores(self, record: Record) -> Iterator[Score]:
        probes = [Probed.model_construct(turn=p["turn"], differential=tuple(p["ranked"])) for p in record.probes]
        for name, series in series_of(trajectory(record.case, probes)).items():
            if series:
                yield Score(name, series[-1], series=series)


BELIEFS = Beliefs()


BeliefPart = Literal["curves", "calibration"]


@metric(
    "belief",
    *CASES_OF_RUNS,
    empty="No belief is stored for these cases: the reference doctor reports it, and a campaign can ask other doctors. "
    "Personas count only if their run is chosen.",
    measure=BELIEFS,
    starts=(CAMPAIGN, BELIEF),
    page="failures",
)
def report(
    request: MetricRequest,
    part: Annotated[BeliefPart, "Which figures: the curves, or how far they are calibrated."] = "curves",
) -> Iterator[Row]:
    """Report the belief in the right diagnosis over the conversation, and its calibration (Brier, ECE)."""
    with request.store.read() as cursor:
        beliefs = belief_table(series_of_trials(cursor, BELIEFS, request.selection))
    yield from curves(beliefs) if part == "curves" else calibrations(beliefs)


SECTIONS = (
    Section(
        "The right diagnosis in the course of the conversation",
        report,
        {"part": "curves"},
        kind="curve",
        series="model",
        place="per_cent",
        figure="quantity",
        words={
            "right": "Probability of the right diagnosis",
            "leading": "Probability of the leading diagnosis",
            "leads": "Share in which the right diagnosis leads",
            "per_cent": "Per cent of the patient’s replies",
        },
        help="Means over a case’s conversations, then over cases, with 95 % intervals, cases resampled. Conversations "
        "without a probe are left out.",
        columns=("model", "quantity", "per_cent", "mean", "ci_low", "ci_high", "n_cases", "n_conversations"),
        heads={"per_cent": "Per cent of replies", "n_cases": "Cases"},
        folded=True,
        page="failures",
    ),
    Section(
        "Calibration of the leading diagnosis",
        report,
        {"part": "calibration"},
        kind="table",
        words={"at the end": "At the end", "every probe": "After every reply"},
        help="Brier score: mean squared distance of the leading diagnosis’s probability from 1 if it is right, from 0 "
        "if not; 0 is best. ECE, expected calibration error: mean distance between the stated probability and the "
        "share of right diagnoses, over ten bins of probability.",
        heads={"ece": "ECE", "ece_low": "ECE low", "ece_high": "ECE high", "n_cases": "Cases", "n_probes": "Beliefs"},
        page="failures",
    ),
)
COURSE, CALIBRATION = SECTIONS
