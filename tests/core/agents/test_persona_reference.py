"""How the reference patient speaks with each persona, and that it never tells what the case does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.agents.base import what_patient_holds
from core.agents.reference import persona_rules
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.patient import ReferencePatient
from core.agents.reference.persona_rules import (
    EVASIONS,
    FORGOTTEN,
    NO_FUSS,
    SMALL_TALK,
    WORRIES,
    blurred,
    clauses,
    manner_of,
    plain_words,
    played_down,
)
from core.asking.persona import PLAIN, parse_persona
from core.asking.scene import Dialogue, Held, Scene, Turn
from core.case import Case, Fact
from core.datasets.library import library
from core.text.demographics import read_demographics
from core.text.findings import understanding
from tests.core.agents.acting import GREETING, case_with, consult, hear
from tests.core.agents.test_reference_patient import UNSURE

PATIENT = ReferencePatient()
READ = understanding().recogniser.read
CASE = case_with()


def with_fact(key: str, lay: str) -> Held:
    profile = CASE.profile
    assert profile is not None
    basic = tuple(fact if fact.key != key else Fact(key=key, value=fact.value, lay=lay) for fact in profile.basic)
    return what_patient_holds(CASE.model_copy(update={"profile": profile.model_copy(update={"basic": basic})}))


def talk(persona: str, *questions: str, held: Held | None = None, seed: int = 20) -> list[str]:
    """Return the replies to the greeting and to each question in turn."""
    scene = Scene("Dermatology", seed, persona=parse_persona(persona))
    dialogue: Dialogue = (GREETING,)
    replies = []
    for question in (*questions, ""):
        replies.append(hear(PATIENT.reply(held or what_patient_holds(CASE), scene, dialogue)))
        dialogue = (*dialogue, Turn("patient", replies[-1]), Turn("doctor", question))
    return replies


HOW_LONG = "How long have you had this?"
MEDICINES = "Do you take any medicines?"


def test_terse_says_the_first_clause_and_the_rest_when_asked_again() -> None:
    held = with_fact("medication", "I take lithium for my mood, and my doctor gave me a cream.")

    assert talk("terse", MEDICINES, MEDICINES, held=held)[1:] == [
        "I take lithium for my mood.",
        "My doctor gave me a cream.",
    ]


def test_terse_still_tells_age_and_sex_at_once() -> None:
    assert talk("terse", "How old are you, and are you a man or a woman?")[1] == "I'm 40. I'm a man."


def test_anxious_adds_one_worry_to_the_plain_reply() -> None:
    plain, worried = talk("", HOW_LONG, MEDICINES), talk("anxious", HOW_LONG, MEDICINES)

    for before, after in zip(plain, worried, strict=True):
        assert after.removeprefix(f"{before} ") in WORRIES


def test_talkative_adds_small_talk_and_sometimes_a_complaint_that_was_not_told() -> None:
    replies = [talk("talkative", MEDICINES, seed=seed)[1] for seed in range(30)]
    volunteered = [
        [
            lay
            for lay in ("It began three months ago.", "I haven't had a fever.", "My finger joints hurt.")
            if lay in said
        ]
        for said in replies
    ]

    assert all(said.endswith(SMALL_TALK) and "I take lithium" in said for said in replies)
    assert all(len(more) <= 1 for more in volunteered)
    assert 5 < sum(map(len, volunteered)) < 25


def test_distrustful_evades_some_questions_once_and_answers_when_asked_again() -> None:
    evaded = 0
    for seed in range(30):
        opening, first, second, third = talk("distrustful", MEDICINES, MEDICINES, MEDICINES, seed=seed)
        evaded += first in EVASIONS
        assert opening.endswith("I have scaly patches on my elbows.")
        assert first in EVASIONS or first == "I take lithium for my mood."
        assert second == third == "I take lithium for my mood."

    assert 5 < evaded < 25


def test_distrustful_answers_when_pressed_in_other_words() -> None:
    seed = next(s for s in range(30) if talk("distrustful", MEDICINES, seed=s)[1] in EVASIONS)

    pressed = talk("distrustful", MEDICINES, "Please, it matters.", seed=seed)
    assert pressed[2] == "I take lithium for my mood."


def test_stoic_makes_little_of_it_and_denies_nothing() -> None:
    held = with_fact("chief complaint", "I have a terrible pain in my elbows.")

    assert talk("stoic", held=held)[0].endswith(f"I have a bit of pain in my elbows. {NO_FUSS}")


def test_poor_memory_forgets_times_or_tells_them_roughly_and_nothing_else() -> None:
    replies = [talk("poor", HOW_LONG, MEDICINES, seed=seed)[1:] for seed in range(30)]

    assert {times for times, _ in replies} == {FORGOTTEN, "It began a while ago."}
    assert {medicines for _, medicines in replies} == {"I take lithium for my mood."}


def test_vague_memory_tells_about_half_of_the_times_roughly() -> None:
    replies = [talk("vague", HOW_LONG, seed=seed)[1] for seed in range(60)]

    assert set(replies) == {"It began three months ago.", "It began a while ago."}
    assert 15 < replies.count("It began a while ago.") < 45


def test_a_fact_told_roughly_is_told_so_again() -> None:
    for seed in range(10):
        assert len(set(talk("vague", *[HOW_LONG] * 3, seed=seed)[1:])) == 1


def test_a_caregiver_tells_it_in_the_third_person_but_speaks_for_themselves_where_they_do_not_know() -> None:
    told = talk("caregiver", "How old are you, and are you a man or a woman?", "Have you had a fever?", "A parrot?")

    assert told[0].endswith("He has scaly patches on his elbows.")
    assert told[1] == "He is 40. He is a man."
    assert "he hasn't had a fever" in told[2].lower()
    assert told[3] in UNSURE


def test_a_grown_patient_can_speak_where_the_case_has_a_caregiver_and_a_baby_cannot() -> None:
    cases = {case.case_key: case for case in library()}
    old, baby = cases["library/gastroenterology-2"], cases["library/dermatology-4"]

    assert talk("patient", held=what_patient_holds(old))[0].endswith("My belly is swollen, and I have belly cramps.")
    assert talk("patient", held=what_patient_holds(baby)) == talk("", held=what_patient_holds(baby))


def test_asked_for_more_every_persona_tells_each_complaint_and_comes_to_an_end() -> None:
    for persona in ("A,poor,caregiver", "terse,vague", "distrustful,B", "talkative", "stoic", "anxious,caregiver"):
        replies = talk(persona, *["Is there anything else?"] * 12)
        assert sum("that's everything" in said for said in replies) > 0
        assert any("lithium" in said for said in replies)


def test_basic_language_has_one_clause_a_sentence_and_plain_words() -> None:
    held = with_fact("duration", "It began gradually, and my physician changed the medication.")

    assert talk("A", HOW_LONG, held=held)[1] == "It began slowly. My doctor changed the medicine."
    assert talk("B", HOW_LONG, held=held)[1] == "It began slowly, and my doctor changed the medicine."
    assert talk("C", HOW_LONG, held=held)[1] == "It began gradually, and my physician changed the medication."


@pytest.mark.parametrize(
    ("text", "rough"),
    [
        ("I've had it for two days.", "I've had it for a while."),
        ("It has grown over the past eight months.", "It has grown for a while."),
        ("It began about half a year ago.", "It began a while ago."),
        ("It lasts fifteen minutes every two days.", "It lasts a while every so often."),
        ("I lost two kilos.", "I lost some kilos."),
        ("It goes up to 39.8 °C.", "It goes up to some number."),
        ("My son is 7 years old.", "My son is 7 years old."),
        ("I'm 34 weeks pregnant.", "I'm 34 weeks pregnant."),
        ("I smoke a pack a day.", "I smoke a pack a day."),
    ],
)
def test_times_and_amounts_become_rough_and_ages_stay(text: str, rough: str) -> None:
    assert blurred(text) == rough


def test_words_and_clauses() -> None:
    assert clauses("No, I have no cough, fever or chills, but I sweat; my wife noticed.") == [
        "No, I have no cough, fever or chills.",
        "I sweat.",
        "My wife noticed.",
    ]
    assert clauses("When I stand and I walk, it hurts.") == ["When I stand and I walk, it hurts."]
    assert plain_words("Abdominal pain occurs frequently.") == "Belly pain occurs often."
    assert played_down("I'm very tired.") == "I'm a bit tired."
    assert played_down("My knee hurts.") == "My knee hurts a bit."
    assert played_down("I have no severe pain, it never hurts.") == "I have no severe pain, it never hurts."


# no persona, no medical fact of its own


def test_a_plain_patient_is_not_touched_by_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    before = talk("", HOW_LONG, MEDICINES, "Anything else?")
    monkeypatch.setattr(persona_rules.Manner, "word", lambda self, lay: "changed")

    assert talk("", HOW_LONG, MEDICINES, "Anything else?") == before
    assert "changed" in talk("C", HOW_LONG)[1]
    assert Scene("", 1).persona == PLAIN


def test_what_personas_add_says_nothing_medical() -> None:
    for text in (*SMALL_TALK, *WORRIES, *EVASIONS, NO_FUSS, FORGOTTEN):
        assert READ(text) == {}
        assert understanding().reply_findings("Do you have a cough?", text) == {}
        assert read_demographics(text) == (None, None)


MIXED = (
    "anxious,A,vague", "terse,B,poor,caregiver", "talkative,A,poor,caregiver", "distrustful,vague,patient", "stoic,A",
)  # fmt: skip


def of_case(case: Case) -> set[tuple[str, bool]]:
    assert case.profile is not None
    texts = [case.vignette, *(text for fact in case.profile.facts for text in (fact.value, fact.lay))]
    return {pair for text in texts for pair in READ(text).items()}


@pytest.mark.parametrize("persona", MIXED)
def test_no_fact_of_the_library_is_worded_into_another_finding(persona: str) -> None:
    for case in library():
        known = of_case(case)
        manner = manner_of(parse_persona(persona), what_patient_holds(case), seed=20)
        for fact in case.profile.facts if case.profile else ():
            assert set(READ(manner.word(fact.lay)).items()) <= known, fact.lay
            for clause in clauses(manner.word(fact.lay)):
                assert set(READ(clause).items()) <= known, clause


@pytest.mark.parametrize(("number", "persona"), list(enumerate(MIXED)))
def test_no_consultation_on_a_library_case_tells_a_finding_that_the_case_does_not_hold(
    number: int, persona: str
) -> None:
    """Every case is consulted on, each persona takes its share of them."""

    class Persona(ReferencePatient):
        def reply(self, held: Held, scene: Scene, dialogue: Dialogue):
            return super().reply(held, replace(scene, persona=parse_persona(persona)), dialogue)

    for case in library()[number :: len(MIXED)]:
        known = of_case(case)
        for turn in consult(ReferenceDoctor(), Persona(), case, most=20):
            if turn.role == "patient":
                assert set(READ(turn.text).items()) <= known, turn.text
