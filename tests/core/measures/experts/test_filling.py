"""A review of cases fills their fields with its decided answers, and figures split by them."""

from __future__ import annotations

import pytest

from core.cli.app import main
from core.datasets import imported
from core.errors import UsageError
from core.measures.accuracy import report
from core.measures.base import MetricRequest, Row
from core.measures.experts.filling import fill, filling_of, filling_questions
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import labels_in_force
from core.store.review_records import planned
from core.store.selection import Selection
from tests.core.measures.experts.reviews import a_review
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.answering import record_all

CASES = [a_case(n, single_diagnosis=None, profile=None, vignette=f"Vignette {n}.") for n in range(1, 5)]
CHOICES = {  # case → Ada's and Ben's number of likely diagnoses; ties are for Cem
    "1": ("one", "one"),
    "2": ("several", "one"),
    "3": ("many", "several"),
    "4": ("one", "several"),
}
NAMED = {"1": ("Psoriasis\neczema", "psoriasis"), "2": ("Tinea", "Lichen")}


@pytest.fixture
def reviewed(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Four cases judged by two annotators; a third decides one tie of two."""
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    imported.save("ours", CASES)
    plan = planned(kind="case_quality", number=4, annotators=("Ada", "Ben", "Cem"), case_set="ours", shared=1.0)
    review = plan_review(store, "Quality", plan)
    answers = []
    for item in state_of(store, review.review_id).items:
        number = item.item.rpartition("/")[2]
        for place, name in enumerate(item.annotators):
            answers.append((item.number, name, "likely_diagnoses", CHOICES[number][place]))
            answers.append((item.number, name, "answer_in_vignette", "no"))
            if number in NAMED:
                answers.append((item.number, name, "accepted_answers", NAMED[number][place]))
    record_all(store, "Quality", answers)
    state = state_of(store, review.review_id)
    for item in state.open_ties():
        (third,) = {"Ada", "Ben", "Cem"} - set(item.annotators)
        number = item.item.rpartition("/")[2]
        if number != "4":
            record(store, "Quality", item.number, third, "likely_diagnoses", "one" if number == "2" else "several")
    return store


def stored(store: Store, field: str) -> dict[str, str]:
    with store.read() as cursor:
        labels = labels_in_force(cursor)
    return {key: fields[field].value for (key, _), fields in sorted(labels.items()) if field in fields}  # type: ignore[index]


@pytest.mark.slow
def test_decided_answers_fill_the_cases(reviewed: Store) -> None:
    with pytest.raises(UsageError, match="unblind it first"):
        filling_of(reviewed, "Quality")
    unblind(reviewed, "Quality", "Ada", "one tie stays open")
    filling, new = fill(reviewed, "Quality")

    assert filling.left_out == {"tied": 1}
    assert filling.minority == {"ours/2": ("Tinea", "Lichen")} or filling.minority == {"ours/2": ("Lichen", "Tinea")}
    assert stored(reviewed, "single_diagnosis") == {"ours/1": "yes", "ours/2": "yes", "ours/3": "no"}
    assert stored(reviewed, "answer_in_vignette") == {f"ours/{n}": "no" for n in range(1, 5)}
    assert {key: value.lower() for key, value in stored(reviewed, "accepted").items()} == {"ours/1": "psoriasis"}
    assert new == 3 + 4 + 1
    assert fill(reviewed, "Quality")[1] == 0, "nothing is stored twice"
    with reviewed.read() as cursor:
        label = labels_in_force(cursor, ["ours/1"])["ours/1", CASES[0].text_hash]["single_diagnosis"]
    assert (label.origin, label.made_by) == ("review", "Quality")
    assert set(label.note.split(", ")) < {"Ada", "Ben", "Cem"}
    reviewed.path.unlink()
    fold(reviewed)
    assert stored(reviewed, "single_diagnosis") == {"ours/1": "yes", "ours/2": "yes", "ours/3": "no"}


def test_accuracy_splits_any_data_set_by_the_filled_field(reviewed: Store, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = ("correct", "incorrect", "correct", "correct")
    lines = [
        a_trial(
            [answered(), graded(verdict)],  # type: ignore[arg-type]
            trial_id=f"x/{case.case_key}",
            run_id="x",
            case_key=case.case_key,
        )
        for case, verdict in zip(CASES, verdicts, strict=True)
    ]
    write_journal(reviewed.journals, "x", a_header("x", CASES, trials=1, arms=[("multi_turn", "frq")]), *lines)
    fold(reviewed)
    unblind(reviewed, "Quality", "Ada", "one tie stays open")
    assert main(["experts", "fill", "Quality"]) == 0
    printed = capsys.readouterr().out
    assert "single_diagnosis: 3 cases" in printed
    assert "ours/2" in printed

    request = MetricRequest(reviewed, Selection(runs=["x"]))
    (row,) = (row for row in report.rows(request, by="single") if isinstance(row, Row))
    assert (row.estimate, row.n, row.label["group"]) == (0.5, 2, "ours")
    (note,) = [note.text for note in request.notes if note.kind == "single_diagnosis"]
    assert "2 of 4 cases" in note
    assert "for 1 it is not stated" in note
    assert "3 are labelled by Quality" in note


def test_a_review_of_conversations_fills_nothing(store: Store) -> None:
    state = state_of(store, a_review(store).name)
    assert not filling_questions(state)
    with pytest.raises(UsageError, match="fills no field"):
        filling_of(store, state.review.review_id)


@pytest.mark.slow
def test_levels_of_urgency_are_filled_with_the_level_of_the_majority(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    imported.save("ours", CASES[:2])
    names = ("Ada", "Ben", "Cem")
    plan_review(store, "Urgent", planned(kind="urgency", number=2, annotators=names, case_set="ours", shared=1.0))
    answers = {"1": ("2", "3", "2"), "2": ("1", "4", "5")}  # the second case has no majority
    for item in state_of(store, "Urgent").items:
        for name in item.annotators:
            value = answers[item.item.rpartition("/")[2]][names.index(name)]
            record(store, "Urgent", item.number, name, "urgency", value)
    unblind(store, "Urgent", "Ada", "done")
    fill(store, "Urgent")
    assert stored(store, "urgency") == {"ours/1": "2"}
