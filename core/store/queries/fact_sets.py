"""Facts of cases: the newest list that was saved for a case counts, otherwise what rules find in its vignette."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import duckdb
from pydantic import TypeAdapter, ValidationError

from core import access
from core.case import NOT_GIVEN, Case
from core.errors import AnamnesisError
from core.store.queries.cases import CaseKey, cases_of
from core.store.queries.scores import newest
from core.store.tables import CaseListRow
from core.store.written import write
from core.text.facts import AtomicFact, facts_of

_FACTS: TypeAdapter[tuple[AtomicFact, ...]] = TypeAdapter(tuple[AtomicFact, ...])


class SavedFacts(NamedTuple):
    """A case's facts as they were saved, and by whom: "rules", a person, or a model's name."""

    facts: tuple[AtomicFact, ...]
    made_by: str


def save_facts(connection: duckdb.DuckDBPyConnection, case: Case, facts: Sequence[AtomicFact], made_by: str) -> None:
    """Journal and add a list of facts for a case; earlier ones stay as history. Needs a write lease.

    Raises ``AnamnesisError`` where two facts have one id.
    """
    access.require("run")
    ids = [fact.id for fact in facts]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise AnamnesisError(f"Two facts of {case.case_key} have the id {twice!r}: give each its own.")
    listed = _FACTS.dump_json(tuple(facts)).decode()
    row = CaseListRow(case.case_key, case.content_hash, "facts", listed, made_by, time.time())
    write(connection, "case_list", [vars(row)])


def facts_saved(cursor: duckdb.DuckDBPyConnection, case: Case) -> SavedFacts | None:
    """Return the newest list saved for a case as it is now, or ``None``; one for an older content does not count."""
    sql = f"SELECT items, made_by FROM {newest('facts')} WHERE case_key = ? AND content_hash = ?"
    for text, made_by in cursor.execute(sql, [case.case_key, case.content_hash]).fetchall():
        return SavedFacts(facts_from_json(text, case.case_key), made_by)
    return None


class FactsInUse(NamedTuple):
    """The facts of a case, and the hash of them: of the case's content and the list that was saved for it.

    ``core.store.queries.judged_facts`` computes the same hash in SQL.
    """

    facts: tuple[AtomicFact, ...]
    hash: str


def facts_in_use(cursor: duckdb.DuckDBPyConnection, keys: Collection[CaseKey]) -> dict[CaseKey, FactsInUse]:
    """Return key → the facts of the stored cases with these keys; what came without a vignette has none."""
    sql = f"SELECT case_key, content_hash, items::VARCHAR FROM {newest('facts')}"
    saved = {(case_key, content): text for case_key, content, text in cursor.execute(sql).fetchall()}
    found = {}
    for key, case in cases_of(cursor, keys).items():
        if case.vignette in NOT_GIVEN:
            continue
        content = key[1] or case.content_hash
        text = saved.get((case.case_key, content))
        facts = facts_of(case) if text is None else facts_from_json(text, case.case_key)
        digest = hashlib.md5(f"{content}:{text or ''}".encode(), usedforsecurity=False).hexdigest()
        found[key] = FactsInUse(facts, digest)
    return found


def facts_from_json(text: str, case_key: str) -> tuple[AtomicFact, ...]:
    """Return the facts of a list as it is stored. Raises ``AnamnesisError`` if it cannot be read."""
    try:
        return _FACTS.validate_json(text)
    except ValidationError as error:
        raise AnamnesisError(
            f"The facts saved for {case_key} cannot be read ({error.errors()[0]['msg']}): save them again."
        ) from error
