"""Completions of the first halves of vignettes by models; the newest of a model, prompt and case counts."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from core.store.tables import CompletionRow, records


def completions(
    cursor: duckdb.DuckDBPyConnection, models: Iterable[str] | None = None, case_sets: Iterable[str] | None = None
) -> list[CompletionRow]:
    """Return the newest completion of every model, prompt and case, of all or some models and data sets.

    The order is that of model, prompt and data set, then the most similar first.
    """
    sql = f"""
        SELECT {", ".join(CompletionRow.stored_in.columns)} FROM completions
        WHERE ($models::VARCHAR[] IS NULL OR list_contains($models, model))
            AND ($case_sets::VARCHAR[] IS NULL OR list_contains($case_sets, split_part(case_key, '/', 1)))
        QUALIFY row_number() OVER (
            PARTITION BY model, prompt_hash, case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1
        ORDER BY model, prompt_hash, split_part(case_key, '/', 1), similarity DESC NULLS LAST, case_key"""
    values = {
        "models": None if models is None else list(models),
        "case_sets": None if case_sets is None else list(case_sets),
    }
    return [CompletionRow(**row) for row in records(cursor.execute(sql, values))]


def completed(cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str) -> set[tuple[str, str]]:
    """Return (case_key, content_hash) of the cases that a model has completed with this prompt."""
    sql = (
        "SELECT case_key, content_hash FROM completions WHERE model = ? AND prompt_hash = ? AND completion IS NOT NULL"
    )
    return set(cursor.execute(sql, [model, prompt_hash]).fetchall())
