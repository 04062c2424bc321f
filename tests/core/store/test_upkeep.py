"""Verifying the database against its journals, repairing it from them, backup and restore."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from core.cli.app import main
from core.errors import AnamnesisError, UsageError
from core.store import upkeep
from core.store.database import Store
from core.store.upkeep import backup, repair, restore, verify
from tests.core.store.builders import a_trial, write_journal
from tests.support.stores import NAME, campaign, copy_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "here" / NAME))
    return copy_of(campaign, tmp_path / "here")


def journal(store: Store, run: str = "run-a") -> Path:
    return store.journals / run / "journal.jsonl"


def add_trial(store: Store) -> None:
    write_journal(store.journals, "run-a", a_trial(trial_id="run-a/1/9", run_id="run-a", trial=9))


def change(store: Store, sql: str) -> None:
    with store.write() as connection:
        connection.execute(sql)


def rows(store: Store) -> dict[str, int]:
    tables = ("trials", "utterances", "answers", "grades")
    with store.read() as cursor:
        return {table: cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in tables}


def findings(store: Store) -> dict[tuple[str, str], str]:
    return {(finding.kind, finding.where): finding.words for finding in verify(store).findings}


def test_trials_that_only_the_database_lacks_come_back_from_the_journal(store: Store) -> None:
    before = rows(store)
    for table in before:
        change(store, f"DELETE FROM {table} WHERE trial_id IN ('run-a/1/0', 'run-a/2/1')")
    report = verify(store)
    assert {(finding.kind, finding.where): finding.words for finding in report.findings} == {
        ("missing", "run-a"): "holds 2 trials and 0 calls that the database lacks"
    }
    assert repair(store, report) == list(report.findings)
    assert findings(store) == {}
    assert rows(store) == before


def test_wrong_counts_are_reported_and_counted_again(store: Store) -> None:
    change(store, "UPDATE tallies SET n = n + 1 WHERE run_id = 'run-a' AND loose = 'correct'")
    change(store, "DELETE FROM judged WHERE run_id = 'run-b'")
    report = verify(store)
    assert [(finding.kind, finding.where, finding.repairable) for finding in report.findings] == [
        ("miscounted", "tallies", True)
    ]
    assert [finding.kind for finding in repair(store, report)] == ["miscounted"]
    assert not verify(store).findings


def test_a_line_that_a_crash_cut_off_is_dropped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_LOCK_TIMEOUT_S", 0.01)
    intact = journal(store).read_bytes()
    journal(store).write_bytes(intact + b'{"type": "trial", "run_id": "run-a", "tri')
    report = verify(store)
    assert [(finding.kind, finding.where) for finding in report.findings] == [("torn", "run-a")]
    with FileLock(journal(store).with_name("running.lock")):
        repair(store, report)  # repair does not wait for a run that has started: the run drops the line itself
    repair(store, report)
    assert journal(store).read_bytes() == intact
    assert findings(store) == {}


def test_trials_that_no_journal_has_are_reported_and_stay(store: Store) -> None:
    lines = journal(store).read_bytes().splitlines(keepends=True)
    journal(store).write_bytes(b"".join(lines[:-2]))
    shutil.rmtree(journal(store, "run-b").parent)
    assert findings(store) == {
        ("orphaned", "run-a"): "lacks 2 trials that the database has",
        ("orphaned", "run-b"): "has no journal here: its 12 trials cannot be resumed or graded again",
    }
    assert repair(store, verify(store)) == []


def test_what_is_wrong_in_database_journals_and_pictures_is_named(store: Store) -> None:
    report = verify(store)
    assert (report.journals, report.trials, report.findings) == (2, 24, ())
    add_trial(store)
    assert findings(store) == {}
    change(store, "INSERT INTO calls SELECT * FROM calls WHERE call_id = 'c1'")
    change(store, "INSERT INTO utterances SELECT * FROM utterances WHERE trial_id = 'run-b/1/0'")
    doubled = {
        ("doubled", "c1"): "is 2 times in the table calls",
        ("doubled", "run-b/1/0"): "is 2 times in the table utterances",
    }
    assert findings(store) == doubled
    change(store, "DELETE FROM trials WHERE trial_id = 'run-a/1/0'")
    lines = journal(store).read_bytes().splitlines(keepends=True)
    journal(store).write_bytes(lines[0] + b"oops\n" + b"".join(lines[1:]))
    image = [{"sha256": "ab" * 32, "media_type": "image/png", "size": 5, "name": "scan.png"}]
    change(store, f"UPDATE cases SET images = '{json.dumps(image)}' WHERE case_key = 'ours/1'")
    words = findings(store)
    assert words.items() >= doubled.items()
    assert {("orphaned", "utterances"), ("orphaned", "answers"), ("orphaned", "grades")} < words.keys()
    assert words["orphaned", "grades"] == "has rows of 1 trials that do not exist"
    assert f"is damaged in the line that ends at byte {len(lines[0]) + 5}" in words["damaged", "run-a"]
    assert words["picture", "scan.png"].startswith("is gone: ")


def test_a_deleted_run_is_not_missing(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delete", "run-a", "--yes"]) == 0
    assert findings(store) == {}
    assert main(["verify"]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith("Everything is stored exactly once: 2 journals, 12 trials")
    )


def test_a_backup_is_restored_unchanged(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.path.parent / "images").mkdir()
    (store.path.parent / "images" / "a.png").write_bytes(b"picture")
    out = tmp_path / "backup.tar.gz"
    assert backup(store, out) == 4
    before = {run: journal(store, run).read_bytes() for run in ("run-a", "run-b")}
    add_trial(store)
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "there" / "results.duckdb"))
    other = Store()
    assert restore(out, other) == 4
    assert (verify(other).trials, verify(other).findings) == (24, ())
    assert {run: journal(other, run).read_bytes() for run in before} == before
    assert (other.path.parent / "images" / "a.png").read_bytes() == b"picture"
    with other.read() as cursor:
        places = {place for (place,) in cursor.execute("SELECT path FROM journal_positions").fetchall()}
    assert places == {str(journal(other, run).resolve()) for run in before}
    with pytest.raises(UsageError, match="exists already: set ANAMNESIS_DB"):
        restore(out, other)
    with pytest.raises(AnamnesisError, match="exists already"):
        backup(store, out)


@pytest.mark.slow
def test_a_backup_has_the_trials_that_a_run_writes_meanwhile(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_to = Store.copy_to

    def copying(self: Store, target: Path) -> None:
        copy_to(self, target)
        add_trial(self)

    monkeypatch.setattr(Store, "copy_to", copying)
    backup(store, tmp_path / "backup.tar.gz")
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "there" / NAME))
    restore(tmp_path / "backup.tar.gz", Store())
    assert (verify(Store()).trials, verify(Store()).findings) == (25, ())


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _no_archive(path: Path) -> None:
    path.write_bytes(b"not packed at all")


def _changed(path: Path) -> None:
    """Pack the archive again with a journal that does not match its checksum."""
    with tarfile.open(path) as packed, tarfile.open(path.with_suffix(".new"), "w:gz") as other:
        for member in packed:
            source = packed.extractfile(member)
            assert source is not None
            data = source.read()
            where = path.with_name("member")
            where.write_bytes(data.replace(b"run-a", b"run-x") if member.name.endswith("run-a/journal.jsonl") else data)
            other.add(where, member.name)
    path.with_suffix(".new").replace(path)


def _strange(path: Path) -> None:
    with tarfile.open(path, "w:gz") as packed:
        packed.add(__file__, "elsewhere/x.py")


def test_a_damaged_backup_restores_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup(store, tmp_path / "whole.tar.gz")
    table: list[tuple[Callable[[Path], None], str]] = [
        (_cut, "is damaged or incomplete"),
        (_no_archive, "is damaged or incomplete"),
        (_changed, "journals/run-a/journal.jsonl is not as it was"),
        (_strange, "is no backup of Anamnesis: it contains 'elsewhere/x.py'"),
    ]
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "there" / NAME))
    for harm, message in table:
        out = Path(shutil.copy(tmp_path / "whole.tar.gz", tmp_path / "backup.tar.gz"))
        harm(out)
        with pytest.raises(AnamnesisError, match=message):
            restore(out, Store())
        assert not any((tmp_path / "there").iterdir())


@pytest.mark.slow
def test_the_commands_back_up_and_restore(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup"]) == 0
    (out,) = store.path.parent.glob("backup-*.tar.gz")
    assert f"Wrote 3 files to {out}" in capsys.readouterr().out
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "there" / NAME))
    assert main(["restore", str(out)]) == 0
    assert main(["verify"]) == 0
    assert "24 trials" in capsys.readouterr().out


def test_differences_of_database_and_journal_are_reported_and_mended_from_the_journal(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    change(store, "UPDATE answers SET response = 'Gout' WHERE trial_id = 'run-a/1/0'")
    change(store, "UPDATE utterances SET text = 'Hello.' WHERE trial_id = 'run-b/2/1' AND position = 1")
    change(store, "UPDATE answers SET status = 'invalid', reason = 'refused' WHERE trial_id = 'run-b/2/0'")
    before = rows(store)
    report = verify(store)
    assert [
        (finding.kind, finding.where, finding.trials) for finding in report.findings if finding.kind == "different"
    ] == [("different", "run-a", ("run-a/1/0",)), ("different", "run-b", ("run-b/2/0", "run-b/2/1"))]
    assert main(["verify"]) == 1
    assert "--repair" in capsys.readouterr().err
    assert main(["verify", "--repair"]) == 0
    assert verify(store).findings == ()
    assert rows(store) == before
    with store.read() as cursor:
        assert cursor.execute("SELECT count(*) FROM answers WHERE response = 'Gout'").fetchall() == [(0,)]
