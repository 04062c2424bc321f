"""The conversations behind a row of a result: exactly those that the row counts.

A metric says what each of its rows counts (``core.measures.base.Counted``). An address carries this and the metric's
selection, never ids of trials: the trials are read again from the verdicts that the metric read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from core.errors import UsageError
from core.events import COUNTED
from core.measures.accuracy import group_of, scores_behind
from core.measures.base import Counted, MetricRequest, Side
from core.measures.paired import Arm, group_of_score, paired_cases
from core.store.database import Store
from core.store.queries.answers import CaseScore, EndedTrial, TrialOutcome, ended_trials, trial_outcomes
from core.store.selection import Selection

Part = Literal[
    "counted", "right", "wrong", "excluded", "became_wrong", "became_right", "regressed", "improved", "equal",
    "concluded", "without_diagnosis",
]  # fmt: skip
"""``counted`` are all conversations that a row counts. Answers that count are ``right`` or ``wrong``; those that do not
count are ``excluded``. Of a difference these are the counted trials of both sides, on the cases that count in both: by
outcome (``core.measures.paired.is_right``) those that ``became_wrong`` or ``became_right``, by the share of right
trials those that ``regressed``, ``improved`` or are ``equal``. Conversations are ``concluded`` or
``without_diagnosis``."""
Trials = dict[Part, dict[str, str]]
"""Part → the trials in it, as id → case key."""


@dataclass(frozen=True)
class Behind:
    """A row of a result: what it counts in which selection."""

    selection: Selection
    counts: Counted

    @property
    def address(self) -> str:
        """The row as a short text for a URL."""
        return _BEHIND.dump_json(self, exclude_defaults=True).decode()


_BEHIND = TypeAdapter(Behind)


def read_address(text: str) -> Behind:
    """Return the row of an ``address``; raises ``UsageError`` if the text is none."""
    try:
        behind = _BEHIND.validate_json(text)
    except ValidationError as error:
        raise UsageError(
            "The link names a row of a table, but it is damaged: open the row again on its page."
        ) from error
    lists: dict[str, Any] = {
        name: tuple(value) for name, value in vars(behind.selection).items() if isinstance(value, list)
    }
    return replace(behind, selection=replace(behind.selection, **lists))


def trials_behind(request: MetricRequest, counts: Counted) -> Trials:
    """Return the trials that a row counts in the selection of its metric, and those of its parts."""
    if counts.sides[0].arm is None:
        return _conversations(request, counts)
    sides = [_answers(request, counts, side) for side in counts.sides]
    if len(sides) == 1:
        ((_, outcomes),) = sides
        counted = [outcome for outcome in outcomes if outcome.verdict in COUNTED]
        return {
            "counted": _trials(counted),
            "right": _trials(outcome for outcome in counted if outcome.verdict == "correct"),
            "wrong": _trials(outcome for outcome in counted if outcome.verdict != "correct"),
            "excluded": _trials(outcome for outcome in outcomes if outcome.verdict not in COUNTED),
        }
    (first, _), (second, _) = sides
    pairs = {pair.case_key: pair for pair in paired_cases(first, second)}
    paired = [
        (outcome, pairs[outcome.case_key])
        for _, outcomes in sides
        for outcome in outcomes
        if outcome.verdict in COUNTED and outcome.case_key in pairs
    ]
    return {
        "counted": _trials(outcome for outcome, _ in paired),
        "became_wrong": _trials(outcome for outcome, pair in paired if pair.outcome == "first_only"),
        "became_right": _trials(outcome for outcome, pair in paired if pair.outcome == "second_only"),
        "regressed": _trials(outcome for outcome, pair in paired if pair.change < 0),
        "improved": _trials(outcome for outcome, pair in paired if pair.change > 0),
        "equal": _trials(outcome for outcome, pair in paired if pair.change == 0),
    }


def scores_of_side(request: MetricRequest, counts: Counted, side: Side) -> dict[str, CaseScore]:
    """Return case key → score of the cases that a row counts on one side; empty if the selection lacks the side."""
    selection = request.selection
    if side.run_id:
        selection = replace(selection, runs=(side.run_id,))
    elif not counts.shared_cases:  # which cases are shared depends on all conditions
        selection = replace(selection, conditions=(side.model,))
    scores = scores_behind(replace(request, selection=selection), counts.by, shared_cases=counts.shared_cases)
    # of a run that several graders judged, the first condition is that of the grader of the whole run
    model = scores[0].model if side.run_id and scores else side.model
    return {
        score.case_key: score
        for score in scores
        if (score.model, (score.format, score.question_type)) == (model, side.arm)
        and counts.group in (None, group_of_score(score, group_of(counts.by)) or "")
        and (not counts.case_sets or score.case_key.partition("/")[0] in counts.case_sets)
    }


def _answers(request: MetricRequest, counts: Counted, side: Side) -> tuple[dict[str, CaseScore], list[TrialOutcome]]:
    """Return the cases that count on one side of a row, and their answers."""
    scores = scores_of_side(request, counts, side)
    if not scores:
        return {}, []
    score = next(iter(scores.values()))
    runs = (side.run_id,) if side.run_id else request.selection.runs
    narrowed = replace(request.selection, conditions=(score.model,), runs=runs)
    outcomes = request.read(_outcomes, narrowed, score.model, (score.format, score.question_type))
    return scores, [outcome for outcome in outcomes if outcome.case_key in scores]


def _outcomes(store: Store, selection: Selection, model: str, arm: Arm) -> list[TrialOutcome]:
    with store.read() as cursor:
        return trial_outcomes(cursor, selection, model, arm)


def _conversations(request: MetricRequest, counts: Counted) -> Trials:
    with request.store.read() as cursor:
        ended = ended_trials(cursor, request.selection, counts.sides[0].model, staffed=counts.staffed)
    counted = [
        trial
        for trial in ended
        if counts.end_reason in (None, trial.end_reason) and counts.turns in (None, trial.doctor_turns)
    ]
    return {
        "counted": _trials(counted),
        "concluded": _trials(trial for trial in counted if trial.concluded),
        "without_diagnosis": _trials(trial for trial in counted if not trial.concluded),
    }


def _trials(trials: Iterable[TrialOutcome | EndedTrial]) -> dict[str, str]:
    return {trial.trial_id: trial.case_key for trial in trials}
