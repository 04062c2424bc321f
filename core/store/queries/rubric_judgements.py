"""Verdicts of judges on the criteria of rubrics.

A verdict is identified by its conversation, its judge (model, prompts, size of batches), a hash of the criterion's
wording and the number of the repeat; of several, the newest with a verdict counts. A criterion whose wording changes
counts as not judged; points, axis and priority are read from the rubric when scores are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import duckdb
import orjson
import pandas as pd

from core.judging.judgement import Quotation
from core.store.selection import Selection, select

RubricVerdict = Literal["met", "not met", "not applicable", "cannot be judged"]
CANNOT_BE_JUDGED: RubricVerdict = "cannot be judged"


class RubricJudge(NamedTuple):
    """A judge of rubrics; ``batch`` is the most criteria in one of its requests."""

    model: str
    prompt_hash: str
    batch: int


class RubricConversation(NamedTuple):
    """A conversation that can be judged: it ended regularly or as its log does not say, with the doctor's words."""

    trial_id: str
    doctor: str
    case_key: str
    specialty: str


def conversations_for_rubrics(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, *, trials: Sequence[str] | None = None
) -> list[RubricConversation]:
    """Return the selected conversations in a fixed shuffled order, so that the first N are a random sample.

    ``trials`` overrides the selection.
    """
    select(cursor, selection if trials is None else Selection(trials=trials))
    return [RubricConversation(*row) for row in cursor.execute(f"WITH {_CONVERSATIONS} {_SHUFFLED}").fetchall()]


def rubric_verdict_keys(
    cursor: duckdb.DuckDBPyConnection, judge: RubricJudge, trials: Iterable[str]
) -> set[tuple[str, str, int]]:
    """Return (trial, criterion hash, repeat) of the verdicts that a judge has given, voided ones included."""
    rows = cursor.execute(_DONE, {**judge._asdict(), "trials": list(trials)}).fetchall()
    return {(trial_id, criterion_hash, repeat) for trial_id, criterion_hash, repeat in rows}


def rubric_conversations(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each selected conversation that can be judged, in the order of conditions and cases.

    Columns: trial_id, ``model`` (the condition), ``doctor``, case_key, dataset, specialty, ``characters`` of all the
    doctor's messages.
    """
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS} {_ORDERED}").df()


def unjudgeable_conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> list[tuple[str, str, str, str]]:
    """Return (condition, case key, specialty, end) of the selected conversations that cannot be judged."""
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS} {_UNJUDGEABLE}").fetchall()


def rubric_verdicts(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return the verdicts on the selected conversations that count, of all judges and repeats.

    Columns: trial_id, ``judge`` (model), prompt_hash, batch, rubric, rubric_hash, criterion_hash, repeat, ``verdict``
    (``None`` without a readable reply), voided, failure, reason, ``quotations`` as JSON, judged_at.
    """
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS}, {_COUNTING} {_VERDICTS}").df()


def rubric_judgement_row(
    judge: RubricJudge,
    verdict: RubricVerdict | None,
    quotations: Sequence[Quotation],
    voided: bool,
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a row of the table; ``fields`` has the other columns.

    Args:
        judge: The judge.
        verdict: ``None`` if there is no readable reply.
        quotations: The quotations as they were checked.
        voided: Whether they are no evidence, so that the verdict does not count.
        fields: The other columns.
    """
    stored = [{k: v for k, v in quotation._asdict().items() if v not in ("", None)} for quotation in quotations]
    return {
        **judge._asdict(),
        "verdict": verdict,
        "voided": voided,
        "quotations": orjson.dumps(stored).decode(),
        **fields,
    }


def quotations_from_json(text: str) -> tuple[Quotation, ...]:
    return tuple(Quotation(**fields) for fields in orjson.loads(text))


# A conversation that a failure or a refusal ended is judged by no rubric: what is missing in it is not the doctor's.
# A finished conversation of a log that does not record its end is judged.
_CONVERSATIONS = """conversations AS (
        SELECT chosen.trial_id, seated.model, place, runs.doctor, chosen.case_key, dataset, specialty, characters
        FROM chosen JOIN seated USING (run_id) JOIN runs ON runs.run_id = chosen.run_id
        JOIN trials ON trials.trial_id = chosen.trial_id
        JOIN (SELECT trial_id, (sum(length(text)) FILTER (role NOT IN ('patient', 'staff')))::BIGINT AS characters
              FROM utterances GROUP BY trial_id) AS lengths ON lengths.trial_id = chosen.trial_id
        WHERE end_reason IN ('final_diagnosis', 'no_question', 'turn_cap', 'end_tag', 'not_recorded')
            AND characters IS NOT NULL
    )"""


_COUNTING = """counting AS (
        SELECT rubric_judgements.* FROM rubric_judgements JOIN conversations USING (trial_id)
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, rubric_judgements.model, prompt_hash, batch, criterion_hash, repeat
            ORDER BY (verdict IS NOT NULL) DESC, judged_at DESC) = 1
    )"""


# runs of vignettes alone have no conversations
_UNJUDGEABLE = """
    SELECT seated.model, chosen.case_key, coalesce(specialty, ''), coalesce(end_reason, status)
    FROM chosen JOIN seated USING (run_id) JOIN trials ON trials.trial_id = chosen.trial_id
    WHERE chosen.trial_id NOT IN (SELECT trial_id FROM conversations)
        AND chosen.run_id IN (SELECT run_id FROM trials WHERE end_reason IS NOT NULL)
    ORDER BY place, chosen.case_key, chosen.trial_id"""


_SHUFFLED = """
    SELECT trial_id, doctor, case_key, coalesce(specialty, '') FROM conversations
    ORDER BY md5(trial_id), trial_id"""


_ORDERED = """
    SELECT trial_id, model, doctor, case_key, dataset, coalesce(specialty, '') AS specialty, characters
    FROM conversations ORDER BY place, case_key, trial_id"""


_DONE = """
    SELECT DISTINCT trial_id, criterion_hash, repeat FROM rubric_judgements
    WHERE model = $model AND prompt_hash = $prompt_hash AND batch = $batch AND verdict IS NOT NULL
        AND trial_id IN (SELECT unnest($trials::VARCHAR[]))"""


_VERDICTS = """
    SELECT trial_id, model AS judge, prompt_hash, batch, rubric, rubric_hash, criterion_hash, repeat, verdict, voided,
        failure, reason, quotations, judged_at
    FROM counting ORDER BY judged_at, trial_id, criterion_hash"""
