"""Medical terms that models found in patients' replies.

The newest judgement of a conversation by a model and prompt that did not fail counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb
import orjson

from core.store.queries.scores_of_patients import CONVERSATIONS
from core.store.selection import Selection, choose
from core.store.tables import records


class JudgedTerm(NamedTuple):
    """A term that a model found: its message (from 0), the words, and their start and end in the message."""

    turn: int
    words: str
    start: int
    end: int


class ToJudge(NamedTuple):
    """A conversation, and whether this model has judged it already."""

    trial_id: str
    judged: bool


@dataclass(frozen=True)
class PatientJudgement:
    """A model's current judgement of one conversation.

    ``terms`` is ``None`` if it failed, with the message in ``failure``; ``dropped`` is the number of terms that are not
    in the reply.
    """

    model: str
    prompt_hash: str
    trial_id: str
    case_key: str
    terms: tuple[JudgedTerm, ...] | None
    dropped: int
    failure: str


def to_judge(
    cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str, selection: Selection, limit: int | None = None
) -> list[ToJudge]:
    """Return the first ``limit`` selected conversations in a fixed random order.

    The first N are therefore a random sample, and a larger limit extends that sample.
    """
    choose(cursor, selection.counted)
    values = {"model": model, "prompt_hash": prompt_hash, "limit": limit}
    return [ToJudge(*row) for row in cursor.execute(_TO_JUDGE, values).fetchall()]


def patient_judgement_row(
    model: str, prompt_hash: str, terms: Sequence[JudgedTerm] | None, outcome: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a row of the table; ``terms`` is ``None`` if the judging failed.

    ``outcome`` has trial_id, dropped, failure, calls, tokens, cost_usd and judged_at.
    """
    encoded = None if terms is None else orjson.dumps([term._asdict() for term in terms]).decode()
    return {"model": model, "prompt_hash": prompt_hash, "terms": encoded, **outcome}


def current_judgements(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> list[PatientJudgement]:
    """Return the current judgement of each selected conversation, by model and prompt."""
    choose(cursor, selection.counted)
    rows = records(cursor.execute(_JUDGEMENTS))
    for row in rows:
        if row["terms"] is not None:
            row["terms"] = tuple(JudgedTerm(**term) for term in orjson.loads(row["terms"]))
    return [PatientJudgement(**row) for row in rows]


_TO_JUDGE = f"""
    WITH {CONVERSATIONS}, drawn AS (SELECT trial_id FROM conversations ORDER BY md5(trial_id), trial_id LIMIT $limit),
    done AS (
        SELECT DISTINCT trial_id FROM patient_judgements
        WHERE model = $model AND prompt_hash = $prompt_hash AND terms IS NOT NULL
    )
    SELECT trial_id, done.trial_id IS NOT NULL
    FROM drawn SEMI JOIN utterances USING (trial_id) LEFT JOIN done USING (trial_id)
    ORDER BY md5(trial_id), trial_id"""


_JUDGEMENTS = f"""
    WITH {CONVERSATIONS}, counting AS (
        SELECT * FROM patient_judgements
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, model, prompt_hash ORDER BY (terms IS NOT NULL) DESC, judged_at DESC, rowid DESC) = 1
    )
    SELECT model, prompt_hash, trial_id, case_key, terms, dropped, failure
    FROM counting JOIN conversations USING (trial_id) ORDER BY model, prompt_hash, trial_id"""
