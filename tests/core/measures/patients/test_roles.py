"""Rules on single replies: replies that break a patient's role, and similar replies that do not."""

from __future__ import annotations

import time

import pytest

from core.judging.patient_rule import broken_in


def kinds(text: str, question: str = "") -> list[str]:
    return [broken.kind for broken in broken_in(text, question)]


def test_speaking_of_its_text(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "The vignette does not mention any fever.",
        "I'm sorry, the paragraph doesn't say.",
        "The case doesn't specify whether I smoke.",
        "Based on the provided information, I have no allergies.",
        "The description I provided? No: the text does not include my age.",
    ]
    for text in rows:
        with subtests.test(text=text):
            assert kinds(text) == ["mentions_text"]


@pytest.mark.parametrize("text", ["In my case it started in May.", "That is not the case.", "I sent you a text."])
def test_everyday_words_do_not_speak_of_a_text(text: str) -> None:
    assert kinds(text) == []


def test_a_reply_about_what_was_mentioned(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "No, I haven't mentioned any weight loss.",
        "Smoking was not mentioned.",
        "There's no information provided about that.",
        "You didn't provide that.",
    ]
    for text in rows:
        with subtests.test(text=text):
            assert kinds(text) == ["not_mentioned"]


@pytest.mark.parametrize("text", ["I was provided with antibiotics.", "My doctor mentioned a shadow on the lung."])
def test_words_or_gifts_of_others_are_no_such_reply(text: str) -> None:
    assert kinds(text) == []


def test_refusing(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "I'm sorry, but I can't provide that information.",
        "I cannot help with that.",
        "As an AI, I have no family.",
        "I'd rather not discuss that.",
    ]
    for text in rows:
        with subtests.test(text=text):
            assert kinds(text) == ["refusal"]


def test_a_refusal_with_the_text_for_its_reason_is_counted_once() -> None:
    assert kinds("The vignette does not mention it, so I cannot answer that.") == ["mentions_text"]


@pytest.mark.parametrize("text", ["I can't say for sure.", "I don't know.", "I can't respond to anyone during a fit."])
def test_not_knowing_is_no_refusal(text: str) -> None:
    assert kinds(text) == []


def test_playing_the_doctor(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "Do you have any fever yourself?",
        "I would recommend that you see a specialist.",
        "You should take ibuprofen twice a day.",
        "**Final Diagnosis:** lupus",
        "You probably have a cold.",
        "The patient denies any mental illness.",
    ]
    for text in rows:
        with subtests.test(text=text):
            assert kinds(text) == ["plays_doctor"]


def test_questions_and_statements_that_fit_a_patient(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "Do you think it is serious?",
        "When do you have an opening?",
        "You should ask my mother.",
        "I have not been diagnosed with anything.",
        "You may have to speak up.",
    ]
    for text in rows:
        with subtests.test(text=text):
            assert kinds(text) == []


def test_the_third_person_is_allowed_after_a_question_in_the_third_person() -> None:
    assert kinds("The patient is 4 years old.", "How old is the patient?") == []
    assert kinds("The patient is 4 years old.", "How old is he?") == ["plays_doctor"]


def test_both_sides_and_stage_directions() -> None:
    assert kinds("It hurts.\nDoctor: Since when?\nPatient: Since May.") == ["both_sides"]
    assert kinds("*sighs* It hurts.") == kinds("(looks down) It hurts.") == ["stage_direction"]
    assert kinds("*rubbing the left knee* Here.") == ["stage_direction"]
    assert kinds("It is *very* sore (38 °C) and **red**.") == []


def test_the_place_is_that_of_the_words() -> None:
    text = "Well, the vignette is silent."
    (broken,) = broken_in(text)
    assert text[broken.start : broken.end] == "vignette"


def test_a_hostile_reply_takes_linear_time() -> None:
    began = time.process_time()
    broken_in("do you have " * 20_000 + ".?")
    assert time.process_time() - began < 5
