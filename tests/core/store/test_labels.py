"""Names, tags and notes of runs, and runs that are deleted: what is journaled holds for a database made anew."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.run_labels import Label, delete_run, label_run, labels, run_contents
from core.store.queries.runs import run_ids
from core.store.tables import OF_A_TRIAL


def from_the_journals(store: Store) -> Store:
    """The same folder with a database that is made anew from its journals."""
    store.path.unlink()
    made = Store(store.path)
    fold(made)
    return made


def counts(store: Store, run_id: str) -> dict[str, int]:
    """How many rows of the run's trials each table has."""
    mine = "SELECT trial_id FROM trials WHERE run_id = ?"
    with store.read() as cursor:
        return {
            table: cursor.execute(f"SELECT count(*) FROM {table} WHERE trial_id IN ({mine})", [run_id]).fetchall()[0][0]
            for table in OF_A_TRIAL
        }


def calls_of(store: Store, run_id: str) -> int:
    with store.read() as cursor:
        return int(cursor.execute("SELECT count(*) FROM calls WHERE run_id = ?", [run_id]).fetchall()[0][0])


def test_the_newest_name_counts_and_outlives_the_database(filled_store: Store) -> None:
    with filled_store.read() as cursor:
        run_id, *_ = run_ids(cursor)
    label_run(filled_store, run_id, Label("First try"))
    label_run(filled_store, run_id, Label("  Pilot,  short prompt ", ("pilot", " skin", "pilot"), "Ten questions.\n"))
    expected = {run_id: Label("Pilot, short prompt", ("pilot", "skin"), "Ten questions.")}
    for store in (filled_store, from_the_journals(filled_store)):
        with store.read() as cursor:
            assert labels(cursor) == expected


def test_a_name_is_for_a_run_that_is_here_and_is_short(filled_store: Store) -> None:
    with pytest.raises(UsageError, match="No run nonsense is stored here"):
        label_run(filled_store, "nonsense", Label("A"))
    with filled_store.read() as cursor:
        run_id, *_ = run_ids(cursor)
    with pytest.raises(UsageError, match="put the rest into the note"):
        label_run(filled_store, run_id, Label("a" * 201))


def test_a_deleted_run_is_gone_with_all_of_its_trials_and_its_calls_stay_counted(filled_store: Store) -> None:
    with filled_store.read() as cursor:
        first, *others = run_ids(cursor)
        held = run_contents(cursor, first)
    before = {run_id: counts(filled_store, run_id) for run_id in others}
    calls = calls_of(filled_store, first)
    assert held.trials > 0
    assert held.calls == calls
    assert delete_run(filled_store, first) == held
    for store in (filled_store, from_the_journals(filled_store)):
        with store.read() as cursor:
            assert run_ids(cursor) == others
            orphans = cursor.execute("SELECT count(*) FROM answers ANTI JOIN trials USING (trial_id)").fetchall()
        assert orphans == [(0,)]
        assert counts(store, first)["answers"] == 0
        assert {run_id: counts(store, run_id) for run_id in others} == before
        assert calls_of(store, first) == calls
    with pytest.raises(UsageError, match="No run"):
        delete_run(filled_store, first)
