"""The import of a release is all or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.frameworks.craftmd.release import RELEASE
from core.jobs.release.importing import import_release
from core.store.database import Store
from core.store.queries import releases as release
from tests.support import release as files


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "db" / "anamnesis.duckdb"))


def count(table: str) -> int:
    with Store().read() as cursor:
        (rows,) = cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0]
    return int(rows)


def put_in(root: Path) -> None:
    layout = RELEASE.find(root, "release")
    import_release(Store(), layout, layout.models)


def break_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AnamnesisError("the disk is full")

    monkeypatch.setattr(release, "_describe_prompts", fail)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = files.write_release(tmp_path / "release")
    break_at_the_end(monkeypatch)
    with pytest.raises(AnamnesisError, match="the disk is full"):
        put_in(root)
    tables = ("runs", "cases", "run_cases", "trials", "utterances", "answers", "grades", "release_files")
    assert [count(table) for table in tables] == [0] * len(tables)


def test_a_replacement_that_fails_leaves_the_former_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = files.write_release(tmp_path / "release")
    put_in(root)
    before = [count(table) for table in ("trials", "utterances", "answers", "grades")]
    assert before == [20, 100, 160, 240]  # 2 models × 2 cases × 5 trials, with 5 messages, 8 answers, 12 grades each
    files.write_file(root, "gpt3_1106", "case_0", files.a_file("case_0", trial_0=files.a_trial(vignette_mcq=None)))
    break_at_the_end(monkeypatch)
    with pytest.raises(AnamnesisError):
        put_in(root)
    assert [count(table) for table in ("trials", "utterances", "answers", "grades")] == before
