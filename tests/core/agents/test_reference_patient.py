"""The reference patient: it answers the question from the facts that it may know, and adds nothing."""

from __future__ import annotations

import pytest

from core.agents.base import patient_knowledge
from core.agents.reference.patient import ALL_TOLD, NOT_SURE, ReferencePatient
from core.asking.scene import PatientKnowledge, Scene, Turn
from core.case import Case, Fact, Profile
from core.datasets.library import UNKNOWN, lay_answers, library
from core.knowledge.base import words_of_name
from core.text.patient_terms import in_lay_words, is_sayable
from core.text.persons import first_person
from tests.core.agents.acting import GREETING, SCENE, case_with, hear

PATIENT = ReferencePatient()
SILENT = {answer for answers in lay_answers()[UNKNOWN].values() for answer in answers}
"""The replies on a topic that the case does not mention."""


def is_unknown(reply: str) -> bool:
    return reply in SILENT or reply.startswith(NOT_SURE)


def ask(
    knowledge: PatientKnowledge, question: str, seed: int = 20, before: str = "I have scaly patches on my elbows."
) -> str:
    dialogue = (GREETING, Turn("patient", before), Turn("doctor", question))
    return hear(PATIENT.reply(knowledge, Scene("Dermatology", seed), dialogue))


KNOWLEDGE = patient_knowledge(case_with())
IMPORTED = Case(
    case_key="x/1",
    dataset="x",
    specialty="Neurology",
    answer="Parkinson disease",
    vignette="A 70-year-old man comes with his wife because of shaky hands. His left hand began to shake 1 year ago. "
    "His wife says that he forgets names. He takes aspirin and amlodipine. He denies smoking and has no headache. "
    "His mother had schizophrenia. He works as a cook. He has dyspnea on exertion. On physical examination, he has a "
    "resting tremor. There is no fever. Hemoglobin is 14 g/dL.",
)


def test_it_opens_with_only_the_chief_complaint() -> None:
    first = hear(PATIENT.reply(KNOWLEDGE, SCENE, (GREETING,)))

    assert first.endswith("I have scaly patches on my elbows.")
    assert "three months" not in first


@pytest.mark.parametrize(
    ("question", "telling"),
    [
        ("How old are you, and are you a man or a woman?", "I'm 40. I'm a man."),
        ("Have you had a fever?", "I haven't had a fever."),
        ("How long have you had this?", "It began three months ago."),
        ("Do you take any medicines?", "I take lithium for my mood."),
        ("Do you have joint pain?", "My finger joints hurt."),
    ],
)
def test_it_answers_with_the_one_fact_that_was_asked_for(question: str, telling: str) -> None:
    reply = ask(KNOWLEDGE, question)

    assert reply.lower().endswith(telling.lower())
    others = {fact.lay for fact in KNOWLEDGE.history + KNOWLEDGE.findings} - {telling}
    assert not any(other in reply for other in others if other not in telling)


@pytest.mark.parametrize(
    "question",
    [
        "Do you own a parrot?",
        "Have you traveled recently?",
        "Do you smoke?",
        "Does cancer run in your family?",
        "Have you had any surgeries?",
        "What is your diagnosis?",
    ],
)
def test_it_does_not_know_what_the_case_does_not_mention(question: str) -> None:
    assert all(is_unknown(ask(KNOWLEDGE, question, seed)) for seed in range(8))


def test_wording_follows_the_seed_and_nothing_else() -> None:
    replies = [ask(KNOWLEDGE, "Do you own a car?", seed) for seed in range(20)]

    assert len(set(replies)) > 1
    assert replies == [ask(KNOWLEDGE, "Do you own a car?", seed) for seed in range(20)]


@pytest.mark.parametrize(
    ("question", "symptoms"),
    [
        ("Have you had a fever?", ["fever"]),
        ("Have you been vomiting?", ["vomiting"]),
        ("Are you short of breath, or have you fainted?", ["shortness of breath", "fainting"]),
        ("Do you have a cough?", ["cough"]),
    ],
)
def test_symptoms_that_the_case_does_not_mention_have_not_been_noticed(question: str, symptoms: list[str]) -> None:
    for case in (
        IMPORTED,
        case_with(profile=Profile(basic=(Fact(key="chief complaint", value="rash", lay="A rash."),))),
    ):
        knowledge = patient_knowledge(case.model_copy(update={"vignette": "A 40-year-old man has a rash."}))
        assert ask(knowledge, question) == " ".join(f"I haven't noticed any {symptom}." for symptom in symptoms)


@pytest.mark.parametrize("question", ["Are you worried?", "Are you afraid of anything?", "How do you feel about this?"])
def test_asked_about_worries_it_answers_in_a_sentence(question: str) -> None:
    assert ask(KNOWLEDGE, question) == "I'm a little worried, yes; I'd like to know what this is."


