"""Families of conversations: the tree, after a restart and a rebuild, and deleting a branch without its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import Event, Parent, Started, Utterance
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.branches import Tree, delete_branch, family_sizes, tree
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, write_journal
from tests.support.stores import copy_of

TABLES = ("trials", "utterances", "answers", "grades", "calls", "probes", "forks")


def add(store: Store, name: str, parent: str | None = None, turn: int = 1, at: float = 1.0, **header: object) -> Path:
    """Write a run with one conversation, which is a branch if it has a parent."""
    stream: list[Event] = a_stream(name)
    if parent is not None:
        parent_event = Parent(trial_id=parent, turn=turn, changes=(f"message {turn + 1} edited",))
        stream[0] = Started(trial_id=name, case_key="ours/1", trial=0, seed=7, at=1.0, parent=parent_event)
        stream[1:4] = [event for event in stream[1:4] if isinstance(event, Utterance)]
    source = "live" if parent is None else "fork"
    fields = {"cases": [a_case()], "trials": 1, "source": source, **header}
    line = a_trial(stream, trial_id=name, run_id=f"of-{name}", finished_at=at)
    return write_journal(store.journals, f"of-{name}", a_header(f"of-{name}", **fields), line)


def fill_family(store: Store) -> None:
    """root ─ a ─ b, root ─ c, and another conversation without branches."""
    add(store, "root")
    add(store, "c", "root", 2, at=40.0)
    add(store, "a", "root", 1, at=20.0)
    add(store, "b", "a", 2, at=30.0, doctor="openai/b", settings={"persona": "anxious"})
    add(store, "alone", at=50.0)
    fold(store)


@pytest.fixture
def family(tmp_path: Path) -> Store:
    return copy_of(fill_family, tmp_path)


def tree_of(store: Store, trial_id: str) -> Tree:
    with store.read() as cursor:
        family = tree(cursor, trial_id)
    assert family is not None
    return family


def shape(family: Tree) -> list[tuple[str, str | None, int | None]]:
    return [(node.trial_id, node.parent, node.turn) for node in family.nodes]


SHAPE = [("root", None, None), ("a", "root", 1), ("b", "a", 2), ("c", "root", 2)]


@pytest.mark.slow
@pytest.mark.parametrize("member", ["root", "a", "b", "c"])
def test_every_member_leads_to_the_whole_family(family: Store, member: str) -> None:
    family_tree = tree_of(family, member)
    assert shape(family_tree) == SHAPE  # a branch follows its parent; earlier branches come first
    assert [node.trial_id for node in family_tree.descendants("root")] == ["a", "b", "c"]
    assert [node.trial_id for node in family_tree.children("root")] == ["a", "c"]


def test_a_node_has_its_players_and_its_outcome(family: Store) -> None:
    node = tree_of(family, "root").node("b")
    assert node is not None
    assert node.conversation is not None
    assert node.stored is not None
    assert (node.conversation.doctor, node.stored.run.settings) == ("openai/b", {"persona": "anxious"})
    assert node.changes == ("message 3 edited",)
    assert node.messages == 3
    assert (node.conversation.end_reason, node.conversation.verdicts["vignette:mcq"]) == ("final_diagnosis", "correct")


def test_a_conversation_without_branches_is_a_family_of_one(family: Store) -> None:
    assert shape(tree_of(family, "alone")) == [("alone", None, None)]
    with family.read() as cursor:
        assert tree(cursor, "unknown") is None


def test_a_root_that_is_not_stored_still_has_its_id(store: Store) -> None:
    add(store, "a", "stopped", 1)
    fold(store)
    family_tree = tree_of(store, "stopped")
    assert shape(family_tree) == [("stopped", None, None), ("a", "stopped", 1)]
    assert family_tree.root.conversation is None
    assert family_tree.root.messages == 0


def test_every_member_of_a_family_knows_its_size(family: Store) -> None:
    add(family, "d", "alone", 1, at=35.0)
    fold(family)
    with family.read() as cursor:
        assert family_sizes(cursor) == {"root": 4, "a": 4, "b": 4, "c": 4, "alone": 2, "d": 2}


def rows_of(store: Store, trial_id: str) -> dict[str, int]:
    with store.read() as cursor:
        return {
            table: cursor.execute(f"SELECT count(*) FROM {table} WHERE trial_id = ?", [trial_id]).fetchall()[0][0]
            for table in TABLES
        }


def test_deleting_takes_a_branch_with_its_own_branches_and_nothing_else(family: Store) -> None:
    before = {name: rows_of(family, name) for name in ("root", "c", "alone")}
    journals = {name: (family.journals / f"of-{name}" / "journal.jsonl").read_bytes() for name in before}
    assert delete_branch("a", family) == 2
    assert shape(tree_of(family, "root")) == [("root", None, None), ("c", "root", 2)]
    for deleted in ("a", "b"):
        assert {table for table, count in rows_of(family, deleted).items() if count} == {"calls"}, "they were paid for"
    for name, rows in before.items():
        assert rows_of(family, name) == rows
        assert (family.journals / f"of-{name}" / "journal.jsonl").read_bytes() == journals[name]
    with family.read() as cursor:
        assert {r for (r,) in cursor.execute("SELECT run_id FROM runs").fetchall()} == {"of-root", "of-c", "of-alone"}


def test_a_conversation_that_is_no_branch_is_not_deleted(family: Store) -> None:
    for name in ("root", "alone", "unknown"):
        with pytest.raises(UsageError, match="is not a stored branch"):
            delete_branch(name, family)
    assert shape(tree_of(family, "root")) == SHAPE


def test_a_branch_that_is_not_folded_yet_can_be_deleted(family: Store) -> None:
    add(family, "e", "c", 2, at=60.0)
    assert delete_branch("e", family) == 1
    assert shape(tree_of(family, "root")) == SHAPE


@pytest.mark.slow
def test_the_family_and_a_deletion_survive_a_rebuild_from_the_journals(family: Store) -> None:
    family.path.unlink()
    fold(family)
    assert shape(tree_of(family, "root")) == SHAPE
    delete_branch("b", family)
    family.path.unlink()
    fold(family)
    assert shape(tree_of(family, "root")) == [node for node in SHAPE if node[0] != "b"]
    assert {table for table, count in rows_of(family, "b").items() if count} == {"calls"}


def test_a_circle_in_damaged_journals_is_cut(store: Store) -> None:
    add(store, "a", "b", 1, at=1.0)
    add(store, "b", "a", 1, at=2.0)
    fold(store)
    family_tree = tree_of(store, "a")
    assert {node.trial_id for node in family_tree.nodes} == {"a", "b"}
    assert len(family_tree.descendants(family_tree.root.trial_id)) == 1
