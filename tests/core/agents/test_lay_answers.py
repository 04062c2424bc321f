"""What every patient of the library answers to the questions that clinicians ask first."""

from __future__ import annotations

import csv
import re
from pathlib import Path

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
FIRST_QUESTIONS: dict[str, tuple[str, ...]] = {
    "greeting": ("Hello!", "Good morning, I'm Dr. Reed. How are you today?", "Hi there, please have a seat."),
    "tell me more": (
        "Tell me more about it.",
        "Tell me more about the pain.",
        "Could you describe in your own words what has been happening?",
        "Please tell me a little more.",
    ),
    "what brings you": ("What brings you in today?", "What seems to be the problem?", "So how can I help you?"),
    "since when": ("When did this start?", "How long has this been going on?", "Since when have you had this?"),
    "where": ("Where exactly is it?", "Can you show me where it hurts?", "Which part of your body is affected?"),
    "worse or better": (
        "What makes it worse or better?",
        "Does the pain come on with effort?",
        "Does it come on with exercise?",
        "Does anything bring it on or relieve it?",
    ),
    "other symptoms": (
        "Do you have any other symptoms?",
        "Have you noticed anything else?",
        "Is there anything else bothering you?",
    ),
    "medication": (
        "Do you take any medication?",
        "What medicines are you on at the moment?",
        "Are you on any tablets?",
    ),
    "allergies": ("Do you have any allergies?", "Are you allergic to anything?", "Any known drug allergies?"),
    "past illness": (
        "Have you had any illnesses in the past?",
        "Have you ever been seriously ill before?",
        "Do you have any other medical conditions?",
    ),
    "family": (
        "Are there any illnesses in your family?",
        "Does anything run in your family?",
        "Are your parents healthy?",
    ),
    "smoking and alcohol": (
        "Do you smoke or drink alcohol?",
        "How much do you drink, and do you smoke?",
        "Any tobacco or alcohol?",
    ),
}
"""The questions that clinicians ask first, in several wordings."""
TOPIC_OF_COLUMN = {
    "allergies": "allergies",
    "family": "family",
    "medication": "medication",
    "past illness": "illness",
    "smoking and alcohol": "smoking",
}
"""Column of first_questions.csv → topic of the reply if the case is silent (``unknown``)."""
with Path(__file__).with_name("first_questions.csv").open(encoding="utf-8", newline="") as table:
    EXPECTED = {row.pop("case"): row for row in csv.DictReader(table)}
"""Case → question → topic of the answer, read by hand; two topics with a plus sign."""
MORE_QUESTIONS = (
    ("When did it begin?", ("since",)),
    ("How bad is it?", ("severity",)),
    ("What is it like?", ("character",)),
    ("Does it spread anywhere?", ("where",)),
    ("Have you had any operations?", ("operations",)),
    ("What do you do for a living?", ("life",)),
    ("Have you traveled recently?", ("contacts",)),
    ("Is there anything else?", ("other",)),
    ("Please go on.", ("story",)),
    ("What do you think it is?", ("diagnosis",)),
)
"""Question and the topics of which the answer is one."""
KEYS = [case.case_key for case in library()]


def ask(case: Case, question: str) -> str:
    """Return the reply to a question after the opening words, or to a first question."""
    knowledge = patient_knowledge(case)
    if question in (*FIRST_QUESTIONS["greeting"], *FIRST_QUESTIONS["what brings you"]):
        return hear(PATIENT.reply(knowledge, SCENE, (Turn("doctor", question),)))
    opening = hear(PATIENT.reply(knowledge, SCENE, (GREETING,)))
    return hear(PATIENT.reply(knowledge, SCENE, (GREETING, Turn("patient", opening), Turn("doctor", question))))


def numbers_in(text: str) -> set[float]:
    """Return the numbers of a text, in digits or in words."""
    spelt = {NUMBERS[word] for word in re.findall(r"[a-z]+", text.lower()) if word in NUMBERS and word not in ARTICLES}
    return spelt | {float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)}


ARTICLES = ("a", "an", "one", "half")