def test_results_are_told_only_when_the_doctor_asks_for_examination_or_tests() -> None:
    assert "pits" not in ask(KNOWLEDGE, "Are there pits in your nails?")
    assert ask(KNOWLEDGE, "What did the examination of your nails show?") == "They saw tiny pits in my nails."
    pericarditis = patient_knowledge(library()[0])
    results = {fact.lay for fact in pericarditis.findings}
    for question in ("Have you had a fever?", "Does your heart make a sound?", "Is your heart racing?", "Go on."):
        assert not any(result in ask(pericarditis, question, before="Hello.") for result in results)
    assert ask(pericarditis, "What was your temperature?") == "They told me I had a fever."


def test_asked_for_more_it_tells_every_fact_once_and_then_says_so() -> None:
    dialogue: tuple[Turn, ...] = (GREETING, Turn("patient", "I have scaly patches on my elbows."))
    replies = []
    for _ in range(6):
        dialogue = (*dialogue, Turn("doctor", "Tell me more."))
        replies.append(hear(PATIENT.reply(KNOWLEDGE, SCENE, dialogue)))
        dialogue = (*dialogue, Turn("patient", replies[-1]))

    told = [
        "It began three months ago.",
        "I haven't had a fever.",
        "I take lithium for my mood.",
        "My finger joints hurt.",
    ]
    assert sorted(replies[:4]) == sorted(told)
    assert replies[4:] == [ALL_TOLD, ALL_TOLD]


PROBES = [
    "What do you have?",
    "Which disease is it?",
    "What did the doctors find?",
    "Can you tell me more?",
    "Anything else?",
    "What did the tests show?",
    "What is your final diagnosis?",
    "How long have you had this?",
    "Do you take any medicines?",
]


def test_it_never_says_the_answer() -> None:
    for case in library():
        knowledge = patient_knowledge(case)
        names = [" ".join(words_of_name(name)) for name in (case.answer, *case.synonyms)]
        for reply in (hear(PATIENT.reply(knowledge, SCENE, (GREETING,))), *(ask(knowledge, p) for p in PROBES)):
            plain = f" {' '.join(words_of_name(reply))} "
            assert not any(f" {name} " in plain for name in names), (case.case_key, reply)


def test_a_caregiver_speaks_of_the_child() -> None:
    case = next(case for case in library() if case.speaker == "caregiver")
    knowledge = patient_knowledge(case)
    first = hear(PATIENT.reply(knowledge, SCENE, (GREETING,)))

    assert knowledge.caregiver
    assert any(word in first.lower() for word in ("my son", "my daughter", "my baby", "my child", "he ", "she "))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How old are you, and are you a man or a woman?", "I'm 70 years old. I'm male."),
        ("Do you take any medicines?", "I take aspirin and amlodipine."),
        ("How long have you had this?", "My left hand began to shake 1 year ago."),
        ("What do you do for a living?", "I work as a cook."),
        ("Have you traveled recently?", None),
        ("Do you drink alcohol?", None),
        ("Any allergies?", None),
        ("Do you own a parrot?", None),
    ],
)
def test_without_a_profile_the_vignette_answers_in_the_first_person(question: str, expected: str | None) -> None:
    reply = ask(patient_knowledge(IMPORTED), question, before="My hands shake.")

    assert reply == expected if expected else is_unknown(reply)


def test_without_a_profile_a_denial_stays_a_denial() -> None:
    reply = ask(patient_knowledge(IMPORTED), "Have you had headaches?", before="My hands shake.")

    assert reply == "I'm not smoking and have no headache."


def test_without_a_profile_it_does_not_open_with_results_of_the_examination() -> None:
    first = hear(PATIENT.reply(patient_knowledge(IMPORTED), SCENE, (GREETING,)))

    assert "shaky hands" in first
    assert "Hemoglobin" not in first


@pytest.mark.parametrize(
    ("sentence", "sex", "expected"),
    [
        ("He has a rash.", "male", "I have a rash."),
        ("She denies fever.", "female", "I don't have fever."),
        ("She denies being pregnant.", "female", "I'm not pregnant."),
        ("The patient walks 2 miles a day.", None, "I walk 2 miles a day."),
        ("He frequently enjoys gardening.", "male", "I frequently enjoy gardening."),
        ("He carries a bag and takes aspirin.", "male", "I carry a bag and take aspirin."),
        ("The patient's wife left him.", "male", "My wife left me."),
        ("Her husband brought her to the clinic.", "female", "My husband brought me to the clinic."),
        ("His wife says that she noticed he snores.", "male", "My wife says that she noticed I snore."),
        ("He reports that the sores return every autumn.", "male", "The sores return every autumn."),
        ("She says she has a cough.", "female", "I have a cough."),
        ("He hurt himself.", "male", "I hurt myself."),
        (
            "A 26-year-old man visits his uncle for a check.",
            "male",
            "I'm a 26-year-old man. I visited my uncle for a check.",
        ),
        ("An 11-year-old girl has a rash.", "female", "I'm an 11-year-old girl. I have a rash."),
        (
            "A 32-year-old woman, gravida 2, at 28 weeks' gestation, comes to the office because of bleeding.",
            "female",
            "I'm a 32-year-old woman, gravida 2, at 28 weeks' gestation. I came to the office because of bleeding.",
        ),
        ("The rash is red.", "male", "The rash is red."),
        ("Six years ago, he was ill.", "male", "Six years ago, I was ill."),
        ("Hemoglobin is 14 g/dL.", "male", "Hemoglobin is 14 g/dL."),
    ],
)
def test_sentences_change_person_and_nothing_else(sentence: str, sex: str | None, expected: str) -> None:
    assert first_person(sentence, sex) == expected  # type: ignore[arg-type]


