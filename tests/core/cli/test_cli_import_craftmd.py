"""``import craftmd`` from the command line: output, exit status, and that no partial import remains."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets.select import select
from core.store.database import Store
from tests.core.datasets.test_download import serving
from tests.support.release import a_file, a_row, a_trial, write_cases, write_file, write_release


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "craft-md-main")


def trials() -> int:
    with Store().read() as cursor:
        (count,) = cursor.execute("SELECT count(*) FROM trials").fetchall()[0]
    return int(count)


def packed(folder: Path, kind: str) -> Path:
    return Path(shutil.make_archive(str(folder), kind, folder.parent, folder.name))


def test_importing_a_folder(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "craftmd", str(release)]) == 0
    output = capsys.readouterr().out
    assert "gpt_3_5 (results/gpt3_1106): 2 files new; 10 trials came in." in output
    assert "mistral_v1_7b (results/mistral-v1): 2 files new; 10 trials came in." in output
    assert "data set craftmd" in output
    assert trials() == 20
    assert [case.case_key for case in select("craftmd")] == ["craftmd/case_0", "craftmd/case_1"]
    assert main(["import", "craftmd", str(release)]) == 0
    assert "gpt_3_5 (results/gpt3_1106): 2 as they were." in capsys.readouterr().out
    assert main(["report", "accuracy"]) == 0
    assert "gpt_3_5" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "tar", "gztar", "xztar", "bztar"])
def test_importing_an_archive_equals_importing_its_folder(
    release: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "craftmd", str(packed(release, kind)), "--models", "gpt_3_5"]) == 0
    assert trials() == 10
    assert main(["import", "craftmd", str(release)]) == 0  # the folder has the same files
    assert "gpt_3_5 (results/gpt3_1106): 2 as they were." in capsys.readouterr().out


def test_importing_from_an_address(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(packed(release, "xztar").read_bytes()) as url:
        assert main(["import", "craftmd", url]) == 0
    assert trials() == 20


def test_quarantined_files_and_rows_are_reported(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(release, "gpt3_1106", "case_0", b'{"case_id": "case_0", "trial_0": {"vignette')
    lacking = a_file("case_1", trial_0=a_trial(vignette_mcq=["Scabies", 0.1]), trial_3=None)
    write_file(release, "gpt3_1106", "case_1", lacking)
    write_cases(release, [a_row("case_0"), a_row("case_1"), a_row("case_2", category="Wizardry")])
    assert main(["import", "craftmd", str(release)]) == 0
    output = capsys.readouterr().out
    assert "Set aside, nothing of them was taken (1 files):" in output
    assert "results/gpt3_1106/case_0.json: it is not whole JSON" in output
    assert "8 answers do not count: trial_3 is missing in the release." in output
    assert "1 answers do not count: the release holds a list [text, cost] in place of a response." in output
    assert "line 4, was left out: the category 'Wizardry' is none of the specialties." in output
    assert trials() == 15


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["{tmp}/nothing"], 2, "There is no file or folder"),
        (["{tmp}/empty"], 1, "name a copy of the CRAFT-MD authors' repository"),
        (["{tmp}/words.zip"], 1, "neither a folder nor a .zip or .tar archive"),
        (["{tmp}/slip.tar"], 1, "holds a path outside itself ('../../evil')"),
        (["{tmp}/huge.tar"], 1, "declares more than 4 GB"),
        (["{tmp}/craft-md-main", "--models", "gpt_9"], 2, "There is no model 'gpt_9'"),
        (["{tmp}/craft-md-main", "--max-gb", "0"], 2, "--max-gb"),
        (["ftp://example.org/x"], 2, "must begin with https://"),
    ],
)
def test_errors_are_one_sentence(
    release: Path, tmp_path: Path, arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "words.zip").write_text("no archive")
    slip, huge = tarfile.TarInfo("../../evil"), tarfile.TarInfo("results/m/case_0.json")
    with tarfile.open(tmp_path / "slip.tar", "w") as archive:
        archive.addfile(slip, io.BytesIO())
    huge.size = 10_000_000_000
    (tmp_path / "huge.tar").write_bytes(huge.tobuf() + b"\0" * 4096)
    assert main(["import", "craftmd", *(a.format(tmp=tmp_path) for a in arguments)]) == status
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert trials() == 0


def test_a_wrong_header_imports_nothing(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(release, [a_row("case_0")], columns=("case_vignette", "answer", "case_id"))
    assert main(["import", "craftmd", str(release)]) == 1
    assert "usmle_and_derm_dataset.csv, line 1: the columns choice_1" in capsys.readouterr().err
    assert trials() == 0
