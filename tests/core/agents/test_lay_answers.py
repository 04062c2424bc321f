"""The answers of every patient of the library to the usual first questions."""

from __future__ import annotations

import re

import pytest

from core.agents.base import patient_knowledge
from core.agents.reference.patient import ReferencePatient
from core.asking.scene import Turn
from core.case import Case
from core.datasets.library import UNKNOWN, lay_answers, library
from core.frameworks.automedic.roles import briefings_of
from core.knowledge.base import words_of_name
from core.text.patient_terms import is_technical, words
from core.text.sections import sentences
from core.text.vocabulary import NUMBERS
from tests.core.agents.acting import GREETING, SCENE, hear

PATIENT = ReferencePatient()
FIRST_QUESTIONS = (
    ("Hello!", ("opening",)),
    ("What brings you in today?", ("opening",)),
    ("Since when have you had this?", ("since",)),
    ("Where exactly is it?", ("where",)),
    ("What makes it worse or better?", ("course",)),
    ("Do you have any other symptoms?", ("other", "not_noticed")),
    ("Do you take any medication?", ("medication",)),
    ("Do you have any allergies?", ("allergies",)),
    ("Have you had any illnesses in the past?", ("illness",)),
    ("Are there any illnesses in your family?", ("family",)),
    ("Do you smoke or drink alcohol?", ("smoking", "alcohol")),
    ("Tell me more about it.", ("since", "where", "character", "course", "other")),
)
"""(question, topics): the answer is on one of the topics."""
MORE_QUESTIONS = (
    ("When did it begin?", ("since",)),
    ("How bad is it?", ("severity",)),
    ("What is it like?", ("character",)),
    ("Does it spread anywhere?", ("where",)),
    ("Have you had any operations?", ("operations",)),
    ("What do you do for a living?", ("life",)),
    ("Have you traveled recently?", ("contacts",)),
    ("Is there anything else?", ("since", "where", "character", "course", "other")),
)
KEYS = [case.case_key for case in library()]
CASES = pytest.mark.parametrize("case", library(), ids=KEYS)


def ask(case: Case, question: str) -> str:
    """Return the reply to ``question``, which follows the patient's opening unless it is an opening question itself."""
    knowledge = patient_knowledge(case)
    if question in ("Hello!", "What brings you in today?"):
        return hear(PATIENT.reply(knowledge, SCENE, (Turn("doctor", question),)))
    opening = hear(PATIENT.reply(knowledge, SCENE, (GREETING,)))
    return hear(PATIENT.reply(knowledge, SCENE, (GREETING, Turn("patient", opening), Turn("doctor", question))))


def numbers_in(text: str) -> set[float]:
    spelt = {NUMBERS[word] for word in re.findall(r"[a-z]+", text.lower()) if word in NUMBERS and word not in ARTICLES}
    return spelt | {float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)}


ARTICLES = ("a", "an", "one", "half")


def test_every_case_of_the_library_has_lay_answers_and_nothing_else_has() -> None:
    assert set(lay_answers()) == {UNKNOWN, *KEYS}
    topics = set(lay_answers()[UNKNOWN])
    for key in KEYS:
        assert set(lay_answers()[key]) <= topics
        assert {"opening", "character", "other"} <= set(lay_answers()[key])


@CASES
def test_every_first_question_is_answered_on_its_topic(case: Case) -> None:
    answers = lay_answers()[case.case_key]
    for question, topics in (*FIRST_QUESTIONS, *MORE_QUESTIONS):
        answers_of_topics = [answer for topic in topics for answer in answers.get(topic, ())]
        unknown = {lay_answers()[UNKNOWN][topic][0] for topic in topics}
        reply = ask(case, question)
        if answers_of_topics:
            assert any(answer in reply for answer in answers_of_topics), (question, reply)
        else:
            assert reply in unknown, (question, reply)


@CASES
def test_answers_are_short_and_name_no_diagnosis(case: Case) -> None:
    names = [" ".join(words_of_name(name)) for name in (case.answer, *case.synonyms)]
    for answer in (answer for answers in lay_answers()[case.case_key].values() for answer in answers):
        assert 1 <= len(sentences(answer)) <= 2
        assert answer.endswith(".")
        plain = f" {' '.join(words_of_name(answer))} "
        assert not any(f" {name} " in plain for name in names)


@CASES
def test_numbers_and_medical_words_of_answers_are_those_of_the_case(case: Case) -> None:
    assert case.profile is not None
    case_text = " ".join([case.vignette, *(f"{fact.value} {fact.lay}" for fact in case.profile.facts)])
    for answer in (answer for answers in lay_answers()[case.case_key].values() for answer in answers):
        assert numbers_in(answer) <= numbers_in(case.vignette), answer
        assert {word for word in words(answer) if is_technical(word)} <= set(words(case_text)), answer


def test_a_repeated_question_gets_the_next_answer_of_its_topic() -> None:
    case = next(case for case in library() if case.case_key == "library/rheumatology-1")
    first, second = lay_answers()[case.case_key]["other"]
    (not_noticed,) = lay_answers()[case.case_key]["not_noticed"]
    dialogue: tuple[Turn, ...] = (GREETING, Turn("patient", "My joints hurt, and I'm tired."))
    for expected in (first, second, not_noticed):
        dialogue = (*dialogue, Turn("doctor", "Have you had any other symptoms?"))
        assert hear(PATIENT.reply(patient_knowledge(case), SCENE, dialogue)) == expected
        dialogue = (*dialogue, Turn("patient", expected))


def test_the_patient_of_automedic_gives_the_same_answers() -> None:
    for case in library():
        knowledge = briefings_of(case).patient
        reply = hear(PATIENT.reply(knowledge, SCENE, (Turn("doctor", "Do you take any medication?"),)))
        expected = lay_answers()[case.case_key].get("medication") or lay_answers()[UNKNOWN]["medication"]
        assert reply == expected[0]


def test_a_changed_vignette_is_not_answered_from_the_old_one() -> None:
    case = library()[0].model_copy(update={"vignette": "A 50-year-old man has a rash.", "profile": None})

    assert "rash" in ask(case, "What brings you in today?")
    assert "chest" not in " ".join(ask(case, question) for question, _ in FIRST_QUESTIONS)
