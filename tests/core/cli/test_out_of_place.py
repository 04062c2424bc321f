"""A read-only database, and one that was moved without its journals: what works and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import paths
from core.cli.app import main
from core.jobs.progress import is_running, under_way
from core.store.database import NotWritableError, Store
from tests.core.jobs.workshop import environment
from tests.support.places import mounted_read_only
from tests.support.stores import NAME, campaign, copy_of

READING = [["runs"], ["report", "accuracy"]]


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy_of(campaign, tmp_path)
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / NAME))
    return tmp_path


@pytest.fixture
def read_only(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("mounted")
    with mounted_read_only(filled, place):
        os.environ["ANAMNESIS_DB"] = str(place / NAME)  # the fixture above puts it back
        yield place


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_read_only_database_can_be_read(
    read_only: Path, command: list[str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(command) == 0
    assert "openai/a" in capsys.readouterr().out
    assert [
        f"The database {read_only / NAME} cannot be written (Read-only file system): its current contents are shown."
    ] == caplog.messages


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["run", "--doctor", "reference/bayes", "--limit", "1", "--trials", "1", "--fresh"],
        ["label", "run-a", "--name", "mine"],
        ["delete", "run-a", "--yes"],
        ["sample"],
    ],
    ids=" ".join,
)
def test_writing_to_a_read_only_database_is_refused(
    read_only: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert str(read_only) in message
    assert "Read-only file system" in message
    assert "can be read" in message
    assert "set ANAMNESIS_DB to" in message.replace("Set", "set")


def test_nothing_runs_on_a_read_only_database_and_writers_are_refused(read_only: Path) -> None:
    assert not is_running("run-a")
    assert under_way() == {}
    with (
        pytest.raises(NotWritableError, match=r"can be read but not written .* set ANAMNESIS_DB to it\.$"),
        Store().write(),
    ):
        pass


@pytest.mark.slow
def test_a_database_without_its_journals_can_be_read_and_names_the_missing_file(
    filled: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    moved = tmp_path_factory.mktemp("moved") / "results.duckdb"
    shutil.copy(filled / NAME, moved)
    monkeypatch.setenv("ANAMNESIS_DB", str(moved))
    for command in READING:
        assert main(command) == 0
    capsys.readouterr()
    where = moved.parent / "results.journals" / "run-a" / "journal.jsonl"
    assert main(["resume", "run-a"]) == 2
    assert capsys.readouterr().err.strip() == (
        f"The journal of run run-a is not here, so it cannot go on: put it back at {where}. "
        "What the database holds of it can be read, reported and exported as before."
    )
    assert main(["delete", "run-a", "--yes"]) == 2
    assert f"is missing: put it back at {where}." in capsys.readouterr().err
    shutil.copytree(filled / "anamnesis.journals", moved.parent / "results.journals", dirs_exist_ok=True)
    assert main(["delete", "run-a", "--yes"]) == 0, "everything works again with the journals"


SURROUNDINGS = {
    "without docstrings and asserts": (["-OO"], {}, "folder"),
    "a locale without UTF-8": ([], {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}, "Fälle/診断"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_cases_are_imported_played_and_reported_in_other_surroundings(tmp_path: Path, name: str) -> None:
    flags, variables, place = SURROUNDINGS[name]
    folder = tmp_path / place
    folder.mkdir(parents=True)
    item = {"question": "A man from Köln has a red toe. What is it?", "options": ["Gout", "Ménière"], "answer": "A"}
    (folder / "é.jsonl").write_text(json.dumps(item, ensure_ascii=False), encoding="utf-8")
    env = environment(folder / "ü.duckdb", **variables)
    said = ""
    for words in (
        ["import", "cases", str(folder / "é.jsonl"), "--name", "toes"],
        ["run", "--doctor", "reference/bayes", "--cases", "toes", "--trials", "1", "--arms", "vignette:mcq"],
        ["report", "accuracy", "--format", "csv"],
    ):
        command = [sys.executable, *flags, "-m", "core", *words]
        child = subprocess.run(command, cwd=paths.ROOT, env=env, capture_output=True, timeout=120, check=False)
        said = child.stdout.decode()
        assert child.returncode == 0, (words, said, child.stderr.decode())
    assert "reference/bayes" in said
