"""Labels of runs (name, tags, note), stored in a journal, and the deletion of runs."""

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

_MAX_LENGTH = 200
"""Most characters of a name or a tag."""


@dataclass(frozen=True)
class Label:
    """The name (empty: its doctor and case set), tags and note of a run."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class RunContents:
    """Numbers of rows that are deleted with a run; its ``calls`` stay, because the spending is counted from them.

    ``branches`` are conversations of other runs that branch off it: they stay, without their parent.
    """

    trials: int
    answers: int
    verdicts: int
    scores: int
    annotations: int
    branches: int
    calls: int


def labels(cursor: duckdb.DuckDBPyConnection) -> dict[str, Label]:
    rows = records(
        cursor.execute(
            "SELECT DISTINCT ON (run_id) run_id, name, tags, note FROM run_labels ORDER BY run_id, labelled_at DESC"
        )
    )
    return {row["run_id"]: Label(row["name"], tuple(row["tags"]), row["note"]) for row in rows}


def label_run(store: Store, run_id: str, label: Label) -> None:
    """Store the label of a run. Raises ``UsageError`` if the run is not stored or a name or tag is too long."""
    access.require("run")
    _stored(store, run_id)
    name, tags = " ".join(label.name.split()), sorted({" ".join(tag.split()) for tag in label.tags} - {""})
    for text in (name, *tags):
        if len(text) > _MAX_LENGTH:
            raise UsageError(f"A name or tag has at most {_MAX_LENGTH} characters: put the rest into the note.")
    row = {"run_id": run_id, "name": name, "tags": tags, "note": label.note.strip(), "labelled_at": time.time()}
    with store.write() as connection:
        write(connection, "label", [row])


def run_contents(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunContents:
    row = cursor.execute(_CONTENTS, {"run_id": run_id}).fetchone()
    assert row is not None
    return RunContents(*row)


def delete_run(store: Store, run_id: str) -> RunContents:
    """Delete a run and all rows of its trials for good; return their numbers.

    The deletion is journaled, so that a rebuilt database lacks the run as well. Raises ``UsageError`` for a run that is
    not stored or has no journal here.
    """
    run = _stored(store, run_id)
    access.require_deletable(run.visitor)
    path = store.journals / run_id / "journal.jsonl"
    if not path.exists():
        if run.source == "release":
            raise UsageError(f"The run {run_id} was imported and has no journal here: import its data set again.")
        raise UsageError(f"The journal of run {run_id} is missing: put it back at {path}.")
    fold(store)
    with store.read() as cursor:
        contents = run_contents(cursor, run_id)
    with store.write() as connection:
        withdraw(connection, "label", "run_id", [run_id], "the run was deleted")
    with JournalWriter(path) as journal:
        journal.append(RunDeletedLine(run_id=run_id))
    fold(store)
    return contents


def _stored(store: Store, run_id: str) -> Run:
    with store.read() as cursor:
        if (run := run_record(cursor, run_id)) is None:
            raise UsageError(f"No run {run_id} is stored here: `python -m core runs` lists the stored runs.")
    return run


_CONTENTS = """
    WITH of_run AS (SELECT trial_id FROM trials WHERE run_id = $run_id)
    SELECT
        (SELECT count(*) FROM of_run),
        (SELECT count(*) FROM answers SEMI JOIN of_run USING (trial_id)),
        (SELECT count(*) FROM grades SEMI JOIN of_run USING (trial_id)),
        (SELECT count(*) FROM scores SEMI JOIN of_run USING (trial_id)),
        (SELECT count(*) FROM judgements JOIN of_run ON contains(subject, of_run.trial_id) AND judge_kind = 'person'),
        (SELECT count(*) FROM forks WHERE parent_trial_id IN (FROM of_run) AND trial_id NOT IN (FROM of_run)),
        (SELECT count(*) FROM calls WHERE run_id = $run_id)"""
