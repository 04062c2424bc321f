"""Removes the words of a run for good: from every journal, from the database, and from the blocks of its file.

``delete_run`` hides a run; its replies stay in the journals, because they were paid for. After a purge neither they nor
their cost are stored. The cases of the run stay until their data set is deleted.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import orjson
from filelock import FileLock, Timeout

from core import access
from core.errors import AnamnesisError, UsageError
from core.journal import journal_path, with_whole_call, writable
from core.short_calls import followed
from core.store.database import TIMEOUT_S, Store
from core.store.fold import fold
from core.store.lease import gate_of
from core.store.queries.run_labels import delete_run
from core.store.queries.runs import run_record
from core.store.tables import TABLES, delete_runs, delete_trials
from core.store.tallies import recount, recount_served
from core.store.written import forget_lines

_UNIT = re.compile(r"[ |]")
_LEFT_BEHIND = ("*/imported.head", "*/imported.body", "*/journal.purged")
"""Files of imports and purges that were killed."""
_PACKED = (".gz", ".zip", ".parquet", ".duckdb", ".eval")


@dataclass(frozen=True)
class Purged:
    """Numbers of ``lines`` removed from other journals and of their ``journals``; ``copies`` may still have the run."""

    journals: int
    lines: int
    copies: tuple[Path, ...]


@dataclass
class _Words:
    """The names by which lines with words of a run refer to it."""

    run_id: str
    trials: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    units: set[str] = field(default_factory=set)
    reviews: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    """Ids of removed lines by people."""

    def in_item(self, item: object) -> bool:
        """Return whether an item of a review, or a unit of a job, is about a trial of the run."""
        text = str(item or "")
        return text in self.trials or any(
            part in self.trials or part.partition(":")[2] in self.trials or not self.trials.isdisjoint(part.split(":"))
            for part in _UNIT.split(text)
        )

    def concerns(self, line: Mapping[str, Any]) -> bool:
        kind, row = line.get("type"), line.get("row") or {}
        about = line.get("what") or {}
        if line.get("run_id") == self.run_id or line.get("trial_id") in self.trials:
            return True
        if kind == "reply":
            return (
                line["call"].get("call_id") in self.calls
                or line.get("unit") in self.units
                or self.in_item(line["unit"])
            )
        if kind in ("done", "grades"):
            return line.get("unit") in self.units or self.in_item(line.get("unit"))
        if kind == "row":
            return (
                row.get("trial_id") in self.trials
                or row.get("run_id") == self.run_id
                or self.in_item(row.get("subject") or row.get("item"))
            )
        if kind == "written":
            return (
                about.get("run_id") == self.run_id
                or self.run_id in (about.get("runs") or ())
                or self.in_item(about.get("subject") or about.get("item"))
                or about.get("review_id") in self.reviews
            )
        return False

    def learn(self, line: Mapping[str, Any]) -> None:
        """Note the calls and pieces of work of a line that is removed, so that their replies are removed, too."""
        row = line.get("row") or {}
        if line.get("type") in ("row", "grades"):
            self.units.update(filter(None, [line.get("unit")]))
        calls = row.get("call_ids") or ()
        with suppress(ValueError, TypeError):
            calls = calls or orjson.loads(row.get("calls") or "[]")
        self.calls.update(call for call in calls if isinstance(call, str))
        if line.get("type") == "reply":
            self.calls.add(line["call"]["call_id"])
        if line.get("type") == "written":
            self.written.add(str(line.get("line_id")))


def purge_run(store: Store, run_id: str) -> Purged:
    """Delete a run and everything that quotes it; return what was removed.

    Raises ``UsageError`` if nothing is stored of the run, if another run continues one of its conversations, or if a
    process writes to a journal.
    """
    access.require("local")
    path = journal_path(run_id, store.journals)
    fold(store)
    with store.read() as cursor:
        stored = run_record(cursor, run_id)
        words = _words_of(cursor, run_id, path)
        branches = cursor.execute(_BRANCHES, [sorted(words.trials), run_id]).fetchall()
    if stored is None and not path.exists():
        raise UsageError(f"Nothing is stored of a run {run_id}.")
    if branches:
        names = ", ".join(name for (name,) in branches)
        raise UsageError(f"The branches {names} contain messages of {run_id}: delete them first, with --purge.")
    if stored is not None and path.exists():
        delete_run(store, run_id)
    journals = [other for other in sorted(store.journals.glob("*/journal.jsonl")) if other != path]
    with ExitStack() as locks, writable(store.journals):
        for journal in (*journals, *([path] if path.exists() else ())):
            try:
                locks.enter_context(FileLock(journal.parent / "running.lock", timeout=1))
            except Timeout as error:
                raise UsageError(f"{journal.parent.name} is running: stop it, then purge the run again.") from error
        for journal in journals:
            for line in _lines(journal):
                if line.get("type") == "written" and line.get("kind") == "review":
                    items = (line.get("what") or {}).get("items") or ()
                    if items and all(words.in_item(item.get("item")) for item in items):
                        words.reviews.add(line["what"]["review_id"])
        for journal in journals:  # all lines that name the run come before their replies are looked for
            for line in _lines(journal):
                if line.get("type") not in ("reply", "done") and words.concerns(line):
                    words.learn(line)
        lines = {journal: removed for journal in journals if (removed := _rewrite(journal, words))}
        shutil.rmtree(path.parent, ignore_errors=True)
        for pattern in _LEFT_BEHIND:
            for left in store.journals.glob(pattern):
                left.unlink(missing_ok=True)
        with store.write() as connection:
            _delete_rows(connection, words)
            changed = [str(journal.resolve()) for journal in (path, *lines)]
            connection.execute("DELETE FROM journal_positions WHERE list_contains(?, path)", [changed])
    fold(store)
    with store.write() as connection:
        recount(connection)
        recount_served(connection)
    _compact(store)
    return Purged(len(lines), sum(lines.values()), tuple(_copies(store, run_id)))


def _copies(store: Store, run_id: str) -> Iterator[Path]:
    """Yield archives next to the database, which may contain a run, and other files, such as exports, that name it."""
    for path in sorted(store.path.parent.iterdir()):
        if not path.is_file() or path.name.startswith(store.path.name):
            continue
        if path.suffix in _PACKED:
            yield path
        elif path.stat().st_size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as contents:
                if contents.find(run_id.encode()) >= 0:
                    yield path


def _words_of(cursor: duckdb.DuckDBPyConnection, run_id: str, path: Path) -> _Words:
    words = _Words(run_id)
    trials = cursor.execute("SELECT trial_id FROM trials WHERE run_id = ?", [run_id]).fetchall()
    calls = cursor.execute("SELECT call_id, trial_id FROM calls WHERE run_id = ?", [run_id]).fetchall()
    words.trials.update(trial for (trial,) in trials)
    words.calls.update(call for call, _ in calls)
    words.trials.update(trial for _, trial in calls if trial)
    for line in _lines(path) if path.exists() else ():
        words.trials.update(filter(None, [line.get("trial_id")]))
    words.trials.discard(run_id)
    return words


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for raw in file:
            with suppress(orjson.JSONDecodeError):  # a damaged line stays, and is reported by ``verify``
                line = orjson.loads(raw)
                if isinstance(line, dict):
                    yield line


def _rewrite(path: Path, words: _Words) -> int:
    """Remove the lines with words of the run from a journal; return their number. The caller has its lock."""
    removed, end, draft = 0, 0, path.with_name("journal.purged")
    names = [name.encode() for name in (words.run_id, *words.trials)]
    with path.open("rb") as file, draft.open("wb") as purged:
        for raw in file:
            new: bytes | None = raw
            end += len(raw)
            try:
                line = orjson.loads(raw)
            except orjson.JSONDecodeError:  # damaged: it cannot be said what it refers to, unless it names the run
                new = None if any(name in raw for name in names) else raw
            else:
                if isinstance(line, dict) and words.concerns(line):
                    words.learn(line)
                    new = None
                elif isinstance(line, dict) and line.get("type") == "reply":
                    if followed(line["call"].get("request") or {}) in words.calls:
                        new = raw = with_whole_call(path, line, end - len(raw))
                elif isinstance(line, dict) and line.get("type") == "written" and line.get("kind") == "review":
                    items = line["what"].get("items") or []
                    left = [item for item in items if not words.in_item(item.get("item"))]
                    if len(left) < len(items):
                        line["what"]["items"] = left
                        words.written.add(str(line.get("line_id")))
                        new = orjson.dumps(line) + b"\n"
            removed += new != raw
            if new is not None:
                purged.write(new)
        purged.flush()
        os.fsync(purged.fileno())
    if removed:
        draft.replace(path)
    else:
        draft.unlink()
    return removed


def _delete_rows(connection: duckdb.DuckDBPyConnection, words: _Words) -> None:
    trials, calls = sorted(words.trials), sorted(words.calls)
    delete_runs(connection, [words.run_id])
    connection.execute(
        "DELETE FROM calls WHERE run_id = $run OR list_contains($trials, trial_id) OR list_contains($calls, call_id)",
        {"run": words.run_id, "trials": trials, "calls": calls},
    )
    # their journals have the calls that followed a deleted one with all messages now, and are folded again
    follows = "list_contains(?, json_extract_string(request, '$.follows.call_id'))"
    connection.execute(f"DELETE FROM calls WHERE {follows}", [calls])
    delete_trials(connection, "SELECT unnest(?::VARCHAR[])", [trials], calls=True)
    for table, column in ((name, table.item) for name, table in TABLES.items() if table.item):
        items = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
        about = [item for (item,) in items if words.in_item(item)]
        connection.execute(f"DELETE FROM {table} WHERE list_contains(?, {column})", [about])
    forget_lines(connection, sorted(words.written))
    withdrawn = "DELETE FROM withdrawn WHERE list_contains(?, line_id)"
    connection.execute(withdrawn, [sorted(words.written)])


def _compact(store: Store) -> None:
    """Replace the file of the database by a copy: DuckDB keeps the bytes of deleted rows in free blocks."""
    draft = store.path.with_name(f"{store.path.name}.compact.new")
    draft.unlink(missing_ok=True)
    try:
        store.copy_to(draft)
        with gate_of(store.path).alone(time.monotonic() + TIMEOUT_S):
            os.replace(draft, store.path)
            store.path.with_name(f"{store.path.name}.wal").unlink(missing_ok=True)
    except OSError as error:
        raise AnamnesisError(f"{store.path} cannot be compacted ({error.strerror}): purge the run again.") from error
    finally:
        draft.unlink(missing_ok=True)


_BRANCHES = """
    SELECT DISTINCT run_id FROM forks JOIN trials USING (trial_id)
    WHERE list_contains(?, parent_trial_id) AND run_id <> ? ORDER BY run_id"""
