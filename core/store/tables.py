"""Rows of the database: schemas as Arrow tables, bulk inserts, deletions, query results as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from core.journal import ROWS_OF_TRIALS

TableRow = tuple[Any, ...]

_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "int": pa.int64(),
    "real": pa.float64(),
    "reals": pa.list_(pa.float64()),
    "bool": pa.bool_(),
}


def schema_of(columns: str) -> pa.Schema:
    """Return the schema of columns written as ``name:kind``, with the kinds of ``_TYPES``."""
    pairs = (column.split(":") for column in columns.split())
    return pa.schema([(name, _TYPES[kind]) for name, kind in pairs])


SCHEMAS: dict[str, pa.Schema] = {
    "runs": schema_of(
        "run_id:text fingerprint:text protocol:text doctor:text patient:text grader:text summariser:text "
        "prompt_pack:text prompt_hash:text case_set:text case_set_hash:text arms:texts trials:int seed:int "
        "settings:text code_version:text source:text created_at:real visitor:text "
        "data_set_hash:text data_set_cases:int hypothesis:text"
    ),
    "cases": schema_of(
        "case_key:text content_hash:text dataset:text specialty:text vignette:text question:text choices:texts "
        "answer:text synonyms:texts supertypes:texts subtypes:texts single_diagnosis:bool difficulty:text age:real "
        "sex:text speaker:text profile:text images:text source:text licence:text added_at:real "
        "asks_for:text"
    ),
    "run_labels": schema_of("run_id:text name:text tags:texts note:text labelled_at:real"),
    "run_cases": schema_of("run_id:text case_key:text content_hash:text position:int"),
    "trials": schema_of(
        "trial_id:text run_id:text case_key:text trial:int seed:int status:text end_reason:text end_detail:text "
        "doctor_turns:int summary:text failed_where:text failure:text failure_message:text started_at:real "
        "finished_at:real events:text"
    ),
    "utterances": schema_of("trial_id:text position:int turn:int role:text text:text call_id:text"),
    "answers": schema_of(
        "trial_id:text format:text question_type:text response:text status:text reason:text detail:text call_id:text"
    ),
    "grades": schema_of(
        "trial_id:text format:text question_type:text rule:text grader:text extracted:text verdict:text "
        "call_ids:texts graded_at:real prompt_hash:text rule_version:int"
    ),
    "calls": schema_of(
        "run_id:text trial_id:text position:int call_id:text role:text purpose:text model:text request:text "
        "response:text finish_reason:text served_by:text prompt_tokens:int completion_tokens:int tokens_estimated:bool "
        "latency_s:real first_token_s:real attempts:int cost_usd:real error:text reasoning:text reasoning_tokens:int "
        "cached_tokens:int parts:text cache_write_tokens:int price_source:text"
    ),
    "forks": schema_of("trial_id:text parent_trial_id:text turn:int changes:texts"),
    "probes": schema_of("trial_id:text turn:int rank:int diagnosis:text probability:real"),
    "misuses": schema_of("trial_id:text turn:int kinds:texts detail:text"),
    "ratings": schema_of("trial_id:text quality:text rater:text rating:int words:text call_id:text"),
    "profiles": schema_of(
        "case_key:text content_hash:text version:int suitable:bool reason:text note:text speaker:text profile:text "
        "made_by:text made_at:real"
    ),
    "completions": schema_of(
        "case_key:text content_hash:text model:text prompt_hash:text first_half:text second_half:text completion:text "
        "failure:text similarity:real request:text tokens:int cost_usd:real made_at:real"
    ),
    "variants": schema_of(
        "variant_id:text trial_id:text step:text messages:text model:text outcome:text note:text made_at:real "
        "visitor:text"
    ),
    "journal_positions": schema_of("path:text position:int size:int folded_at:real"),
    "reviews": schema_of("review_id:text name:text kind:text plan:text created_at:real"),
    "review_items": schema_of("review_id:text item:text number:int annotators:texts"),
    "unblindings": schema_of("review_id:text unblinded_by:text reason:text unblinded_at:real"),
    "fact_sets": schema_of("case_key:text content_hash:text facts:text made_by:text made_at:real"),
    "history_items": schema_of("case_key:text content_hash:text items:text made_by:text made_at:real"),
    "case_labels": schema_of(
        "case_key:text text_hash:text field:text value:text origin:text made_by:text note:text made_at:real"
    ),
    "scores": schema_of(
        "trial_id:text measure:text measure_version:text name:text value:real evidence:text computed_at:real "
        "against:text series:reals"
    ),
    "release_files": schema_of(
        "run_id:text path:text case_key:text digest:text prompts:texts fault:text imported_at:real"
    ),
    "release_prompts": schema_of("prompt_hash:text template:text"),
    "report_fields": schema_of("runs:texts field:text text:text applies:bool made_by:text made_at:real"),
    "rubrics": schema_of("name:text rubric_hash:text rubric:text made_by:text made_at:real"),
    "prefix_answers": schema_of(
        "trial_id:text content_hash:text question_type:text share:int messages:int solver:text prompt_hash:text "
        "grader:text grader_prompts:text response:text verdict:text extracted:text detail:text call_ids:texts "
        "answered_at:real"
    ),
    "judgements": schema_of(
        "trial_id:text subject:text form:text question:text against:text judge:text judge_kind:text prompt_hash:text "
        "together:int repeat:int value:text void:bool quotations:text reason:text comment:text failure:text "
        "calls:texts review_id:text seconds:real served_by:text judged_at:real"
    ),
}
"""Table → the columns of its rows, in the order of the tuples."""


OF_A_TRIAL = (
    "utterances", "answers", "grades", "calls", "probes", "forks", "misuses", "ratings", "variants",
    *ROWS_OF_TRIALS,
    "scores", "trials",
)  # fmt: skip
"""The tables with rows of a trial; deleting a trial clears them all."""


def arrow_table(schema: pa.Schema, rows: Sequence[TableRow]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def insert(connection: duckdb.DuckDBPyConnection, sql: str, name: str, rows: Sequence[TableRow]) -> int:
    """Run an INSERT that selects from ``incoming``, rows of table ``name``; return the number of new rows."""
    if not rows:
        return 0
    with incoming(connection, arrow_table(SCHEMAS[name], rows)):
        (count,) = connection.execute(sql).fetchall()[0]
    return int(count)


@contextmanager
def incoming(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[None]:
    """Let SQL read an Arrow table as ``incoming``."""
    connection.register("incoming", rows)
    try:
        yield
    finally:
        with suppress(duckdb.TransactionException):  # after a failed insert: the first error matters
            connection.unregister("incoming")


def adding(name: str, key: str, distinct: str = "") -> str:
    """Return the INSERT of the ``incoming`` rows of a table whose key is not stored yet."""
    return f"INSERT INTO {name} BY NAME SELECT {distinct} * FROM incoming ANTI JOIN {name} USING ({key})"


def delete_runs(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> None:
    """Delete runs and their trials from every table but ``calls``, because calls were paid for."""
    for table in (*OF_A_TRIAL, "run_cases", "runs", "run_labels") if run_ids else ():
        if table in ("trials", "run_cases", "runs", "run_labels"):
            connection.execute(f"DELETE FROM {table} WHERE list_contains(?, run_id)", [list(run_ids)])
        elif table != "calls":
            of_runs = "SELECT trial_id FROM trials WHERE list_contains(?, run_id)"
            connection.execute(f"DELETE FROM {table} WHERE trial_id IN ({of_runs})", [list(run_ids)])


def shared_texts(column: Any) -> list[Any]:
    """Return the texts of an Arrow column, equal ones as one object: a third of the memory of a long column."""
    encoded = column.combine_chunks().dictionary_encode()
    values = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    texts: list[Any] = values[encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)].tolist()
    return texts


def records(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return the rows of an executed query as dictionaries by column name."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
