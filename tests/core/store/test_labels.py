"""Names, tags and notes of runs, and deleted runs: both survive a database that is made again from the journals."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.run_labels import Label, delete_run, label_run, labels, run_contents
from core.store.queries.runs import run_ids
from core.store.tables import OF_TRIALS


def rebuilt(store: Store) -> Store:
    """Delete the database and make it again from the journals of its folder."""
    store.path.unlink()
    new_store = Store(store.path)
    fold(new_store)
    return new_store


def counts(store: Store, run_id: str) -> dict[str, int]:
    """Return the number of rows that belong to the run's trials, by table."""
    of_run = "SELECT trial_id FROM trials WHERE run_id = ?"
    with store.read() as cursor:
        return {
            table: cursor.execute(f"SELECT count(*) FROM {table} WHERE trial_id IN ({of_run})", [run_id]).fetchall()[0][
                0
            ]
            for table in (*OF_TRIALS, "trials")
        }


def calls_of(store: Store, run_id: str) -> int:
    with store.read() as cursor:
        return int(cursor.execute("SELECT count(*) FROM calls WHERE run_id = ?", [run_id]).fetchall()[0][0])


def test_the_newest_name_counts_also_in_a_rebuilt_database(filled_store: Store) -> None:
    with filled_store.read() as cursor:
        run_id, *_ = run_ids(cursor)
    label_run(filled_store, run_id, Label("First try"))
    label_run(filled_store, run_id, Label("  Pilot,  short prompt ", ("pilot", " skin", "pilot"), "Ten questions.\n"))
    expected = {run_id: Label("Pilot, short prompt", ("pilot", "skin"), "Ten questions.")}
    for store in (filled_store, rebuilt(filled_store)):
        with store.read() as cursor:
            assert labels(cursor) == expected


def test_a_label_needs_a_stored_run_and_a_short_name(filled_store: Store) -> None:
    with pytest.raises(UsageError, match="No run nonsense is stored here"):
        label_run(filled_store, "nonsense", Label("A"))
    with filled_store.read() as cursor:
        run_id, *_ = run_ids(cursor)
    with pytest.raises(UsageError, match="put the rest into the note"):
        label_run(filled_store, run_id, Label("a" * 201))


def test_a_deleted_run_is_gone_with_all_of_its_trials_and_its_calls_stay_counted(filled_store: Store) -> None:
    with filled_store.read() as cursor:
        first, *others = run_ids(cursor)
        contents = run_contents(cursor, first)
    before = {run_id: counts(filled_store, run_id) for run_id in others}
    calls = calls_of(filled_store, first)
    assert contents.trials > 0
    assert contents.calls == calls
    assert delete_run(filled_store, first) == contents
    for store in (filled_store, rebuilt(filled_store)):
        with store.read() as cursor:
            assert run_ids(cursor) == others
            orphans = cursor.execute("SELECT count(*) FROM answers ANTI JOIN trials USING (trial_id)").fetchall()
        assert orphans == [(0,)]
        assert counts(store, first)["answers"] == 0
        assert {run_id: counts(store, run_id) for run_id in others} == before
        assert calls_of(store, first) == calls
    with pytest.raises(UsageError, match="No run"):
        delete_run(filled_store, first)
