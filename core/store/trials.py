"""Queries about one stored trial: its stream for playback, its messages, answers, verdicts and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import orjson

from core.events import (
    Answered,
    CallRecord,
    Ended,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    Probed,
    QuestionType,
    Started,
    Summarised,
    Utterance,
)
from core.store.records import records
from core.store.release import FROM_TABLES
from core.store.rows import stream_events


@dataclass(frozen=True)
class AnswerToGrade:
    """A stored answer that a grader is to judge; the case is (case_key, content_hash)."""

    trial_id: str
    case_key: str
    content_hash: str | None
    format: Format
    question_type: QuestionType
    response: str


def trial_events(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Event]:
    """Return what happened in a trial, in its order, as the events that happened; empty where there is no such trial.

    Grades that were given later are not part of it: see ``grade_history``.
    """
    found = cursor.execute("SELECT events FROM trials WHERE trial_id = ?", [trial_id]).fetchall()
    if not found:
        return []
    if found[0][0] == FROM_TABLES:
        return _rebuilt_events(cursor, trial_id)
    return stream_events(found[0][0], {call.call_id: call for call in calls_of(cursor, trial_id)})


def _rebuilt_events(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Event]:
    """Return the events of a trial of a release, which came as what it held and not as a stream."""
    trial = records(cursor.execute("SELECT * FROM trials WHERE trial_id = ?", [trial_id]))[0]
    fields = {name: trial[name] for name in ("trial_id", "case_key", "trial", "seed")}
    events: list[Event] = [Started(at=trial["finished_at"], **fields), *utterances_of(cursor, trial_id)]
    if trial["end_reason"]:
        detail = trial["end_detail"] or ""
        events.append(Ended(reason=trial["end_reason"], doctor_turns=trial["doctor_turns"], detail=detail))
    if trial["failure"]:
        words = {"where": trial["failed_where"], "failure": trial["failure"], "message": trial["failure_message"]}
        events.append(Failed(**words))
    if trial["summary"] is not None:
        events.append(Summarised(text=trial["summary"]))
    first_grades = _first_grades(grade_history(cursor, trial_id))
    for row in records(cursor.execute(_ANSWERS, [trial_id])):
        answer = Answered(**row)
        events += [answer, *first_grades.get((answer.format, answer.question_type), [])]
    return [*events, Finished(at=trial["finished_at"])]


def _first_grades(history: list[Graded]) -> dict[tuple[Format, QuestionType], list[Graded]]:
    """Return the grades that came with the answers: the oldest of each arm and rule."""
    first: dict[tuple[Format, QuestionType], dict[str, Graded]] = {}
    for grade in history:
        first.setdefault((grade.format, grade.question_type), {}).setdefault(grade.rule, grade)
    return {arm: list(by_rule.values()) for arm, by_rule in first.items()}


def utterances_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Utterance]:
    """Return the messages of a conversation."""
    sql = "SELECT turn, role, text, call_id FROM utterances WHERE trial_id = ? ORDER BY position"
    return [Utterance(**row) for row in records(cursor.execute(sql, [trial_id]))]


def probes_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Probed]:
    """Return what the doctor believed, turn by turn."""
    sql = """
        SELECT turn, list((diagnosis, probability) ORDER BY rank) FROM probes
        WHERE trial_id = ? GROUP BY turn ORDER BY turn"""
    return [Probed(turn=turn, differential=ranked) for turn, ranked in cursor.execute(sql, [trial_id]).fetchall()]


def calls_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[CallRecord]:
    """Return the calls of a trial, with every prompt and reply."""
    sql = "SELECT * EXCLUDE (trial_id, position) FROM calls WHERE trial_id = ? ORDER BY position"
    return [
        CallRecord(**{**row, "request": orjson.loads(row["request"])})
        for row in records(cursor.execute(sql, [trial_id]))
    ]


def latest_grades(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Graded]:
    """Return the grades that count: the newest of each arm and rule."""
    return _grades(cursor, "newest_grades", trial_id)


def grade_history(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Graded]:
    """Return every grade that the answers of a trial were ever given, the oldest first."""
    return _grades(cursor, "grades", trial_id)


def _grades(cursor: duckdb.DuckDBPyConnection, table: str, trial_id: str) -> list[Graded]:
    sql = f"""
        SELECT format, question_type, grader, rule, extracted, verdict, call_ids, graded_at AS at, prompt_hash
        FROM {table} WHERE trial_id = ? ORDER BY graded_at"""
    return [Graded(**row) for row in records(cursor.execute(sql, [trial_id]))]


def answers_to_grade(
    cursor: duckdb.DuckDBPyConnection,
    run_id: str,
    question_types: list[QuestionType] | None = None,
    not_yet_by: str | None = None,
) -> list[AnswerToGrade]:
    """Return the answers of a run that can be graded, those of one case together.

    ``not_yet_by`` leaves out what this grader has judged: a re-grading that was stopped goes on where it was.
    A verdict that only says that the grader's provider failed is no judgement.
    """
    parameters: dict[str, Any] = {"run_id": run_id, "question_types": question_types, "grader": not_yet_by}
    return [AnswerToGrade(**row) for row in records(cursor.execute(_TO_GRADE, parameters))]


_ANSWERS = """
    SELECT format, question_type, response, status, reason, detail, call_id FROM answers
    WHERE trial_id = ? ORDER BY rowid"""

_TO_GRADE = """
    SELECT trial_id, case_key, content_hash, format, question_type, response
    FROM trials JOIN answers USING (trial_id)
    WHERE run_id = $run_id AND answers.status = 'answered'
        AND ($question_types::VARCHAR[] IS NULL OR list_contains($question_types, question_type))
        AND NOT EXISTS (
            FROM grades WHERE grades.trial_id = answers.trial_id AND grades.format = answers.format
                AND grades.question_type = answers.question_type AND grades.grader = $grader
                AND grades.verdict <> 'provider_error')
    ORDER BY case_key, trial, format, question_type"""
