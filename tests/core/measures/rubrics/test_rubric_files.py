"""Rubrics as files: reading, versions, hashes, faults, the linter, and saved versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.datasets.library import read_library
from core.errors import UsageError
from core.judging.form import Form
from core.judging.rubric import cases_of_rubric, read_rubric, rubric_files, rubric_of, to_yaml, version_of
from core.measures.rubrics.lint import lint_rubric
from core.paths import CASES
from core.reviews.rubrics import rubric_entries, rubric_named, save_rubric
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.rubrics import remove_rubric

CASE = "library/cardiology-1"


def rubric(*criteria: dict[str, object], name: str = "demo", **scopes: object) -> Form:
    fields = [{"id": f"c{n}", "points": 1, **c} for n, c in enumerate(criteria, 1)]
    return rubric_of({"name": name, **({"cases": {CASE: fields}} if fields else {}), **scopes}, "the test")


def test_a_criterion_with_negative_points_is_a_must_not() -> None:
    criteria = rubric({"criterion": "Shouts.", "points": -2}, {"criterion": "Greets."}).questions
    assert [criterion.priority for criterion in criteria] == ["must not", "should"]


def test_a_faulty_criterion_is_refused_with_its_place(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({"points": 0}, "no points"),
        ({"points": 3, "priority": "must not"}, "only must not"),
        ({"points": -3, "priority": "must"}, "only must not"),
        ({"points": "many"}, "points"),
        ({"points": None}, "points"),
        ({"id": "two words"}, "not an id"),
        ({"criterion": ""}, "criterion"),
        ({"weight": 3}, "weight"),
    ]
    for fields, reason in rows:
        refusal = rf"^the test is not a rubric: cases\.{CASE}\.0.*{reason}"
        with subtests.test(fields=fields), pytest.raises(UsageError, match=refusal):
            rubric({"criterion": "Greets.", **fields})


def test_ids_are_unique_for_every_case_and_not_between_cases() -> None:
    greets = {"id": "a", "criterion": "Greets.", "points": 1}
    rubric_of({"name": "x", "cases": {"a/1": [greets], "a/2": [greets]}}, "x")
    with pytest.raises(UsageError, match="two questions for a/1 have the id 'a'"):
        rubric_of({"name": "x", "all": [greets], "cases": {"a/1": [greets]}}, "x")
    with pytest.raises(UsageError, match="two questions for a/1"):
        rubric_of({"name": "x", "cases": {"a/1": [greets, greets]}}, "x")


def test_a_case_gets_the_criteria_of_all_cases_of_its_specialty_and_its_own() -> None:
    scopes = {
        "all": [{"id": "greets", "criterion": "Greets.", "points": 1}],
        "specialties": {"Neurology": [{"id": "gait", "criterion": "Asks about gait.", "points": 1}]},
    }
    mixed = rubric({"criterion": "Asks about pain."}, **scopes)
    assert [c.id for c in mixed.questions_for(CASE, "Neurology")] == ["greets", "gait", "c1"]
    assert [c.id for c in mixed.questions_for("library/other-1", "Other")] == ["greets"]


def test_the_version_changes_with_the_points_and_the_hash_of_a_criterion_does_not() -> None:
    entry, two = (rubric({"criterion": "Greets.", "points": points}) for points in (1, 2))
    assert version_of(entry) != version_of(two)
    assert entry.questions[0].hash == two.questions[0].hash
    reworded = rubric({"criterion": "Greets warmly."}).questions[0]
    conditional = rubric({"criterion": "Greets.", "when": "It is the first visit."}).questions[0]
    assert len({entry.questions[0].hash, reworded.hash, conditional.hash}) == 3


@pytest.mark.slow
def test_a_folder_of_files_is_one_rubric_and_survives_a_round_trip(tmp_path: Path) -> None:
    library = read_rubric(rubric_files()["library"])
    (file := tmp_path / "library.yaml").write_text(to_yaml(library), encoding="utf-8")
    assert read_rubric(file) == library
    (tmp_path / "part").mkdir()
    for name in ("a", "b"):
        (tmp_path / "part" / f"{name}.yaml").write_text(to_yaml(rubric({"criterion": "Greets."})), encoding="utf-8")
    with pytest.raises(UsageError, match=f"b.yaml has criteria for {CASE}"):
        read_rubric(tmp_path / "part")


@pytest.mark.slow
def test_every_rubric_of_the_library_belongs_to_a_case_and_has_both_musts_and_must_nots() -> None:
    keys = {case.case_key for case in read_library(CASES)}
    library = read_rubric(rubric_files()["library"])
    assert set(cases_of_rubric(library)) <= keys
    for case in cases_of_rubric(library):
        criteria = library.questions_for(case, "")
        assert 8 <= len(criteria) <= 15
        assert {"must", "must not"} <= {criterion.priority for criterion in criteria}


def faults(*criteria: dict[str, object]) -> list[tuple[str, str]]:
    cases = {case.case_key: case for case in read_library(CASES)}
    return [(warning.criterion, warning.fault) for warning in lint_rubric(rubric(*criteria), cases)]


def test_the_linter_warns_of_each_fault_and_not_of_a_good_criterion() -> None:
    assert faults(
        {"criterion": "The doctor asks whether the pain spreads.", "axis": "data gathering"},
        {"criterion": "The doctor does not ask about allergies.", "points": 3},
        {"criterion": "The doctor incorrectly recommends antibiotics.", "points": 3},
        {"criterion": "The doctor asks about fever and explains the plan."},
        {"criterion": "The doctor keeps eye contact."},
        {"criterion": "The doctor asks what the patient thinks of the plan."},
        {"criterion": "The doctor asks for signs of acute pericarditis.", "axis": "data gathering"},
        {"criterion": "The doctor names acute pericarditis.", "axis": "reasoning"},
        {"criterion": "The doctor asks whether pain spreads.", "axis": "data gathering"},
        {"criterion": "The doctor thanks the patient.", "axis": "comunication"},
        {"criterion": "The doctor wrongly says that no test is needed.", "points": -3},
    ) == [
        ("c2", "sign"),
        ("c3", "sign"),
        ("c4", "two in one"),
        ("c5", "not observable"),
        ("c7", "gives the answer away"),
        ("c10", "axis"),
        ("c9", "duplicate"),
    ]


def test_the_linter_names_keys_that_no_case_has() -> None:
    unknown = rubric_of({"name": "x", "cases": {"library/none": [{"id": "a", "criterion": "A.", "points": 1}]}}, "x")
    assert [(w.scope, w.fault) for w in lint_rubric(unknown, {})] == [("library/none", "no such case")]
    assert lint_rubric(unknown) == []


def test_a_saved_rubric_has_versions_replaces_a_file_and_outlives_the_database(store: Store) -> None:
    first, second = (rubric({"criterion": "Greets.", "points": points}, name="library") for points in (1, 2))
    for version in (first, second):
        with store.write() as connection:
            save_rubric(connection, version)
    with store.write() as connection, pytest.raises(UsageError, match="saved like this already"):
        save_rubric(connection, second)
    store.path.unlink()
    fold(store)
    assert rubric_named(store, "library") == second
    assert {name: saved for name, (_, saved) in rubric_entries(store).items()} == {"library": True}
    with store.write() as connection:
        assert remove_rubric(connection, "library") == 2
    assert rubric_named(store, "library").title == "Encounters with the cases of this project"
    with pytest.raises(UsageError, match="no rubric 'none': choose one of library"):
        rubric_named(store, "none")
