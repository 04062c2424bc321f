"""The estimate of a run before it starts and from its first trials, and a budget that is exact to one call.

The models speak at the lengths that models usually speak at (``tests.support.speaking``).
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.asking.memory import JobOver, ReplyCache
from core.datasets.select import select
from core.events import CallRecord
from core.frameworks.base import Arm, Campaign, framework, read_settings
from core.frameworks.casting import CastNames
from core.jobs.estimate import JobEstimate, estimate
from core.jobs.plan import prepared_cases
from core.jobs.progress import Progress, status
from core.journal import Journal, JournalLine, ReplyLine, RunHeader, journal_path, read_lines
from core.models.base import Sampling, message
from tests.core.jobs.workshop import begun, core, go, plan, registry
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply
from tests.support.speaking import speakers

SEATS = {seat: f"openai/{seat}" for seat in ("doctor", "patient", "grader", "solver", "staff")}
CONVERSATION: tuple[Arm, ...] = (("multi_turn", "mcq"),)
PROTOCOLS: dict[str, tuple[tuple[Arm, ...], tuple[int, int]]] = {
    "craftmd": ((("vignette", "mcq"), ("vignette", "frq"), *CONVERSATION, ("multi_turn", "frq")), (5, 9)),
    "consultation": ((*CONVERSATION, ("multi_turn", "frq")), (10, 10)),
    "automedic": ((("vignette", "mcq"), *CONVERSATION), (20, 20)),
}
"""Protocol → arms, and the range of questions of a doctor: the usual number, or the cap."""


@pytest.fixture
def priced_models(tmp_path: Path) -> Path:
    """A models file in which a thousand tokens cost a dollar, reasoning included."""
    path = tmp_path / "models.toml"
    path.write_text(
        "".join(f'[models."{m}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n' for m in SEATS.values())
    )
    return path


def talking(
    protocol: str, provider: FakeProvider, cases: int, *own: Path, arms: Any = None
) -> tuple[RunHeader, JobEstimate]:
    """Begin a run with a model in every seat; return its header and estimate."""
    chosen = framework(protocol)
    names = CastNames(**{seat.role: SEATS.get(seat.role, "reference/quotes") for seat in chosen.seats})
    ready = prepared_cases(tuple(select("library", cases)), chosen).cases
    settings = read_settings(chosen, {"base_url": provider.base_url})
    campaign_arms = arms or PROTOCOLS[protocol][0]
    campaign = Campaign(names, ready, "library", campaign_arms, trials=1, protocol=protocol, settings=settings)
    return begun(campaign, *own), estimate(campaign, registry(*own), 8)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_estimate_before_the_start_is_close(protocol: str, fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = speakers(*PROTOCOLS[protocol][1])
    header, size = talking(protocol, fake_provider_thread, 5)
    progress = go(header, concurrency=8).progress
    assert size.calls == pytest.approx(progress.calls, rel=0.10)
    assert size.tokens == pytest.approx(progress.tokens, rel=0.15)


@pytest.mark.slow
def test_the_forecast_follows_doctors_that_ask_less(
    fake_provider_thread: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    """Doctors use half of the cap: the estimate is twice too high, the forecast after three trials is close."""
    fake_provider_thread.script = speakers(7, 11)
    header, size = talking("automedic", fake_provider_thread, 8)
    forecasts: list[str] = []
    forecasts_in_status: list[str] = []

    def look(progress: Progress) -> None:
        forecasts.extend([progress.forecast] if progress.forecast else [])
        forecasts_in_status.extend([state["forecast"]] if (state := status(header.run_id)) else [])

    progress_at_end = go(header, concurrency=2, on_progress=look).progress
    match = re.fullmatch(
        r"By what the first (\d+) of 8 took: about ([\d,]+) calls, ([\d,]+) tokens, \$0.00 in all; "
        r"estimated before the start: ([\d,]+) calls, ([\d,]+) tokens, \$0.00\.",
        forecasts[0],
    )
    assert match is not None
    first, calls, tokens, before, _ = (int(number.replace(",", "")) for number in match.groups())
    assert 3 <= first <= 5, "a twentieth, at least three; the second worker may be ahead"
    assert before == size.calls
    assert size.calls > 1.6 * progress_at_end.calls
    assert calls == pytest.approx(progress_at_end.calls, rel=0.10)
    assert tokens == pytest.approx(progress_at_end.tokens, rel=0.15)
    assert set(forecasts_in_status) <= {"", *forecasts}


def test_half_a_budget_stops_resumes_and_stops_again(
    fake_provider_thread: FakeProvider, priced_models: Path, db: Path
) -> None:
    fake_provider_thread.script = speakers(5, 9)
    unlimited, _ = talking("craftmd", fake_provider_thread, 4, priced_models, arms=CONVERSATION)
    progress = go(unlimited, priced_models, concurrency=8).progress
    budget = progress.cost_usd / 2
    first_trials = go(unlimited, priced_models).progress.first
    assert (first_trials.pieces, first_trials.calls, first_trials.tokens) == (4, progress.calls, progress.tokens), (
        "trials of an earlier start count"
    )
    header, size = talking("craftmd", fake_provider_thread, 5, priced_models, arms=CONVERSATION)
    fake_provider_thread.requests.clear()
    speak = speakers(5, 9)
    fake_provider_thread.peak = 0
    fake_provider_thread.script = lambda body: replace(speak(body), delay_s=0.05)
    stopped = go(header, priced_models, concurrency=8, budget_usd=budget)
    calls = [line.call for _, line in read_lines(journal_path(header.run_id)) if isinstance(line, ReplyLine)]
    spent, dearest = sum(call.cost_usd or 0.0 for call in calls), max(call.cost_usd or 0.0 for call in calls)
    assert stopped.stopped == f"The budget of ${budget:.2f} is used up."
    assert budget <= spent <= budget + dearest
    assert size.cost_usd is not None
    assert size.cost_usd > spent
    assert fake_provider_thread.peak >= 3
    requests = len(fake_provider_thread.requests)
    assert requests == len(calls)
    assert go(header, priced_models, concurrency=8, budget_usd=budget).stopped == stopped.stopped
    assert len(fake_provider_thread.requests) == requests
    assert {call.price_source for call in calls} == {"models file"}
    rows = core(db, "report", "spend", "--run", header.run_id, "--format", "csv").stdout.splitlines()
    assert "cached_tokens" in rows[0]
    assert ",models file," in rows[1]


class _NoDisk(Journal):
    async def append(self, *lines: JournalLine) -> None:
        await asyncio.sleep(0)


def test_a_budget_is_exceeded_by_one_call_at_most(tmp_path: Path) -> None:
    for seed in range(6):
        spend_a_budget(random.Random(seed), tmp_path)


def spend_a_budget(chance: random.Random, folder: Path) -> None:
    """Up to 64 calls in flight, of random cost up to their maximum; some fail, some have no known maximum."""
    budget, workers, paid = chance.uniform(0.5, 30.0), chance.choice([1, 4, 16, 64]), list[float]()

    async def spend() -> ReplyCache:
        replies = ReplyCache(
            "run",
            _NoDisk(folder / "none"),
            on_call=lambda call: paid.append(call.cost_usd or 0.0),
            over=lambda: sum(paid) >= budget,
            budget_left=lambda: budget - sum(paid),
        )

        async def work(number: int) -> None:
            with replies.unit(str(number)) as unit, suppress(JobOver):
                for place in range(200):
                    request = unit.request(
                        "doctor", "dialogue", "m", [message("user", f"{number} {place}")], Sampling()
                    )
                    highest_usd = chance.choice([0.05, 0.2, 1.0, 2.5, math.inf])
                    with suppress(ConnectionError):
                        async with request.sending(partial(float, highest_usd)):
                            await asyncio.sleep(chance.uniform(0, 0.002))
                            if chance.random() < 0.05:
                                raise ConnectionError
                        cost = chance.uniform(0.0, min(highest_usd, 3.0))
                        record = CallRecord(call_id="c", role="doctor", purpose="dialogue", model="m", cost_usd=cost)
                        await request.keep(record)

        async with asyncio.timeout(60):
            await asyncio.gather(*map(work, range(workers)))
        return replies

    asyncio.run(spend())
    assert budget <= sum(paid) <= budget + max(paid)


def test_a_dialogue_with_claude_is_marked_for_caching_and_paid_at_the_cached_price(
    fake_provider_thread: FakeProvider, tmp_path: Path
) -> None:
    """Of 1,000 tokens 800 are cached and 100 written: 100 × $1,000 + 800 × $100 + 100 × $1,250 a million, and
    10 tokens of $2,000: $0.325 a call, in place of $1.02."""
    models_file = tmp_path / "claude.toml"
    models_file.write_text(
        '[models."openrouter/anthropic/claude-9"]\n'
        "prices = { input = 1000.0, cached = 100.0, cache_write = 1250.0, output = 2000.0 }\n"
    )
    speak = speakers(3, 3)

    def script(body: dict[str, Any]) -> Reply:
        plain = [{**entry, "content": _text(entry)} for entry in body["messages"]]
        reply = speak({"model": "doctor", "messages": plain})
        cached = {"prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 100}}
        return Reply(reply.text, usage=(1000, 10), details=cached)

    fake_provider_thread.script = script
    settings = read_settings(framework(), {"base_url": fake_provider_thread.base_url})
    names = beside_rules("openrouter/anthropic/claude-9")
    header = begun(plan(1, names=names, arms=(("vignette", "mcq"), *CONVERSATION), settings=settings), models_file)
    done = go(header, models_file, concurrency=1)
    sent = [body["messages"] for body in fake_provider_thread.bodies]
    marked = [[n for n, entry in enumerate(messages) if not isinstance(entry["content"], str)] for messages in sent]
    conversations = sent[:-2]  # three questions and the diagnosis; the arms come after it
    assert marked[: len(conversations)] == [[len(messages) - 1] for messages in conversations]
    assert len(conversations) == 4
    assert conversations[0][-1]["content"] == [
        {"type": "text", "text": _text(conversations[0][-1]), "cache_control": {"type": "ephemeral"}}
    ]
    # each call begins with the marked part of the call before; a single question on a vignette is not marked
    assert [_text(entry) for entry in conversations[1][: len(conversations[0])]] == [
        _text(entry) for entry in conversations[0]
    ]
    assert sorted(len(places) for places in marked[len(conversations) :]) == [0, 1]
    assert done.progress.cost_usd == pytest.approx(0.325 * len(sent))
    calls = [line.call for _, line in read_lines(journal_path(header.run_id)) if isinstance(line, ReplyLine)]
    assert all(isinstance(entry["content"], str) for call in calls for entry in call.request["messages"])
    assert {call.cache_write_tokens for call in calls} == {100}


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def test_an_estimate_names_the_models_with_unknown_reasoning() -> None:
    """A reasoning model writes hundreds of tokens before its reply; their number is not known in advance."""
    for name, warning in (("openai/gpt-5", " Without what openai/gpt-5 will think before each reply."), ("gpt-4o", "")):
        prices = estimate(plan(2, names=beside_rules(name)), registry(), 4).prices
        assert re.fullmatch(r"Prices: genai-prices [\d.]+(, price of [\d-]+)?\." + re.escape(warning), prices), prices
