"""A model judges the facts of conversations through a local server: scope, resume, failures, a lost database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.asking.scene import Turn
from core.case import Fact, Profile
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.judging.form import form_named
from core.judging.request import Material, answers_in, judge_request, judging_pack
from core.measures.failures import agreement_with_people
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import default_paths
from core.store.database import Store
from core.store.fold import fold
from core.store.former_rows import fact_judgements
from core.store.queries.judged_facts import (
    PatientVerdict,
    asked_facts,
    judged_patients,
    judged_sums,
    judges,
    topic_sums,
)
from core.store.queries.judgements import add_judgements, judgement_of
from core.store.queries.reviews import add_review, add_unblinding
from core.store.review_records import Review, ReviewItem, planned
from core.store.selection import Selection
from core.store.tables import UnblindingRow
from core.text.facts import facts_of
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
from tests.support.replies import Reply, Script, facts_judged, failing, prompt_of
from tests.support.stores import copy_of

CASES = [a_case(n, vignette="A boy has a nodule on the neck.") for n in (1, 2, 3)]
QUESTION, KNEE = "Do you have a lump on your neck?", "No, but my knee hurts."
FACT, TOPIC = "nodule on the neck", "associated symptoms"
WITHHELD = PatientVerdict("withheld", 3, QUESTION, "lump", FACT, TOPIC)
TOLD = PatientVerdict("asked", 3, "Yes, I do", "lump", topic=TOPIC)
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
    prompt = prompt_of(body)
    if "my knee hurts" not in prompt:
        told = {"quotations": [{"message": 3, "words": "Yes, I do"}], "answer": "asked"}
        return facts_judged(prompt, {FACT: told} if "Patient: Yes, I do" in prompt else None)
    withheld = {"quotations": [{"message": 2, "words": QUESTION}], "answer": "withheld"}
    invented = [{"message": 3, "words": words} for words in ("my knee hurts", "rash")]
    return f"Here:\n{facts_judged(prompt, {FACT: withheld}, invented)}"


def registry() -> Registry:
    return load_registry(default_paths(), retry=RetryPolicy(attempts=1))


def judged(store: Store, script: Script, *, concurrency: int = 1, **scope: Any) -> tuple[AskOutcome, int]:
    with running(script) as provider:
        job = Judging("facts", ("openai/fake",), base_url=provider.base_url, **scope)
        outcome = run_job(job, store, registry(), Options(concurrency))
        return outcome, len(provider.bodies)


def stored_verdicts(store: Store) -> dict[str, tuple[PatientVerdict, ...]]:
    with store.read() as cursor:
        (newest,) = judges(cursor)
        return {patient.trial_id: patient.verdicts for patient in judged_patients(cursor, newest.judge)}


@pytest.mark.slow
def test_wrong_answers_conversations_are_judged_once_with_quotations(store: Store) -> None:
    outcome, calls = judged(store, strict, wrong=True, concurrency=4)
    assert (outcome.done, outcome.counts["void"], outcome.counts["dropped"], outcome.failed, calls) == (2, 0, 1, 0, 2)
    assert stored_verdicts(store) == {"run/1": (WITHHELD, INVENTED), "run/2": (TOLD,)}
    repeated, calls = judged(store, strict, wrong=True)
    assert (repeated.done, repeated.kept, calls) == (0, 2, 0)


@pytest.mark.slow
def test_every_conversation_or_some_by_name_can_be_judged(store: Store) -> None:
    assert judged(store, strict, trials=("run/3",))[0].done == 1
    assert judged(store, strict)[0].kept == 1
    assert set(stored_verdicts(store)) == {"run/1", "run/2", "run/3"}


@pytest.mark.slow
def test_sums_by_model_and_the_judgement_of_one_conversation(store: Store) -> None:
    judged(store, strict, wrong=True)
    with store.read() as cursor:
        (stored_judge,) = judges(cursor)
        rows = judged_sums(cursor, stored_judge.judge, Selection()).to_dict("records")
        (judgement,) = judged_patients(cursor, selection=Selection(trials=["run/1"]))
        topics = topic_sums(cursor, stored_judge.judge).to_dict("records")
    names = ("whole", "judged", "with_withheld", "with_invented")
    assert [tuple(int(row[name]) for name in names) for row in rows] == [(1, 1, 1, 1), (1, 1, 0, 0), (1, 0, 0, 0)]
    assert (judgement.judge.name, judgement.of("invented"), judgement.dropped) == ("openai/fake", (INVENTED,), 1)
    assert (judgement.facts, judgement.never_told, judgement.coverage) == ((WITHHELD,), 1, 0.0)
    names = ("case_key", "topic", "facts", "asked", "volunteered", "never_elicited")
    assert [tuple(row[name] for name in names) for row in topics] == [
        ("ours/1", "associated symptoms", 1, 0, 0, 1),
        ("ours/2", "associated symptoms", 1, 1, 0, 0),
    ]


def test_90_facts_are_judged_in_three_requests_each_paid_once(tmp_path: Path) -> None:
    facts = tuple(Fact(key=f"finding {n}", value=f"finding number {n}", lay=f"finding {n}") for n in range(90))
    case = a_case(1, profile=Profile(basic=facts))
    store = Store(tmp_path / "many.duckdb")
    write_journal(store.journals, "run", a_header(cases=[case]), conversation(1, KNEE, "incorrect"))
    fold(store)
    asked: list[int] = []

    def second_fails(body: dict[str, Any]) -> Reply | str:
        asked.append(prompt_of(body).count("What became of this fact"))
        return failing(500) if len(asked) == 2 else facts_judged(prompt_of(body))

    outcome, calls = judged(store, second_fails)
    assert (outcome.done, outcome.failed, calls, asked) == (2, 1, 3, [40, 40, 10])
    assert stored_verdicts(store) == {}  # a conversation with facts that are not judged is not judged
    outcome, calls = judged(store, second_fails)
    assert (outcome.done, outcome.kept, calls, asked[3:]) == (1, 2, 1, [40])
    assert [verdict.kind for verdict in stored_verdicts(store)["run/1"]] == ["never_asked"] * 90
    assert judged(store, second_fails)[1] == 0


def test_agreement_of_the_judge_with_people(store: Store) -> None:
    judged(store, strict, wrong=True)
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
    plan = planned(kind="conversations", number=1, annotators=("Ben",), shared=0)
    review = Review("Open", plan, (ReviewItem("talk:run/2", 1, ("Ben",)),))
    with store.write() as connection:
        add_review(connection, review)
        of_review = an_answer("talk:run/2", "Ben", "in_vignette", "no", review_id=review.review_id)
        add_judgements(connection, [of_review])
    assert agreement_with_people(store, stored_judge.judge) == agreement  # in progress, so not counted
    with store.write() as connection:
        add_unblinding(connection, UnblindingRow(review.review_id, "Ada", "a test", 1.0))
    assert agreement_with_people(store, stored_judge.judge)["invented"] == (1, 0, 1, 1)


CASE = a_case(1, vignette="A boy has a nodule on the neck.")
FORM = form_named("facts").about_facts(asked_facts(facts_of(CASE)), "hash")
SPOKEN = (
    Turn("doctor", "Any symptoms today?", scripted=True),
    Turn("patient", "My throat is sore.", scripted=True),
    Turn("doctor", QUESTION),
    Turn("patient", KNEE),
)


def test_the_form_asks_about_each_fact_that_a_patient_can_tell() -> None:
    assert [question.id for question in FORM.questions] == ["associated-symptoms:lump", "invented"]
    assert {question.hash for question in FORM.questions} == {"hash"}
    parts = judge_request(judging_pack(), FORM, FORM.questions, Material(SPOKEN, case=CASE)).messages
    prompt = "\n".join(str(getattr(part, "content", part)) for part in parts)
    assert CASE.vignette in prompt
    assert f"fact: {FACT}\n" in prompt
    assert CASE.answer not in prompt
    changed = FORM.model_copy(update={"instruction": "Judge."})
    assert len({form_named("facts").hash, changed.hash}) == 2


def test_each_mark_is_quoted_from_the_speaker_whose_words_show_it() -> None:
    # mark, quotations → void, the message of the first quotation; or words of the error
    rows: list[tuple[str, list[tuple[int, str]], object]] = [
        ("asked", [(3, "my knee hurts")], (False, 3)),
        ("volunteered", [(3, "my knee hurts")], (False, 3)),
        ("asked", [(1, "My throat is sore.")], (False, 1)),  # the scripted opening tells the complaint
        ("asked", [(2, QUESTION)], (True, 2)),  # of the doctor
        ("asked", [(3, "my back hurts")], (True, 3)),  # in no message
        ("asked", [], "without a quotation"),
        ("withheld", [(2, QUESTION)], (False, 2)),
        ("withheld", [(3, KNEE), (2, QUESTION)], (False, 2)),  # the evidence comes first
        ("withheld", [(3, KNEE)], (True, 3)),  # of the patient
        ("withheld", [(0, "Any symptoms today?")], (True, 0)),  # the greeting asks for no fact
        ("withheld", [], "without a quotation"),
        ("never_asked", [], (False, None)),
        ("perhaps", [], "never_asked"),
    ]
    wrong = []
    for mark, quoted, right in rows:
        quotations = [{"message": message, "words": words} for message, words in quoted]
        reply = {"q1": {"quotations": quotations, "reason": "So.", "answer": mark}, "q2": {"quotations": []}}
        try:
            answer = answers_in(json.dumps(reply), FORM, FORM.questions, Material(SPOKEN))[0]
            got: object = (answer.void, answer.quotations[0].message if answer.quotations else None)
        except ValueError as error:
            got = right if isinstance(right, str) and right in str(error) else str(error)
        if got != right:
            wrong.append((mark, quoted, right, got))
    assert not wrong


def test_an_invention_is_the_patients_and_no_scripted_message() -> None:
    places = [(3, "my knee hurts"), (2, QUESTION), (1, "My throat is sore."), (3, "a rash on the legs")]
    quotations = [{"message": message, "words": words} for message, words in places]
    never = {"quotations": [], "reason": "So.", "answer": "never_asked"}
    reply = json.dumps({"q1": never, "q2": {"quotations": quotations}})
    answer = answers_in(reply, FORM, FORM.questions, Material(SPOKEN))[1]
    assert (answer.value, answer.dropped, answer.quotations[0].words) == ("1", 3, "my knee hurts")


def test_rows_of_version_0_5_are_read_as_judgements() -> None:
    verdicts = [
        {"kind": "withheld", "turn": 3, "words": QUESTION, "fact": "lump", "fact_text": FACT, "topic": TOPIC},
        {"kind": "never_asked", "turn": None, "words": "", "fact": "age", "fact_text": "", "topic": "demographics"},
        {"kind": "withheld", "turn": 3, "words": QUESTION, "fact": "cough", "fact_text": "a cough"},  # without a topic
        {"kind": "invented", "turn": 3, "words": "my knee hurts", "fact": None, "fact_text": FACT},
    ]
    row = {
        "trial_id": "run/1", "facts_hash": "h", "model": "m", "prompt_hash": "p", "dropped": 1, "failure": "",
        "calls": '["c"]', "tokens": 5, "cost_usd": None, "judged_at": 2.0, "verdicts": json.dumps(verdicts),
    }  # fmt: skip
    rows = [judgement_of(new) for new in fact_judgements(row)]
    assert [(j.question, j.value, [(q.message, q.words, q.state, q.comment) for q in j.quotations]) for j in rows] == [
        ("associated-symptoms:lump", "withheld", [(2, QUESTION, "verified", "")]),
        ("demographics:age", "never_asked", []),
        ("cough", "withheld", [(2, QUESTION, "verified", "")]),
        ("invented", "1", [(3, "my knee hurts", "verified", FACT), (-1, "", "unverified", "")]),
    ]
    assert {(j.subject, j.form, j.against, j.calls, j.at, j.judge.name) for j in rows} == {
        ("talk:run/1", "facts", "h", ("c",), 2.0, "m")
    }
    (failed,) = fact_judgements({**row, "verdicts": None, "failure": "server: down"})
    assert (failed["question"], failed["value"], failed["failure"]) == ("invented", None, "server: down")
