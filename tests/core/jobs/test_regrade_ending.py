"""How a re-grading ends: broken providers, stops, budgets, lost journals; and as a job behind a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import AnamnesisError, UsageError
from core.jobs.ask_job import begin_job, estimate_job, job_of, run_job
from core.jobs.engine import GIVE_UP, Options
from core.jobs.progress import Stop, ask_to_stop, is_running, running
from core.jobs.regrade import Regrading
from core.journal import RunHeader, journal_path
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.regrading import ANSWERS, Judges, a_run, again, grades, means
from tests.core.jobs.workshop import begun, go, plan, raw_trials, registry
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing


def test_a_refused_key_ends_the_job_and_keeps_every_verdict(graded: RunHeader, provider: FakeProvider) -> None:
    before = grades()
    with pytest.raises(AnamnesisError, match=r"the provider did not accept the key \(HTTP 401\)[^\n]*\.$"):
        again(graded, provider, "openai/broken")
    fold(Store())
    assert grades() == before
    assert means()["frq"] == 0.0
    assert len(provider.requests) <= 4


def test_a_failing_grader_removes_no_verdict(graded: RunHeader, provider: FakeProvider, judges: Judges) -> None:
    again(graded, provider, "openai/kind")
    before = grades()
    judges.broken = failing(500)
    outcome = again(graded, provider, "openai/broken", types=("frq",))
    assert (outcome.done, outcome.counts["changed"], outcome.failed) == (0, 0, 4)
    assert "500" in outcome.failure
    assert grades() == before
    assert means()["frq"] == 1.0
    judges.broken = Reply("No")
    assert again(graded, provider, "openai/broken", types=("frq",)).done == 4  # the request is repeated


@pytest.mark.slow
def test_a_provider_that_is_down_is_given_up(provider: FakeProvider, judges: Judges) -> None:
    header = a_run(provider, trials=8, arms=(("vignette", "frq"),))
    judges.broken = failing(500)
    outcome = again(header, provider, "openai/broken", again=True, concurrency=1)
    assert outcome.stopped is not None
    assert outcome.stopped.startswith(f"The provider failed {GIVE_UP} times in a row (")
    assert (outcome.done, outcome.failed) == (0, GIVE_UP)


@pytest.mark.slow
def test_a_run_without_free_responses_has_nothing_to_grade(provider: FakeProvider, graded: RunHeader) -> None:
    header = begun(plan(2, base_url=provider.base_url))
    go(header)
    with pytest.raises(AnamnesisError, match=f"Run {header.run_id} has no free response to grade"):
        again(header, provider, "reference/names")
    job = Regrading((header.run_id, graded.run_id), "reference/names")
    assert run_job(job, Store(), registry()).done == ANSWERS


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"types": ("mcq_answers",)}, "Graders judge mcq, mcq_many, frq, frq_top3, not mcq_answers"),
    ({"limit": 0}, "--limit must be at least 1"),
    ({"prompts": "nothing"}, "There are no prompts 'nothing'"),
    (
        {"budget_usd": 1.0, "base_url": "https://a.example.org/v1"},
        "A budget needs prices, and none is known for openai/kind",
    ),
]


def test_impossible_regradings_are_refused_before_any_request(graded: RunHeader, provider: FakeProvider) -> None:
    for changes, words in IMPOSSIBLE:
        with pytest.raises(UsageError, match=words):
            again(graded, provider, "openai/kind", **changes)
    with running(graded.run_id), pytest.raises(AnamnesisError, match="is already running"):
        again(graded, provider, "openai/kind")
    path = journal_path(graded.run_id)
    path.unlink()
    with pytest.raises(UsageError, match=f"The journal of run {graded.run_id} is gone"):
        again(graded, provider, "openai/kind")
    assert not path.exists(), "the journal is not created again"
    assert provider.requests == []


def test_a_stopped_regrading_resumes(provider: FakeProvider, judges: Judges) -> None:
    header = a_run(provider, trials=5, arms=(("vignette", "frq"),))
    stop = Stop()

    def show(progress: Any) -> None:
        if progress.done >= 3:
            stop.ask("It was interrupted.")

    judges.delay_s = 0.05
    job = Regrading((header.run_id,), "openai/kind", base_url=provider.base_url, again=True)
    first = run_job(job, Store(), registry(), Options(1, None, show), stop=stop)
    assert first.stopped == "It was interrupted."
    assert 3 <= first.done < 20
    second = again(header, provider, "openai/kind")
    assert (second.kept, second.done) == (first.done, 20 - first.done)
    assert second.calls == 0  # equal answers were judged in the first part
    assert not is_running(header.run_id)


def test_a_budget_ends_the_job_and_keeps_paid_verdicts(provider: FakeProvider, tmp_path: Path) -> None:
    """A call of 11 + 7 tokens costs $0.018: of eight answers with two calls each, two fit into $0.06."""
    header = a_run(provider, trials=2, arms=(("vignette", "frq"),))
    prices = tmp_path / "models.toml"
    prices.write_text('[models."openai/kind"]\nprices = { input = 1000.0, output = 1000.0 }\n')
    outcome = again(header, provider, "openai/kind", prices, again=True, budget_usd=0.06, concurrency=1)
    assert outcome.stopped == "The budget of $0.06 is used up."
    assert (outcome.calls, outcome.done) == (4, 2)
    assert outcome.cost_usd == pytest.approx(0.072)


@pytest.mark.slow
def test_the_estimate_counts_answers_and_calls(graded: RunHeader, provider: FakeProvider) -> None:
    def size(grader: str, **changes: Any) -> tuple[int, int, int, int, int]:
        total = estimate_job(Regrading((graded.run_id,), grader, **changes), Store(), registry(), 4)
        names = ("free responses", "judged before", "equal to others", "to judge")
        return *(total.counts.get(name, 0) for name in names), total.calls  # type: ignore[return-value]

    assert size("openai/kind") == (ANSWERS, 0, 6, 2, 2 + 3)
    assert size("openai/kind", again=True) == (ANSWERS, 0, 0, 8, 4 * (2 + 3))
    assert size("openai/strict") == (ANSWERS, ANSWERS, 0, 0, 0)
    again(graded, provider, "openai/kind", types=("frq",))
    assert size("openai/kind") == (ANSWERS, 4, 3, 1, 3)
    again(graded, provider, "openai/strict")
    assert size("openai/kind", types=("frq",)) == (4, 0, 4, 0, 0)
    assert size("reference/names")[4] == 0
    priced = estimate_job(Regrading((graded.run_id,), "openai/gpt-4o", again=True), Store(), registry(), 4).roles[0]
    assert priced.cost_usd == pytest.approx((priced.prompt_tokens * 2.5 + priced.completion_tokens * 10) / 1e6)


@pytest.mark.slow
def test_an_unfinished_run_can_be_graded_and_then_resumed(provider: FakeProvider) -> None:
    header = a_run(provider, trials=3, arms=(("vignette", "frq"),))
    lines = journal_path(header.run_id).read_bytes().splitlines(keepends=True)
    journal_path(header.run_id).write_bytes(b"".join(lines[:8]))
    Store().path.unlink()
    assert again(header, provider, "openai/kind").done == 7
    assert go(header).progress.done_here == 5
    assert len(raw_trials(header.run_id)) == 12


@pytest.mark.slow
def test_a_page_can_start_watch_and_stop_a_regrading(graded: RunHeader, provider: FakeProvider, judges: Judges) -> None:
    job = Regrading((graded.run_id,), "openai/kind", base_url=provider.base_url, again=True)
    work = begin_job(job)
    assert job_of(Regrading) is work
    work.join(30)
    assert (work.error, work.done, work.planned) == (None, ANSWERS, ANSWERS)
    assert work.result is not None
    assert work.result.done == ANSWERS
    judges.delay_s = 60.0
    stopped = begin_job(job)
    stopped.stop()
    stopped.join(30)
    assert stopped.result is not None
    assert stopped.result.stopped == "It was asked to stop."
    judges.broken = failing(401)
    failed = begin_job(Regrading((graded.run_id,), "openai/broken", base_url=provider.base_url))
    failed.join(30)
    assert failed.error is not None
    assert "the provider did not accept the key" in failed.error


def test_stopping_the_run_stops_its_regrading(graded: RunHeader, provider: FakeProvider, judges: Judges) -> None:
    judges.delay_s = 60.0
    work = begin_job(Regrading((graded.run_id,), "openai/kind", base_url=provider.base_url))
    while not provider.requests and work.running:
        work.join(0.01)
    assert is_running(graded.run_id)
    ask_to_stop(graded.run_id)
    work.join(30)
    assert work.result is not None
    assert work.result.stopped == "It was asked to stop."
