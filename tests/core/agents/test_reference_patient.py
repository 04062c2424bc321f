"""The reference patient: it answers the question from the facts that it may know, and adds nothing."""

from __future__ import annotations

import pytest

from core.agents.base import patient_knowledge
from core.agents.reference.patient import ALL_TOLD, NOT_NOTICED, NOT_SURE, ReferencePatient
from core.asking.scene import PatientKnowledge, Scene, Turn
from core.case import Case, Fact, Profile
from core.datasets.library import UNKNOWN, lay_answers, library
from core.knowledge.base import knowledge as diseases_and_findings
from core.knowledge.base import words_of_name
from core.text.findings import recogniser
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


def test_it_answers_with_the_one_fact_that_was_asked_for() -> None:
    asked = {
        "How old are you, and are you a man or a woman?": "I'm 40. I'm a man.",
        "Have you had a fever?": "I haven't had a fever.",
        "How long have you had this?": "It began three months ago.",
        "Do you take any medicines?": "I take lithium for my mood.",
        "Do you have joint pain?": "My finger joints hurt.",
        "Any arthralgia?": "My finger joints hurt.",
        "Are you worried?": "I'm a little worried, yes; I'd like to know what this is.",
        "How do you feel about this?": "I'm a little worried, yes; I'd like to know what this is.",
        # the pain is a fact, what makes it worse is not
        "Is the pain in your hands and fingers worse than in your feet?": "I have scaly patches on my elbows.",
        # of several symptoms: those that the case affirms or denies, and no others
        "Have you had joint pain, fever or hair loss?": "My finger joints hurt. I haven't had a fever.",
        "Have you had fever or hair loss?": "I haven't had a fever.",
    }
    assert {question: ask(KNOWLEDGE, question) for question in asked} == asked


def test_it_does_not_know_what_the_case_does_not_mention() -> None:
    questions = (
        "Do you own a parrot?",
        "Have you traveled recently?",
        "Do you smoke?",
        "Does cancer run in your family?",
        "Does anyone in your family have joint pain?",
        "Have you had any surgeries?",
        "What is your diagnosis?",
    )
    told = [(q, ask(KNOWLEDGE, q, seed)) for q in questions for seed in range(8)]
    assert [asked for asked in told if not is_unknown(asked[1])] == []


def test_wording_follows_the_seed_and_nothing_else() -> None:
    replies = [ask(KNOWLEDGE, "Do you own a car?", seed) for seed in range(20)]

    assert len(set(replies)) > 1
    assert replies == [ask(KNOWLEDGE, "Do you own a car?", seed) for seed in range(20)]


def test_a_symptom_that_the_case_does_not_mention_is_neither_affirmed_nor_denied() -> None:
    profile = Profile(basic=(Fact(key="chief complaint", value="rash", lay="A rash."),))
    for case in (IMPORTED, case_with(profile=profile)):
        knowledge = patient_knowledge(case.model_copy(update={"vignette": "A 40-year-old man has a rash."}))
        for question in (
            "Have you had a fever?",
            "Have you been vomiting?",
            "Do you have a cough?",
            "Are you short of breath, or have you fainted?",
            "Have you had hair loss or a cough?",
        ):
            assert ask(knowledge, question) == NOT_NOTICED
    assert recogniser().read(NOT_NOTICED) == {}


def test_a_finding_of_the_examination_is_not_denied_and_not_told_either() -> None:
    pericarditis = patient_knowledge(library()[0])  # "Temperature is 38.1 °C", and nothing on fever in the history

    assert ask(pericarditis, "Have you had a fever?") == NOT_SURE[0]
    assert ask(pericarditis, "Have you had a fever or a cough?") == NOT_SURE[0]
    measured = patient_knowledge(
        case_with(
            vignette="A 40-year-old man has a cough.",
            profile=Profile(
                basic=(Fact(key="chief complaint", value="cough", lay="I cough."),),
                optional=(Fact(key="temperature", value="38.6 °C", lay="They measured it.", section="vital_signs"),),
            ),
        )
    )
    assert ask(measured, "Have you had a fever?") == NOT_SURE[0]


