"""Continuations of stored conversations: independent, never counted, and with the variance of who caused it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.errors import UsageError
from core.frameworks.base import Arm
from core.frameworks.casting import REFERENCE, CastNames
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.continuations import Continuations
from core.jobs.engine import Options
from core.jobs.replicates import Replicates
from core.journal import RunHeader
from core.measures.accuracy import accuracy
from core.measures.base import MetricRequest, Row
from core.measures.noise import read_noise, report_noise
from core.measures.notes import result_of
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from tests.core.frameworks import test_automedic_wire as automedic
from tests.core.frameworks import test_consultation_wire as consultation
from tests.core.frameworks.stage import CASE
from tests.core.jobs.workshop import begun, go, plan, registry
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

TALK: tuple[Arm, ...] = (("multi_turn", "mcq"),)


class Talkers:
    """A doctor who asks two questions and then concludes, and a patient; one of them is random, the other is not.

    The answer is right if the last telling word was the right one. A random doctor chooses between two words in each
    question, a random patient in each reply; what the other speaker says is always the same.
    """

    def __init__(self, random_speaker: str, questions: int = 2) -> None:
        self.random_speaker, self.questions = random_speaker, questions
        self.random = random.Random(5)
        self.broken = ""

    def word(self, speaker: str) -> str:
        if speaker != self.random_speaker:
            return "nothing"
        return "red" if self.random.random() < 0.5 else "blue"

    def __call__(self, body: dict[str, Any]) -> Reply | str:
        messages = [str(message["content"]) for message in body["messages"]]
        if body["model"] == self.broken:
            return failing(500)
        if body["model"] == "patient":
            return f"I see {self.word('patient')}."
        if "Cellulitis" in messages[-1]:  # the question with its choices
            words = [word for message in messages for word in message.replace(".", " ").split()]
            telling = [word for word in words if word in ("red", "blue")]
            return "A. Gout" if telling[-1:] == ["red"] else "C. Bunion"
        asked = sum(message.startswith("Do you see") for message in messages)
        if asked >= self.questions:
            return "**Final Diagnosis:** Gout"
        return f"Do you see {self.word('doctor')} ?"


def a_run(provider: FakeProvider, cases: int = 6, trials: int = 1, patient: str = "openai/patient") -> RunHeader:
    names = beside_rules("openai/doctor", patient=patient)
    header = begun(plan(cases, names=names, arms=TALK, trials=trials, base_url=provider.base_url))
    assert go(header).stopped is None
    fold(Store())
    return header


def continued(header: RunHeader, **changes: Any) -> AskOutcome:
    return run_job(Continuations((header.run_id,), **changes), Store(), registry(), Options(concurrency=1))


def stored() -> list[tuple[Any, ...]]:
    with Store().read() as cursor:
        sql = """
            SELECT DISTINCT trial_id, turn, speaker, again, number, verdict, dialogue FROM continuations ORDER BY ALL"""
        return cursor.execute(sql).fetchall()


def rows() -> dict[str, Row]:
    return {str(row.label["source"]): row for row in result_of(report_noise, MetricRequest(Store())).figures}


@pytest.mark.parametrize(("speaker", "questions"), [("doctor", 1), ("patient", 0)])
def test_the_speaker_who_is_random_causes_the_variance(
    fake_provider_thread: FakeProvider, speaker: str, questions: int
) -> None:
    fake_provider_thread.script = Talkers(speaker, questions)
    header = a_run(fake_provider_thread, 24, trials=2)
    before = [(row.estimate, row.n) for row in accuracy(Store())]
    outcome = continued(header, limit=24)
    assert (outcome.done, outcome.failed, outcome.stopped) == (24 * 2 * 4, 0, None)
    assert [(row.estimate, row.n) for row in accuracy(Store())] == before, "a verdict that counts has changed"
    other = "patient" if speaker == "doctor" else "doctor"
    part, nothing = rows()[f"{speaker}'s messages"], rows()[f"{other}'s messages"]
    # the last of the words, red or blue with equal chances, decides: the variance of the score is 1/4
    assert part.estimate == pytest.approx(0.25, abs=0.12)
    assert nothing.estimate == pytest.approx(0.0, abs=0.12)
    assert part.low is not None
    assert nothing.low == 0.0
    assert part.low > 0


def test_the_parts_add_up_to_the_variance_of_conversations(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Talkers("patient", questions=0)
    header = a_run(fake_provider_thread, 12, trials=2)
    run_job(Replicates((header.run_id,), gradings=1), Store(), registry(), Options(concurrency=1))
    continued(header, limit=12)
    by_source = rows()
    parts = [by_source[f"{speaker}'s messages"] for speaker in ("doctor", "patient")]
    whole = by_source["conversations"]
    assert sum(part.estimate for part in parts if part.estimate) == pytest.approx(whole.estimate)
    assert sum(part["share"] for part in parts) == pytest.approx(whole["share"]), "parts below 0 count as 0"
    assert by_source["answers"].estimate == pytest.approx(0.0), "the answer to a dialogue is always the same"


def test_a_continuation_begins_with_the_stored_messages(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Talkers("patient")
    header = a_run(fake_provider_thread, 3)
    fake_provider_thread.requests.clear()
    continued(header, messages=5, continuations=1)
    # greeting, patient, question, patient, question, patient, diagnosis: the greeting is nobody's choice
    turns = {(turn, speaker) for _, turn, speaker, *_ in stored()}
    assert turns == {(1, "patient"), (2, "doctor"), (3, "patient"), (4, "doctor"), (5, "patient"), (6, "doctor")}
    for _, turn, _, again, _, _, dialogue in stored():
        assert dialogue.count('["') == 7 - turn - (not again), "the stored messages are repeated, the others are new"
    seeds = [body["seed"] for body in fake_provider_thread.bodies]
    assert len(set(seeds)) == 3 * 6 * 2, "each continuation has a seed of its own"


def test_messages_of_rules_are_not_drawn(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Talkers("doctor")
    header = a_run(fake_provider_thread, 4, trials=2, patient=REFERENCE["patient"])
    run_job(Replicates((header.run_id,), gradings=1), Store(), registry(), Options(concurrency=1))
    continued(header, continuations=1)
    assert {speaker for _, _, speaker, *_ in stored()} == {"doctor"}
    (arm,) = read_noise(Store(), Selection()).values()
    assert [part.speaker for part in arm.speakers] == ["doctor"]
    assert not arm.adds_up, "the patient's rule may cause the rest"
    with Store().read() as cursor:
        counts = cursor.execute("SELECT (SELECT count(*) FROM trials), (SELECT count(*) FROM forks)").fetchone()
    assert counts == (8, 0), "a continuation is neither a conversation nor a branch"


@pytest.mark.parametrize(
    ("protocol", "script", "speakers"),
    [
        ("consultation", consultation.acting(), ["patient", "doctor", "patient", "doctor", "patient", "doctor"]),
        (
            "automedic",
            automedic.acting(automedic.COMPLAINT, automedic.PULSE, "</end>"),
            ["doctor", "patient", "doctor", "staff", "doctor"],
        ),
    ],
)
def test_each_framework_goes_on_from_any_message(
    fake_provider_thread: FakeProvider, protocol: str, script: Any, speakers: list[str]
) -> None:
    fake_provider_thread.script = script
    third = {"consultation": "solver", "automedic": "staff"}[protocol]
    names = CastNames("openai/doctor", "openai/patient", REFERENCE["grader"], **{third: f"openai/{third}"})
    campaign = plan(base_url=fake_provider_thread.base_url, names=names, arms=TALK, protocol=protocol)
    header = begun(replace(campaign, cases=(CASE,), case_set="stage"))
    assert go(header).stopped is None
    outcome = continued(header, messages=9, continuations=1)
    assert outcome.failed == 0
    by_message = {(turn, again): (speaker, dialogue) for _, turn, speaker, again, _, _, dialogue in stored()}
    # Consultation's patient opens with a fixed message
    own = range(1 if protocol == "consultation" else 0, len(speakers))
    assert set(by_message) == {(turn, again) for turn in own for again in (False, True)}
    for (turn, again), (speaker, dialogue) in by_message.items():
        assert speaker == speakers[turn]
        assert [role for role, _ in orjson.loads(dialogue)] == speakers[turn + (not again) :]


def test_continuations_resume_and_extend(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = script = Talkers("patient")
    header = a_run(fake_provider_thread, 2)
    script.broken = "patient"
    failed = continued(header, continuations=1)
    assert failed.failed > 0
    asked = len(stored())
    script.broken = ""
    again = continued(header, continuations=1)
    assert (again.done, again.kept) == (8 - asked, asked)
    first = stored()
    assert len(first) == 8
    fake_provider_thread.requests.clear()
    assert continued(header, continuations=1).kept == 8
    assert fake_provider_thread.requests == []
    continued(header, messages=2, continuations=2)
    assert set(first) < set(stored()), "more continuations are added to those that are stored"
    assert len(stored()) == 8 * 4


def test_the_estimate_counts_what_is_asked(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Talkers("doctor")
    header = a_run(fake_provider_thread, 2)
    fake_provider_thread.requests.clear()
    job = Continuations((header.run_id,), messages=5)
    size = estimate_job(job, Store(), registry())
    assert size.counts["drawn messages"] == 12
    run_job(job, Store(), registry(), Options(concurrency=1))
    models = [body["model"] for body in fake_provider_thread.bodies]
    # all conversations are equally long
    expected = {role.role: role.calls for role in size.roles}
    assert expected["patient"] == pytest.approx(models.count("patient"), rel=0.02)
    assert expected["doctor"] == pytest.approx(models.count("doctor"), rel=0.02)


def test_nothing_to_continue_is_refused(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Talkers("doctor")
    header = a_run(fake_provider_thread, 1)
    with pytest.raises(UsageError):
        continued(header, messages=0)
    with pytest.raises(UsageError):
        run_job(Continuations(()), Store(), registry())


def test_continuations_survive_the_loss_of_the_database(fake_provider_thread: FakeProvider, db: Path) -> None:
    fake_provider_thread.script = Talkers("doctor")
    continued(a_run(fake_provider_thread), continuations=1)
    before = stored()
    db.unlink()
    fold(Store())
    assert before
    assert stored() == before
