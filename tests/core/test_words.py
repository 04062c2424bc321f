"""Descriptions of endings, for every protocol."""

from __future__ import annotations

import pytest

from core.events import EndReason
from core.frameworks.base import frameworks
from core.words import END, ROLE, how_it_ended


@pytest.mark.parametrize(
    ("reason", "turns", "words"),
    [
        ("turn_cap", 10, "the cap was reached; the doctor spoke 10 times after the opening message"),
        ("final_diagnosis", 1, "the doctor gave a final diagnosis; the doctor spoke once after the opening message"),
        ("no_question", 2, "the doctor’s message had no question; the doctor spoke 2 times after the opening message"),
        ("no_question", 0, "there was no doctor to ask anything"),
        ("error", 0, "the provider failed; the doctor spoke 0 times after the opening message"),
    ],
)
def test_descriptions_of_endings(reason: EndReason, turns: int, words: str) -> None:
    assert how_it_ended(reason, turns) == words


def test_every_role_and_ending_has_a_description() -> None:
    assert {seat.role for framework_ in frameworks().values() for seat in framework_.seats} <= set(ROLE)
    assert set(END) == set(EndReason.__args__)
