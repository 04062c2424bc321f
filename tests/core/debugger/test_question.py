"""A question to a model about a trial: the outcome, a failing provider, a stop, and a missing key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.asking.calls import Voice, call
from core.asking.scene import FinalMessage
from core.debugger.question import ask_model, outcome_of
from core.errors import UsageError
from core.events import Called
from core.prompts import PromptPack
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing


async def ask(voice: Voice, pack: PromptPack) -> AsyncIterator[Any]:
    async for item in call(voice, [{"role": "user", "content": f"How many for {pack.name}?"}], "grader", "judge"):
        yield int(item.text) if isinstance(item, FinalMessage) else item


def test_the_outcome_is_the_answer_of_the_model(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = ["7"]
    session = ask_model("openai/mine", ask, "how many", base_url=fake_provider_thread.base_url)
    session.join(30)
    assert session.error is None
    assert outcome_of(session) == 7
    (call_made,) = [item for item in session.snapshot() if isinstance(item, Called)]
    assert (call_made.call.prompt_tokens, call_made.call.completion_tokens) == (11, 7)
    (body,) = fake_provider_thread.bodies
    assert body["messages"] == [{"role": "user", "content": "How many for craftmd?"}]
    assert body["temperature"] == 0.0


def test_a_failing_provider_gives_an_error_and_no_outcome(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = [failing(400, "no such model")]
    session = ask_model("openai/mine", ask, "how many", base_url=fake_provider_thread.base_url)
    session.join(30)
    assert outcome_of(session) is None
    assert "no such model" in str(session.error)
    assert [item.call.error is not None for item in session.snapshot() if isinstance(item, Called)] == [True]


def test_a_question_can_be_stopped_while_the_model_is_silent(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = [Reply("7", delay_s=60)]
    session = ask_model("openai/mine", ask, "how many", base_url=fake_provider_thread.base_url)
    assert session.running
    assert outcome_of(session) is None
    session.stop()
    session.join(30)
    assert not session.running
    assert session.error is None
    assert outcome_of(session) is None


def test_a_missing_key_is_refused_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        ask_model("openai/gpt-4o", ask, "how many")
