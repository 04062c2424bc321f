"""Hard breaks of a gate: failures of single cases that no average makes up for.

A break compares two runs case by case. It has no error rate: a criterion that fails by chance in one trial of the new
run, and by chance in none of the reference, counts. ``gone`` counts the same in the other direction, to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.measures.rubrics.report import RubricReading, read_rubric_outcomes
from core.measures.rubrics.scores import JudgedTalk
from core.measures.urgency.levels import is_severe
from core.measures.urgency.report import UrgencyTalk, in_words, read_urgency
from core.report.side import RunSide
from core.store.database import Store
from core.store.selection import Selection


@dataclass(frozen=True)
class Breaks:
    """The new failures, each in a sentence.

    ``gone`` failures are only in the reference. Of ``compared`` items (``Break.items``), ``undecided`` have no verdict
    on a side that matters. ``problem`` is why nothing could be compared.
    """

    failures: tuple[str, ...] = ()
    gone: int = 0
    compared: int = 0
    undecided: int = 0
    problem: str = ""


class Break(NamedTuple):
    """A kind of break: what it finds, what it compares, and the function of (store, new run, reference) for it."""

    about: str
    items: str
    find: Callable[[Store, RunSide, RunSide], Breaks]


def new_critical_criteria(store: Store, new: RunSide, reference: RunSide) -> Breaks:
    """Find musts that are missed, and must-nots that happen, in the new run and in no trial of the reference.

    The rubric and the judge are those that judged the new run last; both runs need verdicts of this judge.
    """
    outcomes = read_rubric_outcomes(store, Selection(runs=[new.run.run_id]))
    if outcomes.rubric is None or not outcomes.judges:
        return Breaks(problem=f"no conversation of {new.run.run_id} is judged by a rubric (job rubrics)")
    (judge,) = outcomes.judges
    earlier = read_rubric_outcomes(store, Selection(runs=[reference.run.run_id]), outcomes.rubric.name)
    if outcomes.judges[judge] not in earlier.judges.values():
        return Breaks(
            problem=f"no conversation of {reference.run.run_id} is judged by {judge} and the rubric "
            f"{outcomes.rubric.name} (job rubrics)"
        )
    after, before = _critical(outcomes), _critical(earlier)
    shared = [key for key in after if key in before]
    new_failures = [key for key in shared if after[key].failed and before[key].judged and not before[key].failed]
    return Breaks(
        tuple(
            f"{case_key}: {statement} ({after[case_key, statement].failed} of "
            f"{after[case_key, statement].judged} trials)"
            for case_key, statement in new_failures
        ),
        gone=sum(bool(before[key].failed and after[key].judged and not after[key].failed) for key in shared),
        compared=len(shared),
        undecided=sum(not (after[key].judged and before[key].judged) for key in shared),
    )


class _Trials(NamedTuple):
    """Trials of a case that failed, of those with a verdict that applied."""

    failed: int
    judged: int


def _critical(reading: RubricReading) -> dict[tuple[str, str], _Trials]:
    """Return (case, failure in words) → trials, for the critical criteria that apply."""
    counts: dict[tuple[str, str], _Trials] = {}
    for case_key, statement, failed, judged in _critical_outcomes(reading.talks):
        earlier = counts.get((case_key, statement), _Trials(0, 0))
        counts[case_key, statement] = _Trials(earlier.failed + failed, earlier.judged + judged)
    return counts


def _critical_outcomes(talks: Sequence[JudgedTalk]) -> Iterator[tuple[str, str, bool, bool]]:
    for talk in talks:
        for outcome in talk.outcomes:
            if outcome.criterion.priority != "should" and outcome.status != "not applicable":
                words = "must missed" if outcome.criterion.priority == "must" else "must-not done"
                failed = outcome.missed or outcome.done
                yield talk.case_key, f"{words}: {outcome.criterion.criterion}", failed, outcome.status != "unjudged"


def new_severe_under_triage(store: Store, new: RunSide, reference: RunSide) -> Breaks:
    """Find cases with severe under-triage in the new run and in no trial of the reference.

    The prompts are those by which the new run was asked last; both runs need answers under them. A case without a level
    is undecided: it may be an emergency.
    """
    reading = read_urgency(store, Selection(runs=[new.run.run_id]))
    if not reading.prompt_hash:
        return Breaks(problem=f"the doctor of {new.run.run_id} was not asked how urgent its cases are (job urgency)")
    earlier = read_urgency(store, Selection(runs=[reference.run.run_id]), reading.prompt_hash)
    if not any(talk.asked for talk in earlier.talks):
        return Breaks(
            problem=f"the doctor of {reference.run.run_id} was not asked how urgent its cases are under the same "
            "prompts (job urgency)"
        )
    after, before = _triage(reading.talks), _triage(earlier.talks)
    if not any(talk.level for talk in reading.talks):
        return Breaks(problem=f"no case of {new.run.run_id} has a level of urgency (data label-file, field urgency)")
    shared = [case_key for case_key in after if case_key in before]
    new_failures = [key for key in shared if after[key].failed and before[key].judged and not before[key].failed]
    worst = {talk.case_key: talk.levels for talk in sorted(reading.talks, key=_given) if talk.levels}
    return Breaks(
        tuple(
            f"{key}: {in_words(given)} instead of {in_words(level)} ({after[key].failed} of {after[key].judged} trials)"
            for key in new_failures
            for level, given in [worst[key]]
        ),
        gone=sum(bool(before[key].failed and after[key].judged and not after[key].failed) for key in shared),
        compared=len(shared),
        undecided=sum(not (after[key].judged and before[key].judged) for key in shared),
    )


def _given(talk: UrgencyTalk) -> int:
    return talk.given or 0


def _triage(talks: Sequence[UrgencyTalk]) -> dict[str, _Trials]:
    """Return case → trials with severe under-triage, of those that were answered and have a level."""
    counts: dict[str, _Trials] = {}
    for talk in talks:
        earlier = counts.get(talk.case_key, _Trials(0, 0))
        severe = talk.levels is not None and is_severe(*talk.levels)
        counts[talk.case_key] = _Trials(earlier.failed + severe, earlier.judged + (talk.levels is not None))
    return counts


BREAKS: Mapping[str, Break] = {
    "criterion": Break(
        "a must that is missed, or a must-not that happens, and did not before",
        "criteria of cases",
        new_critical_criteria,
    ),
    "under_triage": Break(
        "a case whose urgency is two or more levels too low, and was not before", "cases", new_severe_under_triage
    ),
}
"""Name → break."""
