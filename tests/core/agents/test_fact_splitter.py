"""Facts by a language model: accepted facts, rejected facts, and repeated requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from core.agents.fact_splitter import FactSplitter, SplitFacts
from core.asking.ask import MAX_ASKS, json_in
from core.asking.scene import CallFailed
from core.case import Case
from core.errors import ProviderError
from core.events import Called
from core.prompts import load_pack
from core.text.facts import in_vignette
from tests.core.agents.acting import Script

PACK = load_pack("craftmd", ("facts",))
CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Other",
    answer="Gout",
    vignette="A 40-year-old man has fever. He denies cough. He takes metformin.",
)


def split_reply(*texts: str) -> str:
    return json.dumps([{"text": t, "lay": t, "topic": "other", "told": True} for t in texts])


def run_to_end(speaking: Any) -> tuple[Any, list[Called]]:
    async def listen() -> list[Any]:
        return [item async for item in speaking]

    items = asyncio.run(listen())
    return items[-1], [item for item in items if isinstance(item, Called)]


def split(*replies: str) -> tuple[SplitFacts, list[Called], Script]:
    script = Script(replies)
    result, calls = run_to_end(FactSplitter(script.voice(), PACK).split(CASE))
    return result, calls, script


def test_the_prompt_has_the_vignette_and_not_the_answer() -> None:
    _, calls, script = split(split_reply("fever"))

    assert CASE.vignette in script.prompts[0]
    assert "Gout" not in script.prompts[0]
    assert [(c.call.role, c.call.purpose) for c in calls] == [("grader", "judge")]


def test_facts_that_are_not_in_the_vignette_are_rejected_and_counted() -> None:
    result, calls, _ = split(split_reply("has fever", "takes warfarin", "50-year-old man", "no cough"))

    assert [(f.id, f.topic) for f in result.facts] == [("has-fever", "other"), ("no-cough", "other")]
    assert result.rejected == ("takes warfarin", "50-year-old man")
    assert result.call_ids == (calls[0].call.call_id,)


def test_json_is_found_among_words() -> None:
    wrong = [
        (reply, got)
        for reply in ["```json\n[1, 2]\n```", "Here you are: [1, 2] I hope it helps."]
        if (got := json_in(reply)) != [[1, 2]]
    ]
    assert wrong == []


def test_an_unreadable_reply_is_requested_again() -> None:
    result, calls, _ = split("I cannot.", split_reply("fever"))

    assert [f.text for f in result.facts] == ["fever"]
    assert len(result.call_ids) == len(calls) == 2


def test_after_three_unreadable_replies_there_is_a_reason_and_no_fact(subtests: pytest.Subtests) -> None:
    for reply in ["", "no JSON", "[{", '[{"text": "fever"}]', '{"facts": 3}', "[" * 100_000]:
        with subtests.test(reply=reply):
            result, calls, _ = split(reply, f"{reply} ", reply)

            assert (result.facts, len(calls)) == ((), MAX_ASKS)
            assert result.unreadable is not None
            assert "3 tries" in result.unreadable


def test_a_failing_provider_is_no_list_of_facts() -> None:
    script = Script(fail=ProviderError("timeout", "It took too long."))

    with pytest.raises(CallFailed):
        run_to_end(FactSplitter(script.voice(), PACK).split(CASE))


def test_a_fact_is_in_the_vignette_by_its_words_and_numbers() -> None:
    wrong = [
        (text, got)
        for text, expected in [("fevers", True), ("", False), ("metformin 500 mg", False)]
        if (got := in_vignette(text, CASE.vignette)) is not expected
    ]
    assert wrong == []
