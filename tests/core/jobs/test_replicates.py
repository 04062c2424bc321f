"""Replicates of answers and gradings: independent, never counted, and of the variance that caused them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from core.frameworks.base import Arm
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.replicates import Replicates
from core.journal import RunHeader
from core.measures.accuracy import accuracy
from core.measures.base import MetricRequest, Row
from core.measures.noise import report_noise
from core.measures.notes import result_of
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.workshop import begun, go, plan, registry
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

FREE_TALK: tuple[Arm, ...] = (("multi_turn", "frq"),)
RIGHT, FLIPPED = 0.6, 0.2
"""Chances that the doctor's answer is right, and that the grader's verdict on it is not."""


class NoisyProvider:
    """A doctor that concludes at once and answers at random, and a grader that errs at random."""

    def __init__(self, right: float = RIGHT, flipped: float = FLIPPED) -> None:
        self.right, self.flipped = right, flipped
        self.random = random.Random(3)
        self.broken = False

    def __call__(self, body: dict[str, Any]) -> Reply | str:
        prompt = str(body["messages"][-1]["content"])
        if body["model"] == "grader":
            if self.broken:
                return failing(500)
            if "doctor wrote" in prompt:
                return "Bunion" if "Bunion" in prompt else "Gout"
            says_yes = ("Bunion" not in prompt) != (self.random.random() < self.flipped)
            return "Yes" if says_yes else "No"
        if "Bunion or" in prompt or "diagnosis" in prompt.lower():
            return "Gout" if self.random.random() < self.right else "Bunion"
        return "**Final Diagnosis:** Gout"


@pytest.fixture
def noisy(fake_provider_thread: FakeProvider) -> NoisyProvider:
    fake_provider_thread.script = script = NoisyProvider()
    return script


def a_run(provider: FakeProvider, cases: int = 6, arms: tuple[Arm, ...] = FREE_TALK, trials: int = 1) -> RunHeader:
    names = beside_rules("openai/doctor", grader="openai/grader")
    header = begun(plan(cases, names=names, arms=arms, trials=trials, base_url=provider.base_url))
    assert go(header).stopped is None
    fold(Store())
    return header


def replicate(header: RunHeader, **changes: Any) -> AskOutcome:
    return run_job(Replicates((header.run_id,), **changes), Store(), registry(), Options(concurrency=1))


def stored() -> list[tuple[int, int, int]]:
    """Answer number, grading number, rows."""
    with Store().read() as cursor:
        sql = "SELECT answer, grading, count(*) FROM replicates GROUP BY ALL ORDER BY ALL"
        return cursor.execute(sql).fetchall()


def components() -> dict[str, Row]:
    rows = result_of(report_noise, MetricRequest(Store())).figures
    return {str(row.label["source"]): row for row in rows}


def bounds(row: Row) -> tuple[float, float]:
    assert row.low is not None
    assert row.high is not None
    return row.low, row.high


def test_a_grader_and_a_doctor_of_known_noise_give_their_variance(
    fake_provider_thread: FakeProvider, noisy: NoisyProvider
) -> None:
    header = a_run(fake_provider_thread, 30)
    before = [(row.estimate, row.n) for row in accuracy(Store())]
    outcome = replicate(header, answers=1, gradings=2)
    assert (outcome.done, outcome.failed, outcome.stopped) == (60, 0, None)
    assert (outcome.counts["answers"], outcome.counts["gradings"]) == (30, 120)
    assert stored() == [(0, 1, 30), (0, 2, 30), (1, 0, 30), (1, 1, 30)]
    assert [(row.estimate, row.n) for row in accuracy(Store())] == before, "a verdict that counts has changed"
    rows = components()
    of_gradings = FLIPPED * (1 - FLIPPED)
    of_answers = (1 - 2 * FLIPPED) ** 2 * RIGHT * (1 - RIGHT)
    for source, truth in (("gradings", of_gradings), ("answers", of_answers), ("cases + conversations", 0.0)):
        row = rows[source]
        assert bounds(row)[0] <= truth <= bounds(row)[1], (source, row)
    assert rows["gradings"].estimate == pytest.approx(of_gradings, abs=0.05)


def test_answers_of_a_provider_that_honours_seeds_vary(
    fake_provider_thread: FakeProvider, noisy: NoisyProvider
) -> None:
    def by_seed(body: dict[str, Any]) -> Reply | str:
        if body["model"] == "doctor":
            noisy.random.seed(body["seed"])
        return noisy(body)

    fake_provider_thread.script = by_seed
    noisy.flipped = 0.0
    header = a_run(fake_provider_thread, 12)
    replicate(header, answers=3, gradings=1)
    seeds = {body["seed"] for body in fake_provider_thread.bodies if body["model"] == "doctor"}
    assert len(seeds) == 12 * 4, "a trial and each of its three replicates have a seed of their own"
    (row,) = (row for source, row in components().items() if source.startswith("answers"))
    assert row.estimate == pytest.approx(RIGHT * (1 - RIGHT), abs=0.12)


def test_a_grader_without_noise_has_none(fake_provider_thread: FakeProvider, noisy: NoisyProvider) -> None:
    noisy.flipped = 0.0
    replicate(a_run(fake_provider_thread, 12), answers=0, gradings=2)
    row = components()["gradings"]
    assert (row.estimate, row.low) == (0.0, 0.0)
    assert 0 < bounds(row)[1] < 0.15


def test_replicates_resume_and_extend(fake_provider_thread: FakeProvider, noisy: NoisyProvider) -> None:
    header = a_run(fake_provider_thread)
    replicate(header, answers=1, gradings=1)
    assert stored() == [(0, 1, 6), (1, 0, 6)]
    fake_provider_thread.requests.clear()
    again = replicate(header, answers=1, gradings=1)
    assert (again.done, again.kept, fake_provider_thread.requests) == (0, 12, [])
    replicate(header, answers=1, gradings=2)
    assert stored() == [(0, 1, 6), (0, 2, 6), (1, 0, 6), (1, 1, 6)]
    assert {body["model"] for body in fake_provider_thread.bodies} == {"grader"}, "a stored answer was asked for again"


def test_a_failed_grading_has_no_verdict_and_is_asked_for_again(
    fake_provider_thread: FakeProvider, noisy: NoisyProvider
) -> None:
    header = a_run(fake_provider_thread)
    noisy.broken = True
    failed = replicate(header, answers=1, gradings=1)
    assert (failed.done, failed.failed, stored()) == (0, 12, [])
    noisy.broken = False
    asked = sum(body["model"] == "doctor" for body in fake_provider_thread.bodies)
    assert replicate(header, answers=1, gradings=1).failed == 0
    assert stored() == [(0, 1, 6), (1, 0, 6)]
    doctors = sum(body["model"] == "doctor" for body in fake_provider_thread.bodies)
    assert doctors == asked, "a paid answer was asked for again"


def test_choices_have_no_gradings_and_vignettes_no_conversations(
    fake_provider_thread: FakeProvider, noisy: NoisyProvider
) -> None:
    header = a_run(fake_provider_thread, arms=(("vignette", "mcq"), ("vignette", "frq")), trials=2)
    replicate(header, answers=1, gradings=2)
    rows = result_of(report_noise, MetricRequest(Store())).figures
    by_type = {q: [row.label["source"] for row in rows if row.label["question_type"] == q] for q in ("mcq", "frq")}
    assert by_type == {"mcq": ["cases", "answers"], "frq": ["cases", "answers", "gradings"]}


def test_the_estimate_counts_what_is_asked(fake_provider_thread: FakeProvider, noisy: NoisyProvider) -> None:
    header = a_run(fake_provider_thread)
    fake_provider_thread.requests.clear()
    job = Replicates((header.run_id,), answers=2, gradings=2)
    size = estimate_job(job, Store(), registry())
    assert {role.role: role.calls for role in size.roles} == {"doctor": 12, "grader": 2 * (6 + 12) * 2}
    outcome = run_job(job, Store(), registry(), Options(concurrency=1))
    assert outcome.calls == size.calls == len(fake_provider_thread.requests)


def test_options_that_make_no_replicate_are_refused(fake_provider_thread: FakeProvider, noisy: NoisyProvider) -> None:
    header = a_run(fake_provider_thread, 1)
    with pytest.raises(UsageError):
        replicate(header, answers=-1)
    with pytest.raises(UsageError):
        run_job(Replicates(()), Store(), registry())


def test_replicates_survive_the_loss_of_the_database(
    fake_provider_thread: FakeProvider, noisy: NoisyProvider, db: Path
) -> None:
    replicate(a_run(fake_provider_thread), answers=1, gradings=1)
    rows = stored()
    db.unlink()
    fold(Store())
    assert stored() == rows
