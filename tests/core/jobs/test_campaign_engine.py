"""The engine: how many trials run at once, what stops it, and that what was done is kept and not done again."""

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


def first(count: int, then: Reply) -> Callable[[dict[str, Any]], Reply]:
    """Answer so many requests well, and all later ones otherwise."""
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
    assert outcome.progress.verdicts == {"correct": 24}  # by both rules
    assert (outcome.progress.calls, outcome.progress.tokens) == (12, 12 * 18)
    with Store().read() as cursor:
        stored = stored_run(cursor, header.run_id)
    assert stored is not None
    assert (stored.done, stored.state, stored.failed) == (12, "complete", 0)
    seeds = {(line.case_key, line.trial): line.seed for line in trial_lines(header.run_id)}
    sent = {str(b["messages"]): b["seed"] for b in provider.bodies}
    assert set(sent.values()) <= set(seeds.values())
    assert len({b["seed"] for b in provider.bodies}) == 12


@pytest.mark.parametrize("concurrency", [1, 4, 7])
def test_as_many_trials_run_at_once_as_asked_for(provider: FakeProvider, concurrency: int) -> None:
    """Each request is under way for 0.3 s at least: no moment may see more of them than asked for."""
    delay = 0.3
    provider.script = slowly(delay)
    header = begun(plan(3 * concurrency, base_url=provider.base_url))
    go(header, concurrency=concurrency)
    begun_at = sorted(r.at for r in provider.requests)
    at_once = [sum(start <= moment < start + delay for start in begun_at) for moment in begun_at]
    assert len(begun_at) == 3 * concurrency
    assert max(at_once) == concurrency


