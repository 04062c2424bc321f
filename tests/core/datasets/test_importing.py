"""Imports: the record of an import, errors that stop it, and deleting a data set."""

from __future__ import annotations

import bz2
import datetime
import errno
import gzip
import lzma
import shutil
import tarfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openpyxl
import orjson
import pytest

from core.datasets import imported, importing
from core.datasets.importing import import_file, name_of, preview_of
from core.datasets.library import library
from core.datasets.licences import texts_may_leave
from core.datasets.lint import nearest_earlier
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.files import FileRows
from core.errors import AnamnesisError, UsageError

FILES = Path(__file__).parent / "files"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "store" / "test.duckdb"))


def test_the_record_of_an_import_is_stored(tmp_path: Path) -> None:
    began = time.time()
    done = import_file(FILES / "medmcqa.json", published=True)
    info = imported.info("medmcqa")

    assert info is not None
    assert (info.name, info.format, info.title, info.file_name) == ("medmcqa", "medmcqa", "MedMCQA", "medmcqa.json")
    assert (info.cases, info.rejected_count, info.left_out_count, info.licence) == (3, 0, 1, "Apache-2.0")
    assert info.left_out == {"it is a question of several right options (choice_type multi)": 1}
    assert info.remarks == ((0, "cop counts the options from 1, as a 4 shows"),)
    assert (info.findings, info.severe_findings) == (len(done.findings), 0)
    assert began - 1 <= info.imported_at <= time.time()
    assert imported.load("medmcqa") == done.reading.cases


def test_a_data_set_imported_again_says_how_many_cases_changed(tmp_path: Path) -> None:
    head = "id,vignette,choice_1,choice_2,answer"
    rows = ["1,A man coughs.,Flu,Gout,Flu", "2,A woman limps.,Flu,Gout,Gout", "3,A boy sneezes.,Flu,Gout,Flu"]
    again = [rows[0], rows[1].replace("limps", "has a red toe"), rows[2].replace("Gout", "Cold"), "4,New.,Flu,Gout,Flu"]
    columns = {"id": "id", "vignette": "vignette", "options": "choice_1+choice_2", "answer": "answer"}

    def read(lines: list[str]) -> str:
        file = tmp_path / "mine.csv"
        file.write_text("\n".join([head, *lines]), encoding="utf-8")
        return import_file(file, columns=columns, replace=True).replaced

    assert read(rows) == ""
    assert read(rows) == ""
    assert "one of 3 cases: 2 changed, 1 new, 0 removed" in read(again)
    assert "one of 4 cases: 2 changed, 0 new, 1 removed" in read(rows)


HEADER = ["Story", "query", "a", "b", "label", "seen"]
ROWS = [
    ["A man of 40 coughs.\nHe is hot.", "What is it?", "Flu", "Gout", "A", datetime.date(2024, 5, 1)],
    [None] * 6,
    ["A woman of 30 has pain.", "Which number?", 2, 7.5, "B", None],
]
COLUMNS = {"vignette": "Story", "question": "query", "options": "a+b", "answer": "label"}


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    book.save(path)
    return path


def test_the_only_filled_sheet_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "Mine 1.xlsx", {"Empty": [], "Cases": [HEADER, *ROWS], "Notes": [["", " "]]})
    assert FileRows(path).columns == tuple(HEADER)
    assert [number for number, _ in FileRows(path)] == [2, 4], "the row numbers of the spreadsheet"
    done = import_file(path, columns=COLUMNS)
    assert (done.dataset, done.reading.unit) == ("mine-1", "row")
    first, second = done.reading.cases
    assert (first.vignette, first.answer) == ("A man of 40 coughs.\nHe is hot.", "Flu")
    assert (second.choices, second.answer) == (("2", "7.5"), "7.5")


def test_an_invalid_row_of_a_spreadsheet_is_reported_by_its_number(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", {"Cases": [HEADER, *ROWS, ["Ill.", "Why?", "x", "y", "C", None]]})
    with pytest.raises(AnamnesisError, match=r"^a\.xlsx, sheet [^,]+, row 5: .*Nothing was imported"):
        import_file(path, columns=COLUMNS)


def test_a_spreadsheet_without_exactly_one_table_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, list[list[object]]], str]] = [
        ({"A": [HEADER, *ROWS], "B": [HEADER, *ROWS]}, r"^a\.xlsx has 2 sheets with contents \(A, B\)"),
        ({"A": []}, r"^a\.xlsx has no sheet with contents\.$"),
        ({"A": [["x", "y", "x"], [1, 2, 3]]}, r"^a\.xlsx, sheet A, row 1: the column x occurs twice\.$"),
        ({"A": [list(range(2_000)), [1] * 2_000]}, r"^a\.xlsx has more columns than are read: .* 1,000 columns, "),
    ]
    for sheets, sentence in table:
        with subtests.test(sheets=sheets, sentence=sentence), pytest.raises(AnamnesisError, match=sentence):
            import_file(workbook(tmp_path / "a.xlsx", sheets))


