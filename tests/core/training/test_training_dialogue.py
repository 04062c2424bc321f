"""Golden dialogues: roles, order of items, and ending."""

from __future__ import annotations

import pytest

from core.datasets.library import library
from core.frameworks.consultation.measures.history_taking import closes, measure, yardstick
from core.frameworks.consultation.roles import named_item
from core.text.case_items import HistoryItem, ItemSet, itemized
from core.training.dialogue import QUESTIONS, golden_dialogue
from tests.core.training.golden_cases import PROFILE, a_case

EVERY_FIFTH = library()[::5]


def test_the_patient_opens_and_gives_one_item_per_reply() -> None:
    dialogue = golden_dialogue(itemized(a_case(profile=PROFILE)))
    assert [turn.role for turn in dialogue] == ["patient", "doctor"] * 5
    assert [turn.text for turn in dialogue if turn.role == "patient"] == [
        "Hello doctor. My chest hurts. Can you help me?",
        "I'm 40.",
        "My chest hurts, for two days now.",
        "I take nothing.",
        "A blood test was off.",
    ]
    questions = [turn.text for turn in dialogue if turn.role == "doctor"][:-1]
    for key, question in zip(("age and sex", "main complaint", "medication", "troponin"), questions, strict=True):
        assert question.replace(key, "{key}") in QUESTIONS


def test_the_doctor_closes_with_the_items_and_the_diagnosis() -> None:
    last = golden_dialogue(itemized(a_case(profile=PROFILE)))[-1].text
    analysis, diagnosis = last.split("\n")
    assert diagnosis == "**Final Diagnosis:** Myocarditis"
    assert "chest pain for two days" in analysis
    assert "Myocarditis" in analysis
    assert "4 ng/mL" not in last, "the patient only knows that the test was off"


def test_items_of_a_model_are_said_in_the_first_person() -> None:
    items = (HistoryItem(key="smoking", value="She smokes a pack a day", topic="social history"),)
    about = itemized(a_case(sex="female"), ItemSet(items, "openai/x"))
    assert golden_dialogue(about)[2].text == "I smoke a pack a day."


def test_every_key_is_asked_for_once_and_the_reference_patient_understands(subtests: pytest.Subtests) -> None:
    for case in EVERY_FIFTH:
        with subtests.test(case=case):
            about = itemized(case)
            spoken = about.spoken
            dialogue = golden_dialogue(about, "random", 3)
            pairs = list(zip(dialogue[1:-1:2], dialogue[2:-1:2], strict=True))
            understood = [named_item(question.text, spoken) for question, _ in pairs]
            assert sorted(item.key for item in understood if item) == sorted(item.key for item in about.items)
            assert [item and item.lay for item in understood] == [reply.text for _, reply in pairs]
            measured = measure(dialogue, yardstick(about.case.vignette, about.items))
            assert measured.queries == len(about.items)
            assert measured.doctor_recall == 1.0
            assert closes(dialogue[-1].text)
            assert case.answer in dialogue[-1].text


def test_the_order_of_items_is_direct_reversed_or_random() -> None:
    about = itemized(library()[0])
    lays = [item.lay for item in about.spoken]

    def replies(order: str, seed: int = 0) -> list[str]:
        return [t.text for t in golden_dialogue(about, order, seed)[2::2]]  # type: ignore[arg-type]

    assert replies("direct") == lays
    assert replies("reversed") == lays[::-1]
    drawn = [replies("random", seed) for seed in range(4)]
    assert all(sorted(order_) == sorted(lays) for order_ in drawn)
    assert len({tuple(order_) for order_ in drawn}) == 4
    assert replies("random", 2) == drawn[2]


def test_the_seed_chooses_the_phrases_without_early_repetition() -> None:
    about = itemized(library()[0])
    first, again, other = (golden_dialogue(about, "direct", seed) for seed in (1, 1, 2))
    assert first == again
    assert [t.text for t in first if t.role == "doctor"] != [t.text for t in other if t.role == "doctor"]
    keys = [item.key for item in about.items][: len(QUESTIONS)]
    phrases = {t.text.replace(key, "{key}") for t, key in zip(first[1::2], keys, strict=False)}
    assert phrases == set(QUESTIONS)
