"""Annotations of conversations and answers by people. Rows are only added; the newest of an annotator counts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import duckdb
import orjson

from core.store.tables import records
from core.store.written import write


@dataclass(frozen=True)
class Span:
    """Highlighted words: characters ``start`` to ``end`` of message ``turn``, with an annotator's comment on them."""

    turn: int
    start: int
    end: int
    text: str
    comment: str = ""


@dataclass(frozen=True)
class Annotation:
    """A person's answer to one question about one item (see ``core.store.review_records``).

    ``value`` is ``None`` if the question is not answered yet. ``annotated_at`` is in seconds since 1970 (UTC).
    ``review_id`` is empty outside reviews; ``reason`` says why an earlier answer was changed; ``seconds`` is the time
    from opening the item to saving the answer, ``None`` if it is not known.
    """

    item: str
    annotator: str
    question: str
    value: str | None
    comment: str = ""
    annotated_at: float = field(default_factory=time.time)
    review_id: str = ""
    reason: str = ""
    spans: tuple[Span, ...] = ()
    seconds: float | None = None


def add_annotations(connection: duckdb.DuckDBPyConnection, new: Iterable[Annotation]) -> int:
    """Journal and insert annotations; return their number. Needs a write lease."""
    rows = [
        {**vars(item), "spans": orjson.dumps([asdict(span) for span in item.spans]).decode() if item.spans else None}
        for item in new
    ]
    return write(connection, "annotation", rows)


def annotations_of(cursor: duckdb.DuckDBPyConnection, review_id: str | None = None) -> list[Annotation]:
    """Return the newest annotation of every item, annotator and question, of one review or of all."""
    sql = f"""
        {_ANNOTATIONS} WHERE $review_id::VARCHAR IS NULL OR coalesce(review_id, '') = $review_id
        QUALIFY row_number() OVER (
            PARTITION BY review_id, item, annotator, question ORDER BY annotated_at DESC, rowid DESC) = 1
        ORDER BY item, question, annotator, review_id"""
    return [_annotation(row) for row in records(cursor.execute(sql, {"review_id": review_id}))]


def annotation_history(cursor: duckdb.DuckDBPyConnection) -> list[Annotation]:
    """Return every saved annotation, also replaced ones, the oldest first."""
    return [_annotation(row) for row in records(cursor.execute(f"{_ANNOTATIONS} ORDER BY annotated_at, rowid"))]


def _annotation(row: dict[str, Any]) -> Annotation:
    spans = orjson.loads(row["spans"]) if row["spans"] else []
    # rows of an older database have neither review nor reason
    filled = {name: value for name, value in row.items() if value is not None or name == "value"}
    return Annotation(**{**filled, "spans": tuple(Span(**span) for span in spans)})


_ANNOTATIONS = f"SELECT {', '.join(column.name for column in fields(Annotation))} FROM annotations"
