"""The reference doctor: it asks for each topic of a history once, stops, and never sees a case's answer."""

from __future__ import annotations

import pytest

from core.agents.base import patient_knowledge
from core.agents.reference.doctor import (
    BACKGROUND,
    COMPLAINT,
    DEMOGRAPHICS_QUESTION,
    ReferenceDoctor,
    evidence_of_dialogue,
)
from core.agents.reference.patient import ReferencePatient
from core.asking.scene import Material, Question, Scene, Turn
from core.datasets.library import library
from core.knowledge.base import knowledge
from tests.core.agents.acting import GREETING, SCENE, case_with, consult, hear

SOME = [next(case for case in library() if case.specialty == name) for name in ("Cardiology", "Neurology", "Other")]
DOCTOR, PATIENT = ReferenceDoctor(), ReferencePatient()
MOST_QUESTIONS = len(COMPLAINT) + len(BACKGROUND) + 1


def questions(dialogue: tuple[Turn, ...]) -> list[str]:
    return [turn.text for turn in dialogue[1:] if turn.role == "doctor" and "Final Diagnosis" not in turn.text]


def test_a_consultation_ends_with_one_known_disease(subtests: pytest.Subtests) -> None:
    for case in SOME:
        for seed in [1, 2]:
            with subtests.test(case=case, seed=seed):
                dialogue = consult(DOCTOR, PATIENT, case, seed)

                assert dialogue[-1].text.startswith("**Final Diagnosis:** ")
                assert knowledge().disease(dialogue[-1].text.removeprefix("**Final Diagnosis:** ")) is not None
                assert len(COMPLAINT) <= len(questions(dialogue)) <= MOST_QUESTIONS


def test_nothing_is_asked_twice(subtests: pytest.Subtests) -> None:
    for case in SOME:
        with subtests.test(case=case):
            for seed in range(5):
                topics = [
                    next(q for q in (*COMPLAINT, *BACKGROUND, DEMOGRAPHICS_QUESTION) if text.endswith(q))
                    for text in questions(consult(DOCTOR, PATIENT, case, seed))
                ]
                assert len(topics) == len(set(topics))


def test_every_question_is_one_line_with_a_question_mark() -> None:
    for text in questions(consult(DOCTOR, PATIENT, SOME[0])):
        assert text.count("?") == 1
        assert "\n" not in text


def test_the_wording_depends_on_the_seed() -> None:
    dialogues = [consult(DOCTOR, PATIENT, SOME[0], seed=7) for _ in range(2)]
    texts = {tuple(turn.text for turn in consult(DOCTOR, PATIENT, SOME[0], seed)) for seed in range(6)}
    question_lists = {tuple(questions(consult(DOCTOR, PATIENT, SOME[0], seed))) for seed in range(6)}

    assert dialogues[0] == dialogues[1]
    assert len(texts) >= 5
    assert len(question_lists) >= 3


def test_missing_age_and_sex_are_asked_for_once() -> None:
    unhelpful = (GREETING, Turn("patient", "I feel ill."))
    first = hear(DOCTOR.ask(SCENE, unhelpful))
    second = hear(DOCTOR.ask(SCENE, (*unhelpful, Turn("doctor", first), Turn("patient", "I won't say."))))
    with_age_and_sex = (GREETING, Turn("patient", "I'm a 30-year-old woman. I have a rash."))

    assert first.endswith(DEMOGRAPHICS_QUESTION)
    assert DEMOGRAPHICS_QUESTION not in second
    assert DEMOGRAPHICS_QUESTION not in hear(DOCTOR.ask(SCENE, with_age_and_sex))


def test_it_stops_after_all_questions_even_without_answers() -> None:
    dialogue: tuple[Turn, ...] = (GREETING, Turn("patient", "I don't know."))
    questions_so_far = 0
    while "Final Diagnosis" not in (text := hear(DOCTOR.ask(SCENE, dialogue))):
        questions_so_far += 1
        dialogue = (*dialogue, Turn("doctor", text), Turn("patient", "I don't know."))
        assert questions_so_far <= MOST_QUESTIONS

    assert questions_so_far == MOST_QUESTIONS


