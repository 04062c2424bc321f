"""Work that needs no dialogue by a Batch API: half the price, paid once however often the process is ended.

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
from core.jobs.judging import TermsJudging
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
from tests.core.jobs.workshop import FREE, NO_WAIT, TALK, begun, plan, registry, six_talks
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
    with running(world, BatchProvider) as found:
        yield found


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    entry = '[models."openai/{}"]\nbatch = true\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    path.write_text("".join(map(entry.format, MODELS)))
    return path


def batched(*own: Path) -> Registry:
    return load_registry([SHIPPED, *own], retry=NO_WAIT, batch=True)


@pytest.fixture
def talks(db: Path) -> int:
    """Six stored conversations to be judged."""
    copy_of(six_talks, db.parent)
    return 6


def judged(provider: BatchProvider, own: Path, stop: Stop | None = None, **options: Any) -> AskOutcome:
    wanted = TermsJudging("openai/judge", base_url=provider.base_url)
    return run_job(wanted, Store(), batched(own), Options(**{"concurrency": 2, **options}), stop)


def replies() -> list[ReplyLine]:
    journals = Store().journals.glob("judging-*/journal.jsonl")
    return [line for path in journals for _, line in read_lines(path) if isinstance(line, ReplyLine)]


def test_a_judging_goes_as_one_batch_at_half_the_price(
    provider: BatchProvider, own: Path, talks: int, db: Path
) -> None:
    """Every look but the third is answered; the status says since when it waits, and how many are done."""
    provider.looks, provider.broken = 12, 2
    told: list[dict[str, Any]] = []
    words: set[str] = set()

    def look(progress: Progress) -> None:
        (name,) = {progress.replies.run_id} if progress.replies else {""}
        if name and (now := status(name)) and now["batch"]:
            told.append(now["batch"])
        words.add(progress.in_words())

    wanted = TermsJudging("openai/judge", base_url=provider.base_url)
    thought = estimate_job(wanted, Store(), batched(own))
    assert thought.prices == "Prices: models file, halved for a batch."
    done = judged(provider, own, on_progress=look)
    assert (done.done, done.calls, done.cost_usd) == (talks, talks, pytest.approx(talks * 0.009))
    (made,) = provider.made.values()
    assert (made.endpoint, made.urls, len(made.requests)) == ("/v1/chat/completions", {"/v1/chat/completions"}, talks)
    assert not any({"stream", "stream_options"} & body.keys() for body in made.requests.values())
    assert provider.requests == []
    assert {line.call.price_source for line in replies()} == {"models file, halved for a batch"}
    assert told
    assert {(one["of"], one["done"]) for one in told} <= {(6, 0), (6, 3), (6, 6)}
    assert time.time() - 60 < told[0]["since"] <= time.time()
    assert any("waiting for a batch since 20" in one and "3 of 6 requests done" in one for one in words)
    assert list(Store().journals.glob("batches/*")) == [], "what is kept need not be found again"


@pytest.mark.parametrize("lost", [False, True])
def test_a_process_that_ends_finds_its_batch_again(
    lost: bool, provider: BatchProvider, own: Path, talks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while the batch is under way; or before it has heard that there is one."""
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
    assert (done.done, len(provider.made), provider.charged) == (talks, 1, talks)
    assert done.cost_usd == pytest.approx(talks * 0.009)
    assert judged(provider, own).kept == talks
    assert len(provider.made) == 1


