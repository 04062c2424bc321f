"""Judgements of people on stored items: rows are added, never changed; the newest of an annotator counts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field

import duckdb

from core.store.records import records
from core.store.tables import insert


@dataclass(frozen=True)
class Annotation:
    """What one person said on one question about one item (a trial, or one answer of it); ``value`` may be open."""

    item: str
    annotator: str
    question: str
    value: str | None
    comment: str = ""
    annotated_at: float = field(default_factory=time.time)


def add_annotations(connection: duckdb.DuckDBPyConnection, new: Iterable[Annotation]) -> int:
    """Insert annotations and return how many. Needs a write lease."""
    rows = [astuple(a) for a in new]
    return insert(connection, "INSERT INTO annotations BY NAME SELECT * FROM incoming", "annotations", rows)


def annotations_of(cursor: duckdb.DuckDBPyConnection, item: str | None = None) -> list[Annotation]:
    """Return the newest annotation of every annotator and question, for one item or all."""
    sql = """
        SELECT * FROM annotations WHERE $item::VARCHAR IS NULL OR item = $item
        QUALIFY row_number() OVER (
            PARTITION BY item, annotator, question ORDER BY annotated_at DESC, rowid DESC) = 1
        ORDER BY item, question, annotator"""
    return [Annotation(**row) for row in records(cursor.execute(sql, {"item": item}))]
