"""Full disks, deleted folders and damaged files: a message says what to do, and nothing is lost."""

from __future__ import annotations

import random
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.errors import AnamnesisError
from core.journal import JournalWriter, ReplyLine, journal_path, read_lines
from core.store.database import Store
from core.store.fold import fold
from core.store.upkeep import verify
from tests.core.jobs.workshop import begun, go, plan, raw_trials, spawn, wait_until
from tests.support.commands import finish
from tests.support.fake_provider import FakeProvider
from tests.support.places import fill_up, mounted
from tests.support.replies import Reply
from tests.support.stores import NAME, campaign, copy_of


@pytest.fixture
def doctor(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = ["**Final Diagnosis:** Gout"]
    return fake_provider_thread


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 16 MB with the database on it; the test is skipped if mounting is not possible."""
    place = tmp_path / "disk"
    place.mkdir()
    with mounted(place, 16):
        monkeypatch.setenv("ANAMNESIS_DB", str(place / NAME))
        yield place


def assert_complete(trials: int) -> None:
    """Exactly this number of trials is in the database, and ``verify`` finds nothing wrong."""
    verified = verify(Store())
    assert (verified.trials, verified.findings) == (trials, ())


@pytest.mark.slow
def test_a_run_on_a_full_disk_stops_at_once_and_resumes_with_free_space(doctor: FakeProvider, small_disk: Path) -> None:
    doctor.script = lambda body: Reply("**Final Diagnosis:** Gout", delay_s=len(doctor.requests) % 2 * 0.5)
    header = begun(plan(150, base_url=doctor.base_url))
    ballast = fill_up(small_disk, leave=4_000_000 + 5 * 4_096)
    stopped = go(header, concurrency=None).stopped
    path = journal_path(header.run_id)
    assert stopped == (
        f"The journal {path} cannot be written (No space left on device; 0.0 MB are free there): make room, then "
        "resume the run."
    )
    fill_up(small_disk)
    with pytest.raises(AnamnesisError, match=r"make room, then try again"):
        go(header)
    stored_trials = raw_trials(header.run_id)
    paid = len(doctor.requests)
    assert paid < 80, "no request after the first reply that did not fit"
    ballast.unlink()
    doctor.script = ["**Final Diagnosis:** Gout"]
    assert go(header).progress.done == 150
    after = raw_trials(header.run_id)
    assert {trial: after[trial] for trial in stored_trials} == stored_trials
    assert len(doctor.requests) == 150, "replies in flight were stored too, and nothing was paid for twice"
    assert_complete(150)


def test_a_database_on_a_full_disk_stays_readable_and_folds_later(
    small_disk: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    store = copy_of(campaign, small_disk)
    shutil.copytree(store.journals / "run-a", store.journals / "run-c")
    journal = store.journals / "run-c" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"run-a", b"run-c"))
    ballast = fill_up(small_disk)
    assert main(["runs"]) == 0
    assert "openai/a" in capsys.readouterr().out
    message = f"The database {store.path} cannot be written (No space left on device): its current contents are shown."
    assert message in caplog.messages
    assert main(["label", "run-a", "--name", "mine"]) == 1
    assert "make room" in capsys.readouterr().err
    with pytest.raises(AnamnesisError, match=r"No space left on device.* make room"), store.write() as connection:
        connection.execute("CREATE TABLE much AS SELECT range AS n, uuid() AS text FROM range(200_000)")
    assert main(["backup", "--out", str(small_disk / "kept.tar.gz")]) == 1
    assert "make room" in capsys.readouterr().err
    ballast.unlink()
    assert_complete(36)
    assert sorted(path.name for path in small_disk.iterdir()) == ["anamnesis.duckdb", "anamnesis.journals"]


def test_a_deleted_journal_is_restored_and_the_run_stops(doctor: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    header = begun(plan(12, base_url=doctor.base_url))
    path, append_all, count = journal_path(header.run_id), JournalWriter.append_all, 0

    def deleting(self: JournalWriter, lines: object) -> str:
        nonlocal count
        if (count := count + 1) == 5:
            shutil.rmtree(path.parent.parent)
        return append_all(self, lines)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(JournalWriter, "append_all", deleting)
        stopped = go(header).stopped
        assert stopped is not None
        assert "was deleted while the run went on. It is restored completely" in stopped
    requests = len(doctor.requests)
    assert go(header).progress.done == 12
    assert len(doctor.requests) == 12
    assert requests == 3
    assert_complete(12)


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_a_damaged_database_is_reported_and_rebuilt_from_the_journals(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(campaign, tmp_path / "here")
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    data, rng = bytearray(store.path.read_bytes()), random.Random(seed)
    for _ in range(4**seed):
        data[rng.randrange(len(data))] ^= 1 + rng.randrange(255)
    store.path.write_bytes(data[: len(data) // 2] if seed == 0 else data)
    assert main(["verify"]) == 1
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"The database {store.path} is damaged (")
    assert "move it elsewhere" in message
    store.path.rename(tmp_path / "damaged")
    assert main(["verify"]) == 0
    assert capsys.readouterr().out.startswith("Everything is stored exactly once: 2 journals, 24 trials")


def test_a_run_with_a_limited_file_size_loses_calls_in_flight_only(doctor: FakeProvider, db: Path) -> None:
    """The process may not write larger files: the space reserved on the disk does not help."""
    in_flight, limited = 4, threading.Event()

    def held(body: dict[str, Any]) -> Reply:
        number = len(doctor.requests)
        return Reply("**Final Diagnosis:** Gout", delay_s=0.02, until=lambda: number < 10 or limited.is_set())

    doctor.script = held
    header = begun(plan(60, base_url=doctor.base_url))
    path = journal_path(header.run_id)
    child = spawn(db, "resume", header.run_id, "--concurrency", str(in_flight))
    wait_until(lambda: len(doctor.requests) >= 12)
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 500, resource.RLIM_INFINITY))
    limited.set()
    ended = finish(child)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    (sentence,) = [line for line in ended.stderr.splitlines() if "cannot be written" in line]
    assert f"The journal {path}" in sentence
    assert "File too large" in sentence
    assert "MB are free there" in sentence
    replies = [line for _, line in read_lines(path) if isinstance(line, ReplyLine)]
    paid = len(doctor.requests)
    assert paid < 60
    assert paid - len(replies) <= in_flight, "only calls in flight are paid and not stored"
    doctor.script = ["**Final Diagnosis:** Gout"]
    assert go(header).progress.done == 60
    assert len(doctor.requests) - 60 == paid - len(replies)
    assert_complete(60)


@pytest.mark.slow
@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    "free", [4_096, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 100_000, 300_000, 700_000, 1_500_000))]
)
def test_a_fold_on_a_full_disk_leaves_a_readable_database_and_is_repeated_later(small_disk: Path, free: int) -> None:
    """Space for some blocks of the database but not all: the file stays readable at each amount."""
    store = copy_of(campaign, small_disk)
    journal = (store.journals / "run-a" / "journal.jsonl").read_bytes()
    for number in range(24):
        (folder := store.journals / f"copy-{number}").mkdir()
        (folder / "journal.jsonl").write_bytes(journal.replace(b"run-a", f"copy-{number}".encode()))
    ballast = fill_up(small_disk, leave=free)
    with suppress(AnamnesisError):
        fold(store)
    with store.read() as cursor:
        trials = cursor.execute("SELECT count(*) FROM trials").fetchall()[0][0]
    assert 24 <= trials <= 24 + 24 * 12
    ballast.unlink()
    fold(store)
    assert_complete(24 + 24 * 12)
