"""The reference patient of AutoMedic: only its own facts, also to a first query, and a rating that can be counted."""

from __future__ import annotations

import asyncio

import pytest

from core.asking.scene import PatientKnowledge, Turn
from core.frameworks.automedic.reference import ReferenceAutoMedicPatient, count
from core.frameworks.automedic.roles import Rating, briefings_of
from tests.core.agents.acting import SCENE, case_with, hear

HELD = briefings_of(case_with()).patient
PATIENT = ReferenceAutoMedicPatient()


def reply(*queries: str, held: PatientKnowledge = HELD) -> str:
    """The reply to the last of some queries."""
    dialogue: tuple[Turn, ...] = ()
    said = ""
    for query in queries:
        dialogue = (*dialogue, Turn("doctor", query))
        said = hear(PATIENT.reply(held, SCENE, dialogue))
        dialogue = (*dialogue, Turn("patient", said))
    return said


def test_the_patient_holds_no_vignette_and_no_results() -> None:
    assert HELD.vignette == ""
    assert HELD.findings == ()
    assert {fact.key for fact in HELD.history} >= {"age", "chief complaint"}
    assert "nail pitting" not in repr(HELD)


@pytest.mark.parametrize("query", ["What brings you here today?", "Hello, how can I help you?", "What is the matter?"])
def test_an_open_first_query_brings_the_complaint(query: str) -> None:
    assert "scaly patches" in reply(query)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("Do you take any medicine?", "I take lithium for my mood."),
        ("How old are you, and are you a man or a woman?", "I'm 40. I'm a man."),
        ("Have you had a fever?", "I haven't had a fever"),
    ],
)
def test_a_particular_first_query_is_answered_as_any_other(query: str, told: str) -> None:
    said = reply(query)
    assert told in said
    assert "scaly" not in said


def test_results_cannot_be_got_out_of_the_patient() -> None:
    for query in ("What did they see on your nails?", "What did the biopsy show?", "What did the examination show?"):
        assert "pits" not in reply("What brings you here?", query)


def test_who_knows_nothing_says_so() -> None:
    assert reply("What brings you here?", held=PatientKnowledge("", (), (), False)) == "I don't know."


@pytest.mark.parametrize(
    ("queries", "rating"),
    [
        (["Does it itch?"], 2),  # nothing to praise, nothing to blame
        (["Hello, what brings you here?"], 4),  # courteous, open
        (["Hello, what brings you here?", "I'm sorry to hear that. Does it hurt?"], 5),  # and about feelings
        (["Does it itch?", "Thank you. Does it itch?"], 2),  # courteous, but repeated
        (["Any dyspnea, diaphoresis or edema?", "Any dyspnea, diaphoresis or edema?"], 1),  # never below 1
        (["Does it itch?", "Is it red?", "Is it dry?", "Is it new?", "Please, is it big?"], 2),  # 1 of 5 courteous
    ],
)
def test_the_rating_by_hand(queries: list[str], rating: int) -> None:
    assert count(queries).rating == rating


def test_the_rating_says_what_it_counted() -> None:
    view = (Turn("doctor", "Hello, what brings you here?"), Turn("patient", "It itches. I'm sorry, thank you."))

    async def rated() -> Rating:
        (only,) = [item async for item in PATIENT.rate(HELD, SCENE, view)]
        assert isinstance(only, Rating)
        return only

    rating = asyncio.run(rated())
    assert rating.rating == 4
    assert rating.words == (
        "By rule, of 1 queries: 0 about feelings, 1 courteous, 1 open, 0 repeated; 0% technical words."
    )
