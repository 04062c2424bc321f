"""The model server and the dashboard are killed in the middle of a run; every request is counted at the provider."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from core import paths
from core.jobs.engine import Options
from core.jobs.plan import header_of
from core.jobs.progress import is_running
from core.jobs.run import begin, carry_out, start
from core.journal import ReplyLine, RunHeader, journal_path, read_lines
from core.models.failures import RetryPolicy
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.upkeep import verify
from tests.core.jobs.workshop import core, environment, plan, raw_trials, registry, small_cases, wait_until
from tests.support.campaigns import stop_all
from tests.support.commands import forked
from tests.support.fake_provider import FakeProvider
from tests.support.replies import by_age

CASES, IN_FLIGHT = 24, 4
PATIENT_RETRIES = RetryPolicy(attempts=100, base_s=0.05, cap_s=1.0, max_wait_s=120.0)


class ModelServer:
    """A model server in a child process, which can be killed and restarted at the same address."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "requests.jsonl"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.fake_provider", "--port", str(self.port), "--log",
                   str(self.log), "--script", "by_age"]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=paths.ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the model server did not start"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Requests received so far, without a line that a kill cut off."""
        lines = self.log.read_bytes().split(b"\n")[:-1] if self.log.exists() else []
        return [orjson.loads(line) for line in lines if line.endswith(b"}")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    model_server = ModelServer(tmp_path)
    yield model_server
    model_server.kill()


def replies(header: RunHeader) -> list[ReplyLine]:
    """Return the replies in the journal, without calls that failed."""
    lines = [line for _, line in read_lines(journal_path(header.run_id)) if isinstance(line, ReplyLine)]
    return [line for line in lines if line.call.error is None]


def assert_complete(header: RunHeader, count: int) -> None:
    """Every trial is stored once in journal and database, and every verdict is the right one."""
    assert len(raw_trials(header.run_id)) == count
    fold(Store())
    assert verify(Store()).findings == ()
    with Store().read() as cursor:
        rows = cursor.execute("SELECT case_key, verdict FROM grades JOIN trials USING (trial_id)").fetchall()
        excluded = cursor.execute("SELECT count(*) FROM answers WHERE status <> 'answered'").fetchall()[0][0]
    by_case = {case.case_key: int(case.vignette.split()[1].partition("-")[0]) for case in small_cases(count)}
    counted = {key: verdict for key, verdict in rows if verdict in ("correct", "incorrect")}
    assert {key: verdict == "correct" for key, verdict in counted.items()} == {
        key: age % 2 == 0 for key, age in by_case.items() if key in counted
    }
    assert len(counted) + excluded >= count


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_a_run_survives_a_killed_and_restarted_model_server(kills: int, server: ModelServer) -> None:
    cases = CASES * kills
    campaign = plan(cases, base_url=server.base_url)
    header = header_of(campaign, registry())
    begin(header)
    requests_before, over = len(server.requests), threading.Event()

    def kill_now_and_then() -> None:
        for number in range(kills):
            target = requests_before + CASES // 4 + number * CASES * 3 // 4
            while len(server.requests) < target and not over.is_set():
                time.sleep(0.01)
            server.kill()
            time.sleep(0.3)
            server.start()

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    patient = load_registry(retry=PATIENT_RETRIES)
    while carry_out(header, patient, Options(IN_FLIGHT, calls_at_once=IN_FLIGHT)).stopped:
        time.sleep(0.1)
    over.set()
    killer.join()
    assert_complete(header, cases)
    with Store().read() as cursor:
        reasons = cursor.execute("SELECT DISTINCT reason FROM answers WHERE status <> 'answered'").fetchall()
    assert set(reasons) <= {("provider_error",)}
    distinct = {str(request["body"]["messages"]) for request in server.requests}
    assert len(distinct) == cases
    assert len(server.requests) <= len(distinct) + kills * IN_FLIGHT, "only requests in flight at a kill are repeated"
    assert len(server.requests) - len(replies(header)) <= kills * IN_FLIGHT


def processes_of(header: RunHeader) -> list[psutil.Process]:
    command = [sys.executable, "-m", "core", "resume", header.run_id]
    return [process for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [])[:5] == command]


def _dashboard(environment: dict[str, str], header: RunHeader, ready: Any) -> None:
    """A dashboard that starts the run, as its page Runs does, and keeps serving."""
    os.environ.clear()
    os.environ.update(environment)
    start(header, IN_FLIGHT, None)
    ready.set()
    signal.pause()


@pytest.mark.slow
@pytest.mark.parametrize("round_", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_resume_completes_a_run_after_dashboard_and_run_were_killed(
    round_: int, db: Path, fake_provider_thread: FakeProvider
) -> None:
    provider = fake_provider_thread
    provider.script = by_age
    header = header_of(plan(CASES, base_url=provider.base_url), registry())
    ready = multiprocessing.get_context("forkserver").Event()
    dashboard = forked(_dashboard, environment(db), header, ready)
    try:
        assert ready.wait(60)
        wait_until(lambda: len(provider.requests) >= 2 + 3 * round_)
        assert dashboard.pid is not None
        os.kill(dashboard.pid, signal.SIGKILL)
        dashboard.join(20)
        requests = len(provider.requests)
        wait_until(lambda: len(provider.requests) >= min(CASES, requests + 4))
        if is_running(header.run_id):  # the run outlives the dashboard and cannot be resumed twice
            refused = core(db, "resume", header.run_id)
            assert refused.returncode == 1 or len(raw_trials(header.run_id)) == CASES, refused.stdout
        for runner in processes_of(header):
            runner.kill()
        wait_until(lambda: not is_running(header.run_id))
        finished = core(db, "resume", header.run_id)
        assert finished.returncode == 0, finished.stderr
    finally:
        stop_all()
    assert_complete(header, CASES)
    by_case = Counter(str(body["messages"]) for body in provider.bodies)
    assert len(by_case) == CASES
    assert by_case.total() <= CASES + IN_FLIGHT
    assert len(replies(header)) == CASES