def test_how_many_calls_a_provider_takes_is_found_out(provider: FakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    """It takes 25 at once: 20 are begun with, and of 40 it refuses some, which are asked again."""
    provider.script, provider.most = slowly(0.4), 25
    header = begun(plan(120, base_url=provider.base_url))
    words, at_once = list[str](), set[int]()

    def look(progress: Progress) -> None:
        words.append(progress.in_words())
        at_once.update(progress.at_once)

    patient = load_registry([SHIPPED], retry=RetryPolicy(attempts=3, base_s=0.1, cap_s=0.2))
    outcome = carry_out(header, patient, Options(on_progress=look))
    assert outcome.progress.verdicts == {"correct": 240}
    assert provider.peak == 25
    assert at_once >= {20, 40, 32}
    assert any("at most 40 at once" in one for one in words)
    assert f"{provider.base_url} refused to take more (429) of 40 calls at once: 32 from here." in caplog.text


def test_the_budget_stops_the_run(provider: FakeProvider, priced: Path) -> None:
    """A call costs $0.018: the sixth takes the sum to $0.108."""
    header = begun(plan(20, base_url=provider.base_url), priced)
    outcome = go(header, priced, budget_usd=0.10)
    assert outcome.stopped == "The budget of $0.10 is used up."
    assert len(provider.requests) == 6
    assert outcome.progress.cost_usd == pytest.approx(0.108)
    kept = raw_trials(header.run_id)
    assert outcome.progress.done == len(kept) == 6
    again = go(header, priced, budget_usd=10.0)
    assert (again.stopped, again.progress.done, again.progress.done_here) == (None, 20, 14)
    assert len(provider.requests) == 20
    assert {k: v for k, v in raw_trials(header.run_id).items() if k in kept} == kept


def test_the_budget_holds_within_a_trial_too(provider: FakeProvider, priced: Path) -> None:
    """A doctor that never ends, 14 calls a trial: the run stops in the midst of the first."""
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


def test_a_refused_key_stops_the_run_and_keeps_what_was_done(provider: FakeProvider) -> None:
    provider.script = first(5, failing(401, "bad key sk-secret-123456"))
    header = begun(plan(12, base_url=provider.base_url))
    outcome = go(header)
    assert outcome.stopped == (
        "The model openai/doctor gave no reply: the provider did not accept the key (HTTP 401); "
        "check the key, what it may do, and which variable it is read from."
    )
    assert len(provider.requests) == 6  # not asked again, not for one more trial
    kept = raw_trials(header.run_id)
    assert outcome.progress.done == len(kept) == 5
    provider.script = [GOOD]
    assert go(header).progress.done_here == 7
    after = raw_trials(header.run_id)
    assert len(after) == 12
    assert {k: after[k] for k in kept} == kept
    assert b"sk-secret" not in journal_path(header.run_id).read_bytes()


def test_what_a_provider_breaks_is_done_and_excluded(provider: FakeProvider) -> None:
    provider.script = first(3, failing(400, "no such thing"))
    header = begun(plan(5, base_url=provider.base_url))
    outcome = go(header)
    assert (outcome.stopped, outcome.progress.done) == (None, 5)
    assert outcome.progress.verdicts == {"correct": 6, "provider_error": 2}


def test_the_stop_file_stops_a_run_soon(provider: FakeProvider) -> None:
    provider.script = slowly(0.05)
    header = begun(plan(200, base_url=provider.base_url))
    asked = threading.Event()
    moments: list[float] = []

    def ask() -> None:
        wait_until(lambda: len(provider.requests) >= 6)
        moments.append(time.monotonic())
        ask_to_stop(header.run_id)
        asked.set()

    threading.Thread(target=ask).start()
    outcome = go(header, concurrency=2)
    assert asked.is_set()
    assert outcome.stopped == "It was asked to stop."
    assert 4 <= outcome.progress.done < 60
    assert max(r.at for r in provider.requests) - moments[0] < 2.0
    kept = raw_trials(header.run_id)
    assert len(kept) == outcome.progress.done
    assert not is_running(header.run_id)
    provider.script = [GOOD]
    assert go(header, concurrency=8).stopped is None  # the stop file of last time stops nothing
    assert len(raw_trials(header.run_id)) == 200


def test_resuming_runs_only_what_is_missing(provider: FakeProvider) -> None:
    header = begun(plan(6, trials=2, base_url=provider.base_url))
    go(header)
    lines = journal_path(header.run_id).read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 12 * 2  # of each trial, the reply and what came of it
    pairs = [lines[n : n + 2] for n in range(1, 25, 2)]
    keep = [lines[0], *(line for n in (1, 2, 3, 7, 8, 9, 10) for line in pairs[n])]  # without five; one of them torn
    journal_path(header.run_id).write_bytes(b"".join(keep) + pairs[4][0][:50])
    gone = {orjson.loads(pairs[n][1])["trial_id"] for n in (0, 4, 5, 6, 11)}
    missing = {(trial.case.case_key, trial.number) for trial in trials_of(header) if trial.trial_id in gone}
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


def test_who_only_asks_whether_a_run_is_under_way_does_not_keep_it_from_starting() -> None:
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
    """A doctor with a fault of its own in one case."""

    name = "reference/bayes"

    def __init__(self, doctor: Any) -> None:
        self._doctor = doctor

    async def answer(self, scene: Any, material: Any, question: Any) -> Any:
        if "A 42-year-old" in material.text:
            raise ZeroDivisionError("a fault of ours")
        async for item in self._doctor.answer(scene, material, question):
            yield item


async def test_a_fault_of_ours_costs_its_own_trial_only(reference: Play) -> None:
    header = begun(plan(9, names=CastNames("reference/bayes")))
    known = framework()
    whole = known.open(Casting(registry(), default_pack()), campaign_of(header).names, known.settings())
    stumbling = replace(whole, doctor=Stumbling(whole.doctor))

    def cast(trial: Trial) -> AsyncIterator[Event]:
        return known.play(trial, stumbling, known.settings())

    with pytest.raises(ZeroDivisionError):
        await run_engine(header, cast)
    assert keys(trial_lines(header.run_id)) == [(f"small/{c}", 0) for c in range(9) if c != 2]
    assert (await run_engine(header, reference)).done_here == 1


async def test_a_trial_that_is_done_is_let_go_while_the_next_one_is_played(reference: Play) -> None:
    held: list[weakref.ref[Event]] = []
    left: list[int] = []

    async def noting(trial: Trial) -> AsyncIterator[Event]:
        gc.collect()
        left.append(sum(one() is not None for one in held))
        async for event in reference(trial):
            held.append(weakref.ref(event))
            yield event

    header = begun(plan(3, trials=1, names=CastNames("reference/bayes")))
    await run_trials(header, noting, trials_of(header), Progress(3), Stop(), options=Options(1))
    assert left == [0, 0, 0]
    assert len(held) > 3


async def test_a_database_that_cannot_follow_does_not_disturb_the_run(
    reference: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_module, "FOLD_EVERY_S", 0.01)
    tried: list[int] = []

    async def fold() -> None:
        tried.append(1)
        raise OSError("No space left on device")

    header = begun(plan(30, trials=4, names=CastNames("reference/bayes")))
    with caplog.at_level("ERROR", logger="core.jobs.engine"):
        progress = await run_engine(header, reference, fold=fold)
    assert progress.done == 120
    assert len(tried) > 1
    assert [one.exc_info is not None for one in caplog.records] == [True]  # said, and not over and over


async def test_a_slow_fold_does_not_hold_up_a_stop(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert time.monotonic() - begun_at < 30
    assert stop.reason == "Enough."
    assert progress.done < 100


async def test_a_journal_that_cannot_be_written_ends_the_run_in_one_sentence(
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
    """A resumed run takes its cases from the journal, so that it ends as it began."""
    header = header_of(plan(2, base_url=provider.base_url), registry())
    assert header.cases == list(small_cases(2))
    assert campaign_of(RunHeader.model_validate_json(header.model_dump_json())).cases == small_cases(2)
