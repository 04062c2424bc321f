"""A language model on this machine: stops, limits, seeds, and a newcomer's way to its first conversation."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import aclosing
from typing import Any

import pytest

from core.errors import ProviderError
from core.models.base import Sampling, TextPiece
from core.models.register import Entry, add
from core.models.registry import load_registry
from tests.support.asking import ask
from tests.support.browsing import visiting
from tests.support.dashboard import Dashboard, settle

pytestmark = [pytest.mark.real, pytest.mark.slow]
LOCAL = "smollm2-135m"


async def test_a_stopped_call_frees_the_server(local_model: str) -> None:
    async with load_registry() as registry:
        opened = registry.open(local_model)
        await ask(opened, sampling=Sampling(temperature=0.0, max_tokens=2))  # it is loaded by now
        began = time.monotonic()
        await ask(opened, sampling=Sampling(temperature=0.0, max_tokens=2))
        alone = time.monotonic() - began
        long = opened.stream([{"role": "user", "content": "Count from one to a thousand."}], Sampling(max_tokens=2000))
        async with aclosing(long) as items:
            async for item in items:
                if isinstance(item, TextPiece):
                    break
        began = time.monotonic()
        await asyncio.wait_for(ask(opened, sampling=Sampling(temperature=0.0, max_tokens=2)), 60)
        assert time.monotonic() - began < alone + 2, "two thousand tokens would have taken a minute"


async def test_a_prompt_beyond_the_context_is_an_error(local_model: str) -> None:
    folder = load_registry().spec(local_model).model_id
    short = add(Entry("short", "hf", model_id=folder, context=100))
    async with load_registry() as registry:
        words = [{"role": "user", "content": "The patient says that it hurts. " * 20}]
        with pytest.raises(ProviderError, match=r"was asked more than it can read: \d+ tokens of 100"):
            async for _ in registry.open(short).stream(words, Sampling(temperature=0.0, max_tokens=4)):
                pass


async def test_a_seed_gives_one_text_and_another_seed_another(local_model: str) -> None:
    async with load_registry() as registry:
        first_model, second_model = registry.open(local_model), registry.open(local_model)
        seeded = [Sampling(temperature=1.0, max_tokens=24, seed=seed) for seed in (1, 2)]
        calls = [ask(who, sampling=how) for how in seeded for who in (first_model, second_model)]
        first, again, second, once_more = [done.text for done in await asyncio.gather(*calls)]
        assert (first, second) == (again, once_more)
        assert first != second


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_a_local_model_conversations_after_three_clicks_from_the_home_page(
    local_model: str, browser: Any, dashboard: Dashboard
) -> None:
    models = dashboard.database.parent / "models"
    models.mkdir(exist_ok=True)
    # as if fetched: the rest is done by the pages
    (models / LOCAL).symlink_to(load_registry().spec(local_model).model_id)
    with visiting(browser, dashboard) as visitors:
        page = visitors.open("")
        page.locator(f".st-key-get_{LOCAL}-history button").click()  # 1
        page.get_by_role("link", name="Watch it consult").click(timeout=240_000)  # 2
        settle(page)
        page.get_by_role("button", name=re.compile("Start the consultation")).click()  # 3
        began = time.monotonic()
        page.get_by_text("At once").first.click()
        page.get_by_test_id("stChatMessage").nth(1).wait_for(timeout=120_000)
        print(f"first question after {time.monotonic() - began:.1f} s")
        page.get_by_role("button", name=re.compile("New consultation")).wait_for(timeout=280_000)
        page.get_by_text("Diagnosis", exact=True).first.wait_for()
        assert dashboard.trouble == []
