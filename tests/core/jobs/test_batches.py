"""Jobs without a dialogue through a Batch API: half the price, and paid once even if the process is ended.

A call of 11 + 7 tokens of ``openai/judge`` costs $0.018, and $0.009 in a batch.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import AnamnesisError, UsageError
from core.jobs import engine
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.estimate import estimate as estimate_run
from core.jobs.judge import Judging
from core.jobs.progress import Progress, Stop, status
from core.jobs.regrade import Regrading
from core.jobs.run import carry_out
from core.journal import ReplyLine, read_lines
from core.models import batches
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.test_everything_paid import world
from tests.core.jobs.workshop import CONVERSATION, FREE, NO_WAIT, begun, plan, registry, six_conversations
from tests.support.batching import EXPIRED, BatchProvider
from tests.support.fake_provider import running
from tests.support.replies import Reply, failing
from tests.support.stores import copy_of

MODELS = ("judge", "strict", "doctor")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SETTLE_S", 0.2)
    monkeypatch.setattr(batches, "FIRST_LOOK_S", 0.05)
    monkeypatch.setattr(batches, "MOST_LOOK_S", 0.1)


@pytest.fixture
def provider() -> Iterator[BatchProvider]:
    with running(world, BatchProvider) as provider:
        yield provider


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    entry = '[models."openai/{}"]\nbatch = true\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    path.write_text("".join(map(entry.format, MODELS)))
    return path


def batched(*own: Path) -> Registry:
    return load_registry([SHIPPED, *own], retry=NO_WAIT, batch=True)


@pytest.fixture
def conversations(db: Path) -> int:
    copy_of(six_conversations, db.parent)
    return 6


def judged(provider: BatchProvider, own: Path, stop: Stop | None = None, **options: Any) -> AskOutcome:
    job = Judging("patient_terms", ("openai/judge",), base_url=provider.base_url)
    return run_job(job, Store(), batched(own), Options(**{"concurrency": 2, **options}), stop)


def replies() -> list[ReplyLine]:
    journals = Store().journals.glob("judging-*/journal.jsonl")
    return [line for path in journals for _, line in read_lines(path) if isinstance(line, ReplyLine)]


@pytest.mark.slow
def test_judging_is_sent_as_one_batch_at_half_the_price(
    provider: BatchProvider, own: Path, conversations: int, db: Path
) -> None:
    """One status request fails; the status says since when the job waits and how many requests are done."""
    provider.looks, provider.broken = 12, 2
    statuses: list[dict[str, Any]] = []
    words: set[str] = set()

    def look(progress: Progress) -> None:
        (name,) = {progress.replies.run_id} if progress.replies else {""}
        if name and (now := status(name)) and now["batch"]:
            statuses.append(now["batch"])
        words.add(progress.in_words())

    job = Judging("patient_terms", ("openai/judge",), base_url=provider.base_url)
    size = estimate_job(job, Store(), batched(own))
    assert size.prices == "Prices: models file, halved for a batch."
    done = judged(provider, own, on_progress=look)
    assert (done.done, done.calls, done.cost_usd) == (
        conversations,
        conversations,
        pytest.approx(conversations * 0.009),
    )
    (batch,) = provider.made.values()
    assert (batch.endpoint, batch.urls, len(batch.requests)) == (
        "/v1/chat/completions",
        {"/v1/chat/completions"},
        conversations,
    )
    assert not any({"stream", "stream_options"} & body.keys() for body in batch.requests.values())
    assert provider.requests == []
    assert {line.call.price_source for line in replies()} == {"models file, halved for a batch"}
    assert statuses
    assert {(status["of"], status["done"]) for status in statuses} <= {(6, 0), (6, 3), (6, 6)}
    assert time.time() - 60 < statuses[0]["since"] <= time.time()
    assert any("waiting for a batch since 20" in text and "3 of 6 requests done" in text for text in words)
    assert list(Store().journals.glob("batches/*")) == [], "a finished batch is forgotten"


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True])
def test_a_restarted_process_finds_its_batch_again(
    lost: bool, provider: BatchProvider, own: Path, conversations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends while the batch runs, or before it received the name of the batch."""
    provider.on_hold, stop = True, Stop()

    def leave(progress: Progress) -> None:
        if provider.made and (progress.batches() or lost):
            stop.ask("The machine is switched off.")

    if lost:
        provider.unheard = 1
    stopped = judged(provider, own, stop, on_progress=leave)
    assert (stopped.done, stopped.stopped, len(provider.made)) == (0, "The machine is switched off.", 1)
    provider.on_hold = False
    done = judged(provider, own)
    assert (done.done, len(provider.made), provider.charged) == (conversations, 1, conversations)
    assert done.cost_usd == pytest.approx(conversations * 0.009)
    assert judged(provider, own).kept == conversations
    assert len(provider.made) == 1


