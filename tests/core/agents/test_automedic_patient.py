"""The reference patient of AutoMedic: it answers from its own facts only, and rates by counting."""

from __future__ import annotations

import asyncio

import pytest

from core.asking.scene import PatientKnowledge, Turn
from core.frameworks.automedic.reference import ReferenceAutoMedicPatient, rating_of
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


def test_the_rating_by_hand() -> None:
    table: list[tuple[list[str], int]] = [
        (["Does it itch?"], 3),  # neither kind nor repeated
        (["Hello, what brings you here?"], 5),  # kind, open
        (["Does it itch?", "Does it itch?"], 2),  # repeated
        (["Does it itch?", "Thank you. Does it itch?"], 3),  # kind, but repeated
        (["Does it itch?", "Is it red?", "Is it dry?", "Is it new?", "Please, is it big?"], 3),  # 1 of 5 is kind
    ]
    wrong = [(queries, rating, got) for queries, rating in table if (got := rating_of(queries).rating) != rating]
    assert wrong == []


def test_the_rating_is_of_the_doctors_messages_and_has_its_counts() -> None:
    view = (Turn("doctor", "Hello, what brings you here?"), Turn("patient", "It itches. I'm sorry, thank you."))

    async def rated() -> Rating:
        (only,) = [item async for item in PATIENT.rate(KNOWLEDGE, SCENE, view)]
        assert isinstance(only, Rating)
        return only

    rating = asyncio.run(rated())
    assert rating == Rating(5, "By rule, of 1 queries: 1 with kind words, 1 open, 0 repeated.")
