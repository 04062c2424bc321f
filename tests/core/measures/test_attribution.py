"""Each rule of the attribution, and which rule takes precedence if several apply."""

from __future__ import annotations

from typing import Any

import pytest

from core.case import Case
from core.events import Probed
from core.judging.judgement import Judge
from core.measures.attribution import AnswerEvidence, OnVignette, attribute
from core.measures.belief import trajectory
from core.store.queries.answers import WrongAnswer
from core.store.queries.judged_facts import JudgedPatient, PatientVerdict
from tests.core.store.builders import a_case

CASE = a_case(vignette="A boy has an itchy rash.")
LEAKY = a_case(vignette="A boy has eczema.")
ODD = a_case(vignette="A boy has an itchy rash.", choices=("Gout", "Psoriasis"))
BY = Judge("openai/j", "model", "abc", 0)
INVENTED = PatientVerdict("invented", 5, "my knee hurts")
WITHHELD = PatientVerdict("withheld", 3, "Any fever?", "fever", "fever", "associated symptoms")
LAST = 8


def judged(*verdicts: PatientVerdict, never: int = 3, answered: int = 5) -> JudgedPatient:
    """Return a judgement with ``never`` facts that were never asked for and ``answered`` facts that were told."""
    marks = [PatientVerdict("never_asked", None, "", f"n{n}", "a fact", "onset") for n in range(never)]
    marks += [PatientVerdict("asked", 1, "words", f"a{n}", "a fact", "onset") for n in range(answered)]
    return JudgedPatient("run/1", BY, (*marks, *verdicts))


MISSING = judged()
ALL_TOLD = judged(never=0)


def wrong(**changes: Any) -> WrongAnswer:
    defaults: dict[str, Any] = {
        "trial_id": "t",
        "model": "m",
        "case": ("ours/1", None),
        "format": "multi_turn",
        "question_type": "frq",
        "response": "**Final Diagnosis:** Psoriasis",
        "verdict": "incorrect",
        "rule": "frq",
        "grader": "openai/g",
        "extracted": "Psoriasis",
        "called_correct": (),
        "end_reason": "final_diagnosis",
        "on_vignette": "correct",
    }
    return WrongAnswer(**{**defaults, **changes})


def believing(*leaders: str) -> Any:
    probes = [Probed(turn=2 * n + 1, differential=((name, 0.7),)) for n, name in enumerate(leaders)]
    return trajectory(CASE, probes)


def cause(
    answer: WrongAnswer, patient: JudgedPatient | None = MISSING, case: Case | None = CASE, **more: Any
) -> tuple[str, int | None]:
    attribution = attribute(AnswerEvidence(answer, case, patient, last_turn=LAST, **more))
    assert attribution.rule.endswith(".")
    return attribution.cause, attribution.turn


@pytest.mark.parametrize("verdict", ["provider_error", "refused"])
def test_a_providers_failure_comes_first_and_never_counts(verdict: str) -> None:
    answer = wrong(verdict=verdict, response=None, extracted=None)
    assert cause(answer, judged(INVENTED), LEAKY) == ("provider", None)
    assert not attribute(AnswerEvidence(answer, CASE)).counted


def test_a_leaking_case_is_at_fault_whatever_else_happened() -> None:
    assert cause(wrong(), judged(INVENTED), LEAKY) == ("case", None)
    assert "Eczema" in attribute(AnswerEvidence(wrong(), LEAKY, MISSING)).rule


def test_faults_of_the_choices_count_only_for_questions_with_choices() -> None:
    assert cause(wrong(question_type="mcq", rule="mcq_loose"), case=ODD)[0] == "case"
    assert cause(wrong(), case=ODD)[0] == "doctor_never_asked"


def test_the_case_is_the_cause_if_many_doctors_all_fail_on_the_vignette(subtests: pytest.Subtests) -> None:
    rows: list[tuple[OnVignette, str]] = [
        (OnVignette(20, 0, 5), "case"),
        (OnVignette(20, 1, 5), "doctor_never_asked"),
        (OnVignette(19, 0, 5), "doctor_never_asked"),
        (OnVignette(100, 0, 4), "doctor_never_asked"),
    ]
    for all_doctors, expected in rows:
        with subtests.test(all_doctors=all_doctors, expected=expected):
            assert cause(wrong(), all_doctors=all_doctors)[0] == expected


