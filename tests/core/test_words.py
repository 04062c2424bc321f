"""Descriptions of endings, for every protocol."""

from __future__ import annotations

from core.events import EndReason
from core.frameworks.base import frameworks
from core.words import END, ROLE, how_it_ended


def test_descriptions_of_endings() -> None:
    table: list[tuple[EndReason, int, str]] = [
        ("turn_cap", 10, "the message limit was reached; the doctor spoke 10 times after the opening message"),
        ("final_diagnosis", 1, "the doctor gave a final diagnosis; the doctor spoke once after the opening message"),
        ("no_question", 2, "the doctor’s message had no question; the doctor spoke 2 times after the opening message"),
        ("no_question", 0, "there was no doctor to ask anything"),
        ("error", 0, "the provider failed; the doctor spoke 0 times after the opening message"),
    ]
    wrong = [(reason, turns, got) for reason, turns, words in table if (got := how_it_ended(reason, turns)) != words]
    assert wrong == []


def test_every_role_and_ending_has_a_description() -> None:
    assert {seat.role for framework_ in frameworks().values() for seat in framework_.seats} <= set(ROLE)
    assert set(END) == set(EndReason.__args__)
