"""A model sorts the sentences of a vignette: invented sentences are rejected, missing ones are sorted by rule."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from core.agents.sections_model import SplitByModel, split_by_model
from core.asking.calls import Voice
from core.asking.scene import CallFailed
from core.errors import AnamnesisError, UsageError
from core.events import Called
from core.frameworks.base import default_pack
from tests.support.asking import make_model, make_spec
from tests.support.fake_provider import running
from tests.support.replies import Reply, failing

FIRST = "A 40-year-old man comes because of an itch."
SECOND = "He takes lithium."
THIRD = "Temperature is 37 °C."
VIGNETTE = f"{FIRST} {SECOND}\n{THIRD}"


def reply(*pairs: tuple[str, str]) -> str:
    return json.dumps({"sections": [{"section": section, "sentence": text} for section, text in pairs]})


ALL = reply(("complaint", FIRST), ("medication", SECOND), ("vital_signs", THIRD))
SORTED = (("complaint", FIRST), ("medication", SECOND), ("vital_signs", THIRD))


def split(*replies: str | Reply, pack: Any = None) -> tuple[SplitByModel, list[dict[str, Any]]]:
    """Return the split that follows from the provider's replies, and the requests to the provider."""
    with running(list(replies)) as provider:

        async def listen() -> list[Any]:
            model = make_model(make_spec(provider.base_url))
            try:
                return [item async for item in split_by_model(Voice(model), pack or default_pack(), VIGNETTE)]
            finally:
                await model.aclose()

        items = asyncio.run(listen())
        assert tuple(item.call.call_id for item in items if isinstance(item, Called)) == items[-1].call_ids
        return items[-1], provider.bodies


def test_the_prompt_has_the_vignette_and_the_result_has_the_sections_of_the_model() -> None:
    result, sent = split(ALL)

    assert (result.sections, result.invented, result.by_rule) == (SORTED, 0, 0)
    assert VIGNETTE in sent[0]["messages"][0]["content"]
    assert "family_history" in sent[0]["messages"][0]["content"]


def test_prose_and_a_code_block_around_the_json_do_no_harm() -> None:
    result, sent = split(f"Certainly! Here it is:\n```json\n{ALL}\n```\nAnything else?")

    assert result.sections == SORTED
    assert len(sent) == 1


def test_invented_and_changed_sentences_are_rejected_and_counted() -> None:
    result, _ = split(
        reply(
            ("complaint", FIRST),
            ("family_history", "His mother had eczema."),
            ("medication", "He takes lithium daily."),
            ("vital_signs", THIRD),
            ("vital_signs", THIRD),
        )
    )

    assert result.sections == SORTED
    assert (result.invented, result.by_rule) == (2, 1)  # the repeated one is true


def test_parts_of_a_sentence_may_go_to_two_sections_and_no_part_is_lost() -> None:
    result, _ = split(reply(("demographics", "A 40-year-old man"), ("medication", "He  takes\nlithium.")))

    assert result.sections == (
        ("demographics", "A 40-year-old man"),
        ("complaint", "comes because of an itch."),
        *SORTED[1:],
    )
    assert (result.invented, result.by_rule) == (0, 2)


def test_an_unreadable_reply_is_asked_for_again(subtests: pytest.Subtests) -> None:
    table: list[str] = [
        '{"sections": [{"section": "complaint"',
        "I cannot do that.",
        reply(("mood", FIRST)),
        '{"sections": []}',
        '["complaint"]',
        reply(("complaint", VIGNETTE)),
    ]
    for unreadable in table:
        with subtests.test(unreadable=unreadable):
            result, sent = split(unreadable, f"{unreadable} ", ALL)

            assert result.sections == SORTED
            assert len(sent) == len(result.call_ids) == 3


def test_after_two_retries_it_is_given_up() -> None:
    with pytest.raises(AnamnesisError, match="openai/test gave no sections that can be read in 3 replies"):
        split("no", "never", "no", ALL)


def test_a_providers_failure_is_not_an_unreadable_reply() -> None:
    with pytest.raises(CallFailed, match="401"):
        split(failing(401))


def test_a_pack_without_the_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match=r"prompts bare have no sections\.md"):
        split(ALL, pack=replace(default_pack(), name="bare", prompts={}))