def changed_sheet(path: Path, old: bytes, new: bytes) -> Path:
    """Return a copy of a workbook with other bytes in its sheet."""
    copy = path.with_name(f"changed-{path.name}")
    with zipfile.ZipFile(path) as packed, zipfile.ZipFile(copy, "w") as other:
        for name in packed.namelist():
            part = packed.read(name)
            assert name != "xl/worksheets/sheet1.xml" or old in part
            other.writestr(name, part.replace(old, new) if name == "xl/worksheets/sheet1.xml" else part)
    return copy


def test_rows_and_cells_outside_the_stated_size_of_a_sheet_are_read(tmp_path: Path) -> None:
    whole = workbook(tmp_path / "a.xlsx", {"A": [HEADER, *ROWS]})
    expected = [row for row in FileRows(whole) if row[1]]
    assert len(expected) == 2
    for size in (b"A1:B2", b"A1", b"A1:Z900"):
        assert list(FileRows(changed_sheet(whole, b'ref="A1:F4"', b'ref="' + size + b'"'))) == expected
    assert list(FileRows(changed_sheet(whole, b'<dimension ref="A1:F4" />', b""))) == expected


def test_a_row_with_an_impossible_number_is_soon_refused(tmp_path: Path) -> None:
    whole = workbook(tmp_path / "a.xlsx", {"A": [HEADER, *ROWS]})
    began = time.process_time()
    with pytest.raises(AnamnesisError, match=r"^changed-a\.xlsx cannot be read as a spreadsheet \(.* 1,048,576\)"):
        list(FileRows(changed_sheet(whole, b'<row r="4"', b'<row r="2000000000"')))
    assert time.process_time() - began < 20


def test_a_damaged_spreadsheet_is_reported(tmp_path: Path) -> None:
    whole = workbook(tmp_path / "a.xlsx", {"A": [HEADER, *ROWS]})
    broken = tmp_path / "b.xlsx"
    with zipfile.ZipFile(whole) as packed, zipfile.ZipFile(broken, "w") as other:
        for name in packed.namelist():
            other.writestr(name, packed.read(name)[:-20])
    with pytest.raises(AnamnesisError, match=r"^b\.xlsx cannot be read as a spreadsheet \("):
        import_file(broken)


def test_a_compressed_file_is_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for packer in [gzip, bz2, lzma]:
        with subtests.test(packer=packer):
            ending = {gzip: "gz", bz2: "bz2", lzma: "xz"}[packer]
            path = tmp_path / f"medqa.jsonl.{ending}"
            path.write_bytes(packer.compress((FILES / "medqa.jsonl").read_bytes()))
            done = import_file(path)
            assert done.dataset == "medqa"
            assert [case.vignette for case in done.reading.cases] == [
                case.vignette for case in import_file(FILES / "medqa.jsonl", name="plainly").reading.cases
            ]
            path.write_bytes(path.read_bytes()[:-30])
            with pytest.raises(AnamnesisError, match=rf"^medqa\.jsonl\.{ending} cannot be unpacked \("):
                import_file(path)


def test_a_tar_with_one_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cases.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(FILES / "medqa.jsonl", "folder/medqa.jsonl")
    assert import_file(path).dataset == "cases"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(FILES / "medqa.jsonl", "a.jsonl")
        packed.add(FILES / "medqa.jsonl", "b.jsonl")
    with pytest.raises(UsageError, match=r"^cases\.tar\.gz holds 2 lists of cases \(a\.jsonl, b\.jsonl\)"):
        import_file(path)


