"""Trials on a Ray cluster: a lost node costs its calls in flight and the lines of the last moment, nothing else."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from core import __version__
from core.errors import AnamnesisError, UsageError
from core.jobs import cluster
from core.jobs.cluster import Worker, on_ray
from core.jobs.engine import Options
from core.jobs.progress import Progress
from core.jobs.run import carry_out
from core.models.limits import RateLimits
from tests.core.jobs.test_paid_once import a_campaign, all_seats, every_seat, replies, verdicts  # noqa: F401
from tests.core.jobs.workshop import PRICED, begun, core, go, plan, raw_trials, registry
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed (pip install -r requirements-ray.txt)"
)
CASES, TRIALS, IN_FLIGHT = 20, 10, 16


def test_without_ray_the_error_says_how_to_install_it(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = core(db, "run", "--doctor", "reference/bayes", "--limit", "1", "--engine", "ray")
    assert (done.returncode, "pip install -r requirements-ray.txt" in done.stderr) == (2, True)
    for wrong in (("--engine", "cloud"), ("--ray-address", "auto")):
        assert core(db, "resume", "RUN", *wrong).returncode == 2


def test_a_worker_removes_the_folders_of_killed_workers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["true"])
    child.wait()  # no process has its number now
    dead, alive, foreign = (
        tmp_path / f"anamnesis-worker-{name}" for name in (f"{child.pid}-x", f"{os.getpid()}-x", "x")
    )
    for folder in (dead, alive, foreign):
        folder.mkdir()
        (folder / "journal.jsonl").write_text("{}\n", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cluster, "campaign_of", mock.Mock(side_effect=UsageError("so far")))
    with pytest.raises(UsageError, match="so far"):
        asyncio.run(Worker(mock.Mock(), mock.Mock()).open(__version__))
    assert [folder.exists() for folder in (dead, alive, foreign)] == [False, True, True]


@needs_ray
@pytest.mark.slow
def test_two_hundred_trials_on_two_nodes_of_which_one_is_lost(
    all_seats: FakeProvider,  # noqa: F811
    priced: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ray.cluster_utils import Cluster

    names = beside_rules("openai/doctor", patient="openai/patient", grader="openai/grader")
    fields: dict[str, Any] = {"names": names, "trials": TRIALS, "arms": (("multi_turn", "mcq"), ("vignette", "frq"))}
    whole = begun(plan(CASES, base_url=all_seats.base_url, **fields))
    go(whole, concurrency=IN_FLIGHT)
    unbroken = len(all_seats.requests)
    all_seats.requests.clear()
    all_seats.script = lambda body: Reply(every_seat(body), delay_s=0.05)
    header = begun(plan(CASES, base_url=all_seats.base_url, seed=21, **fields))
    priced.write_text('[models."openai/doctor"]\napi_key_env = "LAB_KEY"\n')
    monkeypatch.setenv("LAB_KEY", key := "of-the-nodes-6d0f")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=1)
    removal = threading.Thread(target=lambda: cluster.remove_node(lost, allow_graceful=False))
    removed_at: list[int] = []

    def half_way(progress: Progress) -> None:
        if progress.done >= CASES * TRIALS // 2 and not removed_at:
            removed_at.append(progress.done)
            removal.start()

    try:
        options = Options(IN_FLIGHT, on_progress=half_way)
        outcome = carry_out(header, registry(priced), options, on_ray(cluster.address))
        removal.join()
    finally:
        session = Path(cluster.head_node.get_session_dir_path())
        cluster.shutdown()
    stored = replies(header)
    billed, counted = len(all_seats.requests), len(stored)
    with capsys.disabled():
        print(
            f"\n{CASES * TRIALS} trials on two nodes, one removed after {removed_at[0]}: {billed} calls billed, "
            f"{counted} in the journal, {billed - counted} not stored by the lost node; {unbroken} unbroken, locally"
        )
    assert (outcome.stopped, outcome.progress.done) == (None, CASES * TRIALS)
    assert len(raw_trials(header.run_id)) == CASES * TRIALS
    assert verdicts(header) == verdicts(whole)
    assert len({(line.unit, line.key, line.number) for line in stored}) == counted, "no stored reply is asked for again"
    # the lost node has half of the calls in flight; a reply takes 50 ms, and its line at most twice as long
    assert 0 <= billed - counted <= 3 * IN_FLIGHT // 2
    assert {request.key for request in all_seats.requests if request.body["model"] == "doctor"} == {key}
    files_with_key = [path for path in session.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert files_with_key == [], "no log of the cluster contains a key"


@needs_ray
@pytest.mark.slow
def test_reasons_why_a_cluster_cannot_start_are_reported(
    all_seats: FakeProvider,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    header = begun(plan(1, base_url=all_seats.base_url))
    with pytest.raises(AnamnesisError, match=r"There is no Ray cluster at 127\.0\.0\.1:9"):
        carry_out(header, registry(), Options(1), on_ray("127.0.0.1:9"))
    local = begun(plan(1, names=plan().names.but(doctor="hf/some/model")))
    with pytest.raises(UsageError, match="The cluster has no GPU, and each worker needs one: hf/some/model is served"):
        carry_out(local, registry(), Options(1), on_ray(None))
    elsewhere = begun(plan(1, base_url="https://models.example.org/v1"))
    with pytest.raises(UsageError, match=r"On a node of the cluster.*The key for openai/doctor is missing"):
        carry_out(elsewhere, registry(), Options(1), on_ray(None))


@needs_ray
@pytest.mark.slow
def test_a_budget_is_overrun_by_one_call_of_each_worker_at_most(all_seats: FakeProvider, priced: Path) -> None:  # noqa: F811
    """Each call of every seat costs $0.018."""
    price = '\n[models."openai/{}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    priced.write_text(PRICED + price.format("patient") + price.format("grader"))
    header = a_campaign(all_seats, priced, cases=8)
    stopped = carry_out(header, registry(priced), Options(2, budget_usd=0.20), on_ray(None))
    assert stopped.stopped == "The budget of $0.20 is used up."
    assert len(all_seats.requests) == len(replies(header))
    assert 0.20 <= 0.018 * len(replies(header)) < 0.20 + 2 * 0.018
    resumed = carry_out(header, registry(priced), Options(2), on_ray(None))
    assert (resumed.stopped, resumed.progress.done) == (None, 8)
    assert len(all_seats.requests) == len(replies(header)), "no paid request is repeated"


@needs_ray
@pytest.mark.slow
def test_a_key_that_is_refused_ends_the_run(all_seats: FakeProvider) -> None:  # noqa: F811
    all_seats.script = [failing(401, "bad key")]
    refused = carry_out(a_campaign(all_seats, cases=8), registry(), Options(4), on_ray(None))
    assert "did not accept the key" in str(refused.stopped)
    assert refused.progress.done == 0
    assert len(all_seats.requests) == len(replies(refused.header)), "failed calls are stored, too"


def test_limits_per_minute_are_divided() -> None:
    """Three workers have a third each; of a limit that is too small to divide, each has 1."""
    limits = RateLimits(requests_per_minute=100, tokens_per_minute=2)
    assert limits.part(3) == RateLimits(requests_per_minute=33, tokens_per_minute=1)
    assert RateLimits().part(3) == RateLimits()
