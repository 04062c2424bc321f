"""A filled store is copied for each test, so that tests do not see each other's writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from core.store.database import Store
from tests.support.stores import campaign, copy_of


def correct(store: Store) -> dict[str, int]:
    with store.read() as cursor:
        right = "SELECT doctor FROM verdicts JOIN trials USING (trial_id) JOIN runs USING (run_id) WHERE rule = 'frq'"
        return Counter(doctor for (doctor,) in cursor.execute(f"{right} AND verdict = 'correct'").fetchall())


def test_a_store_is_empty_or_filled(store: Store) -> None:
    with store.read() as cursor:
        assert cursor.execute("SELECT count(*) FROM trials").fetchall() == [(0,)]


def test_writes_to_one_copy_are_not_in_another(filled_store: Store, tmp_path: Path) -> None:
    with filled_store.write() as connection:
        connection.execute("DELETE FROM grades")
    assert correct(filled_store) == {}
    other = copy_of(campaign, tmp_path / "other")
    assert correct(other) == {"openai/a": 4, "openai/b": 8}
    assert len(list(other.journals.glob("*/journal.jsonl"))) == 2
