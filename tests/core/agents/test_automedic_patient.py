"""The reference patient of AutoMedic: it answers from its own facts only, and does not rate."""

from __future__ import annotations

import asyncio

import pytest

from core.asking.scene import PatientKnowledge, Turn
from core.frameworks.automedic.reference import NOT_JUDGED, ReferenceAutoMedicPatient
from core.frameworks.automedic.roles import Rating, briefings_of
from tests.core.agents.acting import SCENE, case_with, hear

KNOWLEDGE = briefings_of(case_with()).patient
PATIENT = ReferenceAutoMedicPatient()


def reply(*queries: str, knowledge: PatientKnowledge = KNOWLEDGE) -> str:
    """Return the reply to the last of ``queries``, which are asked in order."""
    dialogue: tuple[Turn, ...] = ()
    text = ""
    for query in queries:
        dialogue = (*dialogue, Turn("doctor", query))
        text = hear(PATIENT.reply(knowledge, SCENE, dialogue))
        dialogue = (*dialogue, Turn("patient", text))
    return text


def test_the_patient_knows_no_vignette_and_no_results() -> None:
    assert KNOWLEDGE.vignette == ""
    assert KNOWLEDGE.findings == ()
    assert {fact.key for fact in KNOWLEDGE.history} >= {"age", "chief complaint"}
    assert "nail pitting" not in repr(KNOWLEDGE)


def test_an_open_first_query_brings_the_complaint(subtests: pytest.Subtests) -> None:
    for query in ["What brings you here today?", "Hello, how can I help you?", "What is the matter?"]:
        with subtests.test(query=query):
            assert "scaly patches" in reply(query)


def test_a_first_query_for_one_fact_gets_that_fact(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("Do you take any medicine?", "I take lithium for my mood."),
        ("How old are you, and are you a man or a woman?", "I'm 40. I'm a man."),
        ("Have you had a fever?", "I haven't had a fever"),
    ]
    for query, fact in table:
        with subtests.test(query=query, fact=fact):
            text = reply(query)
            assert fact in text
            assert "scaly" not in text


def test_the_patient_never_tells_a_result() -> None:
    for query in ("What did they see on your nails?", "What did the biopsy show?", "What did the examination show?"):
        assert "pits" not in reply("What brings you here?", query)


def test_a_patient_without_facts_does_not_know() -> None:
    assert reply("What brings you here?", knowledge=PatientKnowledge("", (), (), False)) == "I don't know."


def test_the_reference_patient_does_not_rate() -> None:
    view = (Turn("doctor", "Hello, what brings you here?"), Turn("patient", "It itches. I'm sorry, thank you."))

    async def rated() -> Rating:
        (only,) = [item async for item in PATIENT.rate(KNOWLEDGE, SCENE, view)]
        assert isinstance(only, Rating)
        return only

    assert asyncio.run(rated()) == Rating(None, NOT_JUDGED)
