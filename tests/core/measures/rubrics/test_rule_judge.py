"""The judge by rule: what it judges, what it leaves unjudged, and its verdicts in the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.asking.scene import Turn
from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.judging.form import CANNOT_JUDGE, STATEMENT, FormQuestion
from core.judging.rules import PRECISION, RULE_JUDGE, answer, answers, is_checkable
from core.measures.base import MetricRequest, Row
from core.measures.rubrics.reading import NO_RULE
from core.measures.rubrics.report import report_criteria, report_scores
from core.models.registry import load_registry
from core.store.database import Store
from tests.support.judged_rubric import store_judged
from tests.support.stores import copy_of

DIALOGUE = (
    Turn("doctor", "Hello. What brings you here?"),
    Turn("patient", "I have a rash. Is it cancer? I also have a fever."),
    Turn("doctor", "I see. Have you lost weight, or do you run a high temperature at night?"),
    Turn("patient", "No."),
    Turn("doctor", "You have no cough. **Final Diagnosis:** Lichen planus"),
)


def criterion(text: str) -> FormQuestion:
    return FormQuestion(id="c", title="c", wording=text, options=STATEMENT, yes=("met",))


def test_questions_and_the_diagnosis_are_judged_by_words(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        ("The doctor asks about fever or chills.", "met", "Have you lost weight, or do you run a high temperature"),
        ("The doctor asks about weight loss.", "met", "Have you lost weight"),
        # only the patient speaks of it, or the doctor without asking
        ("The doctor asks about a rash.", "not met", ""),
        ("The doctor asks about cough.", "not met", ""),
        # the second part is in no list of findings, so that nobody can say that it was not asked
        ("The doctor asks about cough or gardening.", CANNOT_JUDGE, ""),
        ("The doctor names lichen planus as the most likely diagnosis.", "met", "Lichen planus"),
        ("The doctor names croup as the most likely diagnosis.", "not met", ""),
    ]
    for text, verdict, words in rows:
        with subtests.test(text=text, verdict=verdict):
            judgement = answer(criterion(text), DIALOGUE)
            assert judgement.value == verdict
            assert [quotation.state for quotation in judgement.quotations] == (["verified"] if words else [])
            for quotation in judgement.quotations:
                assert words in quotation.words
                assert quotation.words in DIALOGUE[quotation.message].text


@pytest.mark.parametrize("text", ["Lichen planus or eczema", "Possibly lichen planus", "Eczema"])
def test_a_diagnosis_among_others_is_none(text: str) -> None:
    dialogue = (*DIALOGUE[:-1], Turn("doctor", f"Final Diagnosis: {text}"))
    selected = criterion("The doctor names lichen planus as the most likely diagnosis.")
    assert answer(selected, dialogue).value == "not met"


def test_what_words_do_not_decide_is_not_checkable(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "The doctor asks about a recent fever.",
        "The doctor asks about diabetes in the family.",
        "The doctor asks whether the pain spreads.",
        "The doctor asks in a tactful way about sexual contacts.",
        "The doctor advises rest.",
        "The doctor asks about the weather.",
    ]
    for text in rows:
        with subtests.test(text=text):
            assert not answers(criterion(text))


def test_a_condition_is_not_checkable() -> None:
    assert not is_checkable("The doctor asks about fever.", when="The patient coughs.")


def test_every_kind_of_verdict_is_right_often_enough_to_be_shown() -> None:
    assert all(right / read >= 0.8 and read >= 40 for right, read in PRECISION.values())


def test_its_verdicts_are_stored_once_and_shown_with_their_precision(tmp_path: Path) -> None:
    store = copy_of(store_judged, tmp_path)
    job = Judging("rubric:demo", (RULE_JUDGE,))
    outcome = run_job(job, store, load_registry(), Options(1))
    assert (outcome.done, outcome.failed) == (10, 0)
    assert run_job(job, store, load_registry(), Options(1)).done == 0
    request = MetricRequest(store)
    rows = {row["criterion"]: row for row in report_criteria.rows(request, rubric="demo", judge=RULE_JUDGE)}
    # fever is asked in 7 of 10 conversations, cough in 4
    assert {name: row["share"] for name, row in rows.items() if isinstance(row, Row)} == {"fever": 0.7, "cough": 0.4}
    assert any(note.severity == "high" and "56 of 60" in note.text for note in request.notes)


def test_a_criterion_that_no_rule_decides_stays_unjudged(tmp_path: Path) -> None:
    store = copy_of(_with_manners, tmp_path)
    run_job(Judging("rubric:demo", (RULE_JUDGE,)), store, load_registry(), Options(1))
    request = MetricRequest(store)
    (row,) = report_scores.rows(request, rubric="demo", judge=RULE_JUDGE)
    assert isinstance(row, Row)
    assert (row["score"], row["n_criteria"], row["n_unjudged"]) == (0.7, 10, 10)
    assert any(f"{NO_RULE} 10" in note.text for note in request.notes)
    # one of four points is not judged
    (row,) = report_scores.rows(request, rubric="demo", judge=RULE_JUDGE, least_judged=0.8)
    assert (row["score"], row.excluded) == (None, {"less than 80% of the points judged": 10})


def _with_manners(store: Store) -> None:
    store_judged(
        store,
        {
            "name": "demo",
            "all": [
                {"id": "fever", "criterion": "The doctor asks about fever.", "points": 3},
                {"id": "polite", "criterion": "The doctor greets the patient.", "points": 1},
            ],
        },
    )
