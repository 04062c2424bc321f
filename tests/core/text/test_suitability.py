"""The filter by rule on small invented questions: twelve that can be played, and thirteen that cannot, each reason."""

from __future__ import annotations

import pytest

from core.case import FINAL_QUESTION, Case
from core.datasets.library import library
from core.text.profile_rules import MADE_BY, profile_by_rule
from core.text.profiles import REASONS
from core.text.suitability import has_patient, speaks_of_picture, suitability


def question(
    vignette: str, asked: str = FINAL_QUESTION, choices: tuple[str, ...] = ("Gout", "Lupus", "Scurvy", "Mumps")
) -> Case:
    return Case(
        case_key="t/1",
        dataset="t",
        specialty="Other",
        vignette=vignette or asked,
        question=asked,
        choices=choices,
        answer=choices[0],
    )


SUITABLE = [
    question("A 44-year-old roofer comes because of a swollen big toe since last night. He drinks beer every evening."),
    question("A 6-month-old girl is brought by her father because she has not drunk for two days."),
    question("A newborn boy weighing 1900-g (4-lb) is grunting an hour after birth. He was born at 32 weeks."),
    question("A woman in her fifties presents with hot flushes. She sleeps badly.", "What should be offered first?"),
    question("An otherwise healthy 30-year-old man has had a dry cough for 3 weeks.", "Which test is best?"),
    question("A 71-year-old man is found unconscious. His skin is cold and his pulse is 40/min."),
    question(
        "A 25-year-old woman comes with a rash. A photograph is shown. The rash is made of silvery scaly plaques on "
        "the elbows, and the nails are pitted."
    ),
    question("A patient complains of ringing in both ears since a concert. He has no pain."),
    question(
        "A 33-year-old nurse has been tired for a month and was told that her ferritin is low. She eats no meat.",
        "Which of the following laboratory values do you expect?", ("Low iron", "High iron", "Low zinc", "High zinc"),
    ),
    question(
        "A 20-year-old student returns from volunteer work in Peru with bloody diarrhea and fever for four days. "
        "He drank tap water."
    ),
    question("A couple comes because they could not conceive. The 34-year-old man has small testes; in vitro "
             "fertilization is discussed."),
    question(
        "A 58-year-old man has chest tightness when he climbs stairs. It goes away when he rests. He smokes.",
        "Which of the following findings is most likely on examination?",
        ("A normal heart", "A third heart sound", "A loud murmur", "A friction rub"),
    ),
]  # fmt: skip
UNSUITABLE = [
    ("research_setting", question(
        "A group of investigators compares two inhalers in 400 adults. After a year, 40 in one arm had attacks and 20 "
        "in the other.", "What is the relative risk?", ("2", "0.5", "20", "0.1"))),
    ("research_setting", question(
        "A healthy 24-year-old volunteer in a study of kidney function receives an infusion of inulin.",
        "What is measured?", ("GFR", "Renal blood flow", "Free water", "Filtration fraction"))),
    ("research_setting", question(
        "Transgenic mice that lack a transporter are fed salt. Laboratory mice of the same strain serve as controls.",
        "What differs?", ("Weight", "Pressure", "Pulse", "Coat"))),
    ("abstract_concept", question(
        "", "Which enzyme limits the rate of the urea cycle?", ("CPS1", "OTC", "Arginase", "ASS"))),
    ("abstract_concept", question(
        "", "What is the mechanism of action of digoxin?", ("ATPase block", "Beta block", "Nitrates", "ACE block"))),
    ("abstract_concept", question(
        "A 50-year-old woman with breast cancer asks her doctor not to tell her husband. He asks how she is.",
        "What is the best response?", ("“I cannot talk about it.”", "“She is ill.”", "“Ask her.”", "“She is fine.”"))),
    ("abstract_concept", question(
        "A test for gout is positive in a 40-year-old man whose chance of gout was put at 30 per cent before.",
        "If the likelihood ratio is 7, what is the chance now?", ("75%", "30%", "10%", "95%"))),
    ("general_knowledge", question(
        "", "Which of the following vitamins is found in carrots?", ("A", "C", "D", "K"))),
    ("general_knowledge", question(
        "", "The commonest site of fracture of the clavicle is:", ("Middle third", "Inner", "Outer", "None"))),
    ("image_dependent", question(
        "A 30-year-old man comes because of palpitations for two days. An ECG is shown.")),
    ("image_dependent", question(
        "A 9-year-old boy has a rash since yesterday. His temperature is 38 °C. The rash is as shown in Figure A.")),
    ("details_in_choices", question(
        "", "Which of the following patients should be given the vaccine first?",
        ("A 70-year-old man with COPD", "A 20-year-old runner", "A 35-year-old teacher", "A 50-year-old cook"))),
    ("details_in_choices", question(
        "A 40-year-old man has acromegaly.", "Which of the following statements is true?",
        ("His fasting insulin will be lower than before he was ill", "His bones will have grown longer since his youth",
         "His glucose will not fall after a drink of glucose", "His height will go on growing over the next years"))),
]  # fmt: skip


@pytest.mark.parametrize("case", SUITABLE, ids=range(len(SUITABLE)))
def test_a_question_about_a_patient_passes(case: Case) -> None:
    verdict = suitability(case)

    assert verdict.reason is None, verdict
    assert profile_by_rule(case).profile is not None


@pytest.mark.parametrize(("reason", "case"), UNSUITABLE, ids=[f"{r}-{i}" for i, (r, _) in enumerate(UNSUITABLE)])
def test_what_cannot_be_played_is_rejected_with_its_reason(reason: str, case: Case) -> None:
    verdict = suitability(case)

    assert verdict.reason == reason, verdict
    word = profile_by_rule(case)
    assert (word.suitable, word.reason, word.profile, word.made_by) == (False, reason, None, MADE_BY)
    assert word.note.endswith(".")


def test_every_reason_is_among_the_rejected() -> None:
    assert {reason for reason, _ in UNSUITABLE} == set(REASONS)


def test_a_rejection_quotes_what_it_rests_on() -> None:
    verdict = suitability(UNSUITABLE[9][1])

    assert "“An ECG is shown.”" in verdict.note


def test_all_cases_of_the_library_pass() -> None:
    rejected = [case.case_key for case in library() if suitability(case).reason]

    assert rejected == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which drug is avoided in patients with asthma?", False),
        ("A 3-day-old infant vomits.", True),
        ("The patient has had a fever.", True),
        ("What is the half-life of warfarin?", False),
        ("She is brought to a clinic; the girl cannot walk.", True),
    ],
)
def test_a_patient_is_somebody_of_some_age_or_with_a_story(text: str, expected: bool) -> None:
    assert has_patient(text) is expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A photograph of the rash is shown.", True),
        ("An x-ray is shown in Figure 1.", True),
        ("Her lab results are shown below:", False),
        ("His hands exhibit a brown color.", False),
        ("Laboratory studies show a hemoglobin of 9 g/dL.", False),
        ("EKG is shown below (Figure A).", True),
    ],
)
def test_a_table_of_values_is_no_picture(sentence: str, expected: bool) -> None:
    assert speaks_of_picture(sentence) is expected
