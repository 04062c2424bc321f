"""Answers of models to the forms of reviews. They are never among the answers of people.

The newest readable answer of a model under a prompt hash counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import duckdb
import orjson

from core.store.tables import records

QuotationStatus = Literal["verified", "repaired", "unverified"]
"""``repaired``: the words are in another message than the named one; ``unverified``: in none."""


class RatedQuotation(NamedTuple):
    """Words that a model quotes for an answer, and the number (from 0) of their message in the request."""

    message: int
    words: str
    status: QuotationStatus


@dataclass(frozen=True)
class ModelRating:
    """A model's answer to one question about one item; ``value`` is ``None`` if ``failure`` says why there is none."""

    item: str
    question: str
    model: str
    prompt_hash: str
    value: str | None
    quotations: tuple[RatedQuotation, ...] = ()
    reason: str = ""
    failure: str = ""


def model_rating_row(rating: ModelRating, form: str, call_ids: Sequence[str], rated_at: float) -> dict[str, Any]:
    """Return the row of a rating; ``rated_at`` is in seconds since 1970."""
    quotations = orjson.dumps([quotation._asdict() for quotation in rating.quotations]).decode()
    more = {"form": form, "quotations": quotations, "call_ids": list(call_ids), "rated_at": rated_at}
    return {**vars(rating), **more}


def model_ratings(cursor: duckdb.DuckDBPyConnection, form: str, items: Collection[str]) -> list[ModelRating]:
    """Return the ratings of items by a form that count, of every model and prompt; unreadable replies are left out."""
    rows = records(cursor.execute(_RATINGS, {"form": form, "items": list(items)}))
    for row in rows:
        row["quotations"] = tuple(RatedQuotation(**quotation) for quotation in orjson.loads(row["quotations"]))
    return [ModelRating(**row) for row in rows]


def rated_by(cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str) -> set[str]:
    """Return the items with a readable reply of a model under a prompt hash."""
    sql = "SELECT DISTINCT item FROM model_ratings WHERE model = ? AND prompt_hash = ? AND question <> ''"
    return {item for (item,) in cursor.execute(sql, [model, prompt_hash]).fetchall()}


_RATINGS = """
    SELECT item, question, model, prompt_hash, value, quotations, reason, failure FROM model_ratings
    SEMI JOIN (SELECT unnest($items::VARCHAR[]) AS item) USING (item)
    WHERE form = $form AND question <> ''
    QUALIFY row_number() OVER (
        PARTITION BY item, question, model, prompt_hash ORDER BY rated_at DESC, rowid DESC) = 1
    ORDER BY model, prompt_hash, question, item"""