def test_a_small_child_does_not_speak_for_itself() -> None:
    vignette = "A 2-year-old boy is brought by his mother because of a rash. He has no fever."
    child = IMPORTED.model_copy(update={"vignette": vignette})

    first = hear(PATIENT.reply(patient_knowledge(child), SCENE, (GREETING,)))

    assert first.endswith("A 2-year-old boy is brought by his mother because of a rash.")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # the joint pain is a fact, but not when it is worse
        ("Do you have joint pain?", "My finger joints hurt."),
        ("Is the pain in your hands and fingers worse than in your feet?", None),
        # of several symptoms: those that the case affirms or denies, and no others
        ("Have you had joint pain, fever or hair loss?", "My finger joints hurt. I haven't had a fever."),
        ("Have you had fever or hair loss?", "I haven't had a fever. I haven't noticed any hair loss."),
        ("Have you had hair loss or a cough?", None),
        ("Any arthralgia?", "My finger joints hurt."),
        ("Does anyone in your family have joint pain?", None),
    ],
)
def test_it_affirms_and_denies_only_symptoms_of_the_question(question: str, expected: str | None) -> None:
    reply = ask(KNOWLEDGE, question)

    if expected is None:
        assert not reply.startswith(("Yes", "Yeah", "No")), reply
    else:
        assert reply.lower().endswith(expected.lower())


def test_a_fact_is_told_without_yes_or_no_before_it() -> None:
    case = case_with(
        profile=Profile(
            basic=(Fact(key="chief complaint", value="severe chest pain", lay="I have a terrible chest pain."),)
        )
    )

    assert ask(patient_knowledge(case), "I see. Have you had chest pain?") == "I have a terrible chest pain."


def test_a_fact_of_the_past_gets_no_yes() -> None:
    fact = Fact(key="smoking", value="former smoker", lay="I gave up smoking twenty years ago.")
    case = case_with(profile=Profile(basic=(Fact(key="chief complaint", value="cough", lay="I cough."), fact)))

    assert ask(patient_knowledge(case), "Do you smoke or use tobacco?") == fact.lay


def test_of_a_vignette_it_tells_no_examination_and_uses_plain_words() -> None:
    knowledge = patient_knowledge(IMPORTED)
    questions = (
        "Do your hands tremble?",
        "Have you had a fever?",
        "What did the tests show?",
        "What was your hemoglobin?",
        "Anything else?",
        "What did they find on physical examination?",
    )
    replies = " ".join(ask(knowledge, question, before="My hands shake.") for question in questions)

    assert not any(word in replies for word in ("resting", "Hemoglobin", "14", "examination", "There is no fever"))
    assert (
        ask(knowledge, "Do you have any dyspnea?", before="My hands shake.")
        == "I have shortness of breath with effort."
    )


CHILD = Case(
    case_key="x/2",
    dataset="x",
    specialty="Dermatology",
    answer="unknown",
    vignette="A 5-year-old boy is brought in by his father for rough, scaly skin. He was born at term. The patient "
    "denies any pain over the rough areas and reports only a slight itch that ointments soothe. His sister drinks a "
    "lot of milk.",
)


@pytest.mark.parametrize(
    ("question", "part"),
    [
        # the vignette of a child is told in complete sentences, with all that they affirm and deny
        ("Is there an itch?", "reports only a slight itch"),
        ("Is there any pruritus?", "reports only a slight itch"),
        ("Do you have any pain?", "denies any pain over the rough areas"),
        ("Did it come on suddenly?", "rough, scaly skin"),
    ],
)
def test_a_childs_vignette_is_told_in_its_sentences_and_a_missing_fact_is_no_denial(question: str, part: str) -> None:
    reply = ask(patient_knowledge(CHILD), question, before="His skin is rough.")

    assert part in reply if part else is_unknown(reply)


@pytest.mark.parametrize(
    ("clinical", "lay"),
    [
        ("I have dyspnea on exertion.", "I have shortness of breath with effort."),
        ("I have a pruritic, erythematous rash.", "I have an itchy, red rash."),
        ("My past medical history is significant for hypertension.", "My history includes high blood pressure."),
        ("I have an edema.", "I have a swelling."),
        ("I cough.", "I cough."),
    ],
)
def test_clinical_words_become_common_ones(clinical: str, lay: str) -> None:
    assert in_lay_words(clinical) == lay
    assert is_sayable(lay)


@pytest.mark.parametrize(
    "text", ["My temperature was 38.6 °C.", "On exam, I have a murmur.", "Hemoglobin is 8 g/dL.", "I have hemoptysis."]
)
def test_words_of_a_device_or_a_clinician_are_not_sayable(text: str) -> None:
    assert not is_sayable(text)
