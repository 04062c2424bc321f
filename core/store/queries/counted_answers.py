"""Every answer of a selection with the verdict by which figures count or exclude it, and the dialogue behind it.

``find_answers`` writes the answers once to a temporary table; ``counted_answers`` reads it in parts, so that an export
of any size needs the memory of one part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from core.events import EndReason, Format, QuestionType, Rule, Verdict
from core.frameworks.base import frameworks, tested_seat
from core.store.conditions import Condition
from core.store.queries.answers import OUTCOMES
from core.store.queries.cases import CaseKey
from core.store.rows import calls_in
from core.store.selection import IN_ARMS, Selection, select
from core.store.tables import arrow_table, records, schema_of

PART = 2_000
"""Answers of one part."""


@dataclass(frozen=True, slots=True)
class CountedAnswer:
    """An answer with the verdict that counts, or that says why the answer is excluded (``core.events.COUNTED``).

    ``condition`` is the name in ``select``. ``call_id`` is the doctor's call, ``None`` without one. ``finished_at`` is
    in seconds since 1970 (UTC). ``response`` is ``None`` if the trial broke off before the answer.
    """

    condition: str
    run_id: str
    trial_id: str
    case_key: str
    content_hash: str | None
    trial: int
    format: Format
    question_type: QuestionType
    response: str | None
    detail: str | None
    call_id: str | None
    rule: Rule | None
    verdict: Verdict
    grader: str | None
    extracted: str | None
    end_reason: EndReason | None
    finished_at: float

    @property
    def case(self) -> CaseKey:
        return self.case_key, self.content_hash


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the doctor's calls; ``estimated`` if a provider reported none for some of them."""

    prompt: int
    cached: int | None
    cache_write: int | None
    completion: int
    reasoning: int | None
    estimated: bool


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a dialogue; ``reasoning`` is the model's, never part of a message."""

    turn: int
    role: str
    text: str
    reasoning: str | None


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """The doctor's call for an answer: the messages of its request, and the model's reasoning."""

    messages: list[dict[str, object]]
    reasoning: str | None


