"""Facts by a language model: what is taken of its replies, what is rejected, and when it is asked again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from core.agents.ledger_models import FactSplitter, SplitFacts
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


def last(speaking: Any) -> tuple[Any, list[Called]]:
    async def listen() -> list[Any]:
        return [item async for item in speaking]

    items = asyncio.run(listen())
    return items[-1], [item for item in items if isinstance(item, Called)]


def split(*replies: str) -> tuple[SplitFacts, list[Called], Script]:
    script = Script(replies)
    found, calls = last(FactSplitter(script.voice(), PACK).split(CASE))
    return found, calls, script


def test_the_splitter_is_shown_the_vignette_and_never_the_answer() -> None:
    _, calls, script = split(split_reply("fever"))

    assert CASE.vignette in script.prompts[0]
    assert "Gout" not in script.prompts[0]
    assert [(c.call.role, c.call.purpose) for c in calls] == [("grader", "judge")]


def test_facts_that_the_vignette_does_not_hold_are_rejected_and_counted() -> None:
    found, calls, _ = split(split_reply("has fever", "takes warfarin", "50-year-old man", "no cough"))

    assert [(f.id, f.topic) for f in found.facts] == [("has-fever", "other"), ("no-cough", "other")]
    assert found.rejected == ("takes warfarin", "50-year-old man")
    assert found.call_ids == (calls[0].call.call_id,)


@pytest.mark.parametrize("reply", ["```json\n[1, 2]\n```", "Here you are: [1, 2] I hope it helps."])
def test_json_is_found_among_words(reply: str) -> None:
    assert json_in(reply) == [[1, 2]]


def test_what_cannot_be_read_is_asked_for_again() -> None:
    found, calls, _ = split("I cannot.", split_reply("fever"))

    assert [f.text for f in found.facts] == ["fever"]
    assert len(found.call_ids) == len(calls) == 2


@pytest.mark.parametrize("reply", ["", "no JSON", "[{", '[{"text": "fever"}]', '{"facts": 3}', "[" * 100_000])
def test_after_three_tries_it_says_why_and_gives_no_facts(reply: str) -> None:
    found, calls, _ = split(reply)

    assert (found.facts, len(calls)) == ((), MAX_ASKS)
    assert found.unreadable is not None
    assert "3 tries" in found.unreadable


def test_a_failing_provider_is_no_list_of_facts() -> None:
    script = Script(fail=ProviderError("timeout", "It took too long."))

    with pytest.raises(CallFailed):
        last(FactSplitter(script.voice(), PACK).split(CASE))


@pytest.mark.parametrize(("text", "held"), [("fevers", True), ("", False), ("metformin 500 mg", False)])
def test_a_fact_is_in_the_vignette_by_its_words_and_numbers(text: str, held: bool) -> None:
    assert in_vignette(text, CASE.vignette) is held
