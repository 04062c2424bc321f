"""Labels of cases on the pages: a model's specialties are reviewed, reviews fill cases, and figures leave cases out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets import imported
from core.journal import RowLine
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import LabelField, add_labels, label_of, labels_in_force
from core.store.review_records import planned
from core.store.tables import CaseLabelRow
from pages.cases.labels import changes
from pages.cases.sets import CaseEntry
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, keep_lines, write_journal
from tests.support.pages import button, has_button, trouble, words

Open = Callable[..., AppTest]
CASES = [a_case(n, specialty="Other", single_diagnosis=None, vignette=f"Vignette {n}.") for n in (1, 2, 3)]


@pytest.fixture
def store(database: Path) -> Store:
    """Three cases without a specialty; a model has labelled two of them."""
    imported.save("ours", CASES)
    store = Store()
    labels = [label_of(case, "specialty", "Cardiology", "model", "openai/m 1234", "chest pain") for case in CASES[:2]]
    keep_lines(store, "specialties-x", [RowLine(table="case_labels", row=asdict(label)) for label in labels])
    return store


def in_force(store: Store, number: int) -> dict[LabelField, CaseLabelRow]:
    case = CASES[number - 1]
    with store.read() as cursor:
        return dict(labels_in_force(cursor).get((case.case_key, case.text_hash), {}))


@pytest.mark.slow
def test_specialties_by_a_model_are_shown_for_review_and_confirmed(store: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", cases_tab="Labels")
    assert trouble(app) == []
    assert any("without a specialty" in box.label for box in app.expander)
    app.text_input(key="cases_labels_by").input("Ada")
    button(app, "Save, and confirm the other 2 answers by a model").click().run()
    assert trouble(app) == []
    label = in_force(store, 1)["specialty"]
    assert (label.value, label.origin, label.made_by, label.note) == ("Cardiology", "person", "Ada", "chest pain")
    assert "specialty" not in in_force(store, 3)
    app = open_page("cases", dataset="ours", cases_tab="Labels")
    assert not has_button(app, "Save, and confirm the other 2 answers by a model")
    app = open_page("cases", dataset="ours", case="ours/1")
    assert "Specialty: Cardiology" in words(app)
    assert trouble(open_page("cases", dataset="ours", cases_tab="Record")) == []


def test_a_changed_answer_is_a_label_of_a_person(store: Store) -> None:
    entries = [CaseEntry(case, case.content_hash, (), None, in_force(store, n)) for n, case in enumerate(CASES, 1)]
    written: list[tuple[LabelField, list[str | None], bool]] = [
        ("specialty", ["Neurology", "Cardiology", "Other"], False),
        ("accepted", [None, "Pox; Lues", None], False),
        ("development", [None, None, "yes"], False),
        ("date", [None, "2024-10", None], False),
    ]
    for question, answers, confirm in written:
        add_labels(store, changes(entries, question, answers, "Ada", "read again", confirm=confirm))
    assert in_force(store, 1)["specialty"].value == "Neurology"
    assert in_force(store, 2)["accepted"].names == ("Pox", "Lues")
    assert in_force(store, 2)["date"].value == "2024-10"
    assert in_force(store, 2)["specialty"].origin == "model", "what is not changed stays the model's"
    assert "specialty" not in in_force(store, 3)
    assert (in_force(store, 3)["development"].value, in_force(store, 3)["development"].note) == ("yes", "read again")
    add_labels(store, changes(entries, "specialty", ["Cardiology", "Cardiology", "Other"], "Ben", "", confirm=True))
    confirmed = in_force(store, 2)["specialty"]
    assert (confirmed.origin, confirmed.made_by, confirmed.note) == ("person", "Ben", "chest pain")


@pytest.mark.slow
def test_a_closed_review_of_cases_fills_them_by_a_button(store: Store, open_page: Open) -> None:
    plan = planned(kind="case_quality", number=3, annotators=("Ada",), case_set="ours", shared=0.0)
    review = plan_review(store, "Quality", plan)
    for number in (1, 2, 3):
        record(store, "Quality", number, "Ada", "likely_diagnoses", "one")
        record(store, "Quality", number, "Ada", "answer_in_vignette", "no")
    assert state_of(store, review.review_id).missing == 0
    unblind(store, "Quality", "Ada")
    app = open_page("experts", section="Results")
    assert trouble(app) == []
    button(app, "Fill the cases").click().run()
    assert trouble(app) == []
    assert "Stored 6 labels" in words(app)
    assert [in_force(store, n)["single_diagnosis"].value for n in (1, 2, 3)] == ["yes"] * 3


@pytest.mark.slow
def test_accuracy_leaves_development_cases_out_until_they_are_asked_for(store: Store, open_page: Open) -> None:
    lines = [
        a_trial([answered(), graded("correct")], trial_id=f"x/{case.case_key}", run_id="x", case_key=case.case_key)
        for case in CASES
    ]
    write_journal(store.journals, "x", a_header("x", CASES, trials=1, arms=[("multi_turn", "frq")]), *lines)
    fold(store)
    app = open_page("accuracy", cases="ours")
    assert "development" not in {toggle.key for toggle in app.toggle}
    add_labels(
        store,
        [
            label_of(CASES[0], "development", "yes", "person", "Ada"),
            label_of(CASES[1], "single_diagnosis", "yes", "person", "Ada"),
        ],
    )
    app = open_page("accuracy", cases="ours")
    assert trouble(app) == []
    assert "1 case was used to write prompts and left out" in words(app)
    assert 2 in next(frame.value for frame in app.dataframe if "Cases" in frame.value.columns)["Cases"].tolist()
    app.toggle(key="development").set_value(True).run()
    assert "count here" in words(app)
    app = open_page("accuracy", cases="ours", acc_split="One likely diagnosis")
    assert trouble(app) == []
    assert 1 in next(frame.value for frame in app.dataframe if "Cases" in frame.value.columns)["Cases"].tolist()
