"""Completions of the first halves of vignettes by models; the newest of a model, prompt and case counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import duckdb

from core.store.tables import records


@dataclass(frozen=True)
class StoredCompletion:
    """A model's completion of the first half of a vignette.

    ``completion`` is ``None`` if the provider failed, with the message in ``failure``; ``similarity`` to the second
    half is between 0 and 1; ``cost_usd`` is ``None`` if no price is known; ``made_at`` is in seconds since 1970.
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

    @property
    def data_set(self) -> str:
        return self.case_key.partition("/")[0]


def completions(
    cursor: duckdb.DuckDBPyConnection, models: Iterable[str] | None = None, case_sets: Iterable[str] | None = None
) -> list[StoredCompletion]:
    """Return the newest completion of every model, prompt and case, of all or some models and data sets.

    The order is that of model, prompt and data set, then the most similar first.
    """
    sql = f"""
        SELECT {", ".join(column.name for column in fields(StoredCompletion))} FROM completions
        WHERE ($models::VARCHAR[] IS NULL OR list_contains($models, model))
            AND ($case_sets::VARCHAR[] IS NULL OR list_contains($case_sets, split_part(case_key, '/', 1)))
        QUALIFY row_number() OVER (
            PARTITION BY model, prompt_hash, case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1
        ORDER BY model, prompt_hash, split_part(case_key, '/', 1), similarity DESC NULLS LAST, case_key"""
    values = {
        "models": None if models is None else list(models),
        "case_sets": None if case_sets is None else list(case_sets),
    }
    return [StoredCompletion(**row) for row in records(cursor.execute(sql, values))]


def completed(cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str) -> set[tuple[str, str]]:
    """Return (case_key, content_hash) of the cases that a model has completed with this prompt."""
    sql = (
        "SELECT case_key, content_hash FROM completions WHERE model = ? AND prompt_hash = ? AND completion IS NOT NULL"
    )
    return set(cursor.execute(sql, [model, prompt_hash]).fetchall())