@pytest.mark.slow
def test_replies_that_were_not_journaled_are_fetched_again(
    provider: BatchProvider, own: Path, conversations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, hear = Stop(), engine.Engine._hear

    def dying(self: Any, call: Any) -> None:
        hear(self, call)
        if len(replies()) >= 2:
            raise engine.JobOver

    monkeypatch.setattr(engine.Engine, "_hear", dying)
    monkeypatch.setattr(batches, "SETTLE_S", 0.5)
    judged(provider, own, stop)
    journaled = len(replies())
    monkeypatch.setattr(engine.Engine, "_hear", hear)
    done = judged(provider, own)
    assert len(provider.made) == 1
    assert provider.charged == conversations
    assert len(replies()) == conversations
    assert done.calls == conversations - journaled


def test_expired_or_failed_lines_are_sent_again_or_reported(
    provider: BatchProvider, own: Path, conversations: int
) -> None:
    """Of six requests the first expires once, the second fails once, the fourth is empty once; the third is refused."""
    attempts: dict[str, int] = {}

    def script(body: dict[str, Any]) -> Reply | str:
        words = str(body["messages"][-1]["content"])
        attempts[words] = attempts.get(words, 0) + 1
        number = list(attempts).index(words)
        if number == 2:
            return failing(400, "no such thing")
        if attempts[words] == 1 and number < 4:
            return (EXPIRED, failing(500, "out of order"), "", Reply(""))[number]
        return world(body)

    provider.script = script
    done = judged(provider, own)
    assert (done.done, done.failed) == (5, 1)
    assert done.failure.endswith(
        "the provider answered HTTP 400 (no such thing); check the model's name and its settings in the models file."
    )
    assert sum(len(batch.requests) for batch in provider.made.values()) == conversations + 3
    assert provider.charged == 5 + 1
    assert [line.call.attempts for line in replies() if line.call.attempts > 1] == [2, 2, 2]


def test_a_refused_batch_ends_the_job_with_a_message(provider: BatchProvider, own: Path, conversations: int) -> None:
    provider.refused = "Enqueued token limit reached"
    with pytest.raises(AnamnesisError, match=r"openai/judge: its provider refused the batch \(Enqueued token limit"):
        judged(provider, own)
    provider.refused = ""
    assert judged(provider, own).done == conversations


def test_a_budget_limits_batches(provider: BatchProvider, own: Path, conversations: int) -> None:
    done = judged(provider, own, budget_usd=0.02)
    assert done.stopped == "The budget of $0.02 is used up."
    assert done.cost_usd == pytest.approx(0.027)
    assert provider.charged == 3


def test_a_model_without_a_batch_api_is_refused_before_anything_is_sent(
    provider: BatchProvider, conversations: int
) -> None:
    with pytest.raises(UsageError, match="openai/judge is not known to have a batch API: leave --batch out, or set"):
        run_job(Judging("patient_terms", ("openai/judge",), base_url=provider.base_url), Store(), batched(), Options())
    assert provider.made == {}
    header = begun(plan(1, arms=CONVERSATION, base_url=provider.base_url))
    with pytest.raises(UsageError, match="A dialogue cannot wait for batches"):
        carry_out(header, batched(), Options())


@pytest.mark.slow
def test_a_grader_of_two_steps_makes_two_batches_and_vignette_arms_make_one(
    provider: BatchProvider, own: Path, db: Path
) -> None:
    """Four vignettes in two arms: one batch of eight; then another grader judges their free responses."""
    arms = (("vignette", "mcq"), *FREE)
    diseases = itertools.count()

    def script(body: dict[str, Any]) -> str:
        message = str(body["messages"][-1]["content"])
        if body["model"] == "strict":
            match = re.search(r"Disease \d+", message)
            return match[0] if match and "doctor wrote" in message else "No"
        return f"Perhaps it is Disease {next(diseases)}, or so." if "name of one single" in message else "A. Gout"

    provider.script = script
    header = begun(plan(4, arms=arms, base_url=provider.base_url), own)
    costs = [estimate_run(plan(4, arms=arms), models, 4).cost_usd or 0 for models in (batched(own), registry(own))]
    assert costs[0] == pytest.approx(costs[1] / 2)
    played = carry_out(header, batched(own), Options(1)).progress
    assert (played.done, played.calls) == (4, 8)
    assert [len(batch.requests) for batch in provider.made.values()] == [8]
    fold(Store())
    provider.made.clear()
    graded = run_job(Regrading((header.run_id,), "openai/strict", base_url=provider.base_url), Store(), batched(own))
    assert (graded.done, graded.calls) == (4, 8)
    assert provider.requests == []
    assert [len(batch.requests) for batch in provider.made.values()] == [4, 4]


@pytest.mark.slow
def test_azure_batches_use_its_endpoint(provider: BatchProvider, conversations: int, tmp_path: Path) -> None:
    models_file = tmp_path / "azure.toml"
    models_file.write_text('[models."azure/judge"]\nprices = { input = 1000.0, output = 1000.0 }\n')
    job = Judging("patient_terms", ("azure/judge",), base_url=provider.root_url)
    assert run_job(job, Store(), batched(models_file), Options()).done == conversations
    (batch,) = provider.made.values()
    assert (batch.endpoint, batch.urls) == ("/chat/completions", {"/chat/completions"})


def test_a_batch_whose_creation_was_not_confirmed_is_found_later(
    provider: BatchProvider, own: Path, conversations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to its creation is lost: the next command looks for the batch and makes no second one."""
    monkeypatch.setattr(batches, "_TRIES", 1)
    provider.unheard = 1
    with pytest.raises(AnamnesisError, match="its provider did not make a batch: the provider answered HTTP 503"):
        judged(provider, own)
    assert judged(provider, own).done == conversations
    assert (len(provider.made), provider.charged) == (1, conversations)
