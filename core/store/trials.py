"""Queries about one stored trial: its stream for playback, its messages, answers, verdicts and calls."""

from __future__ import annotations

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
        CallRecord(**{**row, "request": orjson.loads(row["request"]), "parts": orjson.loads(row["parts"] or "[]")})
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
        SELECT format, question_type, grader, rule, extracted, verdict, call_ids, graded_at AS at, prompt_hash,
            rule_version
        FROM {table} WHERE trial_id = ? ORDER BY graded_at"""
    return [Graded(**row) for row in records(cursor.execute(sql, [trial_id]))]


_ANSWERS = """
    SELECT format, question_type, response, status, reason, detail, call_id FROM answers
    WHERE trial_id = ? ORDER BY rowid"""
