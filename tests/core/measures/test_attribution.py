"""Each rule of the attribution on evidence made for it, and which comes first where several hold."""

from __future__ import annotations

from typing import Any

import pytest

from core.agents.ledger_models import JudgedPatient, PatientVerdict
from core.asking.scene import Turn
from core.case import Case
from core.events import Probed
from core.measures.attribution import Evidence, OnVignette, attribute
from core.measures.belief import trajectory
from core.measures.ledger.marks import LedgerFacts, ledger_facts
from core.store.queries.answers import WrongAnswer
from tests.core.store.builders import a_case

CASE = a_case(vignette="A boy has an itchy rash.")
LEAKY = a_case(vignette="A boy has eczema.")
ODD = a_case(vignette="A boy has an itchy rash.", choices=("Gout", "Psoriasis"))
MISSING = LedgerFacts(never=3, unasked=2, coverage=0.6, turns=9)
ASKED_FOR = LedgerFacts(never=3, unasked=0, coverage=0.6, turns=9)
ALL_TOLD = LedgerFacts(never=0, coverage=1.0, turns=9)
INVENTED = PatientVerdict("invented", 5, "my knee hurts")
WITHHELD = PatientVerdict("withheld", 3, "Any fever?", "fever", "fever")


def judged(*verdicts: PatientVerdict) -> JudgedPatient:
    return JudgedPatient("openai/j", "abc", verdicts)


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
    answer: WrongAnswer, facts: LedgerFacts | None = MISSING, case: Case | None = CASE, **more: Any
) -> tuple[str, int | None]:
    found = attribute(Evidence(answer, case, facts, **more))
    assert found.rule.endswith(".")
    return found.cause, found.turn


@pytest.mark.parametrize("verdict", ["provider_error", "refused"])
def test_a_providers_failure_comes_first_and_never_counts(verdict: str) -> None:
    answer = wrong(verdict=verdict, response=None, extracted=None)
    assert cause(answer, MISSING, LEAKY, patient=judged(INVENTED)) == ("provider", None)
    assert not attribute(Evidence(answer, CASE)).counted


def test_a_leaking_case_is_at_fault_whatever_else_happened() -> None:
    assert cause(wrong(), MISSING, LEAKY, patient=judged(INVENTED)) == ("case", None)
    assert "Eczema" in attribute(Evidence(wrong(), LEAKY, MISSING)).rule


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
    assert "mcq_strict" in attribute(Evidence(other_rule, CASE)).rule


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
    found = attribute(Evidence(answer, CASE, MISSING, patient=judged(INVENTED)))
    assert (found.cause, found.rule) == ("doctor_refused", "The doctor declined to answer: “I won't say”.")
    assert (found.counted, found.provisional) == (True, False)


def test_an_unreadable_verdict_is_the_graders_and_does_not_count() -> None:
    found = attribute(Evidence(wrong(verdict="ungradable"), CASE, MISSING))
    assert (found.cause, found.counted) == ("grader", False)


@pytest.mark.parametrize("on_vignette", ["correct", None, "provider_error"])
def test_what_a_model_judged_invented_or_withheld_is_the_cause_with_its_words(on_vignette: str | None) -> None:
    answer = wrong(on_vignette=on_vignette)
    assert cause(answer, patient=judged(INVENTED)) == ("patient", 5)
    assert cause(answer, ALL_TOLD, patient=judged(INVENTED)) == ("patient", 5)
    assert cause(answer, patient=judged(WITHHELD)) == ("patient", 3)
    assert cause(answer, patient=judged(WITHHELD, INVENTED)) == ("patient", 5), "an invention is heard first"
    invented = attribute(Evidence(answer, CASE, MISSING, patient=judged(INVENTED)))
    withheld = attribute(Evidence(answer, CASE, MISSING, patient=judged(WITHHELD)))
    assert ("“my knee hurts”" in invented.rule, "openai/j" in invented.rule) == (True, True)
    assert ("“Any fever?”" in withheld.rule, "“fever”" in withheld.rule) == (True, True)
    assert (invented.judged, invented.provisional) == (True, False)


def test_what_the_patient_did_decides_nothing_where_the_doctor_fails_for_reasons_of_its_own() -> None:
    said = {"patient": judged(INVENTED)}
    assert cause(wrong(on_vignette="incorrect"), **said) == ("doctor_concluded_wrongly", 8)
    assert cause(wrong(), beliefs=believing("Gout", "Eczema"), **said) == ("doctor_concluded_wrongly", 3)
    assert cause(wrong(on_vignette="incorrect"), LedgerFacts(leaked=(5,), turns=9)) == ("patient", 5), "but for a leak"


def test_a_leak_comes_before_an_invention() -> None:
    assert cause(wrong(), LedgerFacts(leaked=(7,), turns=9), patient=judged(INVENTED)) == ("patient", 7)


def test_the_patient_has_no_part_in_the_answer_to_the_vignette() -> None:
    answer = wrong(format="vignette", on_vignette="incorrect")
    assert cause(answer, patient=judged(INVENTED)) == ("doctor_concluded_wrongly", None)
    assert not attribute(Evidence(answer, CASE, MISSING)).provisional


