"""A real language model in every seat: it rambles, repeats itself and ignores requested formats.

The model is SmolLM2-135M-Instruct as fetched by `models get`, or the folder that ``ANAMNESIS_REAL_MODEL``
names; ``make test-all`` fetches it if it is missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson
import pytest

from core import paths
from core.cli.app import main
from core.errors import AnamnesisError, ProviderError
from core.frameworks.base import frameworks
from core.journal import journal_path
from core.models import local_server
from core.models.base import Sampling, TextPiece
from core.models.fetch import get
from core.models.register import Entry, add
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.trials import transcripts
from tests.support.asking import ask
from tests.support.browsing import visiting
from tests.support.dashboard import Dashboard, settle

pytestmark = pytest.mark.real
NAME = "smollm2-135m"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the model in a separate models file."""
    own = tmp_path_factory.mktemp("models")
    (own / "models.toml").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_MODELS", str(own / "models.toml"))
        patch.delenv("ANAMNESIS_DB", raising=False)
        stored = Path(os.environ.get("ANAMNESIS_REAL_MODEL", paths.local_folder() / "models" / NAME))
        if not stored.is_dir():
            if not os.environ.get("ANAMNESIS_FETCH"):
                pytest.skip(
                    f"{NAME} is not here: `python -m core models get {NAME}` brings it, as ANAMNESIS_FETCH=1 does"
                )
            try:
                get(NAME)
            except AnamnesisError as error:
                pytest.skip(f"{NAME} cannot be fetched: {error}")
        patch.setenv("HF_HUB_OFFLINE", "1")
        name = get(str(stored), NAME)
        server = local_server.acquire(load_registry().spec(name))  # loaded once for all tests
        yield name
        local_server.release(server)


def calls_of(run_id: str) -> list[dict[str, Any]]:
    lines = map(orjson.loads, journal_path(run_id).read_bytes().splitlines())
    return [line["call"] for line in lines if line.get("type") == "reply"]


@pytest.mark.parametrize("framework", sorted(frameworks()))
def test_a_real_model_plays_every_seat_of_a_framework(
    framework: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    tested_framework = frameworks()[framework]
    first = next(arm for arm in tested_framework.arms if arm[0] == "multi_turn")
    cap = "--max-messages" if framework == "craftmd" else "--cap"
    few = f"--arms {':'.join(first)} {cap} 4 --max-tokens 40 --limit 1 --trials 1"
    assert main(["run", "--protocol", framework, "--doctor", model, "--cases", "library", *few.split()]) == 0
    with Store().read() as cursor:
        ((run_id,),) = cursor.execute("SELECT run_id FROM runs").fetchall()
        (transcript,) = transcripts(cursor, run_id)
    calls = calls_of(run_id)
    assert calls
    assert [call["error"] for call in calls if call["error"]] == []
    limits = [call["request"].get("max_tokens") for call in calls]
    assert None not in limits, "no reply is without a limit"
    assert [call for call, most in zip(calls, limits, strict=True) if call["completion_tokens"] > most] == []
    assert not any(call["tokens_estimated"] for call in calls), "tokens are the server's own"
    sent = Counter(
        json.dumps(call["request"], sort_keys=True) for call in calls if not call["request"].get("temperature")
    )
    assert max(sent.values(), default=1) == 1, "no request is repeated at temperature 0"
    # missing and unreadable answers are not wrong answers
    assert {grade["verdict"] for grade in transcript.get("grades", [])} <= {
        "correct",
        "incorrect",
        "no_diagnosis",
        "multiple",
        "ungradable",
        "refused",
    }


async def test_a_stopped_call_frees_the_server(model: str) -> None:
    async with load_registry() as registry:
        opened = registry.open(model)
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


async def test_a_prompt_beyond_the_context_is_an_error(model: str) -> None:
    folder = load_registry().spec(model).model_id
    short = add(Entry("short", "hf", model_id=folder, context=100))
    async with load_registry() as registry:
        words = [{"role": "user", "content": "The patient says that it hurts. " * 20}]
        with pytest.raises(ProviderError, match=r"was asked more than it can read: \d+ tokens of 100"):
            async for _ in registry.open(short).stream(words, Sampling(temperature=0.0, max_tokens=4)):
                pass


async def test_a_seed_gives_one_text_and_another_seed_another(model: str) -> None:
    async with load_registry() as registry:
        first_model, second_model = registry.open(model), registry.open(model)
        seeded = [Sampling(temperature=1.0, max_tokens=24, seed=seed) for seed in (1, 2)]
        calls = [ask(who, sampling=how) for how in seeded for who in (first_model, second_model)]
        first, again, second, once_more = [done.text for done in await asyncio.gather(*calls)]
        assert (first, second) == (again, once_more)
        assert first != second


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_local_model_conversations_after_three_clicks_from_the_home_page(
    model: str, browser: Any, dashboard: Dashboard
) -> None:
    models = dashboard.database.parent / "models"
    models.mkdir(exist_ok=True)
    (models / NAME).symlink_to(load_registry().spec(model).model_id)  # as if fetched: the rest is done by the pages
    with visiting(browser, dashboard) as visitors:
        page = visitors.open("")
        page.locator(f".st-key-get_{NAME}-history button").click()  # 1
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
