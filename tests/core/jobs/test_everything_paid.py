"""The database is lost after every kind of paid work: the journals restore each result and each cost."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from core.cli.options import progress_bar
from core.debugger.steps import steps_of_trial
from core.debugger.stored import load_record
from core.frameworks.casting import CastNames
from core.jobs.ask_job import estimate_job, run_job
from core.jobs.completing import Completing
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.jobs.profiling import Profiling
from core.jobs.progress import Progress, ask_to_stop, status
from core.jobs.regrade import Regrading
from core.live.start import one_case, start_consultation
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.completions import completions
from core.store.queries.profiles import profile_versions
from tests.core.debugger.bench_stage import branched
from tests.core.jobs.test_paid_once import TOKENS, a_campaign, every_seat
from tests.core.jobs.workshop import begun, go, plan, registry, trial_lines
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import NO_PLACES, Reply, facts_judged, prompt_of

RESULTS = (
    "runs", "trials", "utterances", "answers", "grades", "calls", "judgements", "profiles", "completions",
    "forks",
)  # fmt: skip


def world(body: dict[str, Any]) -> str:
    """Answer every role: the seats of a campaign, judges, the profiler and the completer of vignettes."""
    prompt = prompt_of(body)
    match body["model"]:
        case "judge":
            return facts_judged(prompt) if "What became of this fact" in prompt else NO_PLACES
        case "profiler" if "Decide whether" in prompt:
            return json.dumps({"suitable": True, "reason": None, "note": "Fine."})
        case "profiler":
            basic = [{"key": "chief complaint", "value": "swollen big toe", "lay": "My toe is swollen."}]
            return json.dumps({"basic": basic, "optional": []})
        case "completer":
            return "toe since last night."
        case _:
            return every_seat(body)


@pytest.fixture
def paying(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = world
    return fake_provider_thread


def results(store: Store) -> dict[str, Any]:
    with store.read() as cursor:
        rows = {name: sorted(cursor.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in RESULTS}
    return {**rows, "calls": sorted(row[2] for row in rows["calls"])}


def spent(store: Store) -> tuple[int, int]:
    with store.read() as cursor:
        sql = "SELECT count(*), sum(prompt_tokens + completion_tokens)::INT FROM calls"
        return cursor.execute(sql).fetchall()[0]


def test_journals_restore_every_result_and_every_token(paying: FakeProvider) -> None:
    url, store, models = paying.base_url, Store(), registry()
    header = a_campaign(paying)
    cases = tuple(header.cases)
    go(header)
    assert run_job(Regrading((header.run_id,), "openai/strict", base_url=url), Store(), models).done == 6
    assert run_job(Judging("patient_terms", ("openai/judge",), base_url=url), store, models).done == 3
    assert run_job(Judging("facts", ("openai/judge",), base_url=url), store, models).done == 3
    for again in (False, True):
        job = Profiling(cases, "openai/profiler", again, base_url=url)
        assert run_job(job, store, models).done == 3
    assert run_job(Completing(cases, "openai/completer", base_url=url), store, models).done == 3
    trial = load_record(trial_lines(header.run_id)[0].trial_id)
    assert trial is not None
    step = next(step for step in steps_of_trial(trial) if step.kind == "answer")
    branched(trial, step.key)
    fold(store)
    before = results(store)
    assert len({(row[0], row[2]) for row in before["judgements"]}) == 6  # three conversations by two forms
    assert {name: len(rows) for name, rows in before.items() if name in RESULTS[7:]} == {
        "profiles": 6,
        "completions": 3,
        "forks": 1,
    }
    assert spent(store) == (len(paying.requests), len(paying.requests) * TOKENS)
    with store.read() as cursor:
        roles = dict(cursor.execute("SELECT model, any_value(role) FROM calls GROUP BY model").fetchall())
        whole = "json_extract(request, '$.follows') IS NULL"
        without = cursor.execute(
            f"SELECT DISTINCT purpose FROM calls WHERE {whole} AND parts NOT LIKE '%source_hash%'"
        ).fetchall()
    assert without == [], "each call names its prompt, for every role"
    assert roles["openai/judge"] == roles["openai/strict"] == "grader"
    assert (roles["openai/profiler"], roles["openai/completer"]) == ("profiler", "doctor")

    store.path.unlink()
    fold(store)
    assert results(store) == before
    assert spent(store) == (len(paying.requests), len(paying.requests) * TOKENS)
    with store.read() as cursor:
        versions = profile_versions(cursor, header.cases[0])
        assert [version.version for version in versions] == [2, 1]
        assert [version.generated.made_by for version in versions] == ["openai/profiler"] * 2
        assert len(completions(cursor)) == 3
    requests = len(paying.requests)
    assert estimate_job(Judging("patient_terms", ("openai/judge",)), store, models).todo == 0
    assert run_job(Profiling(cases, "openai/profiler", base_url=url), store, models).kept == 3
    assert len(paying.requests) == requests
    fold(store)
    assert results(store) == before, "folding again adds nothing"


def test_an_interrupted_judgement_reuses_its_first_reply(paying: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge's first reply cannot be read; the program stops before the second arrives."""
    header = a_campaign(paying)
    go(header)
    store, job = Store(), Judging("patient_terms", ("openai/judge",), limit=1, base_url=paying.base_url)
    first_replies = iter(["None that I see."])

    def unsure(body: dict[str, Any]) -> Reply | str:
        return next(first_replies, None) or Reply(NO_PLACES, delay_s=60)

    paying.requests.clear()
    paying.script = unsure
    stopped = run_job(job, store, registry(), Options(1, on_progress=lambda p: _stop_at_the_second(p, paying)))
    assert (stopped.done, stopped.remaining, len(paying.requests)) == (0, 1, 2)
    paying.script = world
    again = run_job(job, store, registry())
    assert (again.done, again.calls, len(paying.requests)) == (1, 1, 3)
    second = paying.bodies[-1]["messages"]
    assert second[1]["content"] == "None that I see.", "the repair quotes the first reply, which is not requested again"