@pytest.mark.parametrize(
    ("facts", "changes", "expected", "provisional"),
    [
        # facts that no question asked for: nobody can have withheld these
        (MISSING, {}, "doctor_never_asked", True),
        # facts that were asked for and never came up: did the patient withhold them?
        (ASKED_FOR, {}, "not_judged", False),
        # everything came up: nothing was withheld
        (ALL_TOLD, {}, "doctor_concluded_wrongly", True),
        # the doctor is wrong with all of the vignette: the patient cannot have decided it
        (ASKED_FOR, {"on_vignette": "incorrect"}, "doctor_concluded_wrongly", False),
        (MISSING, {"on_vignette": "incorrect"}, "doctor_concluded_wrongly", False),
        # nothing known of the doctor, and most facts came up: only that nobody looked speaks for the patient
        (MISSING, {"on_vignette": None}, "not_judged", False),
        (LedgerFacts(never=9, unasked=1, coverage=0.1, turns=9), {"on_vignette": None}, "doctor_never_asked", True),
        (LedgerFacts(never=9, unasked=0, coverage=0.1, turns=9), {"on_vignette": None}, "not_judged", False),
    ],
)
def test_without_a_judge_only_what_would_rest_on_the_patients_innocence_is_not_judged(
    facts: LedgerFacts, changes: dict[str, Any], expected: str, provisional: bool
) -> None:
    found = attribute(Evidence(wrong(**changes), CASE, facts))
    assert (found.cause, found.provisional, found.judged) == (expected, provisional, False)
    assert found.rule.endswith(".")


@pytest.mark.parametrize("facts", [MISSING, ASKED_FOR, ALL_TOLD])
def test_a_judge_who_finds_nothing_leaves_the_doctor_and_nothing_open(facts: LedgerFacts) -> None:
    found = attribute(Evidence(wrong(), CASE, facts, patient=judged()))
    assert found.cause == ("doctor_concluded_wrongly" if facts is ALL_TOLD else "doctor_never_asked")
    assert (found.judged, found.provisional) == (True, False)


def test_a_doctor_that_believed_the_right_diagnosis_is_not_left_open() -> None:
    found = attribute(Evidence(wrong(), CASE, ASKED_FOR, beliefs=believing("Gout", "Eczema")))
    assert (found.cause, found.provisional) == ("doctor_concluded_wrongly", False)


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


@pytest.mark.parametrize(("coverage", "expected"), [(0.49, "doctor_never_asked"), (0.5, "doctor_concluded_wrongly")])
def test_where_nothing_is_known_on_the_vignette_half_of_the_facts_decide(coverage: float, expected: str) -> None:
    facts = LedgerFacts(never=3, unasked=3, coverage=coverage, turns=9)
    assert cause(wrong(on_vignette=None), facts, patient=judged())[0] == expected


def test_a_doctor_whose_own_belief_was_right_had_what_it_needed() -> None:
    assert cause(wrong(), beliefs=believing("Gout", "Eczema")) == ("doctor_concluded_wrongly", 3)
    assert cause(wrong(), beliefs=believing("Eczema", "Gout")) == ("doctor_never_asked", 8), "it was not sure of it"
    assert cause(wrong(), ALL_TOLD, beliefs=believing("Eczema", "Gout")) == ("doctor_concluded_wrongly", 1)


def test_without_a_case_or_a_dialogue_the_doctor_is_left() -> None:
    assert cause(wrong(), None, None) == ("doctor_concluded_wrongly", None)


@pytest.mark.parametrize("format_", ["single_turn", "exam_only", "summarized"])
def test_formats_that_hold_facts_back_themselves_are_not_attributed(format_: str) -> None:
    with pytest.raises(ValueError, match=format_):
        attribute(Evidence(wrong(format=format_), CASE))


def test_a_ledger_in_short_on_a_real_dialogue() -> None:
    """The nodule is told when asked for, or kept back; the answer is named at last."""
    told = a_case(vignette="A boy has a nodule on the neck.")
    hello = Turn("doctor", "Hello, what symptoms bring you in?")
    dialogue = (hello, Turn("patient", "I don't know."), Turn("doctor", "Do you have a lump on your neck?"))
    silent = ledger_facts(told, (*dialogue, Turn("patient", "I don't know.")))
    assert (silent.never, silent.unasked, silent.coverage, silent.turns) == (1, 0, 0.0, 4)
    assert ledger_facts(told, dialogue[:2]).unasked == 1, "the greeting asks for no fact in particular"
    open_ = ledger_facts(told, (*dialogue, Turn("patient", "Yes, a lump on my neck.")))
    assert (open_.never, open_.unasked, open_.coverage, open_.leaked) == (0, 0, 1.0, ())
    leaking = ledger_facts(told, (*dialogue, Turn("patient", "They said it is eczema.")))
    assert leaking.leaked == (3,)
