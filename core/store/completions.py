"""Completions of vignettes by models, which tell whether a model knows the text; the newest by a prompt counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from core.store.records import records


@dataclass(frozen=True)
class StoredCompletion:
    """What a model made of the first half of a vignette.

    ``completion`` is ``None`` where the provider failed, with ``failure`` in words; ``similarity`` to the second half
    is between 0 and 1; ``cost_usd`` is ``None`` where no price is known; ``made_at`` is seconds since 1970.
    """

    case_key: str
    content_hash: str
    model: str
    prompt_hash: str
    first_half: str
    second_half: str
    completion: str | None
    failure: str
    similarity: float | None
    request: str
    tokens: int
    cost_usd: float | None
    made_at: float


def completions(cursor: duckdb.DuckDBPyConnection, models: Sequence[str] | None = None) -> list[StoredCompletion]:
    """Return the newest completion of every model, prompt and case, by model and prompt, the most similar first."""
    sql = """
        SELECT * FROM completions WHERE $models::VARCHAR[] IS NULL OR list_contains($models, model)
        QUALIFY row_number() OVER (
            PARTITION BY model, prompt_hash, case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1
        ORDER BY model, prompt_hash, similarity DESC NULLS LAST, case_key"""
    found = records(cursor.execute(sql, {"models": None if models is None else list(models)}))
    return [StoredCompletion(**row) for row in found]


def done(cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str) -> set[tuple[str, str]]:
    """Return (case_key, content_hash) of the cases that a model has completed under this prompt."""
    sql = (
        "SELECT case_key, content_hash FROM completions WHERE model = ? AND prompt_hash = ? AND completion IS NOT NULL"
    )
    return set(cursor.execute(sql, [model, prompt_hash]).fetchall())
