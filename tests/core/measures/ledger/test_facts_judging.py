"""A model judges the facts of conversations through a local server: scope, resume, failures, a lost database."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from core.agents.ledger_models import PatientVerdict
from core.errors import AnamnesisError, UsageError
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.judging import FactsJudging
from core.jobs.progress import Stop
from core.measures.failures import agreement_with_people
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import default_paths
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.fact_judgements import judged_of_trial, judged_patients, judged_sums, judges, topic_sums
from core.store.queries.judgements import add_judgements
from core.store.queries.reviews import add_review, add_unblinding
from core.store.review_records import Review, ReviewItem, Unblinding, planned
from core.store.selection import Selection
from tests.core.store.builders import (
    Ended,
    Finished,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    write_journal,
)
from tests.support.answering import an_answer
from tests.support.fake_provider import running
from tests.support.replies import Script, facts_judged, failing
from tests.support.stores import copy_of

CASES = [a_case(n, vignette="A boy has a nodule on the neck.") for n in (1, 2, 3)]
QUESTION, KNEE = "Do you have a lump on your neck?", "No, but my knee hurts."
FACT = ("lump", "nodule on the neck", "associated symptoms")
WITHHELD = PatientVerdict("withheld", 3, QUESTION, *FACT)
TOLD = PatientVerdict("asked", 3, "Yes, I do", *FACT)
INVENTED = PatientVerdict("invented", 3, "my knee hurts")


def conversation(case: int, reply: str, verdict: str) -> Any:
    texts = ("Hello?", "I am unwell.", QUESTION, reply, "**Final Diagnosis:** Gout")
    stream = [
        *(Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(texts)),
        Ended(reason="final_diagnosis", doctor_turns=2),
        answered(response="Gout"),
        graded(verdict, extracted="Gout"),
        Finished(at=9.0),
    ]
    return a_trial(stream, trial_id=f"run/{case}", case_key=f"ours/{case}")


def wrong_conversations(store: Store) -> None:
    """Write three conversations, of which two end in a wrong answer."""
    conversations = (
        conversation(1, KNEE, "incorrect"),
        conversation(2, "Yes, I do.", "incorrect"),
        conversation(3, KNEE, "correct"),
    )
    write_journal(store.journals, "run", a_header(cases=CASES), *conversations)
    fold(store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(wrong_conversations, tmp_path)


def strict(body: dict[str, Any]) -> str:
    """Answer as a judge: a knee and a rash are invented, the lump is told or withheld. No message has a rash."""
    prompt = str(body["messages"][0]["content"])
    knee = re.search(r"^\[(\d+)\] Patient: .*knee", prompt, re.MULTILINE)
    if knee is None:
        mark = {"mark": "asked", "turn": 3, "words": "Yes, I do"}
        return facts_judged(prompt, {"lump": mark} if "Patient: Yes, I do" in prompt else None)
    turn = int(knee[1])
    mark = {"mark": "withheld", "turn": turn, "words": QUESTION}
    invented = [{"turn": turn, "words": words, "contradicts": None} for words in ("my knee hurts", "rash")]
    return f"Here:\n{facts_judged(prompt, {'lump': mark}, invented)}"


def registry() -> Registry:
    return load_registry(default_paths(), retry=RetryPolicy(attempts=1))


def judged(
    store: Store, script: Script, *, stop: Stop | None = None, concurrency: int = 1, **scope: Any
) -> tuple[AskOutcome, int]:
    with running(script) as provider:
        job = FactsJudging("openai/fake", base_url=provider.base_url, **scope)
        outcome = run_job(job, store, registry(), Options(concurrency), stop)
        return outcome, len(provider.bodies)


def stored_verdicts(store: Store) -> dict[str, tuple[PatientVerdict, ...]]:
    with store.read() as cursor:
        (newest,) = judges(cursor)
        return {trial: patient.verdicts for trial, patient in judged_patients(cursor, newest.judge).items()}


@pytest.mark.slow
def test_wrong_answers_conversations_are_judged_once_with_quotations(store: Store) -> None:
    outcome, calls = judged(store, strict, concurrency=4)
    assert (outcome.done, outcome.counts["found"], outcome.counts["dropped"], outcome.failed, calls) == (2, 1, 1, 0, 2)
    assert stored_verdicts(store) == {"run/1": (WITHHELD, INVENTED), "run/2": (TOLD,)}
    repeated, calls = judged(store, strict)
    assert (repeated.done, repeated.kept, calls) == (0, 2, 0)


@pytest.mark.slow
def test_every_conversation_or_some_by_name_can_be_judged(store: Store) -> None:
    assert judged(store, strict, trials=("run/3",))[0].done == 1
    assert judged(store, strict, all_=True)[0].kept == 1
    assert set(stored_verdicts(store)) == {"run/1", "run/2", "run/3"}


@pytest.mark.slow
def test_sums_by_model_and_the_judgement_of_one_conversation(store: Store) -> None:
    judged(store, strict)
    with store.read() as cursor:
        (stored_judge,) = judges(cursor)
        rows = judged_sums(cursor, stored_judge.judge, Selection()).to_dict("records")
        (judgement,) = judged_of_trial(cursor, "run/1")
        topics = topic_sums(cursor, stored_judge.judge).to_dict("records")
    names = ("whole", "judged", "with_withheld", "with_invented")
    assert [tuple(int(row[name]) for name in names) for row in rows] == [(1, 1, 1, 1), (1, 1, 0, 0), (1, 0, 0, 0)]
    assert (judgement.judge, judgement.of("invented"), judgement.dropped) == ("openai/fake", (INVENTED,), 1)
    assert (judgement.facts, judgement.never_told, judgement.coverage) == ((WITHHELD,), 1, 0.0)
    names = ("case_key", "topic", "facts", "asked", "volunteered", "never_elicited")
    assert [tuple(row[name] for name in names) for row in topics] == [
        ("ours/1", "associated symptoms", 1, 0, 0, 1),
        ("ours/2", "associated symptoms", 1, 1, 0, 0),
    ]


@pytest.mark.slow
def test_a_stopped_job_continues_and_a_failure_is_judged_again(store: Store) -> None:
    stop = Stop()

    def then_stop(body: dict[str, Any]) -> str:
        stop.ask("It was asked to stop.")
        return strict(body)

    outcome, calls = judged(store, then_stop, stop=stop)
    assert (outcome.stopped, calls) == ("It was asked to stop.", 1)
    outcome, calls = judged(store, [failing(500)])
    assert (outcome.done, outcome.failed) == (0, 2 - outcome.kept)
    assert outcome.failure.startswith("server: ")
    outcome, calls = judged(store, ["None."])
    assert "no readable answer in 3 tries" in outcome.failure
    judged(store, strict)
    assert set(stored_verdicts(store)) == {"run/1", "run/2"}


def test_everything_paid_for_survives_a_lost_database(store: Store) -> None:
    judged(store, strict)
    with store.read() as cursor:
        before = cursor.execute("SELECT * FROM fact_judgements ORDER BY trial_id").fetchall()
    store.path.unlink()
    fold(store)
    with store.read() as cursor:
        after = cursor.execute("SELECT * FROM fact_judgements ORDER BY trial_id").fetchall()
    assert len(after) == 2
    assert after == before
    assert judged(store, strict)[0].kept == 2


@pytest.mark.slow
def test_the_estimate_and_what_cannot_be_run(store: Store, tmp_path: Path) -> None:
    size = estimate_job(FactsJudging("openai/fake"), store, registry())
    assert (size.todo, size.counts["judged before"], size.calls) == (2, 0, 2)
    assert size.roles[0].prompt_tokens > 2 * 420
    assert estimate_job(FactsJudging("openai/fake", all_=True), store, registry()).todo == 3
    assert estimate_job(FactsJudging("openai/fake", limit=1), store, registry()).todo == 1
    with pytest.raises(UsageError, match="budget needs prices"):
        run_job(FactsJudging("openai/fake"), store, registry(), Options(1, 1.0))
    with pytest.raises(AnamnesisError, match="nothing to judge"):
        estimate_job(FactsJudging("openai/fake"), Store(tmp_path / "empty.duckdb"), registry())


def test_agreement_of_the_judge_with_people(store: Store) -> None:
    judged(store, strict)
    answers = [
        ("run/1", "in_vignette", "no"),
        ("run/1", "complete_answers", "yes"),
        ("run/2", "in_vignette", "yes"),
        ("run/3", "in_vignette", "no"),
    ]
    with store.write() as connection:
        add_judgements(connection, [an_answer(f"talk:{t}", "Ada", question, v) for t, question, v in answers])
    with store.read() as cursor:
        (stored_judge,) = judges(cursor)
    # on run/1 both see an invention, on run/2 neither; run/3 is not judged. Kappa of full agreement is 1.
    agreement = agreement_with_people(store, stored_judge.judge)
    assert agreement == {"invented": (1, 0, 0, 1), "withheld": (0, 1, 0, 0)}
    assert agreement["invented"].kappa == 1
    review = Review("Open", planned(kind="conversations", number=1, annotators=("Ben",), shared=0))
    with store.write() as connection:
        add_review(connection, review, [ReviewItem("talk:run/2", 1, ("Ben",))])
        of_review = an_answer("talk:run/2", "Ben", "in_vignette", "no", review_id=review.review_id)
        add_judgements(connection, [of_review])
    assert agreement_with_people(store, stored_judge.judge) == agreement  # in progress, so not counted
    with store.write() as connection:
        add_unblinding(connection, review.review_id, Unblinding("Ada", "a test", 1.0))
    assert agreement_with_people(store, stored_judge.judge)["invented"] == (1, 0, 1, 1)
