"""Attribution of stored answers: progress, stop, extracts, and shares and accuracies by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.events import Utterance
from core.measures import failures
from core.measures.attribution import CAUSES, Attribution, Cause
from core.measures.base import MetricRequest
from core.measures.failures import (
    Causes,
    WrongAnswers,
    attribution_table,
    both_accuracies,
    cause_shares,
    patient_effects,
)
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import CaseScore, WrongAnswer
from core.store.queries.fact_sets import save_facts
from core.store.queries.judged_facts import PatientVerdict
from core.store.selection import Selection
from core.text.facts import AtomicFact
from tests.core.measures.test_attribution import wrong
from tests.core.store.builders import (
    Ended,
    Finished,
    Probed,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    invalid,
    write_journal,
)
from tests.support.judged_facts import judge_facts, judge_of_facts
from tests.support.stores import copy_of


def conversation(case: int, reply: str, vignette: str = "correct", believed: str = "Gout") -> Any:
    """Return a trial with one question about a lump and a wrong answer."""
    stream = [
        Utterance(turn=0, role="doctor", text="Hello, what symptoms bring you in?"),
        Utterance(turn=1, role="patient", text="I don't know."),
        Probed(turn=1, differential=((believed, 0.8),)),
        Utterance(turn=2, role="doctor", text="Do you have a lump on your neck?"),
        Utterance(turn=3, role="patient", text=reply),
        Utterance(turn=4, role="doctor", text="**Final Diagnosis:** Gout"),
        Ended(reason="final_diagnosis", doctor_turns=2),
        answered(response="**Final Diagnosis:** Gout"),
        graded("incorrect", extracted="Gout"),
        answered("vignette", response="Gout"),
        graded(vignette, "vignette", extracted="Gout"),
        Finished(at=9.0),
    ]
    return a_trial(stream, trial_id=f"run/{case}", case_key=f"ours/{case}")


AFTER = Selection(formats=["multi_turn"])
CHOSEN = Selection(formats=("multi_turn",), mcq_rule="mcq_loose")


def fill(store: Store) -> None:
    cases = [a_case(n, vignette="A boy has a nodule on the neck.") for n in range(1, 6)]
    write_journal(
        store.journals,
        "run",
        a_header(cases=cases),
        conversation(1, "I don't know."),
        conversation(2, "Yes, a lump on my neck."),
        conversation(3, "They said it is eczema.", "incorrect"),
        conversation(4, "I don't know.", "incorrect", "Eczema"),
        a_trial([invalid("provider_error"), Finished(at=1.0)], trial_id="run/5", case_key="ours/5"),
    )
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def attributed(store: Store, selection: Selection = AFTER, **options: Any) -> list[Attribution]:
    return WrongAnswers(store, selection, **options).attributed(slice(None))


@pytest.mark.slow
def test_without_a_judge_only_some_answers_get_a_cause(filled: Store) -> None:
    assert len(WrongAnswers(filled, AFTER)) == 5
    assert causes_of(filled) == {
        "ours/1": ("not_judged", 4),
        "ours/2": ("not_judged", 4),
        "ours/3": ("doctor_concluded_wrongly", 4),  # wrong on the vignette too
        "ours/4": ("doctor_concluded_wrongly", 1),  # its belief was right, and it is wrong on the vignette too
        "ours/5": ("provider", None),
    }


JUDGE = judge_of_facts("openai/j", "p1")
FACT = ("lump", "nodule on the neck", "associated symptoms")
LUMP = PatientVerdict("withheld", 3, "Do you have a lump on your neck?", *FACT)
TOLD = PatientVerdict("asked", 3, "a lump on my neck", *FACT)
NEVER = PatientVerdict("never_asked", None, "", *FACT)


judge = partial(judge_facts, by=JUDGE)


def causes_of(store: Store, **options: Any) -> dict[str, tuple[str, int | None]]:
    return {a.answer.case[0]: (a.cause, a.turn) for a in attributed(store, **options)}


@pytest.mark.slow
def test_a_judgement_decides_the_cause(filled: Store) -> None:
    without = causes_of(filled)
    judge(filled, "run/1", LUMP)
    judge(filled, "run/2", TOLD)
    judged = {"ours/1": ("patient", 3), "ours/2": ("doctor_concluded_wrongly", 4)}
    assert causes_of(filled) == {**without, **judged}
    assert WrongAnswers(filled, AFTER).judge == JUDGE
    assert {a.answer.case[0] for a in attributed(filled) if a.judged} == {"ours/1", "ours/2"}
    judge(filled, "run/1", NEVER, at=2.0)
    assert causes_of(filled)["ours/1"] == ("doctor_never_asked", 4)


def test_judges_are_never_mixed_and_the_last_judge_counts(filled: Store) -> None:
    other = judge_of_facts("openai/j", "p2")
    judge(filled, "run/1", LUMP)
    judge(filled, "run/2", by=other, at=2.0)
    assert causes_of(filled)["ours/1"] == ("not_judged", 4), "the newer judge has not judged it"
    assert causes_of(filled, judge=JUDGE)["ours/1"] == ("patient", 3)
    judge(filled, "run/1", by=other, at=3.0, failure="unreadable")
    assert causes_of(filled)["ours/1"] == ("not_judged", 4), "a failure judges nothing"


@pytest.mark.slow
def test_a_judgement_against_other_facts_does_not_count(filled: Store) -> None:
    judge(filled, "run/1", LUMP)
    rash = AtomicFact(id="rash", key="rash", text="rash on the legs", lay="a rash on my legs", told=True, topic="other")
    with filled.write() as connection:
        save_facts(connection, a_case(1, vignette="A boy has a nodule on the neck."), [rash], "a person")
    assert causes_of(filled)["ours/1"] == ("not_judged", 4)


def test_all_formats_that_can_be_attributed_by_default(filled: Store) -> None:
    causes = {(a.answer.case[0], a.answer.format): a.cause for a in attributed(filled, Selection())}
    assert len(causes) == 5 + 2
    assert causes["ours/3", "vignette"] == "doctor_concluded_wrongly"
    assert not WrongAnswers(filled, Selection(formats=["single_turn"]))


def named(case: int, arm: str, response: str, verdict: str, extracted: str) -> Any:
    """Return a trial with one free response to the case whose answer is Eczema."""
    stream = [answered("vignette", arm, response=response), graded(verdict, "vignette", arm, extracted=extracted)]
    return a_trial([*stream, Finished(at=9.0)], trial_id=f"named/{case}", run_id="named", case_key=f"ours/{case}")


def test_causes_of_all_trials_by_hand(filled: Store) -> None:
    """Two answers name the right diagnosis (11, 13), one names another (12), and one was called right (14)."""
    right = a_case(1).answer
    cases = [a_case(n) for n in range(11, 15)]
    write_journal(
        filled.journals,
        "named",
        a_header("named", cases=cases),
        named(11, "frq", f"**Final Diagnosis:** {right}", "incorrect", "Gout"),
        named(12, "frq", "**Final Diagnosis:** Gout", "incorrect", "Gout"),
        named(13, "frq_top3", f"1. Gout\n2. {right}\n3. Psoriasis", "incorrect", "Gout"),
        named(14, "frq", f"**Final Diagnosis:** {right}", "correct", right),
    )
    fold(filled)
    extract = Causes(filled.path, Selection(mcq_rule="mcq_loose"), None)
    assert extract.make(lambda *at: None, lambda: False)
    table = extract.read()
    assert dict(zip(zip(table["trial_id"], table["format"], strict=True), table["cause"], strict=True)) == {
        ("named/11", "vignette"): "grader",
        ("named/12", "vignette"): "doctor_concluded_wrongly",
        ("named/13", "vignette"): "grader",
        ("run/1", "multi_turn"): "not_judged",
        ("run/2", "multi_turn"): "not_judged",
        ("run/3", "multi_turn"): "doctor_concluded_wrongly",
        ("run/3", "vignette"): "doctor_concluded_wrongly",
        ("run/4", "multi_turn"): "doctor_concluded_wrongly",
        ("run/4", "vignette"): "doctor_concluded_wrongly",
        ("run/5", "multi_turn"): "provider",
    }
    (share,) = [row for row in cause_shares(table) if row["cause"] == "not_judged"]
    assert (share["n"], share["wrong"], share.estimate) == (2, 9, pytest.approx(2 / 9)), "a failure is not wrong"


@pytest.mark.slow
def test_causes_are_computed_once_for_each_state_of_the_database(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PART", 2)
    first, told, parts = Causes(filled.path, CHOSEN, None), list[tuple[int, int]](), list[slice]()

    def table(rows: WrongAnswers, part: slice, original: Callable[..., Any] = WrongAnswers.table) -> Any:
        parts.append(part)
        return original(rows, part)

    monkeypatch.setattr(WrongAnswers, "table", table)
    assert not first.make(lambda *at: told.append(at), lambda: len(told) == 1)
    assert not first.whole.exists()
    assert first.make(lambda *at: None, lambda: False)
    assert parts == [slice(0, 2), slice(0, 2), slice(2, 4), slice(4, 6)]
    repeated = Causes(filled.path, CHOSEN, None)
    assert repeated.make(lambda *at: None, lambda: False)
    assert len(parts) == 4, "nothing is computed twice"
    causes = repeated.read()
    assert dict(zip(causes["case_key"], causes["cause"], strict=True))["ours/3"] == "doctor_concluded_wrongly"
    assert list(repeated.read(["trial_id"], cause="not_judged")["trial_id"]) == ["run/1", "run/2"]
    before = filled.version
    assert measure_trials(filled, [measures()["patient_marks"]], processes=0)
    assert filled.version != before
    assert Causes(filled.path, CHOSEN, None).whole == repeated.whole, "stored scores leave it valid"
    write_journal(filled.journals, "more", a_header("more", cases=[a_case(9)]))
    fold(filled)
    newer = Causes(filled.path, CHOSEN, None)
    assert newer.whole != repeated.whole, "another state of the database has other causes"
    assert newer.make(lambda *at: None, lambda: False)
    assert newer.read().equals(causes)


def with_cause(case: int, cause: Cause, **changes: Any) -> Attribution:
    answer: WrongAnswer = wrong(trial_id=f"{case}", case=(f"ours/{case}", None), **changes)
    return Attribution(answer, cause, "Because.", None)


TABLE = attribution_table([
    with_cause(1, "patient"), with_cause(1, "patient"), with_cause(1, "doctor_never_asked"), with_cause(2, "patient"),
    with_cause(3, "provider", verdict="provider_error"), with_cause(3, "grader", format="vignette"),
])  # fmt: skip


def test_shares_are_of_all_counted_wrong_answers() -> None:
    rows = {row["cause"]: row for row in cause_shares(TABLE)}
    assert list(rows) == list(CAUSES)
    assert {cause: (row["n"], row["excluded"]) for cause, row in rows.items() if row["n"] or row["excluded"]} == {
        "provider": (0, 1),
        "grader": (1, 0),
        "patient": (3, 0),
        "doctor_never_asked": (1, 0),
    }
    assert rows["patient"].estimate == 3 / 5
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert rows["patient"]["ci_low"] < 0.6 < rows["patient"]["ci_high"]
    # no answer of the three cases, which have unequal numbers of wrong answers
    assert rows["case"].low == 0
    assert 0.5 < rows["case"].high < 0.7


def test_shares_by_arm() -> None:
    rows = {(row["format"], row["question_type"], row["cause"]): row for row in cause_shares(TABLE, arms=True)}
    assert rows["vignette", "frq", "grader"].estimate == 1
    assert rows["multi_turn", "frq", "patient"].estimate == 3 / 4
    assert rows["multi_turn", "frq", "patient"].n == 4


def test_only_broken_answers_have_no_share() -> None:
    rows = cause_shares(attribution_table([with_cause(1, "provider", verdict="refused")]))
    assert [(row["cause"], row["excluded"]) for row in rows if row["excluded"]] == [("provider", 1)]
    assert all(row["share"] is None for row in rows)


def test_accuracy_without_the_patients_faults() -> None:
    """Case 1: 1 of 4 right, 1 of 2 without the patient's. Case 2: 0 of 1, left out without it. Case 4: 3 of 3."""

    def score(case: int, correct: int, counted: int) -> CaseScore:
        return CaseScore("m", "multi_turn", "frq", f"ours/{case}", "ours", "Dermatology", correct, counted, {})

    (row,) = patient_effects(TABLE[:5], [score(1, 1, 4), score(2, 0, 1), score(3, 0, 0), score(4, 3, 3)])
    assert row.estimate == pytest.approx((0.25 + 0 + 1) / 3)
    assert row["without_patient"] == pytest.approx((0.5 + 1) / 2)
    assert row["same_cases"] == pytest.approx((0.25 + 0) / 2)
    assert (row.n, row["answers_left_out"], row["cases_left_out"], row["not_judged"]) == (2, 3, 1, 0)
    both = both_accuracies([row], MetricRequest(Store()), {})
    drawn = {each.label["answers"]: (each.estimate, each.low, each.high) for each in both}
    without = (row["without_patient"], row["without_low"], row["without_high"])
    assert drawn == {"all": (row.estimate, row.low, row.high), "without": without}


def test_an_answer_that_is_not_judged_stays_in_and_is_counted() -> None:
    """Case 1: 1 of 3 right, one wrong answer not judged, one by the doctor: nothing is left out."""
    score = CaseScore("m", "multi_turn", "frq", "ours/1", "ours", "Dermatology", 1, 3, {})
    table = attribution_table([with_cause(1, "not_judged"), with_cause(1, "doctor_never_asked")])
    (row,) = patient_effects(table, [score])
    assert (row["without_patient"], row["answers_left_out"], row["not_judged"]) == (row.estimate, 0, 1)
    shares = {row["cause"]: row["n"] for row in cause_shares(table)}
    assert (shares["not_judged"], shares["doctor_never_asked"], shares["patient"]) == (1, 1, 0)
