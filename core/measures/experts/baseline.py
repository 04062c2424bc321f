"""Experts answer vignettes themselves: a run for each of them, stored through the journal and graded as a model's.

A run's doctor is ``human/NAME``, its arms are the vignette's. A trial is written once all its questions are answered;
what is answered up to then is kept as annotations, so that nothing is lost.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from core import __version__
from core.agents.reference.grader import ReferenceGrader
from core.case import Case, case_set_hash
from core.datasets.select import cases_of
from core.errors import UsageError
from core.events import Answered, Event, Finished, QuestionType, Started
from core.frameworks.answering import grade_answer
from core.frameworks.casting import REFERENCE
from core.journal import JournalWriter, RunHeader, TrialLine, seed_of, trial_id
from core.measures.experts.drawing import own_order
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.reviews import Annotation
from core.store.review_records import Candidate, Item, Review, ReviewItem, ReviewPlan
from core.store.runs import done_trial_ids, run_cases

NO_PROMPT = "none"
"""The prompt pack of a run in which nobody was prompted."""


def baseline_pool(plan: ReviewPlan) -> list[Candidate]:
    """Return the vignettes that a plan may draw from; with ``mcq`` only those that have choices."""
    return [
        Candidate(str(Item("case", case_key=case.case_key)), "", case.case_key, case.dataset, case.specialty)
        for case in cases_of(plan.case_set)
        if (not plan.specialties or case.specialty in plan.specialties)
        and (not plan.datasets or case.dataset in plan.datasets)
        and (case.choices or "mcq" not in plan.question_types)
    ]


def baseline_run(review: Review, annotator: str) -> str:
    """Return the id of the run that holds an expert's answers."""
    if annotator not in review.plan.annotators:
        raise UsageError(f"{annotator} has no part in the review {review.name}.")
    return f"human-{review.review_id}-{review.plan.annotators.index(annotator) + 1}"


def begin_baseline(store: Store, review: Review, items: Sequence[ReviewItem]) -> None:
    """Write the header of every expert's run, which holds the cases as they are now."""
    cases = {str(Item("case", case_key=case.case_key)): case for case in cases_of(review.plan.case_set)}
    for annotator in review.plan.annotators:
        mine = [cases[one.item] for one in own_order(items, annotator, review.plan.seed)]
        if mine:
            with JournalWriter(_journal(store, baseline_run(review, annotator))) as journal:
                journal.append(_header(review, annotator, mine))
    fold(store)


def baseline_cases(store: Store, review: Review, annotator: str) -> dict[str, Case]:
    """Return item → case as the expert's run holds it."""
    with store.read() as cursor:
        held = run_cases(cursor, baseline_run(review, annotator))
    return {str(Item("case", case_key=case.case_key)): case for case in held}


def write_trials(store: Store, review: Review, annotator: str, said: Mapping[tuple[str, str, str], Annotation]) -> int:
    """Write the trials that are answered whole and not stored yet, graded by the reference grader; return how many."""
    run_id = baseline_run(review, annotator)
    with store.read() as cursor:
        stored = done_trial_ids(cursor, run_id)
    lines = []
    for item, case in baseline_cases(store, review, annotator).items():
        answers = [said.get((item, annotator, question)) for question in review.plan.question_types]
        if trial_id(run_id, case.case_key, 0) not in stored and all(answers):
            lines.append(_trial(run_id, review, case, [one for one in answers if one is not None]))
    if lines:
        with JournalWriter(_journal(store, run_id)) as journal:
            for line in lines:
                journal.append(line)
        fold(store)
    return len(lines)


def _trial(run_id: str, review: Review, case: Case, answers: Sequence[Annotation]) -> TrialLine:
    trial, seed = trial_id(run_id, case.case_key, 0), seed_of(review.plan.seed, case.case_key, 0)
    first, last = min(one.annotated_at for one in answers), max(one.annotated_at for one in answers)
    events: list[Event] = [Started(trial_id=trial, case_key=case.case_key, trial=0, seed=seed, at=first)]
    for one in answers:
        events += asyncio.run(_graded(case, one.question, one.value or ""))  # type: ignore[arg-type]
    events.append(Finished(at=last))
    return TrialLine(
        run_id=run_id, trial_id=trial, case_key=case.case_key, trial=0, seed=seed, events=events, finished_at=last
    )


async def _graded(case: Case, question_type: QuestionType, response: str) -> list[Event]:
    answered = Answered(format="vignette", question_type=question_type, response=response)
    grades = grade_answer(case, ReferenceGrader(), ("vignette", question_type), response, ())
    return [answered, *[event async for event in grades]]


def _header(review: Review, annotator: str, cases: list[Case]) -> RunHeader:
    plan, run_id = review.plan, baseline_run(review, annotator)
    return RunHeader(
        run_id=run_id,
        fingerprint=hashlib.sha256(run_id.encode()).hexdigest(),
        protocol="craftmd",
        doctor=f"human/{annotator}",
        patient=REFERENCE["patient"],
        grader=ReferenceGrader.name,
        summariser=REFERENCE["summariser"],
        prompt_pack=NO_PROMPT,
        prompt_hash=NO_PROMPT,
        case_set=plan.case_set,
        case_set_hash=case_set_hash(cases),
        arms=[("vignette", question_type) for question_type in plan.question_types],
        trials=1,
        seed=plan.seed,
        settings={"review": review.name},
        code_version=__version__,
        source="local",
        created_at=review.created_at,
        cases=cases,
    )


def _journal(store: Store, run_id: str) -> Path:
    return store.journals / run_id / "journal.jsonl"
