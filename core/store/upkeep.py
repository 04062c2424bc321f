"""Checks that everything paid for is stored exactly once: compares the database with journals, pictures and data sets.

``repair`` reads from the journals what the database lacks or has differently. ``backup`` writes everything to one file,
also during runs (a journal only grows, and the database follows it), and ``restore`` reads it back.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import duckdb
import orjson
from filelock import FileLock, Timeout

from core import __version__
from core.datasets import imported
from core.datasets.archive import PlainMember, safe_name
from core.errors import AnamnesisError, UsageError
from core.events import Called
from core.images import Image
from core.journal import (
    DeletedLine,
    GradesLine,
    JournalWriter,
    ReplyLine,
    RunDeletedLine,
    RunHeader,
    TrialLine,
    in_use,
    read_lines,
)
from core.store.database import Store
from core.store.fold import fold, skipped_lines
from core.store.former import skipped_kind
from core.store.rows import child_rows, later_answer_rows
from core.store.tables import OF_TRIALS, TABLES, AnswerRow, TableRow, UtteranceRow
from core.store.tallies import miscounted, recount, recount_served
from core.store.written import PEOPLE, carry_over, compare, forget_lines
from core.store.written import journal_contents as read_written

ProblemKind = Literal["missing", "different", "doubled", "orphaned", "torn", "miscounted", "damaged", "picture"]
_BACKED_UP = ("cases", "images", "prompts")
"""Folders next to the database that are backed up; downloaded models are not: they can be downloaded again."""
_DOUBLED = {
    "calls": "SELECT call_id, count(*) FROM calls GROUP BY call_id HAVING count(*) > 1",
    "utterances": """
        SELECT any_value(trial_id), max(n) FROM (
            SELECT trial_id, count(*) AS n FROM utterances GROUP BY trial_id, position HAVING n > 1
        ) GROUP BY trial_id""",
}
_MANIFEST = "manifest.json"
_LOCK_TIMEOUT_S = 1.0
"""Longer than a process takes that locks a run only to see whether it is running."""
_BROKEN_BACKUP = (
    *(tarfile.TarError, zlib.error, EOFError, OSError),
    *(ValueError, LookupError, TypeError, AttributeError),  # of an invalid manifest
)
_SMALL_BACKUP, _RATIO = 200_000_000, 200
"""A backup may unpack to this many bytes, or to this many times its size, whichever is more."""


@dataclass(frozen=True)
class Problem:
    """A problem, and whether ``repair`` can mend it (``repairable``).

    ``missing`` in the database, ``different`` there from the journal, ``doubled`` there, ``orphaned`` (no journal has
    it), a journal's ``torn`` last line, ``miscounted`` (``core.store.tallies``), a ``damaged`` file, or a ``picture``
    whose file is gone. ``trials`` are the ids of trials that differ, ``lines`` those of human entries.
    """

    kind: ProblemKind
    where: str
    words: str
    repairable: bool = False
    trials: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verified:
    """What was checked, and the problems; ``written`` counts human entries that were not withdrawn.

    ``removed`` counts the journal lines of kinds that only earlier versions had, by kind: they are no problem.
    """

    journals: int
    trials: int
    calls: int
    written: int
    findings: tuple[Problem, ...]
    removed: Counter[str] = field(default_factory=Counter)

    @property
    def skipped(self) -> str:
        """One sentence about the skipped lines; empty if there are none."""
        return skipped_lines(self.removed)


@dataclass
class _JournalContents:
    """The contents of a journal without deletions: trial → digest of its content, the ids of calls, later answers.

    ``removed`` counts the lines of kinds that only earlier versions had.
    """

    trials: dict[str, bytes] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    later_answers: set[TableRow] = field(default_factory=set)
    removed: Counter[str] = field(default_factory=Counter)


def verify(store: Store, show_name: Callable[[str], object] = lambda words: None) -> Verified:
    """Compare the database with the journals, both ways, and check every picture and data set; changes nothing.

    The journals are folded first, so that new lines are not reported. ``show_name`` is called with a journal's name
    before it is read.
    """
    damaged = {damage.path.parent.name: damage.message for damage in fold(store).damaged}
    stored: dict[str, set[str]] = {}
    with store.read() as cursor:
        for run_id, trial_id in cursor.execute("SELECT run_id, trial_id FROM trials").fetchall():
            stored.setdefault(run_id, set()).add(trial_id)
        paid = {call_id for (call_id,) in cursor.execute("SELECT call_id FROM calls").fetchall()}
        local = {run_id for (run_id,) in cursor.execute("SELECT run_id FROM runs WHERE source <> 'release'").fetchall()}
        findings = [*_in_database(cursor)]
    journals = {path.parent.name: path for path in sorted(store.journals.glob("*/journal.jsonl"))}
    removed: Counter[str] = Counter()
    for name, path in journals.items():
        show_name(name)
        trials = stored.get(name, set())
        problems = [*_in_journal(store, path, trials, paid, trials if name in local else set(), removed)]
        if name in damaged and not any(problem.kind == "damaged" for problem in problems):
            problems = [Problem("damaged", name, damaged[name])]  # it can be read, but not stored
        findings += problems
    for run_id in sorted(local - journals.keys()):
        words = f"has no journal here: its {len(stored.get(run_id, ())):,} trials cannot be resumed or graded again"
        findings.append(Problem("orphaned", run_id, words))
    for name in imported.names():
        try:
            imported.load(name)
        except AnamnesisError as error:
            findings.append(Problem("damaged", name, str(error)))
    written, problems = _verify_written(store)
    return Verified(len(journals), sum(map(len, stored.values())), len(paid), written, (*findings, *problems), removed)


def _in_database(cursor: duckdb.DuckDBPyConnection) -> Iterator[Problem]:
    """Yield the problems that are visible without a journal."""
    for table, sql in _DOUBLED.items():  # runs and trials have unique keys
        for name, count in cursor.execute(sql).fetchall():
            yield Problem("doubled", name, f"is {count} times in the table {table}")
    for table in (name for name in OF_TRIALS if name != "calls"):
        sql = f"SELECT count(DISTINCT trial_id) FROM {table} ANTI JOIN trials USING (trial_id) WHERE trial_id <> ''"
        (trials,) = cursor.execute(sql).fetchall()[0]
        if trials:
            yield Problem("orphaned", table, f"has rows of {trials:,} trials that do not exist")
    if wrong := miscounted(cursor):
        yield Problem("miscounted", "tallies", f"have {wrong:,} wrong counts of answers, verdicts and calls", True)
    pictures = cursor.execute("SELECT DISTINCT images FROM cases WHERE images IS NOT NULL").fetchall()
    for image in {Image.model_validate(image) for (text,) in pictures for image in orjson.loads(text)}:
        if image.local and not image.path.is_file():
            yield Problem("picture", image.name, f"is gone: {image.path}")


def _in_journal(
    store: Store, path: Path, stored: set[str], paid: set[str], journaled_here: set[str], removed: Counter[str]
) -> Iterator[Problem]:
    """Yield the differences of a run's journal and its stored trials; ``journaled_here`` must be in the journal.

    Adds the skipped lines of the journal to ``removed``.
    """
    contents, name = _JournalContents(), path.parent.name
    try:
        _read_journal(path, contents)
    except (AnamnesisError, OSError) as error:
        yield Problem("damaged", name, str(error))
        return
    removed += contents.removed
    if not _whole(path) and not in_use(path):
        yield Problem("torn", name, "ends in an incomplete line, after a crash", True)
    missing, unpaid = contents.trials.keys() - stored, contents.calls - paid
    if missing or unpaid:
        words = f"holds {len(missing):,} trials and {len(unpaid):,} calls that the database lacks"
        yield Problem("missing", name, words, True)
    with store.read() as cursor:
        digests = _digests_of_run(cursor, name, contents.later_answers)
    if differing := sorted(trial for trial, digest in contents.trials.items() if digests.get(trial, digest) != digest):
        words = f"holds other messages or answers than the database in {len(differing):,} trials ({differing[0]} …)"
        yield Problem("different", name, words, True, trials=tuple(differing))
    if only_stored := journaled_here - contents.trials.keys():
        yield Problem("orphaned", name, f"lacks {len(only_stored):,} trials that the database has")


def _verify_written(store: Store) -> tuple[int, list[Problem]]:
    """Return the number of human entries that count, and the differences between them and the database."""
    with store.read() as cursor:  # a writer of entries needs the database for itself, so none is written meanwhile
        journaled = read_written(store.path)
        if journaled.damaged:  # reported by ``verify``; lines after the damage are unknown
            return len(journaled.counting), []
        try:
            compared = compare(cursor, journaled)
        except AnamnesisError as error:  # a line of a newer program
            return len(journaled.counting), [Problem("damaged", PEOPLE, str(error))]
    findings: list[Problem] = []
    problems: tuple[tuple[ProblemKind, tuple[str, ...], str], ...] = (
        ("missing", compared.missing, "that the database lacks"),
        ("different", compared.different, "that differ in the database"),
    )
    for kind, ids, words in problems:
        by_folder: dict[str, list[str]] = {}
        for line_id in ids:
            by_folder.setdefault(journaled.folders.get(line_id, PEOPLE), []).append(line_id)
        for folder, lines in by_folder.items():
            first = journaled.lines.get(lines[0])  # missing for a row of a deleted job
            example = f"{first.kind}{' by ' * bool(first.by)}{first.by} …" if first else "deleted"
            what = f"has {len(lines):,} human entries ({example}) {words}"
            findings.append(Problem(kind, folder, what, True, lines=tuple(lines)))
    for table, count in compared.alone.items():
        findings.append(Problem("orphaned", table, f"has {count:,} rows that are in no journal", True))
    return len(journaled.counting), findings


def _read_journal(path: Path, contents: _JournalContents) -> None:
    for _, line in read_lines(path, whole=False):
        match line:
            case RunHeader(source="release"):
                return  # a release has no lines of trials
            case TrialLine():
                rows = child_rows(line)
                messages = ((row.turn, row.role, row.text) for row in rows if isinstance(row, UtteranceRow))
                answers = (_answer(row) for row in rows if isinstance(row, AnswerRow))
                contents.trials.setdefault(line.trial_id, _digest(messages, answers))
                contents.calls.update(event.call.call_id for event in line.events if isinstance(event, Called))
            case GradesLine(answers=[_, *_]):
                contents.later_answers.update((line.trial_id, *_answer(row)) for row in later_answer_rows(line))
            case ReplyLine():
                contents.calls.add(line.call.call_id)
            case DeletedLine():
                contents.trials.pop(line.trial_id, None)
            case RunDeletedLine():
                contents.trials.clear()
            case _:
                if skipped := skipped_kind(line):
                    contents.removed[skipped] += 1


def _answer(row: AnswerRow) -> TableRow:
    return row.format, row.question_type, row.response, row.status, row.reason


def _digests_of_run(
    cursor: duckdb.DuckDBPyConnection, run_id: str, later_answers: Collection[TableRow]
) -> dict[str, bytes]:
    """Return trial → digest of its messages and answers as the database has them, without ``later_answers``."""
    messages: dict[str, list[TableRow]] = {}
    answers: dict[str, list[TableRow]] = {}
    of_run = "JOIN trials USING (trial_id) WHERE run_id = ?"
    for trial_id, _, *row in cursor.execute(  # doubled rows are a finding of their own
        f"SELECT DISTINCT trial_id, position, turn, role, text FROM utterances {of_run} ORDER BY ALL", [run_id]
    ).fetchall():
        messages.setdefault(trial_id, []).append(tuple(row))
    for trial_id, *row in cursor.execute(
        f"SELECT DISTINCT trial_id, format, question_type, response, answers.status, reason FROM answers {of_run}",
        [run_id],
    ).fetchall():
        if (trial_id, *row) not in later_answers:
            answers.setdefault(trial_id, []).append(tuple(row))
    ids = cursor.execute("SELECT trial_id FROM trials WHERE run_id = ?", [run_id]).fetchall()
    return {trial: _digest(messages.get(trial, []), answers.get(trial, [])) for (trial,) in ids}


def _digest(messages: Iterable[TableRow], answers: Iterable[TableRow]) -> bytes:
    """Return a digest of messages and answers, whose format no later version may change."""
    content = [list(messages), sorted(answers, key=lambda row: row[:2])]
    return hashlib.blake2b(orjson.dumps(content), digest_size=16).digest()


def repair(store: Store, verified: Verified) -> list[Problem]:
    """Mend the repairable findings and return them.

    Torn lines are dropped, human entries without a journal journaled, rows that are missing or differ read from the
    journals, and counts computed again. Rows of people and of later jobs about a trial that differs stay, except in the
    trial's own tables.
    """
    mended = [finding for finding in verified.findings if finding.repairable]
    for finding in (finding for finding in mended if finding.kind == "torn"):
        path = store.journals / finding.where / "journal.jsonl"
        # opening the journal drops the line; a run that started meanwhile has done so itself
        with suppress(Timeout), FileLock(path.parent / "running.lock", timeout=_LOCK_TIMEOUT_S):
            JournalWriter(path).close()
    if not mended:
        return []
    with store.write() as connection:
        if any(finding.kind == "orphaned" for finding in mended):
            carry_over(connection)
        forget_lines(connection, [line for finding in mended if finding.kind == "different" for line in finding.lines])
        trials = [trial for finding in mended for trial in finding.trials]
        of_events = [name for name, table in TABLES.items() if table.child]  # calls were paid for, and stay
        for table in (*of_events, "grades", "scores", "trials") if trials else ():
            connection.execute(f"DELETE FROM {table} WHERE list_contains(?, trial_id)", [trials])
        # the lines of a trial may be in any journal: read all again; rows that exist are not changed
        connection.execute("DELETE FROM journal_positions")
    fold(store)
    with store.write() as connection:
        recount(connection)
        recount_served(connection)
    return mended


def _whole(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, io.SEEK_END):
            return True
        file.seek(-1, io.SEEK_END)
        return file.read(1) == b"\n"


def backup(store: Store, out: Path) -> int:
    """Write database, journals, data sets, pictures and the user's prompts to one .tar.gz; return the number of files.

    The manifest has the SHA-256 of each file. Downloaded models and keys are left out. Raises ``AnamnesisError`` if
    ``out`` exists or cannot be written.
    """
    if out.exists():
        raise AnamnesisError(f"{out} exists already: choose another name for the backup.")
    fold(store)
    half = out.with_name(f"{out.name}.half")
    sums: dict[str, str] = {}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=out.parent) as folder,
            tarfile.open(half, "w:gz", compresslevel=3) as packed,
        ):
            copy = Path(folder) / "database"
            store.copy_to(copy)  # before the journals: lines that are added meanwhile are folded after a restore
            for name, path in [("database.duckdb", copy), *_files_to_back_up(store)]:
                sums[name] = _add(packed, name, path)
            manifest = {"made_with": f"Anamnesis {__version__}", "made_at": time.time(), "sha256": sums}
            data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
            about = tarfile.TarInfo(_MANIFEST)
            about.size, about.mtime = len(data), int(time.time())
            packed.addfile(about, io.BytesIO(data))
        half.replace(out)
    except OSError as error:
        raise AnamnesisError(
            f"The backup {out} cannot be written ({error.strerror or error}): make room there, or name another place."
        ) from error
    finally:
        half.unlink(missing_ok=True)
    return len(sums)


def _files_to_back_up(store: Store) -> Iterator[tuple[str, Path]]:
    for path in sorted(store.journals.glob("*/journal.jsonl")):
        yield f"journals/{path.parent.name}/{path.name}", path
    for kind in _BACKED_UP:
        root = store.path.parent / kind
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                yield f"{kind}/{path.relative_to(root).as_posix()}", path


def _add(packed: tarfile.TarFile, name: str, path: Path) -> str:
    """Add a file up to its present length, even if it grows meanwhile; return its SHA-256."""
    about = tarfile.TarInfo(name)
    status = path.stat()
    about.size, about.mtime = status.st_size, int(status.st_mtime)
    with path.open("rb") as file:
        source = _Hashing(file)
        packed.addfile(about, source)
    return source.sum.hexdigest()


class _Hashing:
    """Reads a file and hashes its bytes."""

    def __init__(self, file: Any) -> None:
        self._file, self.sum = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self.sum.update(data)
        return data


def restore(packed: Path, store: Store) -> int:
    """Restore a backup to the place of the database, which must be empty; return the number of files.

    All files are checked before any is put in its place. Raises ``UsageError`` if a file or folder exists already,
    ``AnamnesisError`` if the backup is damaged or incomplete.
    """
    places = {"database.duckdb": store.path, "journals": store.journals}
    places |= {kind: store.path.parent / kind for kind in _BACKED_UP}
    if taken := next((place for place in places.values() if place.exists()), None):
        raise UsageError(f"{taken} exists already: set ANAMNESIS_DB to a file in an empty folder, and restore there.")
    if not packed.is_file():
        raise UsageError(f"There is no file {packed}.")
    store.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.path.parent, prefix=".restoring-") as temporary:
        folder = Path(temporary)
        try:
            sums = _unpack(packed, folder, places)
            manifest = orjson.loads((folder / _MANIFEST).read_bytes())
            expected = {(str(name), str(digest)) for name, digest in manifest["sha256"].items()}
        except _BROKEN_BACKUP as error:
            raise AnamnesisError(
                f"The backup {packed} is damaged or incomplete ({error}); nothing was restored."
            ) from error
        sums.pop(_MANIFEST, None)
        wrong = sorted(name for name, _ in {*sums.items()} ^ expected)
        if wrong:
            raise AnamnesisError(f"The backup {packed} is damaged: {wrong[0]} is not as it was; nothing was restored.")
        for part, place in places.items():
            if (folder / part).exists():
                (folder / part).rename(place)
        with store.write() as connection:  # the journals have new paths
            before = connection.execute("SELECT DISTINCT path FROM journal_positions").fetchall()
            for (path,) in before:
                here = store.journals.resolve() / Path(path).parent.name / Path(path).name
                connection.execute("UPDATE journal_positions SET path = ? WHERE path = ?", [str(here), path])
    fold(store)
    return len(sums)


def _unpack(packed: Path, folder: Path, places: Iterable[str]) -> dict[str, str]:
    """Unpack a backup into a folder; return the SHA-256 of each file.

    Raises ``AnamnesisError`` for a file outside ``places``, or for more data than a backup can have or the disk holds.
    """
    sums: dict[str, str] = {}
    room = min(shutil.disk_usage(folder).free, max(_SMALL_BACKUP, _RATIO * packed.stat().st_size))
    with tarfile.open(packed, "r:gz", tarinfo=PlainMember) as archive:
        for member in archive:
            name = safe_name(member.name, packed.name)
            source = archive.extractfile(member) if member.isfile() else None
            if source is None or name.parts[0] not in (_MANIFEST, *places):
                raise AnamnesisError(f"{packed.name} is no backup of Anamnesis: it contains {member.name!r}.")
            room -= member.size
            if room < 0:
                raise AnamnesisError(
                    f"{packed.name} unpacks to more than a backup can, or more than fits on the disk; nothing was "
                    "restored."
                )
            target = folder.joinpath(*name.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            data = _Hashing(source)
            with target.open("wb") as file:
                shutil.copyfileobj(data, file)
            sums[str(name)] = data.sum.hexdigest()
    return sums
