"""Applications as models: a function or an endpoint that receives the messages so far and replies with text."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from core.errors import ProviderError, UsageError
from core.models.base import CONVERSATION, message
from core.models.failures import RetryPolicy
from core.models.prices import source
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from tests.support.talking import HELLO, ask, hear

QUICK = RetryPolicy(attempts=3, base_s=0.001, cap_s=0.002, max_wait_s=0.2)
TOY = """
import asyncio, time
seen = []

def reply(messages):
    seen.append(messages)
    return f"I heard {len(messages)} messages, last: {messages[-1]['content']}"

async def later(messages, thread):
    await asyncio.sleep(0)
    return {"reply": f"thread {thread}", "usage": {"prompt_tokens": 5, "completion_tokens": 3}, "cost_usd": 0.25,
            "reasoning": "Which thread is it?"}

class Doctor:
    async def __call__(self, messages):
        return "an object that is called"

doctor = Doctor()
def broken(messages): raise ValueError("no such patient, key sk-live-0123456789")
def leaves(messages): raise SystemExit(3)
def silent(messages): return "  "
def number(messages): return 7
def slow(messages): time.sleep(5); return "late"
constant = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def toy(folder: Path) -> str:
    """The name of a new module: Python loads a module only once."""
    name = f"toy_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(TOY)
    return name


def opened(**more: Any) -> Registry:
    return load_registry([SHIPPED], retry=QUICK, programs=True, **more)


def own(folder: Path, text: str) -> Registry:
    (folder / "own.toml").write_text(text)
    return load_registry([SHIPPED, folder / "own.toml"], retry=QUICK)


async def test_a_function_receives_the_messages_and_returns_the_reply(toy: str) -> None:
    done = await ask(opened().open(f"python:{toy}:reply"))
    assert done.text == "I heard 2 messages, last: How are you?"
    assert (done.model, done.usage.estimated, done.cost_usd) == (f"python/{toy}:reply", True, None)
    assert done.request["messages"] == HELLO
    assert source(opened().spec(done.model)) is None, "the cost of its own calls is not known"


async def test_a_function_may_be_async_and_report_usage_and_cost(toy: str) -> None:
    done = await ask(opened().open(f"python:{toy}:later"))
    assert done.text.startswith("thread ")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.estimated) == (5, 3, False)
    assert (done.cost_usd, done.reasoning) == (0.25, "Which thread is it?")
    assert (await ask(opened().open(f"python:{toy}:doctor"))).text == "an object that is called"


async def test_each_conversation_has_its_own_thread(toy: str) -> None:
    model = opened().open(f"python:{toy}:later")

    async def thread(conversation: str, *texts: str) -> str:
        CONVERSATION.set(conversation)
        turns = [message("assistant" if n % 2 else "user", text) for n, text in enumerate(texts)]
        return (await ask(model, [message("system", "You are a doctor."), *turns])).text

    first = await thread("run/1", "It hurts.")
    assert await thread("run/1", "It hurts.", "Where?", "Here.") == first
    assert await thread("run/2", "It hurts.") != first, "the same words in another trial"
    assert await thread("run/1", "A man of 40 …") != first, "a request outside the conversation"


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("broken", "server", "it raised ValueError: no such patient"),
        ("leaves", "server", "it raised SystemExit"),
        ("silent", "blank", "no text"),
        ("number", "malformed", "it answered with int"),
    ],
)
async def test_a_failing_function_is_a_provider_error_with_one_sentence(
    toy: str, function: str, kind: str, words: str
) -> None:
    with pytest.raises(ProviderError) as caught:
        await hear(opened().open(f"python:{toy}:{function}"))
    assert caught.value.kind == kind
    assert words in str(caught.value)
    assert "0123456789" not in str(caught.value)


