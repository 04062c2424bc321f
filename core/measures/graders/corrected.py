"""Accuracy corrected for the grader's own error, as experts' judgements of free responses show it (Rogan, Gladen)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.events import Format, Verdict
from core.measures.experts.grader import Corrected, JudgedAnswer, corrected
from core.measures.experts.results import against_grader, decisions_of
from core.measures.experts.reviewing import ReviewState, states
from core.measures.graders.judged import Judged, read_judged
from core.measures.graders.panel import PANEL, Verdicts, judge_scores, majority
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.selection import Selection

NEEDED = (
    "To correct an accuracy for the grader's error, experts' judgements of free responses are needed: plan a review of "
    "answers drawn at random or by stratum (page Experts), have it answered, and unblind it."
)


@dataclass(frozen=True)
class CorrectedAccuracy:
    """The accuracy of a model in a format by a judge, corrected by what the experts of ``review`` said."""

    review: str
    judge: str
    format: Format
    found: Corrected


def corrected_by_judge(store: Store, graders: Sequence[str], panel: Sequence[str] = ()) -> list[CorrectedAccuracy]:
    """Return the corrected accuracies of the models of every review that allows it; of several, the newest review's.

    Those do whose names are shown, that are about free responses, and that were not drawn for disagreement: the error
    on such items is not the error on all answers.
    """
    found: dict[tuple[str, str, str], CorrectedAccuracy] = {}
    for state in states(store):
        plan = state.review.plan
        if plan.kind == "answers" and state.review.unblinded and plan.sampling != "disagreement":
            for one in _of_review(store, state, graders, panel):
                found.setdefault((one.judge, one.format, one.found.model), one)
    return list(found.values())


def _of_review(
    store: Store, state: ReviewState, graders: Sequence[str], panel: Sequence[str]
) -> list[CorrectedAccuracy]:
    plan = state.review.plan
    beside = against_grader(store, decisions_of(store, state)).judged
    selection = Selection(
        runs=plan.runs or None, models=sorted({one.model for one in beside}), datasets=plan.datasets or None,
        specialties=plan.specialties or None, formats=[plan.format], question_types=["frq"],
    )  # fmt: skip
    judged = read_judged(store, list(dict.fromkeys([*graders, *panel])), selection)
    scores = {grader: judge_scores(judged, _said_by(judged, grader)) for grader in graders}
    items = {grader: [one for one in beside if one.grader == grader] for grader in graders}
    if panel:
        scores[PANEL] = judge_scores(judged.of(panel), majority)
        items[PANEL] = _panel_items(beside, panel)
    return [
        CorrectedAccuracy(state.review.name, judge, plan.format, corrected(model, values, items[judge]))
        for judge, held in scores.items() if items[judge]
        for model, values in _by_model(held).items()
    ]  # fmt: skip


def _said_by(judged: Judged, grader: str) -> Callable[[Verdicts], Verdict | None]:
    place = judged.place(grader)
    return lambda said: said[place]


def _panel_items(beside: Sequence[JudgedAnswer], panel: Sequence[str]) -> list[JudgedAnswer]:
    """Return the items that all members of a panel judged without a tie, with the panel as their grader."""
    groups: dict[str, dict[str, JudgedAnswer]] = {}
    for one in beside:
        groups.setdefault(one.item, {})[one.grader] = one
    found: list[JudgedAnswer] = []
    for item, by_grader in groups.items():
        said: list[Verdict | None] = [
            None if name not in by_grader else "correct" if by_grader[name].grader_says else "incorrect"
            for name in panel
        ]
        verdict = majority(said)
        if verdict is not None:
            one = next(iter(by_grader.values()))
            found.append(JudgedAnswer(item, one.model, one.case, PANEL, one.expert_says, verdict == "correct"))
    return found


def _by_model(scores: Sequence[CaseScore]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for one in scores:
        if one.score is not None:
            found.setdefault(one.model, {})[one.case_key] = one.score
    return found
