"""The same campaign started again while it runs: by the command, by the page, and by both at the same moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.errors import AnamnesisError
from core.frameworks.base import Campaign
from core.jobs.plan import header_of
from core.jobs.progress import is_running
from core.jobs.run import begin, start
from core.journal import RunHeader, journal_path, read_header
from tests.core.jobs.workshop import CHOICES, core, environment, plan, raw_trials, registry, run_ids, spawn, wait_until
from tests.support.campaigns import BESIDE_RULES, stop_all
from tests.support.commands import finish, forked
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply

CASES = 8
GOUT = "**Final Diagnosis:** Gout"


@pytest.fixture
def doctor(fake_provider_thread: FakeProvider) -> Iterator[FakeProvider]:
    fake_provider_thread.script = [GOUT]
    yield fake_provider_thread
    stop_all()


def hold(provider: FakeProvider, after: int = 0) -> threading.Event:
    """Let the provider answer ``after`` requests, and the others only when the event is set."""
    go_on = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        number = len(provider.requests)
        return Reply(GOUT, until=lambda: number <= after or go_on.is_set())

    provider.script = script
    return go_on


def arguments(provider: FakeProvider, *more: str) -> list[str]:
    return [
        "run", "--doctor", "openai/doctor", *BESIDE_RULES, "--limit", str(CASES), "--trials", "1",
        "--arms", "vignette:mcq", "--concurrency", "2", "--base-url", provider.base_url, *more,
    ]  # fmt: skip


def requests_by_case(provider: FakeProvider) -> Counter[str]:
    return Counter(str(body["messages"]) for body in provider.bodies)


def assert_each_case_was_asked(provider: FakeProvider, times: int) -> None:
    by_case = requests_by_case(provider)
    assert (len(by_case), set(by_case.values())) == (CASES, {times})


def test_the_same_command_is_refused_with_the_name_of_the_running_run(db: Path, doctor: FakeProvider) -> None:
    go_on = hold(doctor)
    first = spawn(db, *arguments(doctor))
    wait_until(lambda: len(doctor.requests) >= 2)
    (run_id,) = run_ids(db)
    second = core(db, *arguments(doctor))
    go_on.set()
    assert second.returncode == 1
    assert run_id in second.stderr
    assert "Traceback" not in second.stderr
    assert finish(first).returncode == 0
    assert run_ids(db) == [run_id]
    assert_each_case_was_asked(doctor, 1)


@pytest.mark.slow
def test_again_plays_a_second_copy(db: Path, doctor: FakeProvider) -> None:
    go_on = hold(doctor)
    first = spawn(db, *arguments(doctor))
    wait_until(lambda: len(doctor.requests) >= 2)
    doctor.script = [GOUT]
    second = core(db, *arguments(doctor, "--again"))
    go_on.set()
    assert (second.returncode, finish(first).returncode) == (0, 0), second.stderr
    assert [len(raw_trials(run_id)) for run_id in run_ids(db)] == [CASES, CASES]
    assert_each_case_was_asked(doctor, 2)


def test_copies_begun_in_one_second_have_names_of_their_own(doctor: FakeProvider) -> None:
    header = header_of(a_campaign(doctor), registry(), now=1_799_999_999.0)
    copies = [begin(header, again=True) for _ in range(3)]
    # 1,800,000,000 is 2027-01-15 08:00:00 UTC
    stamps = ["20270115-075959", "20270115-080000", "20270115-080001"]
    assert [copy.run_id for copy in copies] == [f"{stamp}-{header.fingerprint[:8]}" for stamp in stamps]
    assert [read_header(journal_path(copy.run_id)).run_id for copy in copies] == [copy.run_id for copy in copies]


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_same_command_resumes_a_killed_or_stopped_run(db: Path, doctor: FakeProvider, how: signal.Signals) -> None:
    go_on = hold(doctor, after=3)
    first = spawn(db, *arguments(doctor))
    wait_until(lambda: len(doctor.requests) >= 5 and len(raw_trials(run_ids(db)[0])) >= 1)
    first.send_signal(how)
    if how == signal.SIGTERM:
        go_on.set()
    finish(first)
    go_on.set()
    (run_id,) = run_ids(db)
    assert 0 < len(raw_trials(run_id)) < CASES
    second = core(db, *arguments(doctor))
    assert second.returncode == 0, second.stderr
    assert run_id in second.stderr, "it names the run that it resumes"
    assert (run_ids(db), len(raw_trials(run_id))) == ([run_id], CASES)
    requests = requests_by_case(doctor)
    in_flight = 2
    assert len(requests) == CASES
    assert requests.total() <= CASES + in_flight


@pytest.mark.slow
def test_a_run_killed_before_its_first_trial_is_resumed(db: Path, doctor: FakeProvider) -> None:
    first = spawn(db, *arguments(doctor))
    wait_until(lambda: bool(run_ids(db)) and journal_path(run_ids(db)[0]).stat().st_size > 0)
    first.send_signal(signal.SIGKILL)
    finish(first)
    second = core(db, *arguments(doctor))
    assert (second.returncode, len(run_ids(db))) == (0, 1), second.stderr


def a_campaign(provider: FakeProvider) -> Campaign:
    return plan(CASES, arms=CHOICES, base_url=provider.base_url)


def _begin_together(barrier: threading.Barrier, headers: list[RunHeader], outcomes: list[tuple[bool, str]]) -> None:
    for header in headers:
        barrier.wait(60)
        try:
            begin(header)
        except AnamnesisError as error:
            outcomes.append((False, str(error)))
        else:
            outcomes.append((True, header.run_id))


@pytest.mark.parametrize("apart", [0, 1], ids=["one run id", "different run ids"])
def test_of_many_simultaneous_starts_one_succeeds(apart: int, doctor: FakeProvider) -> None:
    rounds, threads = 3, 6
    headers = [header_of(plan(2, base_url=doctor.base_url, seed=seed), registry()) for seed in range(rounds)]
    outcomes: list[list[tuple[bool, str]]] = [[] for _ in range(threads)]
    barrier = threading.Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        for thread in range(threads):
            copies = [h.model_copy(update={"run_id": f"{apart * thread}-{h.fingerprint[:8]}"}) for h in headers]
            pool.submit(_begin_together, barrier, copies, outcomes[thread])
    for attempts in zip(*outcomes, strict=True):
        (run_id,) = [run_id for has_begun, run_id in attempts if has_begun]
        sentences = [sentence for has_begun, sentence in attempts if not has_begun]
        assert len(sentences) == threads - 1
        assert all(run_id in sentence for sentence in sentences), "each error names the run"


def _as_the_page_does(environment: dict[str, str], barrier: threading.Barrier, header: RunHeader) -> None:
    os.environ.clear()
    os.environ.update(environment)
    barrier.wait(60)
    start(header, 2, None)


def _as_the_command_does(environment: dict[str, str], barrier: threading.Barrier, arguments: list[str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    barrier.wait(60)
    sys.exit(main(arguments))


@pytest.mark.parametrize("round_", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_page_and_command_started_together_pay_once(
    round_: int, db: Path, doctor: FakeProvider, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere" / db.name
    elsewhere.parent.mkdir()
    assert core(elsewhere, *arguments(doctor)).returncode == 0
    (journal,) = elsewhere.parent.glob("*.journals/*/journal.jsonl")
    doctor.requests.clear()
    go_on = hold(doctor)
    now = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now + round_ % 2 * 3600))
    written = read_header(journal)
    header = written.model_copy(update={"created_at": now, "run_id": f"{stamp}-{written.fingerprint[:8]}"})

    barrier = multiprocessing.get_context("forkserver").Barrier(4)
    here = environment(db)
    children = [
        *(forked(_as_the_page_does, here, barrier, header) for _ in range(2)),
        *(forked(_as_the_command_does, here, barrier, arguments(doctor)) for _ in range(2)),
    ]
    wait_until(lambda: sum(child.is_alive() for child in children) <= 1)
    go_on.set()
    for child in children:
        child.join(120)
    (run_id,) = run_ids(db)
    wait_until(lambda: len(raw_trials(run_id)) == CASES)
    wait_until(lambda: not is_running(run_id))
    assert_each_case_was_asked(doctor, 1)
