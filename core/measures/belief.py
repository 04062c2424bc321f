"""What a doctor believed in the course of one conversation, and whether it stopped too early or asked too long.

A probe is the belief after one reply of the patient: up to five diagnoses with probabilities (``core.agents.probe``),
or the five likeliest of the reference doctor's posterior. A diagnosis is right by the rules of the reference grader:
the case's answer, its synonyms and its broader names. The measures and their thresholds are this project's own.

The rules
- Probability of the right diagnosis: the sum over the listed diagnoses that are right; 0 where none is listed.
- Leader: the likeliest diagnosis, of equally likely ones the first listed. All right ones are one and the same leader.
- Premature closure: the doctor ended the conversation by a diagnosis or by asking no more (not at the cap, nor by a
  failure), facts that the patient could have told were never elicited, and by its own last probe the leader was not
  right or less likely than ``CLOSURE``. Unknown where the facts are unknown.
- Over-asking: the answered questions after the first probe from which on the right diagnosis led at every probe with a
  probability of at least ``SETTLED``.

Over many conversations every figure is the mean over a case's conversations, then over cases, with a 95 % interval
that resamples cases.

Calibration: how far the probability of the leading diagnosis agrees with how often it is right.

Each case weighs the same, and the probes of a case share its weight, so that long conversations do not outweigh others.
Brier score: the mean squared distance of the leader's probability from 1 where it is right and 0 where not (0 is best).
Expected calibration error: over ten bins of equal width ([0, 0.1), …, [0.9, 1]), the mean distance between the mean
probability of a bin and the share that is right in it, weighted by the bin (Naeini et al. 2015). Intervals (95 %)
resample cases; that of the calibration error lies high, since chance alone moves every bin away from its diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from core.case import Case
from core.events import EndReason, Probed
from core.knowledge.base import knowledge, normalise_name
from core.measures.base import Asked, Columns, Row, bounded, metric
from core.measures.ledger.kept import Facts
from core.stats.bootstrap import bootstrap_interval
from core.stats.ratios import percentiles, ratio, ratio_intervals, resampled_sums
from core.store.database import Store
from core.store.queries.failures import believed, cases_of, probes_of_trials
from core.store.selection import Selection
from core.text.extraction import names_answer
from core.work import Progress, Stop

_TOGETHER = 250
"""Conversations read at a time."""
CLOSURE = 0.5
"""A leader less likely than this is no ground to stop while facts are left."""
SETTLED = 0.9
"""From this probability of the right diagnosis on, further questions no longer change what is believed."""
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
    """The beliefs of one conversation in their order, and what follows from them.

    Turns are numbers of messages (0 is the greeting). ``first_led``: the first turn at which the right diagnosis led;
    ``led_for_good``: the first from which it led to the end; ``last_change``: the last turn at which another diagnosis
    took the lead. Each is ``None`` where there is none. ``premature`` and ``over_asked`` as in the module's rules;
    ``over_asked`` is 0 where the right diagnosis never settled.
    """

    beliefs: tuple[Belief, ...]
    first_led: int | None
    led_for_good: int | None
    last_change: int | None
    premature: bool | None
    over_asked: int

    @property
    def leads_at_end(self) -> bool:
        """Whether the right diagnosis led at the last probe."""
        return bool(self.beliefs) and self.beliefs[-1].leads

    @property
    def lost(self) -> bool:
        """Whether the right diagnosis once led and did not at the end."""
        return self.first_led is not None and not self.leads_at_end


def trajectory(
    case: Case, probes: Sequence[Probed], end_reason: EndReason | None = None, never_elicited: int | None = None
) -> Trajectory:
    """Return the course of a doctor's belief.

    ``end_reason`` says why the conversation ended, ``never_elicited`` how many of the facts that the patient could
    tell never came up (``None``: unknown). Without a probe everything is empty.
    """
    beliefs = tuple(_belief(case, probe) for probe in sorted(probes, key=lambda p: p.turn) if probe.differential)
    settled = _from_which(beliefs, [b.leads and b.leading >= SETTLED for b in beliefs])
    leaders = [RIGHT if belief.leads else normalise_name(belief.leader) for belief in beliefs]
    changes = [
        belief.turn for belief, now, before in zip(beliefs[1:], leaders[1:], leaders[:-1], strict=True) if now != before
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
    """Say whether a named diagnosis counts as the case's answer by the rules of the reference grader."""
    return names_answer(case, diagnosis, knowledge())


