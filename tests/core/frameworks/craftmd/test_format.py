"""The reader of CRAFT-MD's case file: every row is read or rejected by its line and reason."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from pathlib import Path

import pytest

from core.case import RELEASE_SPECIALTIES, SPECIALTIES
from core.datasets.readers import FORMATS, read_cases
from core.datasets.reading import ReadCases
from core.errors import AnamnesisError

COLUMNS = FORMATS["craftmd"].needs

ROW = {
    "case_vignette": "A 30-year-old woman has a rash. What is it?",
    "choice_1": "Scabies",
    "choice_2": "Gout",
    "choice_3": "Lupus",
    "choice_4": "Measles",
    "answer": "Scabies",
    "category": "Dermatology",
    "dataset": "Derm-Public",
    "case_id": "case_1",
}


def write(path: Path, *rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([{**ROW, **row}.get(name, "") for name in columns])
    path = path / "cases.csv"
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def read(path: Path) -> ReadCases:
    return read_cases(path, "craftmd", "craftmd")


def test_a_row_becomes_a_case(tmp_path: Path) -> None:
    reading = read(write(tmp_path, {}))

    assert reading.rejected == []
    case = reading.cases[0]
    assert (case.case_key, case.dataset, case.specialty) == ("craftmd/case_1", "Derm-Public", "Dermatology")
    assert (case.vignette, case.question) == ("A 30-year-old woman has a rash.", "What is it?")
    assert case.choices == ("Scabies", "Gout", "Lupus", "Measles")
    assert (case.answer, case.age, case.sex, case.profile) == ("Scabies", 30, "female", None)


def test_the_order_of_columns_does_not_matter_nor_do_others(tmp_path: Path) -> None:
    path = write(tmp_path, {}, columns=("extra", *reversed(COLUMNS)))

    assert read(path).cases[0].answer == "Scabies"


@pytest.mark.parametrize(("release_name", "specialty"), RELEASE_SPECIALTIES.items())
def test_the_four_names_of_the_release_are_mapped(tmp_path: Path, release_name: str, specialty: str) -> None:
    assert specialty in SPECIALTIES
    assert read(write(tmp_path, {"category": release_name})).cases[0].specialty == specialty


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answer": " "}, "answer is empty"),
        ({"answer": "", "case_vignette": ""}, "case_vignette and answer are empty"),
        ({"case_id": ""}, "case_id is empty"),
        ({"category": "Astrology"}, "'Astrology' is none of the specialties"),
    ],
)
def test_an_unusable_row_is_rejected_by_its_line_and_the_others_are_read(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    reading = read(write(tmp_path, {}, {"case_id": "case_2", **changes}, {"case_id": "case_3"}))

    assert [case.case_key for case in reading.cases] == ["craftmd/case_1", "craftmd/case_3"]
    assert [line for line, _ in reading.rejected] == [3]
    assert reason in reading.rejected[0][1]


def test_lines_are_counted_through_quoted_line_breaks(tmp_path: Path) -> None:
    long = 'A man\nsays "ouch".\n\nWhat is it?'
    path = write(
        tmp_path,
        {"case_vignette": long},
        {"case_id": "case_2", "answer": "", "case_vignette": long},
        {"case_id": "c3"},
        {"case_id": "c4", "category": "?"},
    )

    reading = read(path)

    lines = path.read_text().splitlines()
    assert [line for line, _ in reading.rejected] == [6, 11]
    assert lines[5].startswith('"A man')
    assert "c4" in lines[10]
    assert reading.cases[0].vignette.startswith('A man\nsays "ouch".')
    assert reading.cases[0].question == "What is it?"


def test_a_wrong_number_of_fields_is_rejected_with_both_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, {}, {"case_id": "case_2"})
    path.write_text(path.read_text() + "too,few\n")

    assert read(path).rejected == [(4, "2 fields instead of 9")]


def test_a_repeated_case_id_is_rejected_with_its_first_line(tmp_path: Path) -> None:
    reading = read(write(tmp_path, {}, {"answer": "Gout"}))

    assert [case.answer for case in reading.cases] == ["Scabies"]
    assert reading.rejected == [(3, "the case id case_1 is already used in line 2")]


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path, {})
    path.write_text(path.read_text() + "\n\n")

    reading = read(path)
    assert (len(reading.cases), reading.rejected) == (1, [])


def test_a_missing_column_stops_the_import_and_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, {}, columns=tuple(name for name in COLUMNS if name not in ("answer", "category")))

    with pytest.raises(AnamnesisError, match=r"cases\.csv, line 1: the columns answer, category are missing"):
        read(path)


def test_an_empty_file_has_no_columns(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")

    with pytest.raises(AnamnesisError, match="line 1"):
        read(tmp_path / "empty.csv")


def test_a_file_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, {}, {"case_id": "case_2", "answer": "Sjögren"})
    path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))

    with pytest.raises(AnamnesisError, match=r"line 3: the file is not UTF-8"):
        read(path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, {})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert len(read(path).cases) == 1


def test_an_unclosed_quote_stops_the_import(tmp_path: Path) -> None:
    path = write(tmp_path, {})
    path.write_text(path.read_text() + '"never closed,a,b\n')

    with pytest.raises(AnamnesisError, match="nothing was imported"):
        read(path)


def test_all_rows_of_the_authors_release_are_read() -> None:
    folder = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
    if not folder:
        pytest.skip("set ANAMNESIS_CRAFTMD_RELEASE to the folder of the authors' release (with data/) to run this")

    reading = read(Path(folder) / "data" / "usmle_and_derm_dataset.csv")

    assert reading.rejected == []
    assert len(reading.cases) == 2004
    assert Counter(case.specialty for case in reading.cases)["Dermatology"] == 317
    assert {case.specialty for case in reading.cases} == set(SPECIALTIES)
    assert all(len(case.choices) == 4 for case in reading.cases)
    assert sum(case.age is not None and case.sex is not None for case in reading.cases) >= 0.97 * 2004
