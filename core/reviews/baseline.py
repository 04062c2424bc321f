"""Experts who answer vignettes, as runs that are compared with those of models.

In a review with a form about vignettes each expert has a run whose doctor is ``human/NAME`` and whose arms are the
vignette's; it is stored in a journal and graded like a model's run. Trials are public, so they are written when the
review ends; until then only the answers are stored. The run stores the order of the questions
(``ReviewPlan.order``).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

from core import __version__
from core.agents.reference.grader import ReferenceGrader
from core.case import Case, case_set_hash
from core.datasets.select import cases_of
from core.errors import UsageError
from core.events import Answered, Event, Finished, QuestionType, Started
from core.frameworks.answering import grade_answer, question_of
from core.frameworks.base import framework
from core.frameworks.casting import REFERENCE
from core.journal import JournalWriter, RunHeader, TrialLine, journal_path, seed_of, trial_id
from core.judging.form import FormQuestion, Option
from core.judging.judgement import Judgement
from core.judging.request import Material
from core.reviews.drawing import case_items, order_for
from core.reviews.items import BlindedItem, blinded_item
from core.reviews.state import ReviewState
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.run_cases import run_cases
from core.store.queries.trials import done_trial_ids, offer
from core.store.review_records import Review

NO_PROMPT = "none"
"""The prompt pack of a run without prompts."""


def baseline_run(review: Review, annotator: str) -> str:
    """Return the id of the run with an expert's answers; raise ``UsageError`` if the expert is not in the review."""
    if annotator not in review.plan.annotators:
        raise UsageError(f"{annotator} is not an annotator of the review {review.name}.")
    return f"human-{review.review_id}-{review.plan.annotators.index(annotator) + 1}"


def begin_baseline(store: Store, review: Review) -> None:
    """Write the header of every expert's run, with the present content of the cases."""
    plan = review.plan
    cases = case_items(cases_of(plan.case_set))
    for annotator in plan.annotators:
        assigned = [cases[item.item] for item in order_for(review.items, annotator, plan.seed)]
        if assigned:
            run_id = baseline_run(review, annotator)
            header = RunHeader(
                run_id=run_id,
                fingerprint=hashlib.sha256(run_id.encode()).hexdigest(),
                protocol=framework().name,
                doctor=f"human/{annotator}",
                patient=REFERENCE["patient"],
                grader=ReferenceGrader.name,
                summariser=REFERENCE["summariser"],
                prompt_pack=NO_PROMPT,
                prompt_hash=NO_PROMPT,
                case_set=plan.case_set,
                case_set_hash=case_set_hash(assigned),
                arms=[("vignette", question_type) for question_type in plan.asked_of(annotator)],
                trials=1,
                seed=plan.seed,
                settings={"review": review.name, "order": plan.order_in_words},
                code_version=__version__,
                source="local",
                created_at=review.created_at,
                cases=assigned,
            )
            with JournalWriter(journal_path(run_id, store.journals)) as journal:
                journal.append(header)
    fold(store)


def baseline_cases(store: Store, review: Review, annotator: str) -> dict[str, Case]:
    """Return item → case, with the content that is stored in the expert's run."""
    with store.read() as cursor:
        return case_items(run_cases(cursor, baseline_run(review, annotator)))


def item_for(store: Store, state: ReviewState, item: str, annotator: str) -> BlindedItem | None:
    """Return an item as an annotator sees it, of a form about vignettes the case that is stored in the expert's run.

    ``None`` if its trial or case is no longer stored.
    """
    if state.form.final:
        case = baseline_cases(store, state.review, annotator).get(item)
        return BlindedItem(Material(case=case)) if case else None
    with store.read() as cursor:
        return blinded_item(cursor, item, state.review.plan.case_set, offer(cursor).models)


def own_question(case: Case, question: FormQuestion) -> FormQuestion:
    """Return a question of a form about vignettes as the case asks it, with its choices if it is answered by them."""
    asked = question_of(case, cast(QuestionType, question.id), ())
    options = tuple(Option.model_construct(value=choice, label=choice) for choice in asked.choices)
    kind = "choice" if options else "text"
    return question.model_copy(
        update={"wording": asked.text, "kind": kind, "options": options, "cannot_judge": False, "yes": ()}
    )


def write_trials(store: Store, state: ReviewState) -> int:
    """Write the trials of a review that has ended, graded by the reference grader, and return their number.

    Written are those whose questions are all answered and that are not stored yet; of a review in progress none.
    """
    if state.blinded:
        return 0
    written, review = 0, state.review
    for annotator in filter(state.items_for, review.plan.annotators):
        run_id = baseline_run(review, annotator)
        with store.read() as cursor:
            stored = done_trial_ids(cursor, run_id)
        lines = []
        for item, case in baseline_cases(store, review, annotator).items():
            given = (state.newest.get((item, annotator, question)) for question in review.plan.asked_of(annotator))
            answers = [answer for answer in given if answer is not None]
            complete = len(answers) == len(review.plan.asked_of(annotator))
            if complete and trial_id(run_id, case.case_key, 0) not in stored:
                lines.append(_trial(run_id, review, case, answers))
        if lines:
            with JournalWriter(journal_path(run_id, store.journals)) as journal:
                journal.append_all(lines)
            fold(store)
        written += len(lines)
    return written


def _trial(run_id: str, review: Review, case: Case, answers: Sequence[Judgement]) -> TrialLine:
    seed = seed_of(review.plan.seed, case.case_key, 0)
    about: dict[str, Any] = {"trial_id": trial_id(run_id, case.case_key, 0), "case_key": case.case_key, "trial": 0}
    times = [answer.at for answer in answers]
    graded = [asyncio.run(_graded(case, answer.question, answer.value or "")) for answer in answers]  # type: ignore[arg-type]
    events = [Started(**about, seed=seed, at=min(times)), *chain.from_iterable(graded), Finished(at=max(times))]
    return TrialLine(run_id=run_id, **about, seed=seed, events=events, finished_at=max(times))


async def _graded(case: Case, question_type: QuestionType, response: str) -> list[Event]:
    answered = Answered(format="vignette", question_type=question_type, response=response)
    grades = grade_answer(case, ReferenceGrader(), ("vignette", question_type), response, ())
    return [answered, *[event async for event in grades]]