def test_age_and_sex_are_read_from_the_reply_to_the_question_for_them(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, float | None, str | None]] = [
        ("I'm 45. I'm a woman.", 45, "female"),
        ("My son is 7 years old. He's a boy.", 7, "male"),
        ("She is two. She is a girl.", 2, "female"),
        ("He is five weeks old. He is a boy.", 5 * 7 / 365.25, "male"),
        ("I have coughed for 3 weeks.", None, None),
    ]
    for reply, age, sex in table:
        with subtests.test(reply=reply, age=age):
            dialogue = (
                GREETING, Turn("patient", "My wife says she noticed a mole."), Turn("doctor", DEMOGRAPHICS_QUESTION),
                Turn("patient", reply),
            )  # fmt: skip
            evidence = evidence_of_dialogue(dialogue)

            assert evidence.age == (None if age is None else pytest.approx(age))
            if sex is not None:
                assert evidence.sex == sex


def test_nothing_it_says_depends_on_the_answer(subtests: pytest.Subtests) -> None:
    for case in SOME:
        with subtests.test(case=case):
            changed = case.model_copy(update={"answer": "Scabies", "synonyms": (), "supertypes": (), "subtypes": ()})

            assert consult(DOCTOR, PATIENT, case) == consult(DOCTOR, PATIENT, changed)
            assert patient_knowledge(case) == patient_knowledge(changed)


def answer(
    text: str, choices: tuple[str, ...], kind: str = "mcq", seed: int = 20, specialty: str = "Dermatology"
) -> str:
    question = Question(kind, "Which is it?", choices)  # type: ignore[arg-type]
    return hear(DOCTOR.answer(Scene(specialty, seed), Material("vignette", text=text), question))


PLAQUES = (
    "A 40-year-old man has well-demarcated red plaques with silvery scale on his elbows and knees, and nail pitting."
)


def test_a_choice_is_picked_whatever_the_order_of_the_choices() -> None:
    choices = ("Plaque psoriasis", "Scabies", "Measles", "Rosacea")
    answers = {answer(PLAQUES, choices), answer(PLAQUES, choices[::-1])}

    assert answers == {"**Final Diagnosis:** Plaque psoriasis"}


def test_among_unknown_choices_the_seed_decides() -> None:
    unknown = ("Florble", "Wibble", "Zorp", "Quux")
    answers = {answer("He is ill.", unknown, seed=seed).removeprefix("**Final Diagnosis:** ") for seed in range(40)}

    assert answers == set(unknown)
    assert answer("He is ill.", unknown, seed=3) == answer("He is ill.", unknown, seed=3)


def test_an_unknown_choice_beats_known_ones_that_fit_badly() -> None:
    assert answer(PLAQUES, ("Florble", "Measles")) == "**Final Diagnosis:** Florble"
    assert answer(PLAQUES, ("Florble", "Plaque psoriasis")) == "**Final Diagnosis:** Plaque psoriasis"


def test_free_answers_name_one_disease_or_three_different_ones() -> None:
    diagnosis = answer(PLAQUES, (), "frq").removeprefix("**Final Diagnosis:** ")
    lines = answer(PLAQUES, (), "frq_top3").splitlines()

    assert diagnosis == "Plaque psoriasis"
    assert lines[0] == "**Final Diagnosis:**"
    assert lines[1] == "1. Plaque psoriasis"
    assert len(set(lines[1:])) == 3


def test_the_examination_counts_in_addition_to_the_conversation() -> None:
    dialogue = (GREETING, Turn("patient", "I have a cough and fever."))
    material = Material("multi_turn_exam", dialogue=dialogue, examination="There is a barking cough with stridor.")
    plain, examined = evidence_of_dialogue(dialogue), evidence_of_dialogue(dialogue, str(material.examination))
    question = Question("mcq", "Which?", ("Croup", "Community-acquired pneumonia"))
    croup = knowledge().disease("Croup")
    if croup is None:
        pytest.skip("the knowledge has no croup")

    assert hear(DOCTOR.answer(Scene("", 1), material, question)).endswith("Croup")
    assert plain.findings.get("stridor") is None
    assert examined.findings["stridor"] is True


def test_the_differential_falls_and_follows_the_dialogue() -> None:
    differential = DOCTOR.differential(SCENE, (GREETING, Turn("patient", PLAQUES)))
    prior = DOCTOR.differential(SCENE, (GREETING,))

    assert differential[0][0] == "Plaque psoriasis"
    assert [p for _, p in differential] == sorted((p for _, p in differential), reverse=True)
    assert sum(p for _, p in prior) < 1
    assert differential != prior


def test_the_answer_follows_the_findings_and_not_the_label() -> None:
    """A case with the findings of another disease gets the other disease, although its label differs."""
    case = case_with("Scabies", choices=("Scabies", "Plaque psoriasis"), vignette=PLAQUES)

    assert answer(case.vignette, case.choices) == "**Final Diagnosis:** Plaque psoriasis"