@pytest.mark.slow
def test_no_case_of_the_library_denies_a_finding_that_it_has() -> None:
    asked, denials = 0, []
    for case in library():
        knowledge = patient_knowledge(case)
        texts = [text for fact in (*knowledge.history, *knowledge.findings) for text in (fact.value, fact.lay)]
        present = {name for text in (case.vignette, *texts) for name, is_so in recogniser().read(text).items() if is_so}
        assert len(present) >= 5, case.case_key
        for finding in (diseases_and_findings().finding[name] for name in sorted(present)):
            for phrase in (finding.name, finding.phrases[0].strip('"')):
                reply = ask(knowledge, f"Have you had {in_lay_words(phrase)}?", before="Hello.")
                asked += 1
                if recogniser().read(reply).get(finding.id) is False:
                    denials.append((case.case_key, finding.id, reply))
    assert denials == []
    assert asked > 1000


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


def test_without_a_profile_the_vignette_answers_in_the_first_person() -> None:
    knowledge = patient_knowledge(IMPORTED)
    asked = {
        "How old are you, and are you a man or a woman?": "I'm 70 years old. I'm male.",
        "Do you take any medicines?": "I take aspirin and amlodipine.",
        "How long have you had this?": "My left hand began to shake 1 year ago.",
        "What do you do for a living?": "I work as a cook.",
        "Do you have any dyspnea?": "I have shortness of breath with effort.",
    }
    assert {question: ask(knowledge, question, before="My hands shake.") for question in asked} == asked
    for question in ("Have you traveled recently?", "Do you drink alcohol?", "Any allergies?", "Do you own a parrot?"):
        assert is_unknown(ask(knowledge, question, before="My hands shake."))


def test_without_a_profile_a_denial_stays_a_denial() -> None:
    reply = ask(patient_knowledge(IMPORTED), "Have you had headaches?", before="My hands shake.")

    assert reply == "I'm not smoking and have no headache."


def test_without_a_profile_it_does_not_open_with_results_of_the_examination() -> None:
    first = hear(PATIENT.reply(patient_knowledge(IMPORTED), SCENE, (GREETING,)))

    assert "shaky hands" in first
    assert "Hemoglobin" not in first


FIRST_PERSON = [
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
]


def test_sentences_change_person_and_nothing_else() -> None:
    wrong = [(row, said) for row in FIRST_PERSON if (said := first_person(row[0], row[1])) != row[2]]  # type: ignore[arg-type]
    assert wrong == []


def test_a_small_child_does_not_speak_for_itself() -> None:
    vignette = "A 2-year-old boy is brought by his mother because of a rash. He has no fever."
    child = IMPORTED.model_copy(update={"vignette": vignette})

    first = hear(PATIENT.reply(patient_knowledge(child), SCENE, (GREETING,)))

    assert first.endswith("A 2-year-old boy is brought by his mother because of a rash.")


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


CHILD = Case(
    case_key="x/2",
    dataset="x",
    specialty="Dermatology",
    answer="unknown",
    vignette="A 5-year-old boy is brought in by his father for rough, scaly skin. He was born at term. The patient "
    "denies any pain over the rough areas and reports only a slight itch that ointments soothe. His sister drinks a "
    "lot of milk.",
)


def test_a_childs_vignette_is_told_in_its_sentences_and_a_missing_fact_is_no_denial() -> None:
    """The sentences are complete, with all that they affirm and deny."""
    knowledge = patient_knowledge(CHILD)
    for question, part in {
        "Is there an itch?": "reports only a slight itch",
        "Is there any pruritus?": "reports only a slight itch",
        "Do you have any pain?": "denies any pain over the rough areas",
        "Did it come on suddenly?": "rough, scaly skin",
    }.items():
        assert part in ask(knowledge, question, before="His skin is rough."), question


def test_clinical_words_become_common_ones() -> None:
    for clinical, lay in {
        "I have dyspnea on exertion.": "I have shortness of breath with effort.",
        "I have a pruritic, erythematous rash.": "I have an itchy, red rash.",
        "My past medical history is significant for hypertension.": "My history includes high blood pressure.",
        "I have an edema.": "I have a swelling.",
        "I cough.": "I cough.",
    }.items():
        assert in_lay_words(clinical) == lay
        assert is_sayable(lay)


def test_words_of_a_device_or_a_clinician_are_not_sayable() -> None:
    for text in (
        "My temperature was 38.6 °C.",
        "On exam, I have a murmur.",
        "Hemoglobin is 8 g/dL.",
        "I have hemoptysis.",
    ):
        assert not is_sayable(text), text