def test_replies_that_were_not_journaled_are_fetched_again(
    provider: BatchProvider, own: Path, talks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies with two replies of six in the journal."""
    stop, keep = Stop(), engine.Engine._hear

    def dying(self: Any, call: Any) -> None:
        keep(self, call)
        if len(replies()) >= 2:
            raise engine.JobOver

    monkeypatch.setattr(engine.Engine, "_hear", dying)
    monkeypatch.setattr(batches, "SETTLE_S", 0.5)
    judged(provider, own, stop)
    had = len(replies())
    monkeypatch.setattr(engine.Engine, "_hear", keep)
    done = judged(provider, own)
    assert len(provider.made) == 1
    assert provider.charged == talks
    assert len(replies()) == talks
    assert done.calls == talks - had


def test_lines_that_expired_or_failed_are_asked_again_or_said(provider: BatchProvider, own: Path, talks: int) -> None:
    """Of six the first expires once, the second is 500 once, the fourth with nothing; the third is refused."""
    asked: dict[str, int] = {}

    def script(body: dict[str, Any]) -> Reply | str:
        words = str(body["messages"][-1]["content"])
        asked[words] = asked.get(words, 0) + 1
        number = list(asked).index(words)
        if number == 2:
            return failing(400, "no such thing")
        if asked[words] == 1 and number < 4:
            return (EXPIRED, failing(500, "out of order"), "", Reply(""))[number]
        return world(body)

    provider.script = script
    done = judged(provider, own)
    assert (done.done, done.failed) == (5, 1)
    assert done.failure.endswith(
        "the provider answered HTTP 400 (no such thing); check the model's name and its settings in the models file."
    )
    assert sum(len(made.requests) for made in provider.made.values()) == talks + 3
    assert provider.charged == 5 + 1
    assert [line.call.attempts for line in replies() if line.call.attempts > 1] == [2, 2, 2]


def test_a_refused_batch_ends_the_job_in_a_sentence(provider: BatchProvider, own: Path, talks: int) -> None:
    provider.refused = "Enqueued token limit reached"
    with pytest.raises(AnamnesisError, match=r"openai/judge: its provider refused the batch \(Enqueued token limit"):
        judged(provider, own)
    provider.refused = ""
    assert judged(provider, own).done == talks


def test_a_budget_holds_in_batches(provider: BatchProvider, own: Path, talks: int) -> None:
    done = judged(provider, own, budget_usd=0.02)
    assert done.stopped == "The budget of $0.02 is used up."
    assert done.cost_usd == pytest.approx(0.027)
    assert provider.charged == 3


def test_who_has_no_batch_api_is_told_before_anything_is_sent(provider: BatchProvider, talks: int) -> None:
    with pytest.raises(UsageError, match="openai/judge is not known to have a batch API: leave --batch out, or set"):
        run_job(TermsJudging("openai/judge", base_url=provider.base_url), Store(), batched(), Options())
    assert provider.made == {}
    header = begun(plan(1, arms=TALK, base_url=provider.base_url))
    with pytest.raises(UsageError, match="A dialogue cannot wait for batches"):
        carry_out(header, batched(), Options())


def test_a_grader_of_two_steps_makes_two_batches_and_a_campaign_on_paper_goes_too(
    provider: BatchProvider, own: Path, db: Path
) -> None:
    """Four written cases asked in two arms: one batch of eight; then their free responses by another grader."""
    arms = (("vignette", "mcq"), *FREE)
    diseases = itertools.count()

    def script(body: dict[str, Any]) -> str:
        asked = str(body["messages"][-1]["content"])
        if body["model"] == "strict":
            found = re.search(r"Disease \d+", asked)
            return found[0] if found and "doctor wrote" in asked else "No"
        return f"Perhaps it is Disease {next(diseases)}, or so." if "name of one single" in asked else "A. Gout"

    provider.script = script
    header = begun(plan(4, arms=arms, base_url=provider.base_url), own)
    thought = [estimate_run(plan(4, arms=arms), one, 4).cost_usd or 0 for one in (batched(own), registry(own))]
    assert thought[0] == pytest.approx(thought[1] / 2)
    played = carry_out(header, batched(own), Options(1)).progress
    assert (played.done, played.calls) == (4, 8)
    assert [len(made.requests) for made in provider.made.values()] == [8]
    fold(Store())
    provider.made.clear()
    graded = run_job(Regrading((header.run_id,), "openai/strict", base_url=provider.base_url), Store(), batched(own))
    assert (graded.done, graded.calls) == (4, 8)
    assert provider.requests == []
    assert [len(made.requests) for made in provider.made.values()] == [4, 4]


def test_azure_is_asked_in_its_own_words(provider: BatchProvider, talks: int, tmp_path: Path) -> None:
    own = tmp_path / "azure.toml"
    own.write_text('[models."azure/judge"]\nprices = { input = 1000.0, output = 1000.0 }\n')
    wanted = TermsJudging("azure/judge", base_url=provider.root_url)
    assert run_job(wanted, Store(), batched(own), Options()).done == talks
    (made,) = provider.made.values()
    assert (made.endpoint, made.urls) == ("/chat/completions", {"/chat/completions"})


def test_a_batch_that_was_made_without_anybody_hearing_of_it_is_found_later(
    provider: BatchProvider, own: Path, talks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to its making is lost, and it is not asked again: the next command looks for it."""
    monkeypatch.setattr(batches, "_TRIES", 1)
    provider.unheard = 1
    with pytest.raises(AnamnesisError, match="its provider did not make a batch: the provider answered HTTP 503"):
        judged(provider, own)
    assert judged(provider, own).done == talks
    assert (len(provider.made), provider.charged) == (1, talks)