def _belief(case: Case, probe: Probed) -> Belief:
    ranked = sorted(probe.differential, key=lambda entry: -entry[1])
    leader, leading = ranked[0]
    right = sum(probability for name, probability in ranked if is_right(case, name))
    return Belief(probe.turn, min(1.0, right), leader, leading, is_right(case, leader))


def _from_which(beliefs: Sequence[Belief], holds: Sequence[bool]) -> int | None:
    """Return the first turn from which something holds at every probe to the end."""
    turn = None
    for belief, held in zip(reversed(beliefs), reversed(holds), strict=True):
        if not held:
            break
        turn = belief.turn
    return turn


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


_FIGURES: dict[str, Callable[[Trajectory], float | None]] = {
    "ever_led": lambda t: t.first_led is not None,
    "leads_at_end": lambda t: t.leads_at_end,
    "lost": lambda t: t.lost,
    "premature": lambda t: t.premature,
    "over_asked": lambda t: t.over_asked,
    "first_led": lambda t: t.first_led,
}
"""Shares (0 to 1) of conversations: the right diagnosis led at some probe, at the end, once and not at the end;
premature closure, of those in which that is known. Means: needless questions; the turn at which it first led, of the
conversations in which it did."""
_COUNTS = ("over_asked", "first_led")


def belief_rows(courses: Iterable[Course]) -> list[Row]:
    """Return a row for each model and figure, in the order of names; conversations without a probe are left out."""
    return [
        _mean({"model": model, "figure": name}, held, read, shares=name not in _COUNTS)
        for model, held in by_model(courses)
        for name, read in _FIGURES.items()
    ]


