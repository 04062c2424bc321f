"""The journal: complete, synced lines, also if the process dies or the disk is full."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import orjson
import pytest

from core.errors import AnamnesisError
from core.events import Finished, Started
from core.jobs.plan import header_of
from core.journal import (
    GradesLine,
    JournalWriter,
    RunHeader,
    TrialLine,
    done_trials,
    journal_path,
    read_header,
    read_lines,
)
from tests.core.jobs.workshop import begun, go, plan, raw_trials, registry, spawn
from tests.support.commands import finish
from tests.support.fake_provider import FakeProvider


def header(cases: int = 2) -> RunHeader:
    return header_of(plan(cases), registry(), now=0.0)


def trial(number: int) -> TrialLine:
    started = Started(trial_id=f"t{number}", case_key="small/0", trial=number, seed=1, at=1.0)
    return TrialLine(
        run_id="r",
        trial_id=f"t{number}",
        case_key="small/0",
        trial=number,
        seed=1,
        events=[started, Finished(at=2.0)],
        finished_at=2.0,
    )


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "r" / "journal.jsonl"
    with JournalWriter(path) as writer:
        for line in (header(), trial(1), trial(2), trial(3)):
            writer.append(line)
    return path


def test_what_is_written_is_read_back(journal: Path) -> None:
    lines = list(read_lines(journal))
    assert [type(line) for _, line in lines] == [RunHeader, TrialLine, TrialLine, TrialLine]
    assert lines[0][1] == header()
    assert lines[2][1] == trial(2)
    data = journal.read_bytes()
    assert [offset for offset, _ in lines] == [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    assert [line.trial_id for _, line in read_lines(journal, lines[1][0]) if isinstance(line, TrialLine)] == [
        "t2",
        "t3",
    ]
    assert done_trials(journal) == {"t1", "t2", "t3"}
    assert read_header(journal) == header()


def test_a_line_is_on_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    sync = os.fsync

    def spy(descriptor: int) -> None:
        sync(descriptor)
        synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", spy)
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as writer:
        for number in range(3):
            writer.append(trial(number))
            assert len(synced) == number + 1
            assert synced[-1] == path.read_bytes()
            assert synced[-1].endswith(b"\n")


@pytest.mark.parametrize("torn", [b"{", b'{"type":"trial","run_id":"r"', b"\x00\xff", b"x" * 200_000])
def test_a_torn_last_line_is_dropped_and_its_trial_is_not_done(journal: Path, torn: bytes) -> None:
    whole = journal.read_bytes()
    journal.write_bytes(whole + torn)
    assert done_trials(journal) == {"t1", "t2", "t3"}  # a reader does not change the file
    assert journal.read_bytes() == whole + torn
    with JournalWriter(journal) as writer:
        assert journal.read_bytes() == whole
        writer.append(trial(4))
    assert done_trials(journal) == {"t1", "t2", "t3", "t4"}
    assert journal.read_bytes()[: len(whole)] == whole


def test_a_cut_at_any_byte_costs_the_last_trial_at_most(journal: Path) -> None:
    """Cut at every byte of the last line: earlier trials stay, and writing continues."""
    whole = journal.read_bytes()
    before_last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(before_last, len(whole)):
        journal.write_bytes(whole[:cut])
        with JournalWriter(journal) as writer:
            writer.append(trial(3))
        assert journal.read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [b"not json at all", b'{"type":"trial"}', b'{"type":"nonsense"}', b"", b"\xff\xfe", b"[]", b'{"type":"trial","run'],
)
def test_a_damaged_line_in_the_middle_is_named(journal: Path, damage: bytes) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], damage + b"\n", *lines[3:]]))
    ends_at = len(lines[0]) + len(lines[1]) + len(damage) + 1
    with pytest.raises(AnamnesisError) as caught:
        done_trials(journal)
    sentence = str(caught.value)
    assert sentence.startswith(f"The journal {journal} is damaged in the line that ends at byte {ends_at}: ")
    assert "\n" not in sentence
    before = read_lines(journal)
    assert [type(next(before)[1]) for _ in range(2)] == [RunHeader, TrialLine]  # what comes before is read


@pytest.mark.parametrize("content", [b"", b'{"type":"run"', None])
def test_a_journal_without_its_first_line_is_no_run(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(orjson.dumps(trial(1).model_dump(mode="json")) + b"\n" if content is None else content)
    with pytest.raises(AnamnesisError, match="does not begin with the description of a run"):
        read_header(path)


def test_unknown_fields_of_a_later_version_are_ignored(journal: Path) -> None:
    fields = {**trial(9).model_dump(mode="json"), "later": {"a": 1}}
    with journal.open("ab") as file:
        file.write(orjson.dumps(fields) + b"\n")
    assert "t9" in done_trials(journal)


def test_new_verdicts_are_separate_lines(journal: Path) -> None:
    with JournalWriter(journal) as writer:
        writer.append(GradesLine(run_id="r", trial_id="t1", grades=[]))
    assert done_trials(journal) == {"t1", "t2", "t3"}


def test_a_full_disk_leaves_complete_lines_and_one_message(tmp_path: Path) -> None:
    """The disk takes 40 bytes of a line, then refuses: the line is removed, and later lines are complete."""
    path = tmp_path / "journal.jsonl"
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    with JournalWriter(path) as writer:
        writer.append(trial(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, allowed[1]))
        try:
            with pytest.raises(AnamnesisError) as caught:
                writer.append(trial(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
        writer.append(trial(3))
    sentence = str(caught.value)
    assert sentence.startswith(f"The journal {path} cannot be written (File too large; ")
    assert sentence.endswith(" MB are free there): make room, then resume the run.")
    assert sorted(done_trials(path)) == ["t1", "t3"]


def test_journals_lie_next_to_the_database(db: Path) -> None:
    assert journal_path("run-1") == db.parent / "anamnesis.journals" / "run-1" / "journal.jsonl"


@pytest.mark.slow
def test_resume_says_if_the_database_has_trials_that_the_journal_lacks(
    db: Path, fake_provider_thread: FakeProvider
) -> None:
    """A cut or older journal: the missing trials are played, and paid for, again."""
    fake_provider_thread.script = ["**Final Diagnosis:** Gout"]
    begun_run = begun(plan(6, base_url=fake_provider_thread.base_url))
    run_id, path = begun_run.run_id, journal_path(begun_run.run_id)
    go(begun_run)
    whole = finish(spawn(db, "resume", run_id))
    assert (whole.returncode, "journal lacks" in whole.stderr) == (0, False)
    lines = path.read_bytes().splitlines(keepends=True)
    trials = [number for number, line in enumerate(lines) if b'"type":"trial"' in line]
    path.write_bytes(b"".join(lines[: trials[1] + 1]))
    assert len(raw_trials(run_id)) == 2
    resumed = finish(spawn(db, "resume", run_id))
    assert resumed.returncode == 0, resumed.stderr
    (sentence,) = [line for line in resumed.stderr.splitlines() if "journal lacks" in line]
    assert "4 trials" in sentence
    assert run_id in sentence
    assert "verify" in sentence
    assert len(raw_trials(run_id)) == 6
    assert len(fake_provider_thread.requests) <= 6 + 4
