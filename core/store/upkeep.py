"""Whether all that was paid for is there and once: the database held against its journals, pictures and data sets.

What only the database lacks is taken from the journals again (``repair``); all of it goes into one file and comes back
(``backup``, ``restore``), also while runs go on: a journal only grows, and the database follows it.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
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
from core.journal import DeletedLine, JournalWriter, ReplyLine, RunDeletedLine, RunHeader, TrialLine, in_use, read_lines
from core.store.database import Store
from core.store.fold import fold
from core.store.rows import CHILDREN, child_rows
from core.store.tables import OF_A_TRIAL, Row
from core.store.tallies import count_anew, count_served_anew, miscounted
from core.store.written import PEOPLE, carry_over, compare, forget_lines
from core.store.written import journal_contents as read_written

Kind = Literal["missing", "different", "doubled", "orphaned", "torn", "miscounted", "damaged", "picture"]
_KEPT = ("cases", "images", "prompts")
"""Folders beside the database that go into a backup; fetched models do not: they can be fetched again."""
_DOUBLED = {
    "calls": "SELECT call_id, count(*) FROM calls GROUP BY call_id HAVING count(*) > 1",
    "utterances": """
        SELECT any_value(trial_id), max(n) FROM (
            SELECT trial_id, count(*) AS n FROM utterances GROUP BY trial_id, position HAVING n > 1
        ) GROUP BY trial_id""",
}
_MANIFEST = "manifest.json"
_ASKED_FOR_S = 1.0
"""Who only looks whether a run is under way has its lock for less."""
_BLOCK = 1 << 20
_BROKEN_BACKUP = (
    *(tarfile.TarError, zlib.error, EOFError, OSError),
    *(ValueError, LookupError, TypeError, AttributeError),  # of a list of files that is none
)
_SMALL_BACKUP, _RATIO = 200_000_000, 200
"""Bytes that a backup may unpack to in any case, and how many times its own size."""


@dataclass(frozen=True)
class Finding:
    """What is amiss, and whether it can be mended from the journals (``repairable``).

    ``missing`` in the database, ``different`` there from the journal, ``doubled`` there, ``orphaned`` (no journal has
    it), a journal's ``torn`` last line, ``miscounted`` (``core.store.tallies``), a ``damaged`` file, or a ``picture``
    whose file is gone. ``trials`` are the ids of those that differ, ``lines`` those of what people wrote.
    """

    kind: Kind
    where: str
    words: str
    repairable: bool = False
    trials: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verified:
    """What was looked at, and what is amiss in it; ``written`` counts what people wrote and nobody took back."""

    journals: int
    trials: int
    calls: int
    written: int
    findings: tuple[Finding, ...]


@dataclass
class _Held:
    """What a journal holds, without what was deleted: trials with a digest of their content, and the ids of calls."""

    trials: dict[str, bytes] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)


def verify(store: Store, told: Callable[[str], object] = lambda words: None) -> Verified:
    """Hold the database against the journals, both ways, and look for every picture and data set. Changes nothing.

    What a run wrote since the database followed last is not amiss: it is taken in first, where that can be done.
    ``told`` is given a journal's name before it is read.
    """
    fold(store)
    found: list[Finding] = []
    journals = sorted(store.journals.glob("*/journal.jsonl"))
    with store.read() as cursor:
        stored: dict[str, set[str]] = {}
        for run_id, trial_id in cursor.execute("SELECT run_id, trial_id FROM trials").fetchall():
            stored.setdefault(run_id, set()).add(trial_id)
        paid = {call_id for (call_id,) in cursor.execute("SELECT call_id FROM calls").fetchall()}
        local = [r for (r,) in cursor.execute("SELECT run_id FROM runs WHERE source <> 'release'").fetchall()]
        for table, sql in _DOUBLED.items():  # runs and trials cannot be: the database does not take them
            for name, count in cursor.execute(sql).fetchall():
                found.append(Finding("doubled", name, f"stands {count} times in the table {table}"))
        for table in (name for name in OF_A_TRIAL if name not in ("trials", "calls")):
            sql = f"SELECT count(DISTINCT trial_id) FROM {table} ANTI JOIN trials USING (trial_id)"
            (lost,) = cursor.execute(sql).fetchall()[0]
            if lost:
                found.append(Finding("orphaned", table, f"has rows of {lost:,} trials that are not there"))
        if off := miscounted(cursor):
            words = f"hold {off:,} kinds of answers, verdicts and calls at another number than there are"
            found.append(Finding("miscounted", "tallies", words, True))
        pictures = cursor.execute("SELECT DISTINCT images FROM cases WHERE images IS NOT NULL").fetchall()
    known = set[str]()
    for path in journals:
        told(path.parent.name)
        held, name = _Held(), path.parent.name
        known.add(name)
        try:
            _read(path, held)
        except (AnamnesisError, OSError) as error:
            found.append(Finding("damaged", name, str(error)))
            continue
        if not _whole(path) and not in_use(path):
            found.append(Finding("torn", name, "ends in the beginning of a line, which a crash cut off", True))
        lacking, unpaid = held.trials.keys() - stored.get(name, set()), held.calls - paid
        if lacking or unpaid:
            words = f"holds {len(lacking):,} trials and {len(unpaid):,} calls that the database lacks"
            found.append(Finding("missing", name, words, True))
        with store.read() as cursor:
            digests = _digests_of_run(cursor, name)
        if differing := sorted(trial for trial, digest in held.trials.items() if digests.get(trial, digest) != digest):
            words = f"holds other messages or answers than the database in {len(differing):,} trials ({differing[0]} …)"
            found.append(Finding("different", name, words, trials=tuple(differing)))
        if beyond := stored.get(name, set()) - held.trials.keys() if name in local else set():
            found.append(Finding("orphaned", name, f"lacks {len(beyond):,} trials that the database has of it"))
    for run_id in local:
        if run_id not in known:
            words = f"has no journal here: its {len(stored.get(run_id, ())):,} trials cannot be resumed or graded again"
            found.append(Finding("orphaned", run_id, words))
    for image in {Image.model_validate(one) for (text,) in pictures for one in orjson.loads(text)}:
        if image.local and not image.path.is_file():
            found.append(Finding("picture", image.name, f"is gone: {image.path}"))
    for name in imported.names():
        try:
            imported.load(name)
        except AnamnesisError as error:
            found.append(Finding("damaged", name, str(error)))
    written, amiss = _verify_written(store)
    trials = sum(map(len, stored.values()))
    return Verified(len(journals), trials, len(paid), written, (*found, *amiss))


def _verify_written(store: Store) -> tuple[int, list[Finding]]:
    """Return how many lines of what people wrote count, and where the database differs from them."""
    with store.read() as cursor:  # nobody writes a line meanwhile: that takes the database alone
        journaled = read_written(store.path)
        if journaled.damaged:  # which is another finding; what follows the damage is not known
            return len(journaled.counting), []
        try:
            compared = compare(cursor, journaled)
        except AnamnesisError as error:  # a line of a newer program
            return len(journaled.counting), [Finding("damaged", PEOPLE, str(error))]
    findings: list[Finding] = []
    amiss: tuple[tuple[Kind, tuple[str, ...], str], ...] = (
        ("missing", compared.missing, "that the database lacks"),
        ("different", compared.different, "otherwise than the database"),
    )
    for kind, ids, words in amiss:
        by_folder: dict[str, list[str]] = {}
        for line_id in ids:
            by_folder.setdefault(journaled.folders.get(line_id, PEOPLE), []).append(line_id)
        for folder, lines in by_folder.items():
            first = journaled.lines.get(lines[0])  # none: a row of a job that somebody deleted
            example = f"{first.kind}{' by ' * bool(first.by)}{first.by} …" if first else "deleted"
            what = f"holds {len(lines):,} of the things that people wrote ({example}) {words}"
            findings.append(Finding(kind, folder, what, kind == "missing", lines=tuple(lines)))
    for table, count in compared.alone.items():
        findings.append(Finding("orphaned", table, f"has {count:,} rows that no journal holds", True))
    return len(journaled.counting), findings


def _read(path: Path, held: _Held) -> None:
    for _, line in read_lines(path):
        match line:
            case RunHeader(source="release"):
                return  # the import describes what came with it; no line of a trial follows
            case TrialLine():
                rows = child_rows(line)
                said = ((turn, role, text) for _, _, turn, role, text, _ in rows["utterances"])
                held.trials.setdefault(line.trial_id, _digest(said, (row[1:6] for row in rows["answers"])))
                held.calls.update(event.call.call_id for event in line.events if isinstance(event, Called))
            case ReplyLine():
                held.calls.add(line.call.call_id)
            case DeletedLine():
                held.trials.pop(line.trial_id, None)
            case RunDeletedLine():
                held.trials.clear()
            case _:
                pass


def _digests_of_run(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, bytes]:
    """Return trial → digest of its messages and answers as the database has them."""
    messages: dict[str, list[Row]] = {}
    answers: dict[str, list[Row]] = {}
    of_run = "JOIN trials USING (trial_id) WHERE run_id = ?"
    for trial_id, _, *row in cursor.execute(  # rows that stand there twice are another finding
        f"SELECT DISTINCT trial_id, position, turn, role, text FROM utterances {of_run} ORDER BY ALL", [run_id]
    ).fetchall():
        messages.setdefault(trial_id, []).append(tuple(row))
    for trial_id, *row in cursor.execute(
        f"SELECT DISTINCT trial_id, format, question_type, response, answers.status, reason FROM answers {of_run}",
        [run_id],
    ).fetchall():
        answers.setdefault(trial_id, []).append(tuple(row))
    ids = cursor.execute("SELECT trial_id FROM trials WHERE run_id = ?", [run_id]).fetchall()
    return {trial: _digest(messages.get(trial, []), answers.get(trial, [])) for (trial,) in ids}


def _digest(messages: Iterable[Row], answers: Iterable[Row]) -> bytes:
    """Return a digest of what was said and answered, which no later version of the program writes otherwise."""
    content = [list(messages), sorted(answers, key=lambda row: row[:2])]
    return hashlib.blake2b(orjson.dumps(content), digest_size=16).digest()


def fold_anew(store: Store, verified: Verified) -> int:
    """Take what database and journal hold differently from the journals again; return how many trials and lines.

    What people and later jobs stored of these trials stays, as long as it is not in the trial's own rows.
    """
    trials = [trial for finding in verified.findings for trial in finding.trials]
    lines = [line for finding in verified.findings for line in finding.lines]
    if trials or lines:
        with store.write() as connection:
            forget_lines(connection, lines)
            for table in (*CHILDREN, "scores", "trials"):
                if table != "calls":  # paid for in any case
                    connection.execute(f"DELETE FROM {table} WHERE list_contains(?, trial_id)", [trials])
            # re-gradings may stand in any journal: all are read again, and what is there already is left
            connection.execute("DELETE FROM journal_positions")
        fold(store)
        with store.write() as connection:
            count_anew(connection)
    return len(trials) + len(lines)


def repair(store: Store, verified: Verified) -> list[Finding]:
    """Mend what can be mended from journals and rows; return what was.

    Torn lines are dropped, what is missing is taken in, what is miscounted counted anew, what people wrote and no
    journal holds is journaled.
    """
    mended = [one for one in verified.findings if one.repairable]
    for one in mended:
        path = store.journals / one.where / "journal.jsonl"
        if one.kind == "torn":
            # opening it drops the line; a run that has begun on it meanwhile did so itself
            with suppress(Timeout), FileLock(path.parent / "running.lock", timeout=_ASKED_FOR_S):
                JournalWriter(path).close()
        elif one.kind == "miscounted":
            with store.write() as connection:
                count_anew(connection)
                count_served_anew(connection)
        elif one.kind == "orphaned":
            with store.write() as connection:
                carry_over(connection)
        else:
            with store.write() as connection:
                connection.execute("DELETE FROM journal_positions WHERE path = ?", [str(path.resolve())])
    fold(store)
    return mended


def _whole(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, io.SEEK_END):
            return True
        file.seek(-1, io.SEEK_END)
        return file.read(1) == b"\n"


def backup(store: Store, out: Path) -> int:
    """Write the database, its journals, data sets, pictures and own prompts into one .tar.gz; return how many files.

    Each file's SHA-256 stands in it. Fetched models and keys are not in it. Raises ``AnamnesisError`` where ``out``
    exists or cannot be written.
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
            store.copy_to(copy)  # before the journals: what they have grown by since is taken in after a restore
            for name, path in [("database.duckdb", copy), *_beside(store)]:
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


