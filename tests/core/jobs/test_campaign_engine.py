"""The engine: concurrency, reasons to stop, and that finished trials are stored and not repeated."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.errors import AnamnesisError, UsageError
from core.events import Event
from core.frameworks.base import Trial, default_pack, framework
from core.frameworks.casting import Casting, CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.jobs import engine as engine_module
from core.jobs.engine import Options, run_trials
from core.jobs.plan import campaign_of, header_of, trials_of
from core.jobs.progress import Progress, Stop, ask_to_stop, is_running, running
from core.jobs.run import Play, carry_out
from core.journal import JournalWriter, RunHeader, done_trials, journal_path
from core.models.failures import RetryPolicy
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.queries.runs import run as stored_run
from tests.core.jobs.workshop import (
    ANSWER,
    asked_about,
    begun,
    go,
    keys,
    plan,
    raw_trials,
    registry,
    small_cases,
    trial_lines,
    wait_until,
)
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.playing import opened
from tests.support.replies import Reply, failing

GOOD = Reply(f"**Final Diagnosis:** {ANSWER}")


def slowly(seconds: float) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: Reply(GOOD.text, delay_s=seconds)


def good_until(count: int, then: Reply) -> Callable[[dict[str, Any]], Reply]:
    """Return a script that answers ``count`` requests well and later ones with ``then``."""
    answered = iter(range(10**6))
    return lambda body: GOOD if next(answered) < count else then


@pytest.fixture
def provider(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = [GOOD]
    return fake_provider_thread


@pytest.fixture
def reference() -> Play:
    return opened(Casting(registry(), default_pack()), CastNames("reference/bayes"))


def test_a_run_does_every_trial_once(provider: FakeProvider) -> None:
    header = begun(plan(4, trials=3, base_url=provider.base_url))
    outcome = go(header, concurrency=5)
    assert (outcome.progress.done, outcome.progress.planned, outcome.stopped) == (12, 12, None)
    assert keys(trial_lines(header.run_id)) == [(f"small/{c}", t) for c in range(4) for t in range(3)]
    assert sorted(asked_about(provider)) == sorted([f"small/{c}" for c in range(4)] * 3)
    assert set(raw_trials(header.run_id)) == {t.trial_id for t in trials_of(header)}
    assert outcome.verdicts == {"correct": 12}
    assert (outcome.progress.calls, outcome.progress.tokens) == (12, 12 * 18)
    with Store().read() as cursor:
        stored = stored_run(cursor, header.run_id)
    assert stored is not None
    assert (stored.done, stored.state, stored.failed) == (12, "complete", 0)
    seeds = {(line.case_key, line.trial): line.seed for line in trial_lines(header.run_id)}
    sent = {str(b["messages"]): b["seed"] for b in provider.bodies}
    assert set(sent.values()) <= set(seeds.values())
    assert len({b["seed"] for b in provider.bodies}) == 12


@pytest.mark.parametrize("concurrency", [1, 5])
def test_trials_run_with_the_requested_concurrency(provider: FakeProvider, concurrency: int) -> None:
    """A reply waits until as many requests as allowed wait with it."""

    def together(body: dict[str, Any]) -> Reply:
        rounds = -(-len(provider.requests) // concurrency)
        return replace(GOOD, delay_s=0.02, until=lambda: len(provider.requests) >= rounds * concurrency)

    provider.script = together
    header = begun(plan(3 * concurrency, base_url=provider.base_url))
    go(header, concurrency=concurrency)
    assert len(provider.requests) == 3 * concurrency
    assert provider.peak == concurrency


def test_the_concurrency_adapts_to_the_provider(provider: FakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    """The provider takes 25 at once: the engine starts with 20, tries 40, and repeats the refused requests."""

    def full_at_first(body: dict[str, Any]) -> Reply:
        number = len(provider.requests)
        return replace(GOOD, until=lambda: number <= 20 or provider.rejected)

    provider.script, provider.most = full_at_first, 25
    header = begun(plan(80, base_url=provider.base_url))
    words, at_once = list[str](), set[int]()

    def look(progress: Progress) -> None:
        words.append(progress.in_words())
        at_once.update(progress.at_once)

    patient = load_registry([SHIPPED], retry=RetryPolicy(attempts=3, base_s=0.1, cap_s=0.2))
    outcome = carry_out(header, patient, Options(on_progress=look))
    assert outcome.verdicts == {"correct": 80}
    assert provider.peak == 25
    assert at_once >= {40, 32}  # a busy machine may show nothing while there are 20
    assert any("at most 40 at once" in text for text in words)
    assert f"{provider.base_url} refused to take more (429) of 40 calls at once: 32 from here." in caplog.text


def test_the_budget_stops_the_run(provider: FakeProvider, priced: Path) -> None:
    """A call costs $0.018: with the sixth the sum is $0.108."""
    header = begun(plan(20, base_url=provider.base_url), priced)
    outcome = go(header, priced, budget_usd=0.10)
    assert outcome.stopped == "The budget of $0.10 is used up."
    assert len(provider.requests) == 6
    assert outcome.progress.cost_usd == pytest.approx(0.108)
    stored_trials = raw_trials(header.run_id)
    assert outcome.progress.done == len(stored_trials) == 6
    again = go(header, priced, budget_usd=10.0)
    assert (again.stopped, again.progress.done, again.progress.done_here) == (None, 20, 14)
    assert len(provider.requests) == 20
    assert {k: v for k, v in raw_trials(header.run_id).items() if k in stored_trials} == stored_trials


def test_the_budget_is_checked_within_a_trial(provider: FakeProvider, priced: Path) -> None:
    """A doctor that never ends, 14 calls a trial: the run stops within the first trial."""
    provider.script = ["And what else?"]
    header = begun(plan(2, base_url=provider.base_url, arms=(("multi_turn", "mcq"),)), priced)
    outcome = go(header, priced, budget_usd=0.09)
    assert outcome.stopped == "The budget of $0.09 is used up."
    assert 5 <= len(provider.requests) < 28
    assert outcome.progress.done <= 1


def test_a_budget_without_a_price_is_refused(provider: FakeProvider) -> None:
    header = begun(plan(2, base_url="https://models.example.org/v1"))
    with pytest.raises(UsageError, match="A budget needs prices, and none is known for openai/doctor"):
        go(header, budget_usd=1.0)
    assert provider.requests == []


def test_a_refused_key_stops_the_run_and_keeps_finished_trials(provider: FakeProvider) -> None:
    provider.script = good_until(5, failing(401, "bad key sk-secret-123456"))
    header = begun(plan(12, base_url=provider.base_url))
    outcome = go(header)
    assert outcome.stopped == (
        "The model openai/doctor gave no reply: the provider did not accept the key (HTTP 401); "
        "check the key, what it may do, and which variable it is read from."
    )
    assert len(provider.requests) == 6  # no retry, and no further trial
    stored_trials = raw_trials(header.run_id)
    assert outcome.progress.done == len(stored_trials) == 5
    provider.script = [GOOD]
    assert go(header).progress.done_here == 7
    after = raw_trials(header.run_id)
    assert len(after) == 12
    assert {k: after[k] for k in stored_trials} == stored_trials
    assert b"sk-secret" not in journal_path(header.run_id).read_bytes()


def test_trials_that_a_provider_fails_are_done_and_excluded(provider: FakeProvider) -> None:
    provider.script = good_until(3, failing(400, "no such thing"))
    header = begun(plan(5, base_url=provider.base_url))
    outcome = go(header)
    assert (outcome.stopped, outcome.progress.done) == (None, 5)
    assert outcome.verdicts == {"correct": 3, "provider_error": 2}


def test_the_stop_file_stops_a_run_soon(provider: FakeProvider) -> None:
    provider.script = slowly(0.2)
    header = begun(plan(60, base_url=provider.base_url))
    requested = threading.Event()

    def ask() -> None:
        wait_until(lambda: len(provider.requests) >= 6)
        ask_to_stop(header.run_id)
        requested.set()

    threading.Thread(target=ask).start()
    outcome = go(header, concurrency=2)
    assert requested.is_set()
    assert outcome.stopped == "It was asked to stop."
    assert 4 <= outcome.progress.done < 60
    stored_trials = raw_trials(header.run_id)
    assert len(stored_trials) == outcome.progress.done
    assert not is_running(header.run_id)
    provider.script = [GOOD]
    assert go(header, concurrency=8).stopped is None  # the earlier stop file has no effect
    assert len(raw_trials(header.run_id)) == 60


def test_resuming_runs_only_what_is_missing(provider: FakeProvider) -> None:
    header = begun(plan(6, trials=2, base_url=provider.base_url))
    go(header)
    lines = journal_path(header.run_id).read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 12 * 2  # a reply and a trial line for each trial
    pairs = [lines[n : n + 2] for n in range(1, 25, 2)]
    # five trials are missing, one of them torn
    remaining = [lines[0], *(line for n in (1, 2, 3, 7, 8, 9, 10) for line in pairs[n])]
    journal_path(header.run_id).write_bytes(b"".join(remaining) + pairs[4][0][:50])
    removed = {orjson.loads(pairs[n][1])["trial_id"] for n in (0, 4, 5, 6, 11)}
    missing = {(trial.case.case_key, trial.number) for trial in trials_of(header) if trial.trial_id in removed}
    before = raw_trials(header.run_id)
    provider.requests.clear()
    outcome = go(header)
    assert (outcome.progress.done, outcome.progress.done_here) == (12, 5)
    assert sorted(asked_about(provider)) == sorted(case for case, _ in missing)
    after = raw_trials(header.run_id)
    assert {k: after[k] for k in before} == before
    assert keys(trial_lines(header.run_id)) == [(f"small/{c}", t) for c in range(6) for t in range(2)]
    provider.requests.clear()
    assert go(header).progress.done_here == 0
    assert provider.requests == []


def test_a_damaged_journal_is_not_resumed(provider: FakeProvider) -> None:
    header = begun(plan(3, base_url=provider.base_url))
    go(header)
    lines = journal_path(header.run_id).read_bytes().splitlines(keepends=True)
    journal_path(header.run_id).write_bytes(b"".join([lines[0], b"garbage\n", *lines[2:]]))
    provider.requests.clear()
    with pytest.raises(AnamnesisError, match=f"is damaged in the line that ends at byte {len(lines[0]) + 8}"):
        go(header)
    assert provider.requests == []


def test_two_engines_never_run_one_run(provider: FakeProvider) -> None:
    header = begun(plan(2, base_url=provider.base_url))
    with running(header.run_id):
        assert is_running(header.run_id)
        with pytest.raises(AnamnesisError, match=f"Run {header.run_id} is already running in another process"):
            go(header)
    assert not is_running(header.run_id)
    assert provider.requests == []
    assert go(header).progress.done == 2


def test_asking_whether_a_run_is_running_does_not_block_its_start() -> None:
    header = begun(plan(1))
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            is_running(header.run_id)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        for _ in range(30):
            with running(header.run_id):
                pass
    finally:
        over.set()
        for thread in asking:
            thread.join()


async def run_engine(header: RunHeader, cast: Play, stop: Stop | None = None, **more: Any) -> Progress:
    trials = trials_of(header)
    missing = [t for t in trials if t.trial_id not in done_trials(journal_path(header.run_id))]
    return await run_trials(header, cast, missing, Progress(len(trials)), stop or Stop(), options=Options(3), **more)


class Stumbling:
    """A doctor that raises an error in one case."""

    name = "reference/bayes"

    def __init__(self, doctor: Any) -> None:
        self._doctor = doctor

    async def answer(self, scene: Any, material: Any, question: Any) -> Any:
        if "A 42-year-old" in material.text:
            raise ZeroDivisionError("an error in the program")
        async for item in self._doctor.answer(scene, material, question):
            yield item


async def test_a_programming_error_loses_its_trial_only(reference: Play) -> None:
    header = begun(plan(9, names=CastNames("reference/bayes")))
    craftmd = framework()
    cast_of_rules = craftmd.open(Casting(registry(), default_pack()), campaign_of(header).names, craftmd.settings())
    stumbling = replace(cast_of_rules, doctor=Stumbling(cast_of_rules.doctor))

    def cast(trial: Trial) -> AsyncIterator[Event]:
        return craftmd.play(trial, stumbling, craftmd.settings())

    with pytest.raises(ZeroDivisionError):
        await run_engine(header, cast)
    assert keys(trial_lines(header.run_id)) == [(f"small/{c}", 0) for c in range(9) if c != 2]
    assert (await run_engine(header, reference)).done_here == 1


async def test_a_finished_trial_is_released_while_the_next_is_played(reference: Play) -> None:
    events: list[weakref.ref[Event]] = []
    alive: list[int] = []

    async def noting(trial: Trial) -> AsyncIterator[Event]:
        gc.collect()
        alive.append(sum(reference_to_event() is not None for reference_to_event in events))
        async for event in reference(trial):
            events.append(weakref.ref(event))
            yield event

    header = begun(plan(3, trials=1, names=CastNames("reference/bayes")))
    await run_trials(header, noting, trials_of(header), Progress(3), Stop(), options=Options(1))
    assert alive == [0, 0, 0]
    assert len(events) > 3


async def test_a_failing_fold_does_not_disturb_the_run(
    reference: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_module, "FOLD_EVERY_S", 0.01)
    tried: list[int] = []

    async def fold() -> None:
        tried.append(1)
        raise OSError("No space left on device")

    header = begun(plan(30, names=CastNames("reference/bayes")))
    with caplog.at_level("ERROR", logger="core.jobs.engine"):
        progress = await run_engine(header, reference, fold=fold)
    assert progress.done == 30
    assert len(tried) > 1
    assert [record.exc_info is not None for record in caplog.records] == [True]  # logged only once


async def test_a_slow_fold_does_not_delay_a_stop(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FOLD_EVERY_S", 0.01)
    provider.script = slowly(0.05)
    folding = asyncio.Event()
    stop = Stop()

    async def fold() -> None:
        folding.set()
        await asyncio.sleep(60)

    header = begun(plan(100, base_url=provider.base_url))
    async with registry() as models:
        cast = opened(Casting(models, default_pack(), base_url=provider.base_url), beside_rules("openai/doctor"))
        task = asyncio.create_task(run_engine(header, cast, stop, fold=fold))
        await folding.wait()
        stop.ask("Enough.")
        stop.ask("Really.")
        begun_at = time.monotonic()
        progress = await task
    assert time.monotonic() - begun_at < 50
    assert stop.reason == "Enough."
    assert progress.done < 100


async def test_an_unwritable_journal_ends_the_run_with_one_message(
    reference: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = begun(plan(6, names=CastNames("reference/bayes")))
    append = JournalWriter.append_all
    written: list[int] = []

    def fail_later(self: JournalWriter, lines: Any) -> None:
        written.append(len(lines))
        if len(written) > 1:
            raise AnamnesisError("The journal cannot be written.")
        append(self, lines)

    monkeypatch.setattr(JournalWriter, "append_all", fail_later)
    with pytest.raises(AnamnesisError, match="cannot be written"):
        await run_engine(header, reference)
    assert len(trial_lines(header.run_id)) == written[0] < 6


def test_settings_reach_the_wire_and_the_journal(provider: FakeProvider) -> None:
    settings = CraftMdSettings(temperature=0.3, max_tokens=50, model_seed=9, base_url=provider.base_url)
    header = begun(plan(1, settings=settings))
    go(header)
    (body,) = provider.bodies
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.3, 50, 9)
    (line,) = trial_lines(header.run_id)
    (call,) = [e.call for e in line.events if e.kind == "called"]
    assert call.request == body


def test_the_cases_are_those_of_the_journal_not_of_today(provider: FakeProvider) -> None:
    """A resumed run takes its cases from the journal, not from the data set."""
    header = header_of(plan(2, base_url=provider.base_url), registry())
    assert header.cases == list(small_cases(2))
    assert campaign_of(RunHeader.model_validate_json(header.model_dump_json())).cases == small_cases(2)
