"""Summaries of facts ledgers, kept by conversation: what is held, what is missing, and sums by model and case.

A summary is known by its trial and a hash of the facts it was made against (the case's content, and the list that
somebody saved for it) and of the version of the rules. What changes any of these makes it missing again; older
summaries stay and are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import pyarrow as pa

from core.store.selection import NO_ARM, SELECTED, Selection, select


class Unmarked(NamedTuple):
    """A conversation without a summary by the present facts and rules."""

    trial_id: str
    case_key: str
    content_hash: str
    facts_hash: str


class StoredLedger(NamedTuple):
    """The summary of one conversation as JSON; ``marked_at`` in seconds since 1970."""

    trial_id: str
    facts_hash: str
    summary: str
    marked_at: float


def unmarked(cursor: duckdb.DuckDBPyConnection, version: str, selection: Selection | None = None) -> list[Unmarked]:
    """Return the selected conversations without a summary, those about one case together."""
    sql = f"""
        WITH {_MARKED} SELECT trial_id, case_key, content_hash, facts_hash FROM marked
        WHERE summary IS NULL ORDER BY case_key, content_hash, trial_id"""
    return [Unmarked(*row) for row in cursor.execute(sql, _selected(cursor, version, selection)).fetchall()]


def add_ledgers(connection: duckdb.DuckDBPyConnection, new: Sequence[StoredLedger]) -> int:
    """Append the summaries that are not there yet and return how many. Needs a write lease."""
    if not new:
        return 0
    columns = (list(column) for column in zip(*new, strict=True))
    connection.register("incoming", pa.table(dict(zip(StoredLedger._fields, columns, strict=True))))
    try:
        select = "SELECT * FROM incoming ANTI JOIN ledgers USING (trial_id, facts_hash)"
        (count,) = connection.execute(f"INSERT INTO ledgers BY NAME {select}").fetchall()[0]
    finally:
        connection.unregister("incoming")
    return int(count)


def summaries(
    cursor: duckdb.DuckDBPyConnection, version: str, selection: Selection | None = None
) -> list[tuple[str, str]]:
    """Return (trial, summary) of the selected conversations that have one."""
    sql = f"WITH {_MARKED} SELECT trial_id, summary FROM marked WHERE summary IS NOT NULL ORDER BY trial_id"
    return cursor.execute(sql, _selected(cursor, version, selection)).fetchall()


def talk_sums(cursor: duckdb.DuckDBPyConnection, version: str, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model and case: its conversations, and what the marked ones hold.

    Columns: model, case_key, dataset, specialty; of the conversations that did not break off, ``marked`` and
    ``missing``; ``broken`` ones; ``unmarked`` of both; ``with_leaked`` of the marked ones.
    """
    sql = f"""
        WITH {_MARKED}, read AS (SELECT *, from_json(summary, '{_TALK}') AS s FROM marked)
        SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
            count(*) FILTER (whole AND s IS NOT NULL) AS marked, count(*) FILTER (whole AND s IS NULL) AS missing,
            count(*) FILTER (NOT whole) AS broken, count(*) FILTER (s IS NULL) AS unmarked,
            count(*) FILTER (whole AND len(s.facts.leaked) > 0) AS with_leaked
        FROM read GROUP BY model, place, case_key ORDER BY place, case_key"""
    return cursor.execute(sql, _selected(cursor, version, selection)).df()


def topic_sums(cursor: duckdb.DuckDBPyConnection, version: str, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model, case and topic: facts over its marked whole conversations, and what became of them.

    Columns: model, case_key, dataset, specialty, topic, ``facts``, ``asked``, ``volunteered``, ``never_elicited``:
    numbers of facts that the patient could tell, summed over conversations.
    """
    sql = f"""
        WITH {_MARKED}, read AS (
            SELECT model, place, case_key, dataset, specialty, unnest(from_json(summary, '{_TOPICS}').topics) AS t
            FROM marked WHERE whole AND summary IS NOT NULL
        )
        SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty, t.topic AS topic,
            {", ".join(f"sum(t.{name})::BIGINT AS {name}" for name in COUNTS)}
        FROM read GROUP BY model, place, case_key, t.topic ORDER BY place, case_key, topic"""
    return cursor.execute(sql, _selected(cursor, version, selection)).df()


def _selected(cursor: duckdb.DuckDBPyConnection, version: str, selection: Selection | None) -> dict[str, Any]:
    """Seat the conditions of a selection and return the values for ``_MARKED``."""
    chosen = (selection or Selection()).of_talks()
    select(cursor, chosen)
    return {**chosen.parameters(), "version": version}


COUNTS = ("facts", "asked", "volunteered", "never_elicited")
"""What a summary counts in each topic."""
_TALK = '{"facts": {"leaked": ["BIGINT"]}}'
_TOPICS = '{"topics": [{"topic": "VARCHAR", ' + ", ".join(f'"{name}": "BIGINT"' for name in COUNTS) + "}]}"

FACTS_HASH = "md5(held.facts)"
"""Of the facts of a row of ``held``: the case's content and the list that somebody saved for it."""
# AutoMedic's have no ledger: its rules know a doctor and a patient only, also where runs are named. Where a journal did
# not bring its cases, the case as it came in last stands for it.
HELD = f"""newest_facts AS (
        SELECT case_key, content_hash, facts FROM fact_sets
        QUALIFY row_number() OVER (PARTITION BY case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1
    ), last_cases AS (
        SELECT case_key, content_hash FROM cases
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
    ), held AS (
        SELECT trials.trial_id, model, place, trials.case_key, cases.content_hash, cases.dataset,
            cases.specialty, trials.end_reason IN ('final_diagnosis', 'no_question', 'turn_cap') AS whole,
            cases.content_hash || ':' || coalesce(newest_facts.facts::VARCHAR, '') AS facts,
            length(cases.vignette) + coalesce(length(newest_facts.facts::VARCHAR), length(cases.vignette)) AS characters
        FROM trials JOIN runs ON runs.run_id = trials.run_id JOIN seated ON seated.run_id = trials.run_id
        LEFT JOIN last_cases ON last_cases.case_key = trials.case_key
        JOIN cases ON cases.case_key = trials.case_key
            AND cases.content_hash = coalesce(trials.content_hash, last_cases.content_hash)
        LEFT JOIN newest_facts ON newest_facts.case_key = cases.case_key
            AND newest_facts.content_hash = cases.content_hash
        {NO_ARM}
        WHERE trials.end_reason IS NOT NULL AND runs.protocol <> 'automedic' AND {SELECTED}
    )"""
"""Queries up to ``held``: the selected conversations with their case and its facts."""
_MARKED = f"""{HELD}, hashed AS (SELECT *, md5($version || ':' || facts) AS facts_hash FROM held), marked AS (
        SELECT hashed.*, ledgers.summary FROM hashed
        LEFT JOIN ledgers ON ledgers.trial_id = hashed.trial_id AND ledgers.facts_hash = hashed.facts_hash
    )"""
