"""Conversations that branch off others: families as trees, their sizes, deleting branches.

A family is a conversation with all its branches. The first conversation may not be stored: it was stopped, or only its
branches were imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from core import access
from core.errors import UsageError
from core.journal import DeletedLine, JournalWriter
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import run_records
from core.store.queries.trials import Conversation, StoredTrial, conversations, stored_trials
from core.store.selection import Selection
from core.store.tables import records


@dataclass(frozen=True)
class Node:
    """One conversation of a family. ``turn`` is the first message that may differ from the parent's, from 0.

    ``parent`` and ``turn`` are ``None`` for the first conversation; ``conversation`` and ``stored`` are ``None`` if it
    is not stored.
    """

    trial_id: str
    parent: str | None = None
    turn: int | None = None
    changes: tuple[str, ...] = ()
    conversation: Conversation | None = None
    stored: StoredTrial | None = None

    @property
    def messages(self) -> int:
        """Number of messages of the dialogue; 0 if it is not stored."""
        return self.stored.messages if self.stored else 0

    @property
    def changes_in_words(self) -> str:
        """What differs from the parent; empty for the first conversation."""
        return "" if self.parent is None else "; ".join(self.changes) or f"continued again after message {self.turn}"


@dataclass(frozen=True)
class Tree:
    """A family: the first conversation, then every branch after its parent, earlier branches first."""

    nodes: tuple[Node, ...]

    @property
    def root(self) -> Node:
        return self.nodes[0]

    def node(self, trial_id: str) -> Node | None:
        return next((node for node in self.nodes if node.trial_id == trial_id), None)

    def children(self, trial_id: str) -> list[Node]:
        return [node for node in self.nodes if node.parent == trial_id]

    def descendants(self, trial_id: str) -> list[Node]:
        """Return all direct and indirect branches of a conversation, parents before children."""
        return [n for child in self.children(trial_id) for n in (child, *self.descendants(child.trial_id))]

    @property
    def names(self) -> dict[str, str]:
        """Trial → short name: "Original", "Branch 1", "Branch 1.1" and so on."""
        places = {self.root.trial_id: ""}
        for node in self.nodes:
            for number, child in enumerate(self.children(node.trial_id), start=1):
                places[child.trial_id] = f"{places[node.trial_id]}.{number}".lstrip(".")
        return {trial: f"Branch {place}" if place else "Original" for trial, place in places.items()}

    def lineage(self, node: Node) -> list[Node]:
        """Return a conversation, its parent, and so on up to the first one."""
        parent = self.node(node.parent) if node.parent else None
        return [node, *(self.lineage(parent) if parent else [])]

    def changes(self, node: Node, other: Node) -> list[str]:
        """Return the changes on the way to ``node`` that are not on the way to ``other``."""
        own = [ancestor for ancestor in self.lineage(node) if ancestor not in self.lineage(other)]
        return [change for ancestor in reversed(own) for change in ancestor.changes]


def tree(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> Tree | None:
    """Return the family of a conversation; ``None`` if it is neither stored nor a parent."""
    edges = _edges(cursor)
    root = _root(edges, trial_id)
    children: dict[str, list[str]] = {}
    for child, edge in edges.items():
        children.setdefault(edge["parent_trial_id"], []).append(child)
    members: dict[str, None] = {}  # in order: every branch after its parent
    waiting = [root]
    while waiting:
        member = waiting.pop()
        if member not in members:
            members[member] = None
            waiting.extend(reversed(children.get(member, ())))
    stored = stored_trials(cursor, list(members))
    if len(members) == 1 and root not in stored:
        return None
    all_conversations = {t.trial_id: t for t in conversations(cursor, Selection(trials=list(members)), limit=None)}
    edges.pop(root, None)  # a damaged journal may have a cycle: it is cut here
    origins = {child: (edge["parent_trial_id"], edge["turn"], tuple(edge["changes"])) for child, edge in edges.items()}
    return Tree(
        tuple(
            Node(id_, *origins.get(id_, (None, None, ())), all_conversations.get(id_), stored.get(id_))
            for id_ in members
        )
    )


def family_sizes(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the size of the family (including itself) of every conversation that is in one."""
    edges = _edges(cursor)
    members = dict.fromkeys([*edges, *(edge["parent_trial_id"] for edge in edges.values())])
    roots = {member: _root(edges, member) for member in members}
    sizes = Counter(roots.values())
    return {member: sizes[root] for member, root in roots.items()}


def delete_branch(trial_id: str, store: Store | None = None) -> int:
    """Delete a branch and all its branches for good; return the number of deleted conversations.

    The deletions are journaled, so that a rebuilt database lacks the branch as well. Parents do not change. Raises
    ``UsageError`` if the conversation is not a stored branch.
    """
    store = store or Store()
    fold(store)
    with store.read() as cursor:
        family = tree(cursor, trial_id)
    branch = family.node(trial_id) if family else None
    if family is None or branch is None or branch.parent is None:
        raise UsageError(
            f"The conversation {trial_id} is not a stored branch, so it cannot be deleted: choose a branch."
        )
    # the outermost branch first: if this is interrupted, no branch lacks its parent
    branches = [node for node in (branch, *family.descendants(trial_id)) if node.conversation][::-1]
    with store.read() as cursor:
        owners = {
            run.visitor
            for run in run_records(cursor, [node.conversation.run_id for node in branches if node.conversation])
        }
    for owner in owners:
        access.require_deletable(owner)
    for node in branches:
        assert node.conversation is not None
        with JournalWriter(store.journals / node.conversation.run_id / "journal.jsonl") as journal:
            journal.append(DeletedLine(run_id=node.conversation.run_id, trial_id=node.trial_id))
    fold(store)
    return len(branches)


def _edges(cursor: duckdb.DuckDBPyConnection) -> dict[str, dict[str, Any]]:
    return {row["trial_id"]: row for row in records(cursor.execute(_EDGES))}


def _root(edges: Mapping[str, Mapping[str, Any]], trial_id: str) -> str:
    """Return the first conversation of a family; a cycle, as in a damaged journal, is cut."""
    seen = {trial_id}
    while (edge := edges.get(trial_id)) and edge["parent_trial_id"] not in seen:
        trial_id = edge["parent_trial_id"]
        seen.add(trial_id)
    return trial_id


_EDGES = """
    SELECT trial_id, parent_trial_id, turn, changes, case_key, finished_at
    FROM forks JOIN trials USING (trial_id) ORDER BY finished_at, trial_id"""
