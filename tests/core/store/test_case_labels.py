"""Labels of cases: who takes precedence, what they change in figures, and that they outlive the database."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from core.case import Case
from core.errors import UsageError
from core.journal import RowLine
from core.measures.accuracy import accuracy
from core.measures.base import MetricRequest
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, add_labels_of_file, label_of, labels_in_force, single_diagnosis
from core.store.queries.trials import count_conversations
from core.store.selection import Selection, select
from core.store.tables import CaseLabelRow
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, keep_lines, write_journal
from tests.support.stores import copy_of

ONE, TWO, THREE = (
    a_case(number, specialty="Other", single_diagnosis=None, vignette=f"Vignette, “é” {number}.")
    for number in (1, 2, 3)
)


def three_cases(store: Store) -> None:
    """Three cases, of which only the first is answered correctly."""
    lines = [
        a_trial(
            [answered(), graded("correct" if case is ONE else "incorrect")],
            trial_id=f"run/{case.case_key}/0",
            case_key=case.case_key,
        )
        for case in (ONE, TWO, THREE)
    ]
    header = a_header(cases=(ONE, TWO, THREE), trials=1, arms=[("multi_turn", "frq")])
    write_journal(store.journals, "run", header, *lines)
    fold(store)


@pytest.fixture
def played(tmp_path: Path) -> Store:
    return copy_of(three_cases, tmp_path)


def by_model(case: Case, specialty: str, model: str = "openai/m 1234") -> RowLine:
    return RowLine(table="case_labels", row=asdict(label_of(case, "specialty", specialty, "model", model, "words")))


def specialties(store: Store) -> dict[str, float | None]:
    return {row.label["group"]: row.estimate for row in accuracy(store, "specialty")}


def in_force(store: Store, case: Case) -> CaseLabelRow:
    with store.read() as cursor:
        return labels_in_force(cursor, [case.case_key])[case.case_key, case.text_hash]["specialty"]


def test_a_persons_label_takes_precedence_over_a_models_whichever_is_newer(played: Store) -> None:
    assert specialties(played) == {"Other": pytest.approx(1 / 3)}
    keep_lines(played, "specialties-x", [by_model(ONE, "Cardiology"), by_model(TWO, "Neurology")])
    assert specialties(played) == {"Cardiology": 1, "Neurology": 0, "Other": 0}
    add_labels(played, [label_of(ONE, "specialty", "Neurology", "person", "Ada", "seen in clinic")])
    keep_lines(played, "specialties-x", [by_model(ONE, "Rheumatology", "openai/other 9")])

    assert specialties(played) == {"Neurology": 0.5, "Other": 0}
    assert (in_force(played, ONE).made_by, in_force(played, ONE).note) == ("Ada", "seen in clinic")
    with played.read() as cursor:
        history = cursor.execute("SELECT value FROM case_labels WHERE case_key = ?", [ONE.case_key]).fetchall()
    assert sorted(value for (value,) in history) == ["Cardiology", "Neurology", "Rheumatology"]


def test_labels_survive_the_loss_of_the_database(played: Store) -> None:
    keep_lines(played, "specialties-x", [by_model(TWO, "Neurology")])
    add_labels(played, [label_of(ONE, "specialty", "Cardiology", "person", "Ada")])
    before = specialties(played)
    played.path.unlink()
    fold(played)
    assert specialties(played) == before
    assert in_force(played, TWO).origin == "model"


def test_a_label_belongs_to_the_words_that_were_read(played: Store) -> None:
    renamed = replace_text(TWO, vignette="Another patient with this id.")
    add_labels(played, [label_of(renamed, "specialty", "Cardiology", "person", "Ada")])
    assert specialties(played) == {"Other": pytest.approx(1 / 3)}
    longer_profile = TWO.model_copy(update={"profile": None, "difficulty": "hard"})
    assert longer_profile.text_hash == TWO.text_hash, "what nobody reads to label a case does not matter"


def replace_text(case: Case, **changes: str) -> Case:
    return case.model_copy(update=changes)


def test_the_same_label_is_stored_once_and_a_model_can_be_confirmed(played: Store) -> None:
    label = label_of(ONE, "specialty", "Cardiology", "person", "Ada")
    assert [add_labels(played, [label]), add_labels(played, [replace(label, made_at=time.time())])] == [1, 0]
    keep_lines(played, "specialties-x", [by_model(TWO, "Neurology")])
    assert add_labels(played, [label_of(TWO, "specialty", "Neurology", "person", "Ben")]) == 1
    assert in_force(played, TWO).origin == "person"
    with pytest.raises(UsageError, match="choose Dermatology"):
        label_of(ONE, "specialty", "Heart things", "person", "Ada")


def test_development_cases_are_left_out_of_figures_and_counted_in_a_note(played: Store) -> None:
    content = {
        case.content_hash
        for case in (ONE, ONE.model_copy(update={"development": True, "accepted": ("Pox",), "date": "2024"}))
    }
    assert len(content) == 1, "a mark changes no condition"
    add_labels(played, [label_of(ONE, "development", "yes", "person", "Ada", "the doctor's prompt")])

    (row,) = accuracy(played)
    assert (row.estimate, row.n) == (0, 2)
    (with_it,) = accuracy(played, selection=Selection(development=True))
    assert (with_it.estimate, with_it.n) == (pytest.approx(1 / 3), 3)
    (selected,) = accuracy(played, selection=Selection(cases=[ONE.case_key]))
    assert (selected.estimate, selected.n) == (1, 1)
    assert note(played, Selection()) == ("low", "ours: 1 case was used to write prompts and left out (1).")
    severity, words = note(played, Selection(development=True))
    assert (severity, "count here" in words) == ("high", True)
    with played.read() as cursor:
        assert count_conversations(cursor) == 3, "every conversation can be read"
        select(cursor, Selection())
        assert cursor.execute("SELECT count(*) FROM chosen").fetchall() == [(2,)]
    add_labels(played, [label_of(ONE, "development", "no", "person", "Ada")])
    assert accuracy(played)[0].n == 3


def note(store: Store, selection: Selection) -> tuple[str, str]:
    result = result_of(metrics()["accuracy"], MetricRequest(store, selection))
    (listed,) = [note for note in result.notes if note.kind == "development"]
    return listed.severity, listed.text


def test_a_file_brings_labels_and_a_label_decides_on_single_diagnosis(played: Store) -> None:
    marked = THREE.model_copy(update={"development": True, "accepted": ("Pox", "Pox ", "Lues")})
    assert add_labels_of_file(played, [ONE, marked], "cases.csv") == {"accepted": 1, "development": 1}
    with played.read() as cursor:
        labels = labels_in_force(cursor, [THREE.case_key])[THREE.case_key, THREE.text_hash]
        assert single_diagnosis(cursor).single == {case.case_key: None for case in (ONE, TWO, THREE)}
    assert labels["accepted"].names == ("Pox", "Lues")
    assert (labels["development"].origin, labels["development"].made_by) == ("file", "cases.csv")

    add_labels(
        played,
        [
            label_of(ONE, "single_diagnosis", "yes", "review", "Quality"),
            label_of(TWO, "single_diagnosis", "no", "review", "Quality"),
        ],
    )
    with played.read() as cursor:
        stated = single_diagnosis(cursor)
    assert stated.single == {ONE.case_key: True, TWO.case_key: False, THREE.case_key: None}
    assert stated.made_by == {ONE.case_key: "Quality", TWO.case_key: "Quality"}
    (row,) = accuracy(played, selection=Selection(single_diagnosis=True))
    assert (row.estimate, row.n) == (1, 1)