def _beside(store: Store) -> Iterator[tuple[str, Path]]:
    for path in sorted(store.journals.glob("*/journal.jsonl")):
        yield f"journals/{path.parent.name}/{path.name}", path
    for kind in _KEPT:
        root = store.path.parent / kind
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                yield f"{kind}/{path.relative_to(root).as_posix()}", path


def _add(packed: tarfile.TarFile, name: str, path: Path) -> str:
    """Add a file as long as it is now, whatever it grows by meanwhile; return its SHA-256."""
    about = tarfile.TarInfo(name)
    found = path.stat()
    about.size, about.mtime = found.st_size, int(found.st_mtime)
    with path.open("rb") as file:
        source = _Summed(file)
        packed.addfile(about, source)
    return source.sum.hexdigest()


class _Summed:
    """Reads a file and sums what was read."""

    def __init__(self, file: Any) -> None:
        self._file, self.sum = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self.sum.update(data)
        return data


def restore(packed: Path, store: Store) -> int:
    """Put a backup where the database is to be, which must not be there yet; return how many files came back.

    Nothing is put in its place before every file was found whole. Raises ``UsageError`` where something is there
    already, ``AnamnesisError`` where the backup is damaged or not whole.
    """
    places = {"database.duckdb": store.path, "journals": store.journals}
    places |= {kind: store.path.parent / kind for kind in _KEPT}
    if taken := next((place for place in places.values() if place.exists()), None):
        raise UsageError(f"{taken} is there already: set ANAMNESIS_DB to a file in an empty folder, and restore there.")
    if not packed.is_file():
        raise UsageError(f"There is no file {packed}.")
    store.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.path.parent, prefix=".restoring-") as folder:
        sums: dict[str, str] = {}
        expected: set[tuple[str, str]] = set()
        try:
            room = min(shutil.disk_usage(folder).free, max(_SMALL_BACKUP, _RATIO * packed.stat().st_size))
            with tarfile.open(packed, "r:gz", tarinfo=PlainMember) as archive:
                for member in archive:
                    name = safe_name(member.name, packed.name)
                    source = archive.extractfile(member) if member.isfile() else None
                    if source is None or name.parts[0] not in (_MANIFEST, *places):
                        raise AnamnesisError(f"{packed.name} is no backup of Anamnesis: it holds {member.name!r}.")
                    target = Path(folder).joinpath(*name.parts)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    read = _Summed(source)
                    with target.open("wb") as file:
                        while block := read.read(_BLOCK):
                            if (room := room - len(block)) < 0:
                                raise AnamnesisError(
                                    f"{packed.name} unpacks to far more than a backup does, or than there is room for; "
                                    "nothing was restored."
                                )
                            file.write(block)
                    sums[str(name)] = read.sum.hexdigest()
            manifest = orjson.loads((Path(folder) / _MANIFEST).read_bytes())
            expected = {(str(name), str(digest)) for name, digest in manifest["sha256"].items()}
        except _BROKEN_BACKUP as error:
            raise AnamnesisError(
                f"The backup {packed} is damaged or not whole ({error}); nothing was restored."
            ) from error
        sums.pop(_MANIFEST, None)
        wrong = sorted(name for name, _ in {*sums.items()} ^ expected)
        if wrong:
            raise AnamnesisError(f"The backup {packed} is damaged: {wrong[0]} is not as it was; nothing was restored.")
        for part, place in places.items():
            if (Path(folder) / part).exists():
                (Path(folder) / part).rename(place)
        with store.write() as connection:  # of journals that lie elsewhere now
            before = connection.execute("SELECT DISTINCT path FROM journal_positions").fetchall()
            for (path,) in before:
                here = store.journals.resolve() / Path(path).parent.name / Path(path).name
                connection.execute("UPDATE journal_positions SET path = ? WHERE path = ?", [str(here), path])
    fold(store)
    return len(sums)
