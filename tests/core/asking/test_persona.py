"""Personas: input, stored form and label."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from core.asking.persona import (
    LANGUAGES,
    MEMORIES,
    PLAIN,
    SPEAKERS,
    TEMPERAMENTS,
    Persona,
    caregiver_speaks,
    label,
    parse_persona,
    persona_prompt,
)
from core.errors import UsageError
from core.frameworks.base import default_pack

PACK = default_pack()
ALL = [Persona(*parts) for parts in itertools.product(TEMPERAMENTS, (None, *LANGUAGES), MEMORIES, (None, *SPEAKERS))]


def test_every_persona_is_read_back_from_its_name_and_no_two_share_one() -> None:
    assert len(ALL) == 6 * 4 * 3 * 3
    assert [parse_persona(str(persona)) for persona in ALL] == ALL
    assert len({str(persona) for persona in ALL}) == len({label(persona) for persona in ALL}) == len(ALL)


def test_words_are_read_in_any_order_and_case() -> None:
    table: list[tuple[str, Persona]] = [
        ("", PLAIN),
        ("plain, good", PLAIN),
        ("anxious,A,poor,caregiver", Persona("anxious", "A", "poor", "caregiver")),
        ("  Caregiver b  ", Persona(language="B", speaker="caregiver")),
        ("vague,VAGUE", Persona(memory="vague")),
    ]
    wrong = [(text, got) for text, persona in table if (got := parse_persona(text)) != persona]
    assert wrong == []


def test_the_stored_form_names_only_what_differs_from_plain() -> None:
    assert str(PLAIN) == ""
    assert str(Persona("anxious", "A", "poor", "caregiver")) == "anxious,A,poor,caregiver"
    assert str(Persona(memory="vague")) == "vague"


def test_unknown_and_contradicting_words_are_refused(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("angry", "'angry' is no word of a persona: choose from temperament: plain, anxious"),
        ("anxious,terse", r"two of one kind \(anxious, terse\)"),
        ("A B", r"two of one kind \(A, B\)"),
    ]
    for text, message in table:
        with subtests.test(text=text, message=message), pytest.raises(UsageError, match=message):
            parse_persona(text)


def test_labels_are_readable() -> None:
    assert label(PLAIN) == "plain"
    assert label(Persona("terse", "A", "poor", "caregiver")) == (
        "terse, basic language (A), poor memory, caregiver speaks"
    )


def test_the_persona_decides_who_speaks_and_otherwise_the_case() -> None:
    assert [caregiver_speaks(PLAIN, of_case) for of_case in (True, False)] == [True, False]
    assert caregiver_speaks(Persona(speaker="caregiver"), False)
    assert not caregiver_speaks(Persona(speaker="patient"), True)


def test_every_persona_has_a_different_prompt_that_keeps_to_the_facts() -> None:
    texts = {
        persona_prompt(PACK, persona, caregiver)
        for persona in ALL
        if persona.speaker is None
        for caregiver in (True, False)
    }

    assert len(texts) == 6 * 4 * 3 * 2
    assert all("never changes the facts" in text for text in texts)
    assert not any("{" in text or "\n\n" in text for text in texts)


def test_a_pack_without_the_prompt_says_so() -> None:
    with pytest.raises(UsageError, match=r"The prompts bare have no persona\.md, which the persona 'terse' needs"):
        persona_prompt(replace(PACK, name="bare", prompts={}), Persona("terse"), False)
