"""Items by a language model: what it is sent, what of its replies is taken, and what happens when they are useless."""

from __future__ import annotations

import asyncio
import json

import pytest

from core.agents.base import CallFailed
from core.case import Case
from core.errors import ProviderError
from core.events import Called
from core.frameworks.consultation.items_model import (
    MAX_ASKS,
    LLMProfiler,
    Profiled,
    ProfilingError,
    check_items,
    read_items,
)
from core.prompts import load_pack
from tests.core.agents.acting import Script

CASE = Case(
    case_key="t/1", dataset="t", specialty="Other", answer="Psoriasis", choices=("Psoriasis", "Scabies"),
    vignette="A 40-year-old man has had scaly plaques on his elbows for 3 months. He denies fever.",
)  # fmt: skip
PACK = load_pack("consultation", ("profiler",))
GOOD = {"items": [{"key": "age and sex", "value": "40-year-old man"}, {"key": "fever", "value": "denies fever"}]}


def profile(script: Script) -> tuple[Profiled, int]:
    """Return what the profiler says at last, and how many calls were recorded before."""

    async def listen() -> list[object]:
        return [item async for item in LLMProfiler(script.voice(), PACK).profile(CASE)]

    items = asyncio.run(listen())
    last = items[-1]
    assert isinstance(last, Profiled)
    called = [item.call.call_id for item in items if isinstance(item, Called)]
    assert tuple(called) == last.call_ids
    return last, len(called)


def test_the_model_sees_the_vignette_and_neither_choices_nor_answer() -> None:
    script = Script((json.dumps(GOOD),))
    profile(script)
    (prompt,) = script.prompts
    assert CASE.vignette in prompt
    assert "Psoriasis" not in prompt
    assert "Scabies" not in prompt


def test_items_are_read_out_of_prose_and_keep_their_maker_and_topic() -> None:
    found, calls = profile(Script((f"Sure! Here you are:\n```json\n{json.dumps(GOOD)}\n```\nAnything else?",)))
    assert found.items.made_by == "openai/scripted"
    assert [(i.key, i.value, i.topic) for i in found.items.items] == [
        ("age and sex", "40-year-old man", "demographics"),
        ("fever", "denies fever", "negatives"),
    ]
    assert (found.rejected, calls) == ((), 1)


def test_a_value_with_a_word_that_the_case_does_not_hold_is_rejected_and_counted() -> None:
    proposed = [("fever", "denies fever"), ("itch", "severe itching"), ("empty", " ")]
    items, rejected = check_items(CASE.vignette, proposed)
    assert [item.key for item in items] == ["fever"]
    assert [(r.key, r.foreign) for r in rejected] == [("itch", ("severe", "itching")), ("empty", ())]


def test_an_unreadable_reply_is_asked_for_again() -> None:
    script = Script(("I cannot.", '{"items": [{"key": ', json.dumps(GOOD)))
    found, calls = profile(script)
    assert len(found.items.items) == 2
    assert calls == len(script.sent) == MAX_ASKS == 3


def test_after_three_unreadable_replies_the_case_is_named() -> None:
    script = Script(("no",))
    with pytest.raises(ProfilingError, match=r"openai/scripted gave no readable items for t/1 in 3 replies"):
        profile(script)
    assert len(script.sent) == 3


def test_items_that_are_all_invented_are_no_items() -> None:
    with pytest.raises(ProfilingError, match="None of the 1 items"):
        profile(Script((json.dumps([{"key": "job", "value": "astronaut"}]),)))


def test_a_failing_provider_is_reported_as_such() -> None:
    with pytest.raises(CallFailed):
        profile(Script(fail=ProviderError("timeout", "too slow")))


@pytest.mark.parametrize(
    "text", ["", "{}", '{"items": []}', '{"items": [{"key": "", "value": "x"}]}', "[1, 2]", '{"items": "a"}', "}{"]
)
def test_what_is_no_list_of_items_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|items"):
        read_items(text)


def test_a_bare_list_is_read_too() -> None:
    assert read_items('Items: [{"key": "fever", "value": "none", "why": "asked"}]') == [("fever", "none")]