def test_a_verdict_is_disputed_if_any_grader_called_the_answer_correct() -> None:
    assert cause(wrong(called_correct=(("frq", "reference/names"),)), patient=judged(INVENTED)) == ("grader", None)
    other_rule = wrong(question_type="mcq", rule="mcq_loose", called_correct=(("mcq_strict", "rule"),))
    assert "mcq_strict" in attribute(AnswerEvidence(other_rule, CASE)).rule


def test_a_name_that_counts_by_the_reference_grader_is_a_dispute(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"extracted": "dermatitis"}, "grader"),  # a synonym
        (
            {"extracted": "none", "verdict": "no_diagnosis", "response": "The most likely diagnosis is eczema."},
            "grader",
        ),
        ({"extracted": "contact dermatitis"}, "doctor_never_asked"),
        ({"question_type": "frq_top3", "extracted": "Gout, Acne", "response": "1. Gout\n2. Acne\n3. Eczema"}, "grader"),
        (
            {"question_type": "mcq", "extracted": None, "response": "Eczema"},
            "doctor_never_asked",
        ),  # rules judge choices
    ]
    for changes, expected in rows:
        with subtests.test(changes=changes, expected=expected):
            assert cause(wrong(**changes))[0] == expected


def test_a_refusal_in_words_is_the_doctors_whatever_the_patient_did() -> None:
    answer = wrong(verdict="refused_in_words", response="I won't say.", extracted="Refused: “I won't say”")
    attribution = attribute(AnswerEvidence(answer, CASE, judged(INVENTED)))
    assert (attribution.cause, attribution.rule) == ("doctor_refused", "The doctor declined to answer: “I won't say”.")
    assert attribution.counted


def test_an_unreadable_verdict_is_the_graders_and_does_not_count() -> None:
    attribution = attribute(AnswerEvidence(wrong(verdict="ungradable"), CASE, MISSING))
    assert (attribution.cause, attribution.counted) == ("grader", False)


@pytest.mark.parametrize("on_vignette", ["correct", None, "provider_error"])
def test_an_invented_or_withheld_fact_is_the_cause_with_its_words(on_vignette: str | None) -> None:
    answer = wrong(on_vignette=on_vignette)
    assert cause(answer, judged(INVENTED)) == ("patient", 5)
    assert cause(answer, judged(INVENTED, never=0)) == ("patient", 5)
    assert cause(answer, judged(WITHHELD)) == ("patient", 3)
    assert cause(answer, judged(WITHHELD, INVENTED)) == ("patient", 5), "an invention takes precedence"
    invented = attribute(AnswerEvidence(answer, CASE, judged(INVENTED)))
    withheld = attribute(AnswerEvidence(answer, CASE, judged(WITHHELD)))
    assert ("“my knee hurts”" in invented.rule, "openai/j" in invented.rule) == (True, True)
    assert ("“Any fever?”" in withheld.rule, "“fever”" in withheld.rule) == (True, True)
    assert invented.judged


def test_the_patient_is_not_the_cause_if_the_doctor_fails_with_all_facts() -> None:
    assert cause(wrong(on_vignette="incorrect"), judged(INVENTED)) == ("doctor_concluded_wrongly", LAST)
    right = believing("Gout", "Eczema")
    assert cause(wrong(), judged(INVENTED), beliefs=right) == ("doctor_concluded_wrongly", 3)


def test_the_patient_has_no_part_in_the_answer_to_the_vignette() -> None:
    answer = wrong(format="vignette", on_vignette="incorrect")
    assert cause(answer, judged(INVENTED)) == ("doctor_concluded_wrongly", None)
    assert not attribute(AnswerEvidence(answer, CASE, judged(INVENTED))).judged


