"""Stored conversations for the tests of reviews: two models on the same cases, graded, with names that are secret."""

from __future__ import annotations

from core.reviews.reviewing import plan_review
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.store.review_records import Review, ReviewPlan, planned
from tests.core.store.builders import (
    Ended,
    Finished,
    Started,
    Utterance,
    Verdict,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    write_journal,
)
from tests.support.answering import an_answer

MODELS = ("openai/secret-one", "openai/secret-two")
SPECIALTIES = ("Dermatology", "Cardiology")
FIVE: tuple[str, ...] = (
    "single_diagnosis", "complete_history", "medical_terms", "in_vignette", "complete_answers"
)  # fmt: skip


def store_conversations(
    store: Store, cases: int = 6, verdicts: tuple[Verdict, Verdict] = ("correct", "incorrect")
) -> Store:
    """One conversation of each model on each case; the grader calls the first model right, the second wrong."""
    played = [
        a_case(n, profile=None, specialty=SPECIALTIES[n % 2], vignette=f"A man with an itch, number {n}.")
        for n in range(cases)
    ]
    for number, model in enumerate(MODELS):
        run = f"run{number}"
        lines = []
        for case in played:
            trial = f"t{number}{case.case_key.rpartition('/')[2]}"
            events = [
                Started(trial_id=trial, case_key=case.case_key, trial=0, seed=1, at=1.0),
                Utterance(turn=0, role="doctor", text="What brings you in?"),
                Utterance(turn=1, role="patient", text=f"I itch since day {case.case_key[-1]}."),
                Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema, says secret-one of OpenAI"),
                Ended(reason="final_diagnosis", doctor_turns=1),
                answered(response=f"Eczema {number}"),
                graded(verdicts[number]),
                Finished(at=9.0),
            ]
            lines.append(a_trial(events, trial_id=trial, run_id=run, case_key=case.case_key))
        header = a_header(run, played, doctor=model, trials=1, arms=[("multi_turn", "frq")])
        write_journal(store.journals, run, header, *lines)
    fold(store)
    return store


def a_plan(**changes: object) -> ReviewPlan:
    return planned(**{"kind": "conversations", "number": 6, "annotators": ("Ada", "Ben"), **changes})


def a_review(store: Store, name: str = "First", **changes: object) -> Review:
    return plan_review(store, name, a_plan(**changes))


def answer_all(
    store: Store, review: Review, annotator: str, value: str = "yes", but: dict[int, str] | None = None
) -> None:
    """Answer everything an annotator is asked alike, but for the items in ``but`` by number; all at once."""
    state = state_of(store, review.review_id)
    answers = [
        an_answer(item.item, annotator, question, (but or {}).get(item.number, value), review_id=review.review_id)
        for item in state.items_for(annotator)
        for question in state.review.plan.questions
        if question in FIVE or question == "equivalent"
    ]
    with store.write() as connection:
        add_judgements(connection, answers)
