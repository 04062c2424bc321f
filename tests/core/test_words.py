"""Words for endings that hold in every protocol."""

from __future__ import annotations

import pytest

from core.events import EndReason, Rated, TagMisuse
from core.frameworks.base import frameworks
from core.words import END, MISUSE, ROLE, how_it_ended, misused, rated


@pytest.mark.parametrize(
    ("reason", "turns", "words"),
    [
        ("turn_cap", 10, "the cap was reached; the doctor spoke 10 times after the opening message"),
        ("final_diagnosis", 1, "the doctor gave a final diagnosis; the doctor spoke once after the opening message"),
        ("no_question", 2, "the doctor’s message held no question; the doctor spoke 2 times after the opening message"),
        ("no_question", 0, "there was no doctor to ask anything"),
        ("error", 0, "the provider failed; the doctor spoke 0 times after the opening message"),
    ],
)
def test_why_it_ended(reason: EndReason, turns: int, words: str) -> None:
    assert how_it_ended(reason, turns) == words


def test_in_automedic_what_counts_is_the_queries_that_were_passed_on() -> None:
    assert how_it_ended("end_tag", 8, tagged=True) == "the doctor wrote the end tag; 8 queries were passed on"
    assert how_it_ended("turn_cap", 1, tagged=True) == "the cap was reached; 1 query was passed on"


def test_every_role_ending_and_misuse_has_its_words() -> None:
    assert {seat.role for one in frameworks().values() for seat in one.seats} <= set(ROLE)
    assert set(END) == set(EndReason.__args__)
    assert set(MISUSE) == set(TagMisuse.__args__)
    assert misused(("unclosed", "empty")) == ("Against the tag protocol: it leaves a tag open; it holds an empty tag.")


def test_a_rating_says_by_whom_and_that_there_is_none() -> None:
    assert rated(Rated(rater="openai/p", rating=4)) == "Empathy 4 of 5, rated by openai/p as the patient"
    assert rated(Rated(rater="openai/p")) == "Empathy not rated by openai/p as the patient"
