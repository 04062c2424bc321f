"""What came of a review: the experts' decisions with the models' names, and the grader beside them.

Names are given only of a review that is unblinded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from core.errors import UsageError
from core.events import COUNTED
from core.measures.experts.deciding import Decision, decide
from core.measures.experts.grader import Corrected, JudgedAnswer, corrected
from core.measures.experts.reviewing import ReviewState
from core.store.database import Store
from core.store.queries import reviews as rows
from core.store.queries.accuracy import case_scores
from core.store.queries.reviews import Annotation, annotations_of
from core.store.review_records import QUESTIONS, Item, Judgement, parse_item
from core.store.selection import Selection

RELEASE, IMPORTED = "release", "imported"
"""Under which name annotations of the CRAFT-MD release, and those of a file, are kept in place of a review's."""
RELEASE_THIRD = "release d3"


@dataclass(frozen=True)
class AgainstGrader:
    """A review's free responses as experts and each grader judged them; ``excluded`` have no verdict that counts."""

    judged: Sequence[JudgedAnswer]
    excluded: int
    undecided: int


def judgements_of(store: Store, state: ReviewState) -> list[Judgement]:
    """Return what was said in an unblinded review; raise ``UsageError`` while it is blinded."""
    if not state.review.unblinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures by model.")
    asked = {one.item: one.annotators for one in state.items}
    ordered = sorted(state.said.values(), key=lambda one: one.annotated_at)
    return _judgements(store, ordered, lambda one: one.annotator not in asked.get(one.item, ()))


def imported_judgements(store: Store) -> list[Judgement]:
    """Return what the imported annotations say; of three on one question, the one that came last breaks a tie."""
    with store.read() as cursor:
        held = [one for source in (RELEASE, IMPORTED) for one in annotations_of(cursor, review_id=source)]
    heard: dict[tuple[str, str], list[str]] = {}
    for one in sorted(held, key=lambda one: one.annotated_at):
        heard.setdefault((one.item, one.question), []).append(one.annotator)

    def third(one: Annotation) -> bool:
        return one.annotator == RELEASE_THIRD or one.annotator in heard[one.item, one.question][2:]

    return _judgements(store, held, third)


def decisions_of(store: Store, state: ReviewState) -> list[Decision]:
    """Return the decisions of an unblinded review, by model."""
    return sorted(decide(judgements_of(store, state), tie_breaker=""), key=lambda one: one.model)


def against_grader(store: Store, decisions: Iterable[Decision]) -> AgainstGrader:
    """Put every grader's newest verdict on a free response beside the experts' decision on it."""
    asked = [one for one in decisions if one.question == "equivalent"]
    items = {one.item: parse_item(one.item) for one in asked}
    with store.read() as cursor:
        verdicts = rows.free_verdicts(cursor, [item.trial_id for item in items.values()])
    judged: list[JudgedAnswer] = []
    excluded = 0
    for one in asked:
        item = items[one.item]
        held = verdicts.get((item.trial_id, item.format), [])
        excluded += not any(verdict in COUNTED for _, verdict in held)
        judged += [
            JudgedAnswer(one.item, one.model, one.case, grader, one.answer == "yes", verdict == "correct")
            for grader, verdict in held
            if one.answer is not None and verdict in COUNTED
        ]
    return AgainstGrader(judged, excluded, sum(one.answer is None for one in asked))


def corrected_accuracies(store: Store, state: ReviewState, judged: Sequence[JudgedAnswer]) -> list[Corrected]:
    """Return the accuracy of every model of the review in its format, corrected for the grader's error.

    Raises ``UsageError`` where the items do not stand for all answers, being drawn for disagreement.
    """
    plan = state.review.plan
    if plan.sampling == "disagreement":
        raise UsageError(
            "These items were drawn because graders or rules disagree on them: the grader's error on them is not its "
            "error on all answers, so no accuracy is corrected by it."
        )
    with store.read() as cursor:
        known = rows.subjects(cursor, [parse_item(one.item).trial_id for one in judged])
        runs = sorted({subject.run_id for subject in known.values()})
        selection = Selection(
            runs=runs, datasets=plan.datasets or None, specialties=plan.specialties or None, formats=[plan.format],
            question_types=["frq"],
        )  # fmt: skip
        held = case_scores(cursor, selection)
    scores: dict[str, dict[str, float]] = {}
    for one in held:
        if one.score is not None:
            scores.setdefault(one.model, {})[one.case_key] = one.score
    return [corrected(model, found, judged) for model, found in scores.items()]


def _judgements(store: Store, said: Sequence[Annotation], third: Callable[[Annotation], bool]) -> list[Judgement]:
    answers = [one for one in said if one.question in QUESTIONS and one.value in ("yes", "no")]
    items = {one.item: parse_item(one.item) for one in answers}
    with store.read() as cursor:
        known = rows.subjects(cursor, [item.trial_id for item in items.values() if item.trial_id])

    def whose(item: Item) -> tuple[str, str]:
        subject = known.get(item.trial_id)
        return (subject.model, subject.case_key) if subject else (item.model or "unknown", item.case_key or "unknown")

    return [
        Judgement(*whose(items[one.item]), one.question, one.annotator, one.value, one.item, third(one))  # type: ignore[arg-type]
        for one in answers
    ]  # fmt: skip
