"""Each rule of the attribution on evidence made for it, and which comes first where several hold."""

from __future__ import annotations

from typing import Any

import pytest

from core.agents.ledger_models import JudgedPatient, PatientVerdict
from core.case import Case
from core.events import Probed
from core.measures.attribution import AnswerEvidence, OnVignette, attribute
from core.measures.belief import trajectory
from core.store.queries.answers import WrongAnswer
from tests.core.store.builders import a_case

CASE = a_case(vignette="A boy has an itchy rash.")
LEAKY = a_case(vignette="A boy has eczema.")
ODD = a_case(vignette="A boy has an itchy rash.", choices=("Gout", "Psoriasis"))
INVENTED = PatientVerdict("invented", 5, "my knee hurts")
WITHHELD = PatientVerdict("withheld", 3, "Any fever?", "fever", "fever", "associated symptoms")
LAST = 8


def judged(*verdicts: PatientVerdict, never: int = 3, asked: int = 5) -> JudgedPatient:
    """Return a judgement with so many facts that were never asked for, and so many that were told."""
    marks = [PatientVerdict("never_asked", None, "", f"n{n}", "a fact", "onset") for n in range(never)]
    marks += [PatientVerdict("asked", 1, "words", f"a{n}", "a fact", "onset") for n in range(asked)]
    return JudgedPatient("openai/j", "abc", (*marks, *verdicts))


MISSING = judged()
ALL_TOLD = judged(never=0)


def wrong(**changes: Any) -> WrongAnswer:
    given: dict[str, Any] = {
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
    return WrongAnswer(**{**given, **changes})


def believing(*leaders: str) -> Any:
    probes = [Probed(turn=2 * n + 1, differential=((name, 0.7),)) for n, name in enumerate(leaders)]
    return trajectory(CASE, probes)


def cause(
    answer: WrongAnswer, patient: JudgedPatient | None = MISSING, case: Case | None = CASE, **more: Any
) -> tuple[str, int | None]:
    found = attribute(AnswerEvidence(answer, case, patient, last_turn=LAST, **more))
    assert found.rule.endswith(".")
    return found.cause, found.turn


@pytest.mark.parametrize("verdict", ["provider_error", "refused"])
def test_a_providers_failure_comes_first_and_never_counts(verdict: str) -> None:
    answer = wrong(verdict=verdict, response=None, extracted=None)
    assert cause(answer, judged(INVENTED), LEAKY) == ("provider", None)
    assert not attribute(AnswerEvidence(answer, CASE)).counted


def test_a_leaking_case_is_at_fault_whatever_else_happened() -> None:
    assert cause(wrong(), judged(INVENTED), LEAKY) == ("case", None)
    assert "Eczema" in attribute(AnswerEvidence(wrong(), LEAKY, MISSING)).rule


def test_faults_of_the_choices_count_only_where_they_are_shown() -> None:
    assert cause(wrong(question_type="mcq", rule="mcq_loose"), case=ODD)[0] == "case"
    assert cause(wrong(), case=ODD)[0] == "doctor_never_asked"


@pytest.mark.parametrize(
    ("everybody", "expected"),
    [
        (OnVignette(20, 0, 5), "case"),
        (OnVignette(20, 1, 5), "doctor_never_asked"),
        (OnVignette(19, 0, 5), "doctor_never_asked"),
        (OnVignette(100, 0, 4), "doctor_never_asked"),
    ],
)
def test_nobody_right_on_the_vignette_is_the_case_only_of_many_answers_by_many(
    everybody: OnVignette, expected: str
) -> None:
    assert cause(wrong(), all_doctors=everybody)[0] == expected


def test_a_verdict_is_disputed_when_anybody_called_the_answer_correct() -> None:
    assert cause(wrong(called_correct=(("frq", "reference/names"),)), patient=judged(INVENTED)) == ("grader", None)
    other_rule = wrong(question_type="mcq", rule="mcq_loose", called_correct=(("mcq_strict", "rule"),))
    assert "mcq_strict" in attribute(AnswerEvidence(other_rule, CASE)).rule


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
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
    ],
)
def test_a_name_that_counts_by_the_reference_grader_is_a_dispute(changes: dict[str, Any], expected: str) -> None:
    assert cause(wrong(**changes))[0] == expected


def test_a_refusal_in_words_is_the_doctors_whatever_the_patient_did() -> None:
    answer = wrong(verdict="refused_in_words", response="I won't say.", extracted="Refused: “I won't say”")
    found = attribute(AnswerEvidence(answer, CASE, judged(INVENTED)))
    assert (found.cause, found.rule) == ("doctor_refused", "The doctor declined to answer: “I won't say”.")
    assert found.counted


def test_an_unreadable_verdict_is_the_graders_and_does_not_count() -> None:
    found = attribute(AnswerEvidence(wrong(verdict="ungradable"), CASE, MISSING))
    assert (found.cause, found.counted) == ("grader", False)


