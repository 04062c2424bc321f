"""Trials on a Ray cluster: a lost node costs its calls in flight and nothing else."""

from __future__ import annotations

import importlib.util
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from core.errors import AnamnesisError, UsageError
from core.jobs.cluster import on_ray
from core.jobs.engine import Options
from core.jobs.progress import Progress
from core.jobs.run import carry_out
from tests.core.jobs.test_paid_once import a_campaign, all_seats, replies, verdicts  # noqa: F401
from tests.core.jobs.workshop import PRICED, begun, core, go, plan, raw_trials, registry
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider

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


@needs_ray
@pytest.mark.soak
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
    billed, counted = len(all_seats.requests), len(replies(header))
    with capsys.disabled():
        print(
            f"\n{CASES * TRIALS} trials on two nodes, one removed after {removed_at[0]}: {billed} calls billed, "
            f"{counted} in the journal, {billed - counted} in flight on the lost node; {unbroken} unbroken, locally"
        )
    assert (outcome.stopped, outcome.progress.done) == (None, CASES * TRIALS)
    assert len(raw_trials(header.run_id)) == CASES * TRIALS
    assert verdicts(header) == verdicts(whole)
    assert 0 <= billed - counted <= IN_FLIGHT
    assert {request.key for request in all_seats.requests if request.body["model"] == "doctor"} == {key}
    files_with_key = [path for path in session.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert files_with_key == [], "no log of the cluster contains a key"


@needs_ray
@pytest.mark.soak
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
@pytest.mark.soak
def test_one_budget_holds_on_a_cluster_of_this_machine(all_seats: FakeProvider, priced: Path) -> None:  # noqa: F811
    """Each call of every seat costs $0.018, so that the sum is $0.108 with the sixth."""
    price = '\n[models."openai/{}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    priced.write_text(PRICED + price.format("patient") + price.format("grader"))
    header = a_campaign(all_seats, priced, cases=8)
    stopped = carry_out(header, registry(priced), Options(4, budget_usd=0.10), on_ray(None))
    assert stopped.stopped == "The budget of $0.10 is used up."
    assert len(all_seats.requests) == len(replies(header)) == 6, (
        "no request is sent while a call in flight may use up the budget"
    )
