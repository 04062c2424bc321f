"""Golden dialogues: who says what, in which order, and how it ends."""

from __future__ import annotations

import pytest

from core.case import Case
from core.datasets.library import library
from core.frameworks.consultation.measures.history_taking import closes, measure, yardstick
from core.frameworks.consultation.roles import named_item
from core.text.case_items import HistoryItem, ItemSet, itemized
from core.training.dialogue import QUESTIONS, golden_dialogue
from tests.core.training.golden_cases import PROFILE, a_case

EVERY_FIFTH = library()[::5]


def test_the_patient_opens_and_tells_one_item_a_reply() -> None:
    dialogue = golden_dialogue(itemized(a_case(profile=PROFILE)))
    assert [turn.role for turn in dialogue] == ["patient", "doctor"] * 5
    assert [turn.text for turn in dialogue if turn.role == "patient"] == [
        "Hello doctor. My chest hurts. Can you help me?",
        "I'm 40.",
        "My chest hurts, for two days now.",
        "I take nothing.",
        "A blood test was off.",
    ]
    asked = [turn.text for turn in dialogue if turn.role == "doctor"][:-1]
    for key, question in zip(("age and sex", "main complaint", "medication", "troponin"), asked, strict=True):
        assert question.replace(key, "{key}") in QUESTIONS


def test_the_doctor_closes_with_what_it_was_told_and_the_diagnosis() -> None:
    last = golden_dialogue(itemized(a_case(profile=PROFILE)))[-1].text
    analysis, diagnosis = last.split("\n")
    assert diagnosis == "**Final Diagnosis:** Myocarditis"
    assert "chest pain for two days" in analysis
    assert "Myocarditis" in analysis
    assert "4 ng/mL" not in last, "the patient knew only that the test was off"


def test_items_of_a_model_are_told_in_the_first_person() -> None:
    items = (HistoryItem(key="smoking", value="She smokes a pack a day", topic="social history"),)
    about = itemized(a_case(sex="female"), ItemSet(items, "openai/x"))
    assert golden_dialogue(about)[2].text == "I smoke a pack a day."


@pytest.mark.parametrize("case", EVERY_FIFTH, ids=lambda c: c.case_key)
def test_every_key_is_asked_for_once_and_the_reference_patient_understands(case: Case) -> None:
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


def test_the_order_is_that_of_the_items_theirs_backwards_or_drawn() -> None:
    about = itemized(library()[0])
    lays = [item.lay for item in about.spoken]

    def told(order: str, seed: int = 0) -> list[str]:
        return [t.text for t in golden_dialogue(about, order, seed)[2::2]]  # type: ignore[arg-type]

    assert told("direct") == lays
    assert told("reversed") == lays[::-1]
    drawn = [told("random", seed) for seed in range(4)]
    assert all(sorted(one) == sorted(lays) for one in drawn)
    assert len({tuple(one) for one in drawn}) == 4
    assert told("random", 2) == drawn[2]


def test_the_seed_decides_the_phrases_and_none_comes_twice_before_all_have_come() -> None:
    about = itemized(library()[0])
    first, again, other = (golden_dialogue(about, "direct", seed) for seed in (1, 1, 2))
    assert first == again
    assert [t.text for t in first if t.role == "doctor"] != [t.text for t in other if t.role == "doctor"]
    keys = [item.key for item in about.items][: len(QUESTIONS)]
    said = {t.text.replace(key, "{key}") for t, key in zip(first[1::2], keys, strict=False)}
    assert said == set(QUESTIONS)