def test_too_large_files_are_refused_before_they_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.datasets.importing.MAX_BYTES", 1_000_000)
    monkeypatch.setattr("core.datasets.readers.files.MAX_BYTES", 1_000_000)
    monkeypatch.setattr("core.datasets.readers.files.MAX_ROWS", 20)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"question,answer\n" + b"x,y\n" * 400_000))
    with pytest.raises(AnamnesisError, match=r"^a\.csv\.gz unpacks to more than 1 MB: nothing was imported"):
        import_file(tmp_path / "a.csv.gz")
    (tmp_path / "b.csv").write_bytes(b"vignette,answer\n" + b"x,y\n" * 300_000)
    with pytest.raises(AnamnesisError, match=r"^b\.csv has 1 MB: a list of cases has at most"):
        import_file(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_bytes(b"vignette,answer\n" + b"x,y\n" * 21)
    with pytest.raises(AnamnesisError, match=r"^c\.csv has more rows than are read"):
        import_file(tmp_path / "c.csv")
    (tmp_path / "d.csv").write_bytes(b",".join(b"c%d" % n for n in range(2_000)) + b"\n")
    with pytest.raises(AnamnesisError, match=r"^d\.csv has more columns than are read"):
        import_file(tmp_path / "d.csv")


def test_invalid_rows_stop_an_import_or_are_recorded_with_their_reasons(tmp_path: Path) -> None:
    path = tmp_path / "My File.jsonl"
    odd = '{"question": "Ill?", "options": {"A": "a", "B": "b"}, "answer_idx": "C"}\n'
    path.write_text((FILES / "medqa.jsonl").read_text() + odd * 1200)

    with pytest.raises(AnamnesisError, match=r"line 3: .* \(1,199 more rows cannot be used\)\. Nothing was imported"):
        import_file(path)
    assert imported.names() == []

    import_file(path, skip_bad=True, source="by hand", licence="ours")
    info = imported.info("my-file")
    assert info is not None
    assert (info.cases, info.rejected_count, len(info.rejected)) == (2, 1200, imported.MAX_STORED_REASONS)
    assert info.rejected[0] == (3, "answer_idx 'C' is none of the options A to B")
    assert (info.source, info.licence) == ("by hand", "ours")
    assert {(case.source, case.licence) for case in imported.load("my-file")} == {("by hand", "ours")}


def test_a_file_without_a_usable_case_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mmlu.jsonl"
    path.write_text((FILES / "mmlu_pro.jsonl").read_text().splitlines()[1])

    with pytest.raises(
        AnamnesisError, match=r"holds no case: 1 rows are left out by the format \(line 1: the category"
    ):
        import_file(path)
    with pytest.raises(UsageError, match="cannot be called 'library'"):
        import_file(FILES / "medqa.jsonl", "library")
    assert imported.names() == []


def test_saving_without_a_record_deletes_the_old_record() -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    imported.save("mine", list(library()[:1]))

    assert imported.info("mine") is None
    assert [path.name for path in imported.folder().iterdir()] == ["mine.jsonl"]


def test_simultaneous_imports_of_one_name_leave_a_complete_data_set(tmp_path: Path) -> None:
    files = [tmp_path / f"file{count}.jsonl" for count in (20, 40, 60, 80)]
    for count, path in zip((20, 40, 60, 80), files, strict=True):
        path.write_text("".join(f'{{"vignette": "Man {n} is ill.", "answer": "Gout"}}\n' for n in range(count)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: import_file(path, "same", "plain", replace=True), files * 3))

    info = imported.info("same")
    assert info is not None
    assert info.cases == len(imported.load("same"))
    assert sorted(path.name for path in imported.folder().iterdir()) == ["same.info.json", "same.jsonl"]


def test_a_failed_write_keeps_the_old_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    before = imported.load("mine")

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("core.datasets.imported.os.replace", full)
    with pytest.raises(AnamnesisError, match=r"data set mine cannot be saved in .*: No space left on device\."):
        import_file(FILES / "medmcqa.json", "mine", replace=True)
    assert imported.load("mine") == before


def test_a_damaged_record_is_named() -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    (imported.folder() / "mine.info.json").write_text("{")

    with pytest.raises(AnamnesisError, match=r"mine\.info\.json is damaged: import the data set mine again"):
        imported.info("mine")


def test_an_imported_data_set_can_be_deleted_and_the_library_cannot() -> None:
    import_file(FILES / "medqa.jsonl", "mine")

    assert imported.delete("mine") == (2, 0)
    assert list(imported.folder().iterdir()) == []
    with pytest.raises(UsageError, match="no imported data set 'mine'"):
        imported.delete("mine")
    with pytest.raises(UsageError, match="cannot be deleted"):
        imported.delete("library")


def test_a_data_set_is_called_like_its_file() -> None:
    wrong = [
        (file, got)
        for file, name in [
            ("Some File (1).csv", "some-file--1"),
            ("usmle_and_derm_dataset.csv", "craftmd"),
            ("äö.csv", "cases"),
        ]
        if (got := name_of(Path(file))) != name
    ]
    assert wrong == []


def test_near_duplicates_are_found_with_the_nearest_earlier_text() -> None:
    words = [f"word{n:03}" for n in range(100)]
    base = " ".join(words)
    near = " ".join([*words[:-2], "other1", "other2"])
    nearer = " ".join([*words[:-1], "other1"])
    far = " ".join([*words[:60], *(f"else{n:03}" for n in range(40))])

    assert nearest_earlier([base, far, near, nearer, base], 95) == [(2, 0), (3, 0), (4, 0)]
    assert nearest_earlier([far, near, nearer], 95) == [(2, 1)]
    assert nearest_earlier([], 95) == []


def test_thousands_of_similar_texts_are_compared_in_seconds() -> None:
    texts = [f"A {n}-year-old man has had pain number {n}." for n in range(3000)]
    began = time.process_time()

    assert len(nearest_earlier(texts, 95)) > 2900
    assert time.process_time() - began < 10


def test_duplicate_cases_are_reported(tmp_path: Path) -> None:
    shutil.copy(FILES / "medqa.jsonl", tmp_path / "twice.jsonl")
    with (tmp_path / "twice.jsonl").open("a") as file:
        file.write((FILES / "medqa.jsonl").read_text())

    done = import_file(tmp_path / "twice.jsonl")

    assert [(f.case_key, f.fault) for f in done.findings] == [("twice/3", "duplicate"), ("twice/4", "duplicate")]


def test_an_import_stopped_after_reading_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    linted: list[int] = []
    monkeypatch.setattr(importing, "lint", lambda cases: linted.append(len(cases)) or [])
    with pytest.raises(AnamnesisError, match=r"^medmcqa\.json was read and not imported, as you asked\.$"):
        import_file(FILES / "medmcqa.json", skip_bad=True, should_stop=lambda: bool(linted))
    assert imported.names() == []


def a_consultation(complaint: str) -> dict[str, object]:
    """Return a record in the layout of a published set, about a patient of one's own."""
    actor = {"Demographics": "52-year-old male", "History": f"He has had {complaint} since Monday."}
    parts = {"Patient_Actor": actor, "Physical_Examination_Findings": {}, "Test_Results": {}}
    return {"OSCE_Examination": {**parts, "Correct_Diagnosis": "Gout"}}


def test_the_shape_of_a_published_set_gives_no_licence(tmp_path: Path) -> None:
    path = tmp_path / "ward.jsonl"
    path.write_bytes(orjson.dumps(a_consultation("a sore toe")) + b"\n" + orjson.dumps(a_consultation("a red knee")))
    table: list[tuple[dict[str, object], tuple[str, str, bool]]] = [
        ({}, ("", "", False)),
        ({"format": "agentclinic"}, ("", "", False)),
        ({"licence": "CC0"}, ("", "CC0", True)),
        ({"published": True}, (FORMATS["agentclinic"].source, "MIT", True)),
        ({"published": True, "licence": "ours"}, (FORMATS["agentclinic"].source, "ours", False)),
    ]
    wrong = []
    for number, (stated, expected) in enumerate(table):
        import_file(path, f"ward{number}", **stated)  # type: ignore[arg-type]
        case, info = imported.load(f"ward{number}")[0], imported.info(f"ward{number}")
        assert info is not None
        assert (info.source, info.licence) == (case.source, case.licence)
        if (got := (case.source, case.licence, texts_may_leave(case))) != expected:
            wrong.append((stated, got))
    assert wrong == []
    plain = tmp_path / "own.csv"
    plain.write_text("vignette,answer\nA man of 40 coughs.,Flu\n", encoding="utf-8")
    with pytest.raises(UsageError, match="Plain"):
        import_file(plain, published=True)


def test_other_cases_of_the_same_name_are_only_replaced_on_request(tmp_path: Path) -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    before = imported.load("mine")
    import_file(FILES / "medqa.jsonl", "mine")
    with pytest.raises(UsageError, match="mine"):
        import_file(FILES / "medmcqa.json", "mine")
    assert imported.load("mine") == before
    with importing.list_in(FILES / "medmcqa.json") as file:
        preview = preview_of(read_cases(file, "mine"), "medmcqa.json", "mine")
    assert (preview.understood["Cases"], preview.replaces, imported.load("mine")) == ("3", True, before)
    assert {heading: len(rows) for heading, rows in preview.rows.items()} == {
        "Rejected": 0, "Left out": 1, "Remarks": 1,
    }  # fmt: skip
    import_file(FILES / "medmcqa.json", "mine", replace=True)
    assert len(imported.load("mine")) == 3


def test_the_licence_that_is_given_is_part_of_what_would_be_replaced(tmp_path: Path) -> None:
    (path := tmp_path / "own.csv").write_text("vignette,answer\nA man of 40 coughs.,Flu\n", encoding="utf-8")
    import_file(path, "own", source="A clinic", licence="CC BY 4.0")
    reading = read_cases(path, "own")
    given = [("A clinic", " CC BY 4.0 "), ("A clinic", "CC BY 4.0"), ("A clinic", ""), ("", ""), ("Elsewhere", "MIT")]
    replaces = [importing.would_replace("own", importing.credited(reading, *credit)) for credit in given]
    assert replaces == [False, False, True, True, True]
    reading.cases = importing.credited(reading, "A clinic", "CC BY 4.0")
    assert not preview_of(reading, path.name, "own").replaces
    assert not importing.would_replace("another", reading.cases)
