"""Marks of the rules on patients' replies, with their messages.

Only conversations with a reply of a patient are included; messages are counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pandas as pd

from core.judging.patient_rule import KINDS, ReplyMarkKind
from core.store.queries.scores import Reader, current_scores, key
from core.store.selection import Selection, choose, select
from core.store.tables import records


def conversations(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row for each marked conversation in a selection.

    Columns: trial_id, run_id, doctor, patient, persona, protocol, case_key, dataset, specialty, ``replies``, and
    for each of ``KINDS`` the number of its hits.
    """
    counts = ", ".join(f"any_value(value::BIGINT) FILTER (name = '{name}') AS {name}" for name in ("replies", *KINDS))
    sql = f"""
        WITH {CONVERSATIONS}, {current_scores(measure)}, counts AS (
            SELECT trial_id, {counts} FROM current_scores GROUP BY trial_id
        ) SELECT conversations.* EXCLUDE (content_hash, trial), counts.* EXCLUDE (trial_id)
        FROM conversations JOIN counts USING (trial_id) ORDER BY trial_id"""
    select(cursor, selection)
    return cursor.execute(sql, key(measure)).df()


def hits(
    cursor: duckdb.DuckDBPyConnection,
    measure: Reader,
    kinds: Sequence[ReplyMarkKind] = KINDS,
    selection: Selection | None = None,
    *,
    words: str | None = None,
    limit: int | None = 50,
) -> list[dict[str, Any]]:
    """Return the first ``limit`` hits of each of these kinds, in their order, by run, case, trial and turn.

    ``question`` is the doctor's message before the ``reply``. ``words`` selects hits that contain it, ignoring case.
    """
    select(cursor, selection)
    values = {**key(measure), "kinds": list(kinds), "words": words, "limit": limit}
    return records(cursor.execute(_HITS.format(current_scores=current_scores(measure)), values))


def offer(cursor: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Return the values by which all stored conversations, also watched ones, can be filtered, each combination once.

    Columns: run_id, doctor, patient, persona, dataset, specialty. The frame is cached: do not change it.
    """
    choose(cursor, Selection())
    columns = "run_id, doctor, patient, persona, dataset, specialty"
    return cursor.execute(f"WITH {CONVERSATIONS} SELECT DISTINCT {columns} FROM conversations ORDER BY ALL").df()


# The conversations of a selection; ``choose`` or ``select`` must have run before.
CONVERSATIONS = """replied AS (SELECT DISTINCT trial_id FROM utterances WHERE role = 'patient' AND turn > 0),
    conversations AS (
        SELECT trial_id, chosen.run_id, runs.doctor, runs.patient,
            coalesce(json_extract_string(runs.settings, '$.persona'), '') AS persona, runs.protocol,
            chosen.case_key, chosen.content_hash, chosen.dataset, chosen.specialty, trials.trial
        FROM chosen JOIN replied USING (trial_id) JOIN trials USING (trial_id) JOIN runs ON runs.run_id = chosen.run_id
        WHERE chosen.content_hash IS NOT NULL
    )"""


_EVIDENCE = '[{{"turn": "INTEGER", "words": "VARCHAR", "start": "INTEGER", "detail": "VARCHAR"}}]'


_NATURAL = "regexp_replace(case_key, '[0-9]+$', ''), try_cast(regexp_extract(case_key, '[0-9]+$') AS HUGEINT), case_key"


# The page is selected before its messages are read.
_HITS = f"""
    WITH {CONVERSATIONS}, {{current_scores}}, hits AS (
        SELECT trial_id, name AS kind, unnest(from_json(evidence, '{_EVIDENCE}'), max_depth := 2)
        FROM current_scores WHERE list_contains($kinds::VARCHAR[], name) AND value > 0
    ), page AS (
        SELECT conversations.*, turn, kind, words, start, coalesce(detail, '') AS detail
        FROM hits JOIN conversations USING (trial_id)
        WHERE ($words::VARCHAR IS NULL OR contains(lower(words), lower($words)))
        QUALIFY $limit::INTEGER IS NULL
            OR row_number() OVER (PARTITION BY kind ORDER BY run_id, {_NATURAL}, trial, turn, start) <= $limit
    )
    SELECT kind, words, detail, reply.text AS reply, coalesce((
            SELECT arg_max(before.text, before.turn) FROM utterances AS before
            WHERE before.trial_id = page.trial_id AND before.turn < page.turn AND before.role = 'doctor'), '')
        AS question, page.trial_id, page.turn, case_key AS case, doctor, patient
    FROM page JOIN utterances AS reply ON reply.trial_id = page.trial_id AND reply.turn = page.turn
    ORDER BY list_position($kinds::VARCHAR[], kind), run_id, {_NATURAL}, trial, page.turn, start"""