OF_VERSION_0_5 = JudgedPatient("run/1", BY)
"""A judgement of version 0.5, which marks withheld and invented facts only; this one has none."""


@pytest.mark.parametrize("patient", [None, OF_VERSION_0_5])
@pytest.mark.parametrize("on_vignette", ["correct", None])
def test_without_a_models_marks_the_cause_is_not_judged(patient: JudgedPatient | None, on_vignette: str | None) -> None:
    assert cause(wrong(on_vignette=on_vignette), patient) == ("not_judged", LAST)


@pytest.mark.parametrize("patient", [None, OF_VERSION_0_5])
def test_a_doctor_that_fails_with_all_facts_needs_no_judge(patient: JudgedPatient | None) -> None:
    assert cause(wrong(on_vignette="incorrect"), patient) == ("doctor_concluded_wrongly", LAST)
    right = believing("Gout", "Eczema")
    assert cause(wrong(), patient, beliefs=right) == ("doctor_concluded_wrongly", 3)


def test_a_fault_judged_by_version_0_5_is_still_the_patients() -> None:
    withheld = PatientVerdict("withheld", 3, "Any fever?", "fever", "fever")
    assert cause(wrong(), JudgedPatient("run/1", BY, (withheld,))) == ("patient", 3)


@pytest.mark.parametrize(
    ("patient", "expected"), [(MISSING, "doctor_never_asked"), (ALL_TOLD, "doctor_concluded_wrongly")]
)
def test_without_a_fault_of_the_patient_the_cause_is_the_doctor(patient: JudgedPatient, expected: str) -> None:
    attribution = attribute(AnswerEvidence(wrong(), CASE, patient))
    assert (attribution.cause, attribution.judged) == (expected, True)


def test_never_asked_needs_missing_facts_and_a_right_answer_on_the_vignette() -> None:
    assert cause(wrong()) == ("doctor_never_asked", 8)
    assert cause(wrong(), ALL_TOLD) == ("doctor_concluded_wrongly", 8)
    assert cause(wrong(on_vignette="incorrect")) == ("doctor_concluded_wrongly", 8)


@pytest.mark.parametrize(
    ("other_trials", "expected"),
    [(OnVignette(4, 2, 1), "doctor_never_asked"), (OnVignette(4, 1, 1), "doctor_concluded_wrongly")],
)
def test_without_a_vignette_answer_other_trials_of_the_case_decide(other_trials: OnVignette, expected: str) -> None:
    assert cause(wrong(on_vignette=None), own=other_trials)[0] == expected
    assert cause(wrong(on_vignette="refused"), own=other_trials)[0] == expected
    assert cause(wrong(on_vignette="correct"), own=other_trials)[0] == "doctor_never_asked", (
        "the same trial takes precedence"
    )


@pytest.mark.parametrize(("told_facts", "expected"), [(2, "doctor_never_asked"), (3, "doctor_concluded_wrongly")])
def test_without_any_vignette_answer_half_of_the_facts_decide(told_facts: int, expected: str) -> None:
    assert cause(wrong(on_vignette=None), judged(never=3, answered=told_facts))[0] == expected


def test_a_doctor_with_a_right_belief_concluded_wrongly() -> None:
    assert cause(wrong(), beliefs=believing("Gout", "Eczema")) == ("doctor_concluded_wrongly", 3)
    assert cause(wrong(), beliefs=believing("Eczema", "Gout")) == ("doctor_never_asked", 8), (
        "its probability was not high enough"
    )
    assert cause(wrong(), ALL_TOLD, beliefs=believing("Eczema", "Gout")) == ("doctor_concluded_wrongly", 1)


def test_without_a_case_nothing_can_be_judged() -> None:
    assert cause(wrong(), None, None) == ("not_judged", LAST)


@pytest.mark.parametrize("format_", ["single_turn", "exam_only", "summarized"])
def test_formats_that_omit_facts_are_not_attributed(format_: str) -> None:
    with pytest.raises(ValueError, match=format_):
        attribute(AnswerEvidence(wrong(format=format_), CASE))
