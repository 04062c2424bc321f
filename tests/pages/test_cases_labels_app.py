"""Labels of cases on the pages: a model's specialties are reviewed, reviews fill cases, and figures leave cases out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets import imported
from core.journal import RowLine
from core.store.database import Store
from core.store.queries.case_labels import LabelField, add_labels, label_of, labels_in_force
from core.store.tables import CaseLabelRow
from pages.cases.labels import changes
from pages.cases.sets import CaseEntry
from tests.core.store.builders import a_case, keep_lines
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
