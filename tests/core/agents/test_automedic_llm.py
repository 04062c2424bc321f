"""AutoMedic's language models: the messages of each request, and how a rating is read and requested again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from core.asking.ask import MAX_ASKS
from core.asking.scene import CallFailed, FinalMessage, Material, Question, Scene, Turn
from core.errors import ProviderError, UsageError
from core.events import Called
from core.frameworks.automedic.roles import LLMAutoMedicPatient, LLMStaff, LLMTagDoctor, Rating, briefings_of
from core.frameworks.base import framework
from core.frameworks.casting import CastNames
from core.judging.form import CANNOT_JUDGE
from core.prompts import load_pack
from tests.core.agents.acting import Script, case_with, hear
from tests.support.replies import rating

PACK = load_pack("automedic")
BRIEFINGS = briefings_of(case_with())
SCENE = Scene("", seed=3)
VIEW = (Turn("doctor", "What brings you here?"), Turn("patient", "My skin flakes."))
CONVERSATION = (
    Turn("doctor", "<patient>What brings you here?</patient>"), Turn("patient", "It itches."),
    Turn("doctor", "<clinical>Any pits?</clinical>"), Turn("staff", "Nails: nail pitting."),
)  # fmt: skip


def roles(script: Script) -> list[str]:
    return [message["role"] for message in script.sent[-1]]


def test_the_doctors_prompt_has_the_rules_the_demographics_and_the_number_of_turns() -> None:
    script = Script(["<patient>Where?</patient>"])
    assert (
        hear(LLMTagDoctor(script.voice(), PACK, 7).ask(SCENE, BRIEFINGS.demographics, ()))
        == "<patient>Where?</patient>"
    )
    system, opening = script.prompts
    assert roles(script) == ["system", "user"]
    assert all(words in system for words in ("<patient>", "<clinical>", "</end>", "7 turns in all"))
    assert not [words for words in ("one tag", "one question.", "one thing", "twice") if words in system]
    assert "- age: 40-year-old\n- sex: male" in opening
    assert "Dermatology" not in "".join(script.prompts)


def test_the_doctors_request_has_the_complete_dialogue() -> None:
    script = Script(["</end>"])
    hear(LLMTagDoctor(script.voice(), PACK, 20).ask(SCENE, BRIEFINGS.demographics, CONVERSATION))
    assert roles(script) == ["system", "user", "assistant", "user", "assistant", "user"]
    assert script.prompts[2:] == [
        "<patient>What brings you here?</patient>",
        "It itches.",
        "<clinical>Any pits?</clinical>",
        "Nails: nail pitting.",
    ]


def test_the_doctor_answers_after_the_dialogue_or_on_the_vignette() -> None:
    question = Question("mcq", "What ails him?", ("Psoriasis", "Eczema"))
    script = Script(["A. Psoriasis"])
    doctor = LLMTagDoctor(script.voice(), PACK, 20)
    hear(doctor.answer(SCENE, BRIEFINGS.demographics, Material("multi_turn", dialogue=CONVERSATION), question))
    assert script.prompts[-2].startswith("Nails: nail pitting.\n\n") or script.prompts[-1].startswith("Nails")
    assert "A. Psoriasis\nB. Eczema" in script.prompts[-1]
    hear(doctor.answer(SCENE, BRIEFINGS.demographics, Material("vignette", text="He flakes."), question))
    assert roles(script) == ["user"]
    only = script.sent[-1][0]["content"]
    assert "He flakes." in only
    assert "B. Eczema" in only
    assert "<clinical>" not in only


def test_the_staffs_prompt_has_the_results_by_section() -> None:
    script = Script(["Nails: nail pitting."])
    hear(LLMStaff(script.voice(), PACK).reply(BRIEFINGS.results, SCENE, (Turn("doctor", "Any pits?"),)))
    assert "Physical examination\n- nails: nail pitting\nOther tests\n- biopsy: acanthosis" in script.prompts[0]
    assert roles(script) == ["system", "user"]
    hear(LLMStaff(script.voice(), PACK).reply((), SCENE, (Turn("doctor", "Any pits?"),)))
    assert "No result is there." in script.sent[-1][0]["content"]


def test_without_a_profile_the_patient_knows_the_vignette_and_the_staff_its_results() -> None:
    vignette = (
        "A 40-year-old man has itchy elbows. Examination shows scaly plaques. Laboratory studies show a low zinc."
    )
    briefings = briefings_of(case_with(vignette=vignette, profile=None))
    script = Script(["They itch."])
    hear(LLMAutoMedicPatient(script.voice(), PACK).reply(briefings.patient, SCENE, VIEW[:1]))
    assert vignette in script.prompts[0]
    staff = Script(["Scaly plaques."])
    hear(LLMStaff(staff.voice(), PACK).reply(briefings.results, SCENE, (Turn("doctor", "Any plaques?"),)))
    assert "- physical examination: Examination shows scaly plaques." in staff.prompts[0]
    assert "- laboratory tests: Laboratory studies show a low zinc." in staff.prompts[0]
    assert "itchy" not in staff.prompts[0]
    doctor = Script(["<patient>Where?</patient>"])
    hear(LLMTagDoctor(doctor.voice(), PACK, 7).ask(SCENE, briefings.demographics, ()))
    assert "- age and sex: 40 years old, male" in doctor.prompts[1]


def test_the_prompt_of_a_caregiver_speaks_of_a_patient_in_care() -> None:
    knowledge = briefings_of(case_with(speaker="caregiver")).patient
    script = Script(["He itches."])
    hear(LLMAutoMedicPatient(script.voice(), PACK).reply(knowledge, SCENE, VIEW[:1]))
    assert script.prompts[0].startswith("You look after a patient")
    hear(LLMAutoMedicPatient(script.voice(), PACK).reply(BRIEFINGS.patient, SCENE, VIEW[:1]))
    assert script.sent[-1][0]["content"].startswith("You are a patient")


def test_a_rating_counts_with_words_of_the_doctor_and_is_void_with_others() -> None:
    """The doctor's only message is “What brings you here?”, the patient's “My skin flakes.”"""
    table = [
        (rating("What brings you here?", 4), 4, "She listened. “What brings you here?”"),
        (rating("what brings  you HERE", 1), 1, "She listened. “What brings you here”"),
        (rating("I am so sorry that you feel bad", 4), None, "Void"),
        (rating("My skin flakes.", 5), None, "Void"),
        (rating("", CANNOT_JUDGE), None, "She listened."),
    ]
    rated = [(reply, rate(Script([reply]))[-1]) for reply, _, _ in table]
    assert [
        (reply, got)
        for (reply, got), (_, value, words) in zip(rated, table, strict=True)
        if got.rating != value or not got.words.startswith(words)
    ] == []
    assert "I am so sorry that you feel bad" in rated[2][1].words


def rate(script: Script) -> list[Any]:
    async def listen() -> list[Any]:
        return [item async for item in LLMAutoMedicPatient(script.voice(), PACK).rate(BRIEFINGS.patient, SCENE, VIEW)]

    return asyncio.run(listen())


def test_an_unreadable_rating_is_requested_again_with_the_reason() -> None:
    unquoted = '{"q1": {"quotations": [], "reason": "Lovely.", "answer": "4"}}'
    script = Script(["She was lovely.", unquoted, rating("What brings you here?", 4)])
    items = rate(script)
    assert items[-1].rating == 4
    calls = [item.call for item in items if isinstance(item, Called)]
    assert [call.purpose for call in calls] == ["rate"] * 3
    assert items[-1].call_id == calls[-1].call_id
    assert not [item for item in items if isinstance(item, FinalMessage)]
    last = [messages[-1]["content"] for messages in script.sent]
    assert "could not be read" not in last[0]
    assert "no JSON object" in last[1]
    assert "without a quotation" in last[2]
    # the patient rates the messages that it has seen: they precede the question
    assert [m["content"] for m in script.sent[0][1:-1]] == [turn.text for turn in VIEW]


def test_a_pack_that_asks_for_a_rating_without_quotations_is_refused() -> None:
    older = replace(PACK, prompts={**PACK.prompts, "empathy": PACK.prompts["empathy"].with_source("Rate the doctor.")})
    automedic = framework("automedic")
    automedic.check(older, automedic.settings(), CastNames("openai/d", "reference/profile"))
    with pytest.raises(UsageError, match=r"empathy\.md"):
        automedic.check(older, automedic.settings(), CastNames("openai/d", "openai/p"))


def test_after_three_unreadable_replies_there_is_no_rating() -> None:
    script = Script(["Lovely.", "So lovely.", "Lovely."])
    items = rate(script)
    assert len(script.sent) == MAX_ASKS == 3
    assert isinstance(items[-1], Rating)
    assert items[-1].rating is None
    assert "could not be read" in items[-1].words


def test_a_providers_failure_is_no_unreadable_rating() -> None:
    with pytest.raises(CallFailed):
        rate(Script(fail=ProviderError("server", "it broke")))
