"""The marks of a conversation: medical terms that the patient says first, and revealed diagnoses."""

from __future__ import annotations

from core.asking.scene import Turn
from core.judging.patient_rule import marks_in, replies_of, terms_in
from tests.core.measures.patients.patient_conversations import OPENING, dialogue
from tests.core.store.builders import a_case

LUPUS = a_case(
    vignette="A woman has a rash and sore joints.",
    answer="Systemic lupus erythematosus",
    synonyms=("SLE", "Lupus"),
    supertypes=("Connective tissue disease",),
    profile=None,
)


def leaks(*exchanges: tuple[str, str]) -> list[tuple[int, str, str]]:
    marks = marks_in(LUPUS, dialogue(*exchanges))
    return [(mark.turn, mark.words, mark.detail) for mark in marks if mark.kind == "leak"]


def test_a_term_counts_in_the_first_reply_that_has_it() -> None:
    marks = terms_in(dialogue(OPENING, ("Since when?", "The papules came in May."), ("Where?", "Papules all over.")))
    assert [(mark.turn, mark.words, mark.detail) for mark in marks] == [(3, "papules", "small bump")]


def test_a_term_that_the_doctor_said_in_any_form_does_not_count() -> None:
    assert not terms_in(dialogue(OPENING, ("Is the rash papular?", "Yes, I have papules.")))
    assert terms_in(dialogue(OPENING, ("Any bumps?", "Yes, papules.")))


def test_a_later_use_by_the_doctor_does_not_excuse_a_term() -> None:
    assert len(terms_in(dialogue(("Hello", "I have dyspnea."), ("Dyspnea since when?", "May.")))) == 1


def test_the_answer_a_synonym_or_a_broader_name_reveals_the_diagnosis() -> None:
    assert leaks(OPENING, ("Anything else?", "I have systemic lupus erythematosus.")) == [
        (3, "systemic lupus erythematosus", "the answer")
    ]
    assert leaks(OPENING, ("Else?", "It is lupus.")) == [(3, "lupus", "a synonym")]
    assert leaks(OPENING, ("Else?", "A connective tissue disease.")) == [
        (3, "connective tissue disease", "a broader name")
    ]


def test_a_name_of_the_doctors_or_of_a_relative_reveals_nothing() -> None:
    assert not leaks(OPENING, ("Could it be lupus?", "I don't think I have lupus."))
    assert not leaks(OPENING, ("Family?", "My mother has lupus."))
    assert leaks(OPENING, ("Family?", "My mother is well. I have lupus."))


def test_a_name_in_the_vignette_is_no_secret() -> None:
    open_case = LUPUS.model_copy(update={"vignette": "A woman with known lupus has a rash."})
    conversation = dialogue(OPENING, ("Else?", "I have lupus."))
    assert not [mark for mark in marks_in(open_case, conversation) if mark.kind == "leak"]


def test_the_diagnosis_is_not_counted_as_a_term_too() -> None:
    case = LUPUS.model_copy(update={"answer": "Atopic dermatitis", "synonyms": (), "supertypes": ()})
    marks = marks_in(case, dialogue(OPENING, ("Else?", "I have atopic dermatitis.")))
    assert [mark.kind for mark in marks] == ["leak"]


def test_a_request_before_the_doctor_spoke_is_no_reply() -> None:
    conversation = (Turn("patient", "Doctor, I have dyspnea."), *dialogue(("Since when?", "May.")))
    assert replies_of(conversation) == [2]
    assert not terms_in(conversation)
