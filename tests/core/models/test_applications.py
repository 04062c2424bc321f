"""Applications as models: a function that receives the messages so far and replies with text."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from core.errors import ProviderError, UsageError
from core.models.base import CONVERSATION, message
from core.models.failures import RetryPolicy
from core.models.prices import source
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from tests.support.asking import HELLO, ask, hear

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


def test_functions_that_cannot_be_loaded_are_refused_on_opening(
    folder: Path, toy: str, subtests: pytest.Subtests
) -> None:
    table: list[tuple[str, str]] = [
        ("no_such_module_here:reply", "There is no module no_such_module_here in"),
        ("TOY:nothing", "has no function nothing"),
        ("TOY:constant", "has no function constant"),
        ("TOY", "write MODULE:FUNCTION"),
        ("needs_more:reply", "it needs a_missing_package"),
        ("misspelt:reply", "cannot be loaded (SyntaxError"),
    ]
    for name, words in table:
        with subtests.test(name=name, words=words):
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


def test_an_application_behind_an_address_is_refused_and_its_runs_stay_an_applications(
    folder: Path, subtests: pytest.Subtests
) -> None:
    for name in ["http/clinic", "http://127.0.0.1:9000/chat"]:
        with subtests.test(name=name):
            registry = own(folder, '[models."http/clinic"]\nbase_url = "http://127.0.0.1:9000/chat"\n')
            with pytest.raises(UsageError, match="was removed in version"):
                registry.open(name)
            assert (registry.group(name), registry.is_application(name)) == ("application", True)
            assert "http/clinic" not in {spec.name for spec in registry.specs()}


def test_programs_run_only_if_named_on_the_command_line(folder: Path, subtests: pytest.Subtests) -> None:
    for name in ["python:os:system", "python/os:system"]:
        with subtests.test(name=name):
            registry = load_registry([SHIPPED])
            for use in (registry.spec, registry.open, registry.missing_key):
                with pytest.raises(UsageError, match="would run a program"):
                    use(name)
            assert registry.group(name) == "application", "its stored runs are still shown"
            assert os.getcwd() == str(folder)


def test_a_program_has_no_address(toy: str) -> None:
    with pytest.raises(UsageError, match="has no address"):
        opened().spec(f"python:{toy}:reply", base_url="http://127.0.0.1:9/v1")
