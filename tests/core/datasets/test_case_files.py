"""Cases as JSON lines: read, saved, found again by name, and chosen."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from core.case import FINAL_QUESTION, Case
from core.datasets import imported
from core.datasets.library import library, read_library
from core.datasets.readers import read_cases
from core.datasets.reading import ReadCases
from core.datasets.select import datasets, select
from core.errors import AnamnesisError, UsageError

ROW = {
    "id": "a1",
    "specialty": "Dermatology",
    "vignette": "A 30-year-old woman has a rash. What is it?",
    "answer": "Scabies",
    "choices": ["Scabies", "Gout"],
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "store" / "test.duckdb"))


def read(path: Path, dataset: str) -> ReadCases:
    return read_cases(path, dataset, "anamnesis")


def write(tmp_path: Path, *lines: dict[str, object] | str) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else orjson.dumps(line) for line in lines))
    return path


def test_a_line_becomes_a_case(tmp_path: Path) -> None:
    reading = read(write(tmp_path, ROW, "", {**ROW, "id": "a2", "question": "Which?", "vignette": "Ill."}), "mine")

    first, second = reading.cases
    assert (first.case_key, first.dataset, first.age, first.sex) == ("mine/a1", "mine", 30, "female")
    assert (first.vignette, first.question) == ("A 30-year-old woman has a rash.", "What is it?")
    assert (second.question, second.age) == ("Which?", None)
    assert reading.rejected == []


def test_without_a_question_the_final_diagnosis_is_asked_for(tmp_path: Path) -> None:
    assert read(write(tmp_path, {**ROW, "vignette": "She is ill."}), "m").cases[0].question == FINAL_QUESTION


def test_a_wrong_line_is_rejected_by_its_number(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, object] | str, str]] = [
        ("{oops", "not JSON"),
        ({**ROW, "specialty": ""}, "specialty: it is empty"),
        ({**ROW, "answer": ""}, "answer"),
        ({**ROW, "colour": "blue"}, "colour"),
        ({"id": "x"}, "vignette"),
        ({"vignette": "x"}, "id"),
        ("[1]", "no record"),
        ({**ROW, "id": "a0"}, "already used in line 1"),
    ]
    for line, reason in table:
        with subtests.test(line=line, reason=reason):
            reading = read(write(tmp_path, {**ROW, "id": "a0"}, line, {**ROW, "id": "a9"}), "m")

            assert [case.case_key for case in reading.cases] == ["m/a0", "m/a9"]
            assert [number for number, _ in reading.rejected] == [2]
            assert reason in reading.rejected[0][1]


def test_a_saved_data_set_can_be_loaded_and_replaced() -> None:
    cases = [case.model_copy(update={"dataset": "mine"}) for case in library()[:3]]

    imported.save("mine", cases)
    assert imported.load("mine") == cases
    imported.save("mine", cases[:1])

    assert imported.load("mine") == cases[:1]
    assert imported.names() == ["mine"]
    assert [path.name for path in imported.folder().iterdir()] == ["mine.jsonl"]


def test_invalid_names_of_data_sets_are_refused(subtests: pytest.Subtests) -> None:
    for name in ["library", "../evil", "a/b", "", "Upper", ".hidden", "x" * 60]:
        with subtests.test(name=name), pytest.raises(UsageError, match="cannot be called"):
            imported.save(name, [])


def test_a_damaged_line_of_a_saved_data_set_is_named() -> None:
    path = imported.save("mine", list(library()[:2]))
    path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(AnamnesisError, match="line 2 is damaged"):
        imported.load("mine")


def test_a_faulty_line_of_the_library_is_named(tmp_path: Path) -> None:
    write(tmp_path, ROW, {**ROW, "id": "a2", "sex": "x"})

    with pytest.raises(AnamnesisError, match=r"cases\.jsonl, line 2: sex"):
        read_library(tmp_path)


# choosing


def ids(cases: list[Case]) -> list[str]:
    return [case.case_key for case in cases]


def test_cases_are_chosen_by_data_set_specialty_and_id() -> None:
    everything = ids(list(library()))
    specialty = select("library:dermatology")

    assert ids(select("library")) == everything
    assert {case.specialty for case in specialty} == {"Dermatology"}
    assert len(specialty) == 5
    assert ids(select("library:dermatology-3, cardiology-1")) == ["library/dermatology-3", "library/cardiology-1"]
    assert ids(select("library", limit=2)) == everything[:2]


def test_unknown_cases_are_refused_with_a_hint(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, int | None, str]] = [
        ("elsewhere", None, "There is no data set 'elsewhere'"),
        ("library:dermatolgy", None, "Dermatology"),
        ("library:dermatology-33", None, "dermatology-3"),
        ("library", 0, "at least 1"),
    ]
    for selection, limit, message in table:
        with subtests.test(selection=selection, limit=limit), pytest.raises(UsageError, match=message):
            select(selection, limit)


def test_imported_data_sets_are_listed_after_the_library() -> None:
    imported.save("mine", list(library()[:1]))

    assert datasets() == ["library", "mine"]
    assert len(select("mine")) == 1
