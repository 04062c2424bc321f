"""Disks that are full, folders that vanish, files that are damaged: a sentence that says what to do, nothing lost."""

from __future__ import annotations

import random
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core import access
from core.cli.app import main
from core.errors import AnamnesisError
from core.journal import JournalWriter, ReplyLine, journal_path, read_lines
from core.store.database import Store
from core.store.fold import fold
from core.store.upkeep import verify
from tests.core.jobs.workshop import PRICED, begun, go, plan, raw_trials, spawn, wait_until
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
    """A disk of 16 MB with the database on it; the test is skipped where none can be made."""
    place = tmp_path / "disk"
    place.mkdir()
    with mounted(place, 16):
        monkeypatch.setenv("ANAMNESIS_DB", str(place / NAME))
        yield place


def whole(trials: int) -> None:
    """All of so many trials are in the database, and nothing is amiss."""
    found = verify(Store())
    assert (found.trials, found.findings) == (trials, ())


def test_a_run_on_a_full_disk_stops_at_once_and_goes_on_where_there_is_room(
    doctor: FakeProvider, small_disk: Path
) -> None:
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
    kept = raw_trials(header.run_id)
    paid = len(doctor.requests)
    assert paid < 80, "nobody is asked any more once a reply found no room"
    ballast.unlink()
    doctor.script = ["**Final Diagnosis:** Gout"]
    assert go(header).progress.done == 150
    after = raw_trials(header.run_id)
    assert {trial: after[trial] for trial in kept} == kept
    assert len(doctor.requests) == 150, "also what was in the air found room, and nothing was paid for twice"
    whole(150)


def test_a_database_without_room_is_left_as_it_is_and_the_journals_come_in_later(
    small_disk: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    store = copy_of(campaign, small_disk)
    shutil.copytree(store.journals / "run-a", store.journals / "run-c")
    journal = store.journals / "run-c" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"run-a", b"run-c"))
    ballast = fill_up(small_disk)
    assert main(["runs"]) == 0
    assert "openai/a" in capsys.readouterr().out
    said = f"The database {store.path} cannot be written (No space left on device): what it holds is shown."
    assert said in caplog.messages
    assert main(["label", "run-a", "--name", "mine"]) == 1
    assert "make room" in capsys.readouterr().err
    with pytest.raises(AnamnesisError, match=r"No space left on device.* make room"), store.write() as connection:
        connection.execute("CREATE TABLE much AS SELECT range AS n, uuid() AS text FROM range(200_000)")
    assert main(["backup", "--out", str(small_disk / "kept.tar.gz")]) == 1
    assert "make room" in capsys.readouterr().err
    ballast.unlink()
    whole(36)
    assert sorted(path.name for path in small_disk.iterdir()) == ["anamnesis.duckdb", "anamnesis.journals"]


def test_where_the_journal_was_taken_away_it_is_put_back_and_the_run_stops(
    doctor: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = begun(plan(12, base_url=doctor.base_url))
    path, append_all, count = journal_path(header.run_id), JournalWriter.append_all, 0

    def taken_away(self: JournalWriter, lines: object) -> str:
        nonlocal count
        if (count := count + 1) == 5:
            shutil.rmtree(path.parent.parent)
        return append_all(self, lines)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(JournalWriter, "append_all", taken_away)
        stopped = go(header).stopped
        assert stopped is not None
        assert "was deleted while the run went on. It is restored completely" in stopped
    asked = len(doctor.requests)
    assert go(header).progress.done == 12
    assert len(doctor.requests) == 12
    assert asked == 3
    whole(12)


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_database_says_so_and_is_made_anew_from_the_journals(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(campaign, tmp_path / "here")
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    data, rng = bytearray(store.path.read_bytes()), random.Random(seed)
    for _ in range(4**seed):
        data[rng.randrange(len(data))] ^= 1 + rng.randrange(255)
    store.path.write_bytes(data[: len(data) // 2] if seed == 0 else data)
    assert main(["verify"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"The database {store.path} is damaged (")
    assert "move it elsewhere" in said
    store.path.rename(tmp_path / "damaged")
    assert main(["verify"]) == 0
    assert capsys.readouterr().out.startswith("Everything is stored exactly once: 2 journals, 24 trials")


def test_a_run_whose_journal_may_not_grow_loses_what_is_in_flight_at_most(doctor: FakeProvider, db: Path) -> None:
    """No file of the process may grow beyond a size: the room that was set aside is of no use then."""
    in_flight = 4
    doctor.script = lambda body: Reply("**Final Diagnosis:** Gout", delay_s=0.1)
    header = begun(plan(60, base_url=doctor.base_url))
    path = journal_path(header.run_id)
    child = spawn(db, "resume", header.run_id, "--concurrency", str(in_flight))
    wait_until(lambda: len(doctor.requests) >= 12)
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 500, resource.RLIM_INFINITY))
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
    assert paid - len(replies) <= in_flight, "only what was in flight is paid and not kept"
    doctor.script = ["**Final Diagnosis:** Gout"]
    assert go(header).progress.done == 60
    assert len(doctor.requests) - 60 == paid - len(replies)
    whole(60)


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("free", [0, 4_096, 100_000, 300_000, 700_000, 1_500_000])
def test_a_fold_that_finds_no_room_leaves_a_database_that_opens_and_is_made_good(small_disk: Path, free: int) -> None:
    """Room for some blocks of the database and not for all: at each amount the file stays readable."""
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
    whole(24 + 24 * 12)


def test_a_run_of_somebody_stops_if_the_days_spending_cannot_be_counted(
    doctor: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a call cost is counted after its reply is kept: a full disk stops the run, and no reply is paid twice."""
    priced, disk = tmp_path / "models.toml", tmp_path / "spending"
    priced.write_text(PRICED)
    (tmp_path / "access.toml").write_text('usd_a_day = 100.0\n[people]\n"rita@example.org" = "runner"\n')
    monkeypatch.setenv("ANAMNESIS_ACCESS", str(tmp_path / "access.toml"))
    doctor.script = lambda body: Reply("**Final Diagnosis:** Gout", delay_s=0.05)
    disk.mkdir()
    with mounted(disk, 1), access.acting(access.person("rita@example.org")):
        (tmp_path / "anamnesis.spent").symlink_to(disk)
        header = begun(plan(30, base_url=doctor.base_url), priced)
        ballast = fill_up(disk, leave=0)
        with pytest.raises(AnamnesisError, match=r"spent.*\.jsonl cannot be written \(No space left on device\)"):
            go(header, priced, concurrency=4)
        first = len(doctor.requests)
        assert first <= 4, "no call is made after those in flight"
        ballast.unlink()
        finished = go(header, priced, concurrency=4)
        assert (finished.stopped, finished.progress.done) == (None, 30)
        assert len(doctor.requests) == 30, "what was paid for is not asked for again"
        assert 0.018 * (30 - first) <= access.spent_today() + 1e-9 <= 0.018 * 30 + 1e-6
    whole(30)
