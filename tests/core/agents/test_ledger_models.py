"""Facts and marks by a language model: what is taken of its replies, what is rejected, and when it is asked again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from core.agents.ledger_models import FactJudge, FactSplitter, Judged, SplitFacts
from core.asking.ask import MAX_ASKS, json_in
from core.asking.scene import CallFailed
from core.case import Case
from core.errors import ProviderError
from core.events import Called
from core.measures.ledger.marks import Disagreement, disagreements, ledger
from core.prompts import load_pack
from core.text.claims import in_vignette
from core.text.facts import facts_of
from tests.core.agents.acting import Script
from tests.core.measures.ledger.hand_marked import talk

PACK = load_pack("craftmd", ("facts", "judge_facts"))
CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Other",
    answer="Gout",
    vignette="A 40-year-old man has fever. He denies cough. He takes metformin.",
)
DIALOGUE = talk("What symptoms do you have?", "I have a fever.", "Any cough?", "I broke my wrist.")
FACTS = facts_of(CASE)


def split_reply(*texts: str) -> str:
    return json.dumps([{"text": t, "lay": t, "topic": "other", "told": True} for t in texts])


def marks_reply(**changed: Any) -> str:
    marks = {f.id: {"id": f.id, "turn": None, "words": None, "mark": "never_elicited"} for f in FACTS}
    marks[FACTS[1].id] |= {"mark": "asked", "turn": 1, "words": "a fever"}
    marks[FACTS[1].id] |= changed
    return json.dumps({"facts": list(marks.values())})


def last(speaking: Any) -> tuple[Any, list[Called]]:
    async def listen() -> list[Any]:
        return [item async for item in speaking]

    items = asyncio.run(listen())
    return items[-1], [item for item in items if isinstance(item, Called)]


def split(*replies: str) -> tuple[SplitFacts, list[Called], Script]:
    script = Script(replies)
    found, calls = last(FactSplitter(script.voice(), PACK).split(CASE))
    return found, calls, script


def judged(*replies: str) -> tuple[Judged, list[Called], Script]:
    script = Script(replies)
    found, calls = last(FactJudge(script.voice(), PACK).judge(FACTS, DIALOGUE))
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


def test_a_failing_provider_is_no_judgement() -> None:
    script = Script(fail=ProviderError("timeout", "It took too long."))

    with pytest.raises(CallFailed):
        last(FactJudge(script.voice(), PACK).judge(FACTS, DIALOGUE))


def test_the_judge_sees_facts_and_numbered_messages() -> None:
    _, _, script = judged(marks_reply())

    assert all(fact.id in script.prompts[0] for fact in FACTS)
    assert "[3] patient: I broke my wrist." in script.prompts[0]


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"facts": []}),
        marks_reply(mark="perhaps"),
        marks_reply(turn=2),
        marks_reply(turn=99),
        marks_reply(turn=None),
        marks_reply(words="a high temperature"),
        marks_reply(words=None),
        marks_reply(turn=3),
    ],
)
def test_marks_that_do_not_fit_the_conversation_are_unreadable(reply: str) -> None:
    found, calls, _ = judged(reply)

    assert found.unreadable is not None
    assert (found.facts, len(calls)) == ((), MAX_ASKS)


def test_the_judge_quotes_before_it_marks_and_a_bare_no_is_quoted_whole() -> None:
    found, _, script = judged(marks_reply())
    dialogue = talk("Any cough?", "No.")
    marks = [
        {"id": f.id, "turn": 1, "words": "No", "mark": "asked"}
        if "cough" in f.id
        else {"id": f.id, "turn": None, "words": None, "mark": "never_elicited"}
        for f in FACTS
    ]
    asked = Script([json.dumps({"facts": marks})])
    of_cough, _ = last(FactJudge(asked.voice(), PACK).judge(FACTS, dialogue))

    assert script.prompts[0].index('"words"') < script.prompts[0].index('"mark"')
    assert {f.id: f.words for f in found.facts if f.words} == {FACTS[1].id: "a fever"}
    assert [(f.mark, f.words) for f in of_cough.facts if f.turn] == [("asked", "No")]


def test_rules_and_judge_are_compared_fact_by_fact() -> None:
    rules = ledger(CASE, DIALOGUE)
    agreeing, _, _ = judged(marks_reply())
    differing, _, _ = judged(marks_reply(mark="never_elicited", turn=None))

    assert disagreements(rules, agreeing) == []
    assert disagreements(rules, differing) == [Disagreement(FACTS[1].id, 1, "asked", "never_elicited")]


def test_nothing_differs_from_a_judgement_that_could_not_be_read() -> None:
    assert disagreements(ledger(CASE, DIALOGUE), judged("?")[0]) == []


@pytest.mark.parametrize(("text", "held"), [("fevers", True), ("", False), ("metformin 500 mg", False)])
def test_a_fact_is_in_the_vignette_by_its_words_and_numbers(text: str, held: bool) -> None:
    assert in_vignette(text, CASE.vignette) is held