def find_answers(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> list[Condition]:
    """Create ``exported_answers``, numbered in the order of conditions, cases and trials; return the conditions."""
    conditions = select(cursor, selection)
    cursor.execute(_FIND_ANSWERS, selection.parameters(_FIND_ANSWERS))
    return conditions


def counted_answers(cursor: duckdb.DuckDBPyConnection, condition: str) -> Iterator[list[CountedAnswer]]:
    """Yield the answers of a condition in parts; other queries may run between two parts."""
    first, last = cursor.execute(_RANGE, [condition]).fetchall()[0]
    for start in range(first or 0, (last or -1) + 1, PART):
        rows = records(cursor.execute(_ANSWERS, {"first": start, "last": min(start + PART - 1, last)}))
        yield [CountedAnswer(**row) for row in rows]


def messages_of(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, list[StoredMessage]]:
    """Return trial → the messages of its dialogue in their order."""
    messages: dict[str, list[StoredMessage]] = {}
    for trial_id, *fields in cursor.execute(_MESSAGES, {"trials": list(trial_ids)}).fetchall():
        messages.setdefault(trial_id, []).append(StoredMessage(*fields))
    return messages


def answer_calls(cursor: duckdb.DuckDBPyConnection, answers: Sequence[CountedAnswer]) -> dict[str, AnswerCall]:
    """Return call id → the call, for the answers whose calls are stored."""
    values = _of_calls(answers)
    calls = calls_in(records(cursor.execute(_ANSWER_CALLS, values)))
    return {
        call_id: AnswerCall(calls[call_id].request.get("messages") or [], calls[call_id].reasoning)
        for call_id in values["calls"]
        if call_id in calls
    }


def token_use(
    cursor: duckdb.DuckDBPyConnection, answers: Sequence[CountedAnswer]
) -> tuple[dict[str, Tokens], dict[str, Tokens]]:
    """Return trial → tokens of the doctor's messages in the dialogue, and call id → tokens of an answer's call."""
    values = _of_calls(answers)
    tested = [(name, tested_seat(framework_).role) for name, framework_ in frameworks().items()]
    cursor.register("tested_roles", arrow_table(schema_of("protocol:text role:text"), tested))
    dialogues = cursor.execute(_DIALOGUE_TOKENS, {"trials": values["trials"]}).fetchall()
    calls = cursor.execute(_CALL_TOKENS, values).fetchall()
    return {key: Tokens(*numbers) for key, *numbers in dialogues}, {key: Tokens(*numbers) for key, *numbers in calls}


def judges_of(cursor: duckdb.DuckDBPyConnection, condition: str) -> dict[tuple[Format, QuestionType], list[str]]:
    """Return arm → who gave the verdicts that count, for the answers of a condition that count or are excluded."""
    return {(format_, kind): graders for format_, kind, graders in cursor.execute(_JUDGES, [condition]).fetchall()}


def last_finished_at(cursor: duckdb.DuckDBPyConnection, condition: str) -> float:
    """Return when the last trial of a condition of ``find_answers`` ended, in seconds since 1970 (UTC)."""
    sql = "SELECT max(finished_at) FROM exported_answers WHERE condition = ?"
    (finished,) = cursor.execute(sql, [condition]).fetchall()[0]
    return float(finished)


def exported_cases(cursor: duckdb.DuckDBPyConnection) -> list[CaseKey]:
    """Return the cases of the trials of ``find_answers``, in the order of their keys."""
    rows = cursor.execute("SELECT DISTINCT case_key, content_hash FROM exported_answers ORDER BY ALL").fetchall()
    return [(key, content_hash) for key, content_hash in rows]


def _of_calls(answers: Sequence[CountedAnswer]) -> dict[str, list[str]]:
    return {
        "trials": sorted({answer.trial_id for answer in answers}),
        "calls": [answer.call_id for answer in answers if answer.call_id],
    }


_FIND_ANSWERS = f"""
    CREATE OR REPLACE TEMP TABLE exported_answers AS
    WITH {OUTCOMES}
    SELECT row_number() OVER (
            ORDER BY verdicts.place, trials.case_key, trials.trial, trial_id, verdicts.format, verdicts.question_type
        ) - 1 AS number,
        verdicts.model AS condition, trials.run_id, trial_id, trials.case_key, selected.content_hash, trials.trial,
        verdicts.format, verdicts.question_type, answers.response, answers.detail, answers.call_id, verdicts.rule,
        verdicts.verdict, verdicts.grader, verdicts.extracted, trials.end_reason, trials.finished_at
    FROM outcomes AS verdicts
    JOIN trials USING (trial_id)
    JOIN selected USING (trial_id)
    LEFT JOIN answers USING (trial_id, format, question_type)
    WHERE {IN_ARMS}
    ORDER BY number"""
_RANGE = "SELECT min(number), max(number) FROM exported_answers WHERE condition = ?"
_ANSWERS = "SELECT * EXCLUDE (number) FROM exported_answers WHERE number BETWEEN $first AND $last ORDER BY number"
_OF_TRIALS = "trial_id IN (SELECT unnest($trials::VARCHAR[]))"
_MESSAGES = f"""
    SELECT trial_id, turn, role, text, reasoning
    FROM (FROM utterances WHERE {_OF_TRIALS})
    LEFT JOIN (SELECT trial_id, call_id, reasoning FROM calls WHERE {_OF_TRIALS} AND reasoning IS NOT NULL)
        USING (trial_id, call_id)
    ORDER BY trial_id, position"""
_ANSWER_CALLS = f"""
    WITH of_trials AS (FROM calls WHERE {_OF_TRIALS})
    SELECT call_id, role, purpose, model, request, parts, reasoning FROM of_trials
    WHERE call_id IN (SELECT unnest($calls::VARCHAR[]))
        OR call_id IN (SELECT json_extract_string(request, '$.follows.call_id') FROM of_trials)"""
_SUMS = """
    sum(prompt_tokens)::BIGINT, sum(cached_tokens)::BIGINT, sum(cache_write_tokens)::BIGINT,
    sum(completion_tokens)::BIGINT, sum(reasoning_tokens)::BIGINT, bool_or(tokens_estimated)"""
_DIALOGUE_TOKENS = f"""
    SELECT trial_id, {_SUMS}
    FROM (FROM calls WHERE {_OF_TRIALS} AND purpose = 'dialogue' AND error IS NULL) AS calls
    JOIN runs USING (run_id)
    JOIN tested_roles ON tested_roles.protocol = runs.protocol AND tested_roles.role = calls.role
    GROUP BY trial_id"""
_CALL_TOKENS = f"""
    SELECT call_id, {_SUMS}
    FROM (FROM calls WHERE {_OF_TRIALS} AND call_id IN (SELECT unnest($calls::VARCHAR[]))) AS calls
    JOIN runs USING (run_id)
    JOIN tested_roles ON tested_roles.protocol = runs.protocol AND tested_roles.role = calls.role
    GROUP BY call_id"""
_JUDGES = """
    SELECT format, question_type, list(DISTINCT grader ORDER BY grader) FILTER (grader IS NOT NULL)
    FROM exported_answers WHERE condition = ? GROUP BY format, question_type"""
