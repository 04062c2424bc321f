"""Imports as a whole: what is kept beside the cases, what stops an import, and taking a data set away."""

from __future__ import annotations

import errno
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.datasets import imported
from core.datasets.importing import import_file, name_of
from core.datasets.library import library
from core.datasets.lint import nearest_earlier
from core.errors import AnamnesisError, UsageError

FILES = Path(__file__).parent / "files"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "store" / "test.duckdb"))


def test_the_record_of_an_import_is_kept(tmp_path: Path) -> None:
    began = time.time()
    done = import_file(FILES / "medmcqa.json")
    info = imported.info("medmcqa")

    assert info is not None
    assert (info.name, info.format, info.title, info.file_name) == ("medmcqa", "medmcqa", "MedMCQA", "medmcqa.json")
    assert (info.cases, info.rejected_count, info.left_out_count, info.licence) == (3, 0, 1, "Apache-2.0")
    assert info.left_out == {"it is a question of several right options (choice_type multi)": 1}
    assert info.remarks == ((0, "cop counts the options from 1, as a 4 shows"),)
    assert (info.findings, info.severe_findings) == (len(done.findings), 0)
    assert began - 1 <= info.imported_at <= time.time()
    assert imported.load("medmcqa") == done.reading.cases


def test_rows_that_cannot_be_used_stop_an_import_or_are_kept_with_their_reasons(tmp_path: Path) -> None:
    path = tmp_path / "My File.jsonl"
    odd = '{"question": "Ill?", "options": {"A": "a", "B": "b"}, "answer_idx": "C"}\n'
    path.write_text((FILES / "medqa.jsonl").read_text() + odd * 1200)

    with pytest.raises(AnamnesisError, match=r"line 3: .* \(1,199 more rows cannot be used\)\. Nothing was imported"):
        import_file(path)
    assert imported.names() == []

    import_file(path, skip_bad=True, source="by hand", licence="ours")
    info = imported.info("my-file")
    assert info is not None
    assert (info.cases, info.rejected_count, len(info.rejected)) == (2, 1200, imported.KEPT_REASONS)
    assert info.rejected[0] == (3, "answer_idx 'C' is none of the options A to B")
    assert (info.source, info.licence) == ("by hand", "ours")
    assert {(case.source, case.licence) for case in imported.load("my-file")} == {("by hand", "ours")}


def test_a_file_with_nothing_to_keep_is_no_data_set(tmp_path: Path) -> None:
    path = tmp_path / "mmlu.jsonl"
    path.write_text((FILES / "mmlu_pro.jsonl").read_text().splitlines()[1])

    with pytest.raises(
        AnamnesisError, match=r"holds no case: 1 rows are left out by the format \(line 1: the category"
    ):
        import_file(path)
    with pytest.raises(UsageError, match="cannot be called 'library'"):
        import_file(FILES / "medqa.jsonl", "library")
    assert imported.names() == []


def test_an_import_without_a_record_takes_the_old_record_away() -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    imported.save("mine", list(library()[:1]))

    assert imported.info("mine") is None
    assert [path.name for path in imported.folder().iterdir()] == ["mine.jsonl"]


def test_two_that_write_the_same_data_set_at_once_leave_one_whole(tmp_path: Path) -> None:
    def write(count: int) -> None:
        path = tmp_path / f"file{count}.jsonl"
        path.write_text("".join(f'{{"vignette": "Man {n} is ill.", "answer": "Gout"}}\n' for n in range(count)))
        import_file(path, "same", "plain")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [20, 40, 60, 80] * 3))

    info = imported.info("same")
    assert info is not None
    assert info.cases == len(imported.load("same"))
    assert sorted(path.name for path in imported.folder().iterdir()) == ["same.info.json", "same.jsonl"]


def test_what_cannot_be_written_leaves_the_old_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    before = imported.load("mine")

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("core.datasets.imported.os.replace", full)
    with pytest.raises(AnamnesisError, match=r"data set mine cannot be kept in .*: No space left on device\."):
        import_file(FILES / "medmcqa.json", "mine")
    assert imported.load("mine") == before


def test_a_damaged_record_is_named() -> None:
    import_file(FILES / "medqa.jsonl", "mine")
    (imported.folder() / "mine.info.json").write_text("{")

    with pytest.raises(AnamnesisError, match=r"mine\.info\.json is damaged: import the data set mine again"):
        imported.info("mine")


def test_a_data_set_is_deleted_and_the_library_is_not() -> None:
    import_file(FILES / "medqa.jsonl", "mine")

    assert imported.delete("mine") == (2, 0)
    assert list(imported.folder().iterdir()) == []
    with pytest.raises(UsageError, match="no imported data set 'mine'"):
        imported.delete("mine")
    with pytest.raises(UsageError, match="cannot be deleted"):
        imported.delete("library")


@pytest.mark.parametrize(
    ("file", "name"),
    [("Some File (1).csv", "some-file--1"), ("usmle_and_derm_dataset.csv", "craftmd"), ("äö.csv", "cases")],
)
def test_a_data_set_is_called_like_its_file(file: str, name: str) -> None:
    assert name_of(Path(file)) == name


def test_no_near_duplicate_is_missed_and_the_nearest_is_named() -> None:
    words = [f"word{n:03}" for n in range(100)]
    base = " ".join(words)
    near = " ".join([*words[:-2], "other1", "other2"])
    nearer = " ".join([*words[:-1], "other1"])
    far = " ".join([*words[:60], *(f"else{n:03}" for n in range(40))])

    assert nearest_earlier([base, far, near, nearer, base], 95) == [(2, 0), (3, 0), (4, 0)]
    assert nearest_earlier([far, near, nearer], 95) == [(2, 1)]
    assert nearest_earlier([], 95) == []


def test_thousands_that_are_all_alike_are_compared_in_seconds() -> None:
    texts = [f"A {n}-year-old man has had pain number {n}." for n in range(3000)]
    began = time.perf_counter()

    assert len(nearest_earlier(texts, 95)) > 2900
    assert time.perf_counter() - began < 10


def test_a_file_copied_twice_is_found_out(tmp_path: Path) -> None:
    shutil.copy(FILES / "medqa.jsonl", tmp_path / "twice.jsonl")
    with (tmp_path / "twice.jsonl").open("a") as file:
        file.write((FILES / "medqa.jsonl").read_text())

    done = import_file(tmp_path / "twice.jsonl")

    assert [(f.case_key, f.fault) for f in done.findings] == [("twice/3", "duplicate"), ("twice/4", "duplicate")]