def _stop_at_the_second(progress: Progress, provider: FakeProvider) -> None:
    if len(provider.requests) == 2 and progress.replies is not None:
        ask_to_stop(progress.replies.run_id)


def test_the_calls_of_a_stopped_live_consultation_are_counted(paying: FakeProvider) -> None:
    names = beside_rules("openai/doctor", patient="openai/patient")
    campaign = plan(1, names=names, arms=(("multi_turn", "mcq"),), base_url=paying.base_url)
    answered = iter(range(3))
    paying.script = lambda body: Reply(world(body), delay_s=0.0 if next(answered, None) is not None else 60.0)
    session = start_consultation(one_case(campaign, campaign.cases[0]))
    session.speed = 1000.0
    while len(paying.requests) < 4:
        session.join(0.01)
    session.stop()
    session.join(30)
    fold(Store())
    assert spent(Store()) == (3, 3 * TOKENS)
    paying.script = world
    whole = start_consultation(one_case(campaign, campaign.cases[0]))
    whole.speed = 1000.0
    whole.join(60)
    fold(Store())
    assert whole.error is None
    made = len(paying.requests) - 1
    assert spent(Store()) == (made, made * TOKENS)
    run_id = whole.meta["header"].run_id  # type: ignore[attr-defined]
    (line,) = trial_lines(run_id)
    assert [event.model_dump() for event in line.events] == [event.model_dump() for event in whole.snapshot()]


def test_the_progress_line_names_the_calls_in_flight(
    paying: FakeProvider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("core.cli.options._LINE_EVERY_S", 0.0)
    monkeypatch.setattr("core.cli.options._LOOK_EVERY_S", 0.0)
    shown = 0

    def look(progress: Progress) -> None:
        nonlocal shown
        show(progress)
        shown += progress.replies is not None and len(progress.replies.in_flight) == 2

    paying.script = lambda body: Reply(world(body), until=lambda: shown)
    header = begun(plan(2, base_url=paying.base_url))
    with progress_bar("Run") as show:
        go(header, on_progress=look, concurrency=2)
    lines = capsys.readouterr().err.splitlines()
    waiting = re.compile(r"waiting for 2 doctor, up to \d+ s; 2 running at call 1 to 1")
    assert any(map(waiting.search, lines))
    assert lines[-1] == "Run: 2 of 2 trials; 2 calls, 36 tokens"


@pytest.mark.parametrize(("verdict", "warned"), [("Perhaps.", True), ("No", False)])
def test_an_unreadable_grader_is_reported_after_ten_verdicts(
    paying: FakeProvider, verdict: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    number = iter(range(1000))

    def speak(body: dict[str, Any]) -> str:
        first = str(body["messages"][0]["content"])
        if first.startswith("Below is what a doctor wrote"):
            return f"Disease {next(number)}"
        return verdict if first.startswith("Do diagnosis 1") else f"**Final Diagnosis:** Disease {next(number)}"

    paying.script = speak
    arms = (("vignette", "frq"),)
    header = begun(
        plan(12, arms=arms, names=CastNames("openai/doctor", grader="openai/grader"), base_url=paying.base_url)
    )
    seen: list[tuple[int, str]] = []
    done = go(header, on_progress=lambda progress: seen.append((progress.done, progress.trouble)), concurrency=1)
    first = next((words for _, words in seen if words), "")
    assert bool(first) == warned
    assert all(not words for done, words in seen if done < 10)
    if warned:
        assert first.startswith("The grader cannot be read: 10 of 10 verdicts are ungradable and count in no figure.")
        assert [first[:60] in line for line in caplog.messages if "cannot be read" in line] == [True]
        assert done.verdicts == {"ungradable": 12}


def test_other_processes_can_read_the_progress_of_a_run(paying: FakeProvider) -> None:
    header = begun(plan(2, base_url=paying.base_url))
    assert status(header.run_id) is None
    both_wait: list[dict[str, Any]] = []
    paying.script = lambda body: Reply(world(body), until=lambda: both_wait)

    def look(_: object) -> None:
        state = status(header.run_id)
        if state is not None and len(state["waiting"]) == 2:
            both_wait.append(state)

    go(header, on_progress=look, concurrency=2)
    first = both_wait[0]
    assert (first["done"], first["planned"], first["calls"]) == (0, 2, 0)
    assert [waiting[:2] for waiting in first["waiting"]] == [["doctor", "answer"]] * 2
    assert sorted(first["under_way"].values()) == [1, 1]