def curves(courses: Iterable[Course]) -> list[Row]:
    """Return the mean curves of each model over the share of the dialogue.

    At a share s of n probed replies, the value is that of probe number ⌈s · n⌉: what was believed once at least that
    share of the replies was in.
    """

    def reader(quantity: Quantity, per_cent: int) -> Callable[[Trajectory], float]:
        return lambda found: float(getattr(at_share(found, per_cent), quantity))

    return [
        _mean({"model": model, "quantity": quantity, "per_cent": share}, held, reader(quantity, share))
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


def _mean(
    label: dict[str, Any], courses: Sequence[Course], read: Callable[[Trajectory], float | None], shares: bool = True
) -> Row:
    """Return the mean of what is read (NaN without cases), leaving out conversations in which it is ``None``."""
    by_case: dict[str, list[float]] = {}
    for course in courses:
        value = read(course.trajectory)
        if value is not None:
            by_case.setdefault(course.case_key, []).append(float(value))
    means = np.array([np.mean(values) for values in by_case.values()])
    value = float(means.mean()) if means.size else float("nan")
    counts = {"n_conversations": sum(map(len, by_case.values()))}
    return Row(label, value, *bootstrap_interval(means, shares=shares), means.size, more=counts)


Floats = NDArray[np.float64]
When = Literal["every probe", "at the end"]
BINS = 10


Calibration = tuple[Row, list[Row]]
"""A model's Brier score and calibration error, and its bins."""


def calibrations(courses: Iterable[Course]) -> list[Calibration]:
    """Return each model's calibration, at every probe and at the end."""
    return [calibration(model, held, when) for model, held in by_model(courses) for when in get_args(When)]


def calibration(model: str, courses: Sequence[Course], when: When) -> Calibration:
    """Return the calibration of a model's leading diagnosis, over conversations that have a probe each.

    Bins hold the leaders whose probability lies from ``from`` (included) to ``to`` (excluded, but for 1):
    ``probability`` is their mean, the estimate the share of them that is right, both weighted; NaN in an empty bin.
    """
    by_case: dict[str, list[Belief]] = {}
    for course in courses:
        counted = slice(None) if when == "every probe" else slice(-1, None)
        by_case.setdefault(course.case_key, []).extend(course.trajectory.beliefs[counted])
    held = list(by_case.values())
    brier = np.array([np.mean([(b.leading - b.leads) ** 2 for b in beliefs]) for beliefs in held])
    # case × bin: numbers of probes; case × 3 bins: sums of weight, weight × probability, weight × right
    counts, sums = np.zeros((len(held), BINS), dtype=np.int64), np.zeros((len(held), 3 * BINS))
    for case, beliefs in enumerate(held):
        for belief in beliefs:
            index, share = bin_of(belief.leading), 1 / len(beliefs)
            counts[case, index] += 1
            sums[case, index::BINS] += (share, share * belief.leading, share * belief.leads)
    weight, probability, right = np.split(sums, 3, axis=1)
    intervals = ratio_intervals(right, weight)
    label = {"model": model, "when": when}
    ece, bounds = float(_ece(sums.sum(axis=0)[None])[0]), percentiles(_ece(resampled_sums(sums)), len(held))
    row = Row(
        {**label, "n_cases": len(held), "n_probes": int(counts.sum())},
        float(brier.mean()) if brier.size else float("nan"),
        *bootstrap_interval(brier),
        len(held),
        more=bounded("ece", ece, bounds),
        columns=Columns("brier", "brier_low", "brier_high", None),
    )
    bins = []
    for index in range(BINS):
        n_cases = int((counts[:, index] > 0).sum())
        place = {"from": index / BINS, "to": (index + 1) / BINS, "n_cases": n_cases}
        of = {"n_probes": int(counts[:, index].sum()), "probability": ratio(probability[:, index], weight[:, index])}
        share = ratio(right[:, index], weight[:, index])
        bins.append(Row(label | place | of, share, *intervals[index], n_cases, columns=Columns("right", n=None)))
    return row, bins


def bin_of(probability: float) -> int:
    """Return the bin of a probability; 1 lies in the last one."""
    return min(BINS - 1, int(probability * BINS + 1e-9))


def _ece(sums: Floats) -> Floats:
    """Return the calibration error of each row of sums: Σ over bins |Σ w p − Σ w right| / Σ w."""
    weight, probability, right = np.split(sums, 3, axis=1)
    return np.asarray(np.abs(probability - right).sum(axis=1) / weight.sum(axis=1))


def courses(
    store: Store,
    selection: Selection | None = None,
    *,
    on_progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False,
) -> list[Course]:
    """Return the trajectory of every probed conversation of a selection whose case is stored.

    ``stop`` is asked between chunks; once it says so, what is read by then is returned.
    """
    with store.read() as cursor:
        held = believed(cursor, selection)
        cases = cases_of(cursor, (one.case for one in held))
    facts = Facts(store, selection or Selection(), cases)
    found: list[Course] = []
    for start in range(0, len(held), _TOGETHER):
        if stop():
            break
        chunk = [one for one in held[start : start + _TOGETHER] if one.case in cases]
        ledgers = facts.of({one.trial_id: one.case for one in chunk})
        with store.read() as cursor:
            probes = probes_of_trials(cursor, [one.trial_id for one in chunk])
        for one in chunk:
            ledger, asked = ledgers.get(one.trial_id), probes.get(one.trial_id, ())
            told = trajectory(cases[one.case], asked, one.end_reason, ledger.never if ledger else None)
            found.append(Course(one.model, one.case[0], told))
        on_progress(min(start + _TOGETHER, len(held)), len(held))
    return found


BeliefPart = Literal["models", "calibration", "reliability", "curves"]


@metric(
    "belief",
    "run",
    "models",
    empty="No belief is stored: run a campaign with --probe, or with the reference doctor. Name runs whose patient had "
    "a persona by --run.",
)
def report(
    asked: Asked, part: Annotated[BeliefPart, "Which figures: by model, calibration, its bins, or curves."] = "models"
) -> Iterator[Row]:
    """Report when the right diagnosis led, premature closure, over-asking, and calibration (Brier, ECE)."""
    with asked.progress("conversations") as show:
        found = courses(asked.store, asked.selection, on_progress=show)
    if part == "models":
        yield from belief_rows(found)
    elif part == "curves":
        yield from curves(found)
    else:
        for row, bins in calibrations(found):
            yield from [row] if part == "calibration" else bins