async def test_a_slow_function_times_out(folder: Path, toy: str) -> None:
    registry = own(folder, f'[models."python/t"]\nmodel_id = "{toy}:slow"\ntimeouts = {{ call_s = 0.1 }}\n')
    began = time.monotonic()
    with pytest.raises(ProviderError, match=r"within 0\.1 seconds") as caught:
        await hear(registry.open("python/t"))
    assert (caught.value.kind, caught.value.attempts) == ("timeout", 1)
    assert time.monotonic() - began < 4.5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module_here:reply", "There is no module no_such_module_here in"),
        ("TOY:nothing", "has no function nothing"),
        ("TOY:constant", "has no function constant"),
        ("TOY", "write MODULE:FUNCTION"),
        ("needs_more:reply", "it needs a_missing_package"),
        ("misspelt:reply", "cannot be loaded (SyntaxError"),
    ],
)
def test_functions_that_cannot_be_loaded_are_refused_on_opening(folder: Path, toy: str, name: str, words: str) -> None:
    (folder / "needs_more.py").write_text("import a_missing_package\n")
    (folder / "misspelt.py").write_text("def reply(\n")
    with pytest.raises(UsageError) as caught:
        opened().open(f"python:{name.replace('TOY', toy)}")
    assert words in str(caught.value)


async def test_a_module_is_loaded_from_the_folder_of_its_entry(
    tmp_path: Path, toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{toy}_there.py").write_text("def reply(messages): return 'from there'")
    registry = own(tmp_path, f'[models."python/t"]\nmodel_id = "{toy}_there:reply"\nfolder = "{elsewhere}"\n')
    assert (await ask(registry.open("t"))).text == "from there"


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def endpoint(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/chat", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/chat"
    finally:
        await runner.cleanup()


async def test_an_endpoint_receives_each_message_with_its_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[dict[str, Any]] = []

    async def chat(request: web.Request) -> web.Response:
        requests.append({**(await request.json()), "key": request.headers.get("Authorization")})
        return web.json_response({"reply": "Since when?", "usage": {"prompt_tokens": 9, "completion_tokens": 2}})

    monkeypatch.setenv("CLINIC_KEY", "sk-clinic-1")
    async with endpoint(chat) as url:
        done = await ask(load_registry([SHIPPED]).open(url))
        registry = own(folder, f'[models."http/clinic"]\nbase_url = "{url}"\napi_key_env = "CLINIC_KEY"\n')
        await ask(registry.open("clinic"))
    assert (done.text, done.model, done.usage.prompt_tokens, done.cost_usd) == ("Since when?", f"http/{url}", 9, None)
    assert requests[0] == {"thread": requests[0]["thread"], "message": "How are you?", "messages": HELLO, "key": None}
    assert requests[1]["key"] == "Bearer sk-clinic-1"


@pytest.mark.parametrize(
    ("status", "body", "kind", "words", "times"),
    [
        (503, "busy", "server", "HTTP 503 (busy)", 3),
        (429, "slow down", "rate_limit", "HTTP 429", 11),
        (401, "key sk-hush-0123456789", "auth", "check the key", 1),
        (404, "gone", "bad_request", "HTTP 404 (gone)", 1),
        (200, "plain words", "malformed", "instead of JSON", 1),
        (200, '{"answer": "x"}', "malformed", "no text", 1),
    ],
)
async def test_a_failing_endpoint_is_a_provider_error(
    status: int, body: str, kind: str, words: str, times: int
) -> None:
    requests = []

    async def chat(request: web.Request) -> web.Response:
        requests.append(request)
        return web.Response(status=status, text=body)

    async with endpoint(chat) as url:
        with pytest.raises(ProviderError) as caught:
            await hear(opened().open(url))
    assert (caught.value.kind, len(requests)) == (kind, times)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


async def test_a_missing_endpoint_is_reported() -> None:
    with pytest.raises(ProviderError, match=r"nothing listens at 127\.0\.0\.1:9"):
        await hear(opened().open("http://127.0.0.1:9/chat"))


@pytest.mark.parametrize("name", ["python:os:system", "python/os:system"])
def test_programs_run_only_if_named_on_the_command_line(folder: Path, name: str) -> None:
    registry = load_registry([SHIPPED])
    for use in (registry.spec, registry.open, registry.missing_key):
        with pytest.raises(UsageError, match="would run a program"):
            use(name)
    assert registry.group(name) == "application", "its stored runs are still shown"
    assert os.getcwd() == str(folder)


def test_a_program_has_no_address(toy: str) -> None:
    with pytest.raises(UsageError, match="has no address"):
        opened().spec(f"python:{toy}:reply", base_url="http://127.0.0.1:9/v1")