@pytest.mark.parametrize("on_vignette", ["correct", None, "provider_error"])
def test_what_a_model_judged_invented_or_withheld_is_the_cause_with_its_words(on_vignette: str | None) -> None:
    answer = wrong(on_vignette=on_vignette)
    assert cause(answer, judged(INVENTED)) == ("patient", 5)
    assert cause(answer, judged(INVENTED, never=0)) == ("patient", 5)
    assert cause(answer, judged(WITHHELD)) == ("patient", 3)
    assert cause(answer, judged(WITHHELD, INVENTED)) == ("patient", 5), "an invention is heard first"
    invented = attribute(AnswerEvidence(answer, CASE, judged(INVENTED)))
    withheld = attribute(AnswerEvidence(answer, CASE, judged(WITHHELD)))
    assert ("“my knee hurts”" in invented.rule, "openai/j" in invented.rule) == (True, True)
    assert ("“Any fever?”" in withheld.rule, "“fever”" in withheld.rule) == (True, True)
    assert invented.judged


def test_what_the_patient_did_decides_nothing_where_the_doctor_fails_for_reasons_of_its_own() -> None:
    assert cause(wrong(on_vignette="incorrect"), judged(INVENTED)) == ("doctor_concluded_wrongly", LAST)
    right = believing("Gout", "Eczema")
    assert cause(wrong(), judged(INVENTED), beliefs=right) == ("doctor_concluded_wrongly", 3)


def test_the_patient_has_no_part_in_the_answer_to_the_vignette() -> None:
    answer = wrong(format="vignette", on_vignette="incorrect")
    assert cause(answer, judged(INVENTED)) == ("doctor_concluded_wrongly", None)
    assert not attribute(AnswerEvidence(answer, CASE, judged(INVENTED))).judged


OF_BEFORE = JudgedPatient("openai/j", "old")
"""A judgement of version 0.5, which names what was withheld and invented, here nothing, and marks no other fact."""


@pytest.mark.parametrize("patient", [None, OF_BEFORE])
@pytest.mark.parametrize("on_vignette", ["correct", None])
def test_without_a_models_marks_the_cause_is_not_judged(patient: JudgedPatient | None, on_vignette: str | None) -> None:
    assert cause(wrong(on_vignette=on_vignette), patient) == ("not_judged", LAST)


@pytest.mark.parametrize("patient", [None, OF_BEFORE])
def test_a_doctor_that_fails_for_reasons_of_its_own_needs_no_judge(patient: JudgedPatient | None) -> None:
    assert cause(wrong(on_vignette="incorrect"), patient) == ("doctor_concluded_wrongly", LAST)
    right = believing("Gout", "Eczema")
    assert cause(wrong(), patient, beliefs=right) == ("doctor_concluded_wrongly", 3)


def test_a_fault_that_an_earlier_version_judged_is_still_the_patients() -> None:
    withheld = PatientVerdict("withheld", 3, "Any fever?", "fever", "fever")
    assert cause(wrong(), JudgedPatient("openai/j", "old", (withheld,))) == ("patient", 3)


@pytest.mark.parametrize(
    ("patient", "expected"), [(MISSING, "doctor_never_asked"), (ALL_TOLD, "doctor_concluded_wrongly")]
)
def test_a_judge_who_finds_nothing_leaves_the_doctor(patient: JudgedPatient, expected: str) -> None:
    found = attribute(AnswerEvidence(wrong(), CASE, patient))
    assert (found.cause, found.judged) == (expected, True)


def test_never_asked_needs_missing_facts_and_a_doctor_who_knows_with_them() -> None:
    assert cause(wrong()) == ("doctor_never_asked", 8)
    assert cause(wrong(), ALL_TOLD) == ("doctor_concluded_wrongly", 8)
    assert cause(wrong(on_vignette="incorrect")) == ("doctor_concluded_wrongly", 8)


@pytest.mark.parametrize(
    ("own", "expected"),
    [(OnVignette(4, 2, 1), "doctor_never_asked"), (OnVignette(4, 1, 1), "doctor_concluded_wrongly")],
)
def test_other_trials_stand_in_for_a_trial_without_a_vignette_answer(own: OnVignette, expected: str) -> None:
    assert cause(wrong(on_vignette=None), own=own)[0] == expected
    assert cause(wrong(on_vignette="refused"), own=own)[0] == expected
    assert cause(wrong(on_vignette="correct"), own=own)[0] == "doctor_never_asked", "the same trial is heard first"


@pytest.mark.parametrize(("told", "expected"), [(2, "doctor_never_asked"), (3, "doctor_concluded_wrongly")])
def test_where_nothing_is_known_on_the_vignette_half_of_the_facts_decide(told: int, expected: str) -> None:
    assert cause(wrong(on_vignette=None), judged(never=3, asked=told))[0] == expected


def test_a_doctor_whose_own_belief_was_right_had_what_it_needed() -> None:
    assert cause(wrong(), beliefs=believing("Gout", "Eczema")) == ("doctor_concluded_wrongly", 3)
    assert cause(wrong(), beliefs=believing("Eczema", "Gout")) == ("doctor_never_asked", 8), "it was not sure of it"
    assert cause(wrong(), ALL_TOLD, beliefs=believing("Eczema", "Gout")) == ("doctor_concluded_wrongly", 1)


def test_without_a_case_nothing_can_be_judged() -> None:
    assert cause(wrong(), None, None) == ("not_judged", LAST)


@pytest.mark.parametrize("format_", ["single_turn", "exam_only", "summarized"])
def test_formats_that_hold_facts_back_themselves_are_not_attributed(format_: str) -> None:
    with pytest.raises(ValueError, match=format_):
        attribute(AnswerEvidence(wrong(format=format_), CASE))