def test_every_case_of_the_library_has_lay_answers_and_nothing_else_has() -> None:
    assert set(lay_answers()) == {UNKNOWN, *KEYS}
    topics = {*lay_answers()[UNKNOWN], "story"}
    for key in KEYS:
        assert set(lay_answers()[key]) <= topics
        assert {"opening", "story", "since", "where", "character", "course", "other"} <= set(lay_answers()[key])


def test_the_table_has_every_case_and_question() -> None:
    assert [f"library/{name}" for name in EXPECTED] == KEYS
    assert all(list(row) == list(FIRST_QUESTIONS) for row in EXPECTED.values())


@pytest.mark.slow
def test_every_first_question_is_answered_on_the_topic_of_the_table() -> None:
    unknown, wrong = lay_answers()[UNKNOWN], []
    for case in library():
        answers = lay_answers()[case.case_key]
        for column, questions in FIRST_QUESTIONS.items():
            expected = EXPECTED[case.case_key.removeprefix("library/")][column]
            for question in questions:
                reply = ask(case, question)
                if expected == "unknown":
                    right = reply == unknown[TOPIC_OF_COLUMN[column]][0]
                else:
                    right = all(any(a in reply for a in answers[topic]) for topic in expected.split("+"))
                if not right:
                    wrong.append((case.case_key, question, reply))
    assert wrong == []


def test_every_later_question_is_answered_on_its_topic() -> None:
    unknown, wrong = lay_answers()[UNKNOWN], []
    for case in library():
        answers = lay_answers()[case.case_key]
        for question, topics in MORE_QUESTIONS:
            known = [answer for topic in topics for answer in answers.get(topic, ())]
            reply = ask(case, question)
            if not (any(a in reply for a in known) if known else reply in {unknown[topic][0] for topic in topics}):
                wrong.append((case.case_key, question, reply))
    assert wrong == []


def test_answers_are_short_name_no_diagnosis_and_add_no_number_or_word_of_medicine_to_the_case() -> None:
    wrong = []
    for case in library():
        assert case.profile is not None
        names = [" ".join(words_of_name(name)) for name in (case.answer, *case.synonyms)]
        own = set(words(" ".join([case.vignette, *(f"{fact.value} {fact.lay}" for fact in case.profile.facts)])))
        for answer in (answer for answers in lay_answers()[case.case_key].values() for answer in answers):
            plain = f" {' '.join(words_of_name(answer))} "
            if not (
                1 <= len(sentences(answer)) <= 2
                and answer.endswith(".")
                and not any(f" {name} " in plain for name in names)
                and numbers_in(answer) <= numbers_in(case.vignette)
                and {word for word in words(answer) if is_technical(word)} <= own
            ):
                wrong.append((case.case_key, answer))
    assert wrong == []


def test_a_topic_that_is_asked_for_again_gets_the_rest() -> None:
    case = next(case for case in library() if case.case_key == "library/rheumatology-1")
    first, second = lay_answers()[case.case_key]["other"]
    (not_noticed,) = lay_answers()[case.case_key]["not_noticed"]
    dialogue: tuple[Turn, ...] = (GREETING, Turn("patient", "My joints hurt, and I'm tired."))
    for expected in (first, second, not_noticed):
        dialogue = (*dialogue, Turn("doctor", "Have you had any other symptoms?"))
        assert hear(PATIENT.reply(patient_knowledge(case), SCENE, dialogue)) == expected
        dialogue = (*dialogue, Turn("patient", expected))


def test_asked_to_go_on_the_patient_tells_the_story_then_new_things_until_all_is_told() -> None:
    case = next(case for case in library() if case.case_key == "library/rheumatology-1")
    answers = lay_answers()[case.case_key]
    dialogue: tuple[Turn, ...] = (GREETING, Turn("patient", answers["opening"][0]))
    for expected in (*answers["story"], *answers["other"], *answers["not_noticed"], *answers["medication"]):
        dialogue = (*dialogue, Turn("doctor", "Tell me more about the pain."))
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
    assert "chest" not in " ".join(
        ask(case, question) for questions in FIRST_QUESTIONS.values() for question in questions
    )
