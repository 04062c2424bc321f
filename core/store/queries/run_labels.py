"""What people call their runs: a name, tags and a note, kept in a journal as all else; and runs that are deleted."""

from __future__ import annotations

import time
from dataclasses import dataclass

import duckdb

from core import access
from core.errors import UsageError
from core.journal import JournalWriter, RunDeletedLine
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import Run, run_record
from core.store.tables import records
from core.store.written import withdraw, write

_LONGEST = 200
"""Characters of a name or a tag."""


@dataclass(frozen=True)
class Label:
    """What a run is called (empty: by its doctor and case set), the tags that it is put under, and a note."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Held:
    """What hangs on a run and goes with it; its ``calls`` stay where the spending is counted.

    ``branches`` are conversations of other runs that were forked off it: they stay, without what they came from.
    """

    trials: int
    answers: int
    verdicts: int
    scores: int
    annotations: int
    branches: int
    calls: int


def labels(cursor: duckdb.DuckDBPyConnection) -> dict[str, Label]:
    """Return run → what people call it, for the runs that somebody named, tagged or noted something of."""
    rows = records(
        cursor.execute(
            "SELECT DISTINCT ON (run_id) run_id, name, tags, note FROM run_labels ORDER BY run_id, labelled_at DESC"
        )
    )
    return {row["run_id"]: Label(row["name"], tuple(row["tags"]), row["note"]) for row in rows}


def label_run(store: Store, run_id: str, label: Label) -> None:
    """Keep what a run is called from now on. Raises ``UsageError`` for a run that is not stored, or words too long."""
    access.require("edit", f"label {run_id}")
    _stored(store, run_id)
    name, tags = " ".join(label.name.split()), sorted({" ".join(tag.split()) for tag in label.tags} - {""})
    for words in (name, *tags):
        if len(words) > _LONGEST:
            raise UsageError(f"A name or tag has at most {_LONGEST} characters: put the rest into the note.")
    row = {"run_id": run_id, "name": name, "tags": tags, "note": label.note.strip(), "labelled_at": time.time()}
    with store.write() as connection:
        write(connection, "label", [row])


def held_by(cursor: duckdb.DuckDBPyConnection, run_id: str) -> Held:
    """Return what goes with a run when it is deleted, and what stays."""
    row = cursor.execute(_HELD, {"run_id": run_id}).fetchone()
    assert row is not None
    return Held(*row)


def delete_run(store: Store, run_id: str) -> Held:
    """Take a run out of the database with all that hangs on its trials, for good, and return how much that was.

    Its journal says so too, so that a database rebuilt from it lacks the run as well. Raises ``UsageError`` for a run
    that is not stored here, or that was not made here.
    """
    run = _stored(store, run_id)
    access.require_deletable(run.visitor, f"run {run_id}")
    path = store.journals / run_id / "journal.jsonl"
    if not path.exists():
        if run.source == "release":
            raise UsageError(f"The run {run_id} has no journal here, so it was brought in: import its data set anew.")
        raise UsageError(f"The journal of run {run_id} is not here to note it in: put it back at {path}.")
    fold(store)
    with store.read() as cursor:
        held = held_by(cursor, run_id)
    with store.write() as connection:
        withdraw(connection, "label", "run_id", [run_id], "the run was deleted")
    with JournalWriter(path) as journal:
        journal.append(RunDeletedLine(run_id=run_id))
    fold(store)
    return held


def _stored(store: Store, run_id: str) -> Run:
    with store.read() as cursor:
        if (run := run_record(cursor, run_id)) is None:
            raise UsageError(f"No run {run_id} is stored here: `python -m core runs` lists those that are.")
    return run


_HELD = """
    WITH mine AS (SELECT trial_id FROM trials WHERE run_id = $run_id)
    SELECT
        (SELECT count(*) FROM mine),
        (SELECT count(*) FROM answers SEMI JOIN mine USING (trial_id)),
        (SELECT count(*) FROM grades SEMI JOIN mine USING (trial_id)),
        (SELECT count(*) FROM scores SEMI JOIN mine USING (trial_id)),
        (SELECT count(*) FROM annotations JOIN mine ON contains(item, mine.trial_id)),
        (SELECT count(*) FROM forks WHERE parent_trial_id IN (FROM mine) AND trial_id NOT IN (FROM mine)),
        (SELECT count(*) FROM calls WHERE run_id = $run_id)"""
