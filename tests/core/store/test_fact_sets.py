"""Edited facts of cases: the newest list for the current content of a case counts; earlier lists stay stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.store.database import Store
from core.store.queries.fact_sets import facts_saved, save_facts
from core.store.tables import CaseListRow, insert
from core.text.facts import AtomicFact
from tests.core.store.builders import a_case


def fact(id_: str) -> AtomicFact:
    return AtomicFact(id=id_, key="k", text=f"“{id_}” é", lay="l", told=True, topic="onset")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "x.duckdb")


def test_the_newest_list_counts_and_is_read_back_unchanged(store: Store) -> None:
    for made_by, facts in (("openai/a", [fact("a"), fact("b")]), ("Ada", [fact("b")])):
        with store.write() as connection:
            save_facts(connection, a_case(), facts, made_by)

    with store.read() as cursor:
        newest = facts_saved(cursor, a_case())
        lists = cursor.execute("SELECT count(*) FROM case_lists").fetchall()

    assert newest is not None
    assert (newest.facts, newest.made_by) == ((fact("b"),), "Ada")
    assert lists == [(2,)]


def test_facts_of_another_case_or_an_older_content_do_not_count(store: Store) -> None:
    with store.write() as connection:
        save_facts(connection, a_case(1), [fact("a")], "Ada")

    with store.read() as cursor:
        assert facts_saved(cursor, a_case(2)) is None
        assert facts_saved(cursor, a_case(1, vignette="Another text.")) is None


def test_the_newest_list_of_each_case_counts(store: Store) -> None:
    with store.write() as connection:
        save_facts(connection, a_case(1), [fact("a")], "Ada")
        save_facts(connection, a_case(1), [fact("b")], "Ada")
        save_facts(connection, a_case(2), [], "Ada")

    with store.read() as cursor:
        saved = [facts_saved(cursor, a_case(number)) for number in (1, 2)]
    assert [fact_set and fact_set.facts for fact_set in saved] == [(fact("b"),), ()]


def test_two_facts_with_one_id_are_refused(store: Store) -> None:
    with store.write() as connection, pytest.raises(AnamnesisError, match="id 'a'"):
        save_facts(connection, a_case(), [fact("a"), fact("a")], "Ada")


def test_a_list_that_cannot_be_read_is_named(store: Store) -> None:
    case = a_case()
    with store.write() as connection:
        insert(connection, [CaseListRow(case.case_key, case.content_hash, "facts", '[{"id": 1}]', "Ada", 1.0)])

    with store.read() as cursor, pytest.raises(AnamnesisError, match=case.case_key):
        facts_saved(cursor, case)
