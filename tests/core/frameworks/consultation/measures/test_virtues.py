"""Honesty, strictness and colloquialism on dialogues that were judged by hand."""

from __future__ import annotations

import tomllib

import pytest

from core import paths
from core.frameworks.consultation.measures.history_taking import (
    colloquialism,
    honesty,
    inquiry_of,
    strictness,
    telltales,
)
from core.text.patient_terms import is_technical, telling
from tests.core.frameworks.consultation.measures.dialogues import an_item, dialogue

KNOWN = telling("A 40-year-old man has had belly pain for two weeks. He has no fever. He takes aspirin.")
ITEMS = telltales(
    (
        an_item("main complaint", "belly pain", "chief complaint"),
        an_item("duration of the pain", "for two weeks", "onset"),
        an_item("medication", "takes aspirin", "medication"),
        an_item("fever", "no fever", "negatives"),
    )
)


def test_a_patient_who_keeps_to_the_case_is_honest() -> None:
    turns = dialogue(
        "D: Hello!", "P: My tummy hurts.", "D: Any pills?", "P: Just aspirin.", "D: Final Diagnosis: ulcer"
    )
    assert honesty(inquiry_of(turns), KNOWN) == 1.0


def test_inventions_count_against_honesty_and_not_knowing_does_not() -> None:
    turns = dialogue(
        "D: Hello!",
        "P: My abdomen aches.",
        "D: Have you been abroad?",
        "P: I was in Kenya with my cousin.",
        "D: Any operations?",
        "P: I don't know, doctor.",
        "D: Do you have a fever?",
        "P: No.",
        "D: Were you ever in prison?",
        "P: Yes.",
        "D: Does your belly hurt?",
        "P: Yes.",
    )
    # supported: abdomen aches, the no about fever, the yes about the belly. Not supported: Kenya, prison
    assert honesty(inquiry_of(turns), KNOWN) == pytest.approx(3 / 5)


def test_a_patient_who_states_nothing_has_no_honesty() -> None:
    turns = dialogue("D: Hello!", "P: Hello doctor.", "D: What is wrong?", "P: I don't know. Can you help me?")
    assert honesty(inquiry_of(turns), KNOWN) is None


def test_a_strict_patient_adds_nothing_that_was_not_asked_for() -> None:
    turns = dialogue(
        "D: Hello!",
        "P: I have belly pain.",
        "D: Do you take any pills?",
        "P: I take aspirin.",
        "D: Have you had a temperature?",
        "P: No fever, but the pain has been there for two weeks.",
        "D: Final Diagnosis: ulcer",
    )
    # pills ask for the medication; the second reply adds the duration, which was not asked for
    assert strictness(inquiry_of(turns), ITEMS) == pytest.approx(1 / 2)


def test_an_open_question_asks_for_everything_and_a_repeated_item_is_not_new() -> None:
    turns = dialogue(
        "D: Hello!",
        "P: I have belly pain.",
        "D: Anything else?",
        "P: I take aspirin.",
        "D: Have you had a fever?",
        "P: No fever, and I take aspirin for my belly pain.",
        "D: Final Diagnosis: ulcer",
    )
    assert strictness(inquiry_of(turns), ITEMS) == 1.0
    assert strictness(inquiry_of(turns[:4]), ITEMS) is None


def test_technical_words_count_against_colloquialism() -> None:
    # "gastritis" is technical by its ending, "dyspnea" and "febrile" by the list; "diarrhea" is everyday: 3 of 8 words
    assert colloquialism(["Gastritis, dyspnea and diarrhea; I was febrile 3 days"]) == pytest.approx(5 / 8)
    assert colloquialism(["I feel sick and my belly hurts"]) == 1.0
    assert colloquialism(["38.5"]) is None


@pytest.mark.parametrize(
    ("word", "technical"),
    [
        ("appendectomy", True),
        ("hyponatremia", True),
        ("coma", False),
        ("aroma", False),
        ("arthritis", False),
        ("knee", False),
        ("erythematous", True),
    ],
)
def test_which_words_are_technical(word: str, technical: bool) -> None:
    assert is_technical(word) is technical


def test_words_of_one_meaning_are_equal_and_empty_words_do_not_count() -> None:
    assert telling("my tummy") == telling("the abdomen") != telling("the knee")
    assert telling("Yes, I have noticed that, doctor.") == frozenset()


def test_every_word_with_a_meaning_counts_as_telling() -> None:
    lexicon = tomllib.loads((paths.KNOWLEDGE / "everyday.toml").read_text(encoding="utf-8"))
    for group in lexicon["same"]:
        emptied = [word for word in group.split() if not telling(word)]
        assert emptied == [], group
    assert set(lexicon["technical"].split()) & set(lexicon["everyday"].split()) == set()
