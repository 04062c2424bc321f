"""Each rule of the attribution on evidence made for it, and which comes first where several hold."""

from __future__ import annotations

from typing import Any

import pytest

from core.agents.base import Turn
from core.case import Case
from core.events import Probed
from core.metrics.attribution import Evidence, OnVignette, attribute
from core.metrics.attribution_facts import LedgerFacts, ledger_facts
from core.metrics.belief import trajectory
from core.store.failures import WrongAnswer
from tests.core.store.builders import a_case

CASE = a_case(vignette="A boy has an itchy rash.")
LEAKY = a_case(vignette="A boy has eczema.")
ODD = a_case(vignette="A boy has an itchy rash.", choices=("Gout", "Psoriasis"))
MISSING = LedgerFacts(never=3, coverage=0.6, turns=9)
ALL_TOLD = LedgerFacts(never=0, coverage=1.0, turns=9)
SAID = LedgerFacts(never=3, invented=(5, 7), coverage=0.6, turns=9)


def wrong(**changes: Any) -> WrongAnswer:
    given: dict[str, Any] = {
        "trial_id": "t", "model": "m", "case": ("ours/1", None), "format": "multi_turn", "question_type": "frq",
        "response": "**Final Diagnosis:** Psoriasis", "verdict": "incorrect", "rule": "frq", "grader": "openai/g",
        "extracted": "Psoriasis", "called_correct": (), "end_reason": "final_diagnosis", "on_vignette": "correct",
    }  # fmt: skip
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
    assert cause(answer, SAID, LEAKY) == ("provider", None)
    assert not attribute(Evidence(answer, CASE)).counted


def test_a_leaking_case_is_at_fault_whatever_else_happened() -> None:
    assert cause(wrong(), SAID, LEAKY) == ("case", None)
    assert "Eczema" in attribute(Evidence(wrong(), LEAKY, SAID)).rule


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
    assert cause(wrong(called_correct=(("frq", "reference/names"),)), SAID) == ("grader", None)
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


def test_an_unreadable_verdict_is_the_graders_and_does_not_count() -> None:
    found = attribute(Evidence(wrong(verdict="ungradable"), CASE, SAID))
    assert (found.cause, found.counted) == ("grader", False)


@pytest.mark.parametrize("on_vignette", ["correct", None, "provider_error"])
def test_a_patient_who_invents_or_withholds_is_the_cause_at_the_first_turn_of_it(on_vignette: str | None) -> None:
    assert cause(wrong(on_vignette=on_vignette), SAID) == ("patient", 5)
    assert cause(wrong(on_vignette=on_vignette), LedgerFacts(never=1, withheld=(3,), turns=9)) == ("patient", 3)


def test_what_the_patient_did_decides_nothing_where_the_doctor_is_wrong_on_the_vignette_too() -> None:
    assert cause(wrong(on_vignette="incorrect"), SAID) == ("doctor_concluded_wrongly", 8)
    assert cause(wrong(on_vignette="incorrect"), LedgerFacts(leaked=(5,), turns=9)) == ("patient", 5), "but for a leak"


def test_a_leak_comes_before_an_invention() -> None:
    assert cause(wrong(), LedgerFacts(invented=(3,), leaked=(5,), turns=9)) == ("patient", 5)


def test_the_patient_has_no_part_in_the_answer_to_the_vignette() -> None:
    assert cause(wrong(format="vignette", on_vignette="incorrect"), SAID) == ("doctor_concluded_wrongly", None)


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
    assert cause(wrong(on_vignette=None), LedgerFacts(never=3, coverage=coverage, turns=9))[0] == expected


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
    """The nodule is told when asked for; a rash at the knee is invented; the answer is named at last."""
    told = a_case(vignette="A boy has a nodule on the neck.")
    hello = Turn("doctor", "Hello, what symptoms bring you in?")
    dialogue = (hello, Turn("patient", "I don't know."), Turn("doctor", "Do you have a lump on your neck?"))
    silent = ledger_facts(told, (*dialogue, Turn("patient", "I don't know.")))
    assert (silent.never, silent.coverage, silent.turns) == (1, 0.0, 4)
    assert silent.withheld
    open_ = ledger_facts(told, (*dialogue, Turn("patient", "Yes, a lump on my neck.")))
    assert (open_.never, open_.coverage, open_.withheld, open_.leaked) == (0, 1.0, (), ())
    leaking = ledger_facts(told, (*dialogue, Turn("patient", "They said it is eczema.")))
    assert leaking.leaked == (3,)
