"""Stored trials one by one: stream, messages, answers, grades, calls; results and transcripts as rows to take away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from core.events import (
    Answered,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    QuestionType,
    Started,
    Summarised,
    Utterance,
)
from core.store.queries.release import FROM_TABLES
from core.store.rows import stream_events
from core.store.runs import Run, run_records
from core.store.selection import IN_ARMS, Selection, select
from core.store.tables import records


def trial_events(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Event]:
    """Return what happened in a trial, in its order, as the events that happened; empty where there is no such trial.

    Grades that were given later are not part of it: see ``grade_history``.
    """
    found = cursor.execute("SELECT events FROM trials WHERE trial_id = ?", [trial_id]).fetchall()
    if not found:
        return []
    if found[0][0] == FROM_TABLES:
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
        first: dict[tuple[Format, QuestionType], dict[str, Graded]] = {}
        for grade in grade_history(cursor, trial_id):
            first.setdefault((grade.format, grade.question_type), {}).setdefault(grade.rule, grade)
        first_grades = {arm: list(by_rule.values()) for arm, by_rule in first.items()}
        for row in records(cursor.execute(_ANSWERS, [trial_id])):
            answer = Answered(**row)
            events += [answer, *first_grades.get((answer.format, answer.question_type), [])]
        return [*events, Finished(at=trial["finished_at"])]
    return stream_events(found[0][0], {call.call_id: call for call in calls_of(cursor, trial_id)})


def utterances_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Utterance]:
    """Return the messages of a conversation."""
    sql = "SELECT turn, role, text, call_id FROM utterances WHERE trial_id = ? ORDER BY position"
    return [Utterance(**row) for row in records(cursor.execute(sql, [trial_id]))]


def calls_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[CallRecord]:
    """Return the calls of a trial, with every prompt and reply."""
    sql = "SELECT * EXCLUDE (run_id, trial_id, position) FROM calls WHERE trial_id = ? ORDER BY position"
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


@dataclass(frozen=True)
class StoredTrial:
    """One stored trial: its case with the content, its number and seed, and the run it belongs to.

    ``messages`` counts the greeting too.
    """

    trial_id: str
    run: Run
    case_key: str
    content_hash: str | None
    trial: int
    seed: int
    messages: int

    @property
    def run_id(self) -> str:
        """The run it belongs to."""
        return self.run.run_id


@dataclass(frozen=True)
class ReleasePrompts:
    """The doctor's prompt templates of one file of a release (``{specialty}`` marks the specialty).

    ``templates`` go in the order of its conversations; ``trials`` are the numbers of the trials that have one.
    """

    templates: tuple[str, ...]
    trials: tuple[int, ...]

    def of_trial(self, number: int) -> str | None:
        """Return the template of a trial, or ``None`` where it cannot be told which it was."""
        if len(set(self.templates)) == 1 and number in self.trials:
            return self.templates[0]
        told = dict(zip(self.trials, self.templates, strict=False)) if len(self.trials) == len(self.templates) else {}
        return told.get(number)


def stored_trials(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, StoredTrial]:
    """Return trial → what is known of it beside its events, for those that are stored."""
    rows = records(cursor.execute(_STORED, {"trials": list(trial_ids)}))
    runs = {run.run_id: run for run in run_records(cursor, [row["run_id"] for row in rows])}
    return {row["trial_id"]: StoredTrial(run=runs[row.pop("run_id")], **row) for row in rows}


def stored_trial(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> StoredTrial | None:
    """Return what is known of a trial beside its events, or ``None`` where it is not stored."""
    return stored_trials(cursor, [trial_id]).get(trial_id)


def trials_about(cursor: duckdb.DuckDBPyConnection, run_id: str, case_key: str | None = None) -> list[StoredTrial]:
    """Return the stored trials of a run about one case (by default its first), by number."""
    sql = """
        SELECT trial_id FROM trials WHERE run_id = $run_id AND case_key = coalesce($case_key,
            (SELECT arg_min(case_key, position) FROM run_cases WHERE run_id = $run_id))"""
    found = cursor.execute(sql, {"run_id": run_id, "case_key": case_key}).fetchall()
    held = stored_trials(cursor, [trial_id for (trial_id,) in found])
    return sorted(held.values(), key=lambda one: one.trial)


def release_prompts(cursor: duckdb.DuckDBPyConnection, run_id: str, case_key: str) -> ReleasePrompts | None:
    """Return the doctor's prompts of a case in a release, or ``None`` where none are stored."""
    sql = """
        SELECT template FROM (
            SELECT unnest(prompts) AS prompt_hash, generate_subscripts(prompts, 1) AS place FROM release_files
            WHERE run_id = $run_id AND case_key = $case_key AND fault IS NULL)
        JOIN release_prompts USING (prompt_hash) ORDER BY place"""
    parameters = {"run_id": run_id, "case_key": case_key}
    templates = tuple(template for (template,) in cursor.execute(sql, parameters).fetchall())
    trials = tuple(number for (number,) in cursor.execute(_SPOKEN, parameters).fetchall())
    return ReleasePrompts(templates, trials) if templates else None


_STORED = """
    SELECT trial_id, run_id, case_key, content_hash, trial, seed, coalesce(said.messages, 0) AS messages
    FROM trials SEMI JOIN runs USING (run_id)
    LEFT JOIN (
        SELECT trial_id, count(*) AS messages FROM utterances WHERE list_contains($trials, trial_id) GROUP BY trial_id
    ) AS said USING (trial_id)
    WHERE list_contains($trials, trial_id)"""
_SPOKEN = """
    SELECT DISTINCT trial FROM trials SEMI JOIN utterances USING (trial_id)
    WHERE run_id = $run_id AND case_key = $case_key ORDER BY trial"""


def results(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pa.Table:
    """Return a row for each answer and rule, with all that tells rows apart: ready for CSV or Parquet.

    ``repeat``: figures leave the answer out, because the case was played with the same seed in an earlier run.
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    table: pa.Table = cursor.sql(_RESULTS, params=chosen.parameters(_RESULTS)).to_arrow_table()
    return table


def transcripts(cursor: duckdb.DuckDBPyConnection, run_id: str, *, calls: bool = False) -> Iterator[dict[str, Any]]:
    """Yield every trial of a run as plain data, one JSON line each; use it up inside the lease.

    ``calls`` adds every prompt and raw reply.
    """
    listed = cursor.execute(_TRIALS, [run_id])
    names = [column[0] for column in listed.description or ()]
    for row in listed.fetchall():
        trial = dict(zip(names, row, strict=True))
        events = trial_events(cursor, trial["trial_id"])
        kept = [e.model_dump(mode="json") for e in events if calls or not isinstance(e, Called)]
        yield {**trial, "events": kept}


_RESULTS = f"""
    SELECT runs.run_id, runs.doctor AS model, seated.model AS condition,
        runs.patient, runs.grader AS run_grader, runs.summariser, runs.protocol,
        runs.prompt_pack, runs.prompt_hash, runs.source, selected.dataset, selected.specialty, trials.case_key,
        trials.content_hash, trials.trial_id, trials.trial, trials.status, trials.end_reason, trials.doctor_turns,
        verdicts.format, verdicts.question_type, verdicts.rule, answers.response, cases.answer,
        verdicts.grader, verdicts.extracted, verdicts.verdict, answers.detail, trials.finished_at,
        repeats.trial_id IS NOT NULL AS repeat
    FROM verdicts
    JOIN answers USING (trial_id, format, question_type)
    JOIN trials ON trials.trial_id = verdicts.trial_id
    JOIN selected ON selected.trial_id = trials.trial_id
    JOIN runs ON runs.run_id = trials.run_id
    JOIN seated ON seated.run_id = trials.run_id
    LEFT JOIN cases ON cases.case_key = selected.case_key AND cases.content_hash = selected.content_hash
    LEFT JOIN (FROM repeats WHERE whole) AS repeats ON repeats.trial_id = verdicts.trial_id
        AND repeats.format = verdicts.format AND repeats.question_type = verdicts.question_type
    WHERE {IN_ARMS}
    ORDER BY runs.run_id, trials.case_key, trials.trial, verdicts.format, verdicts.question_type, verdicts.rule"""

_TRIALS = """
    SELECT trial_id, run_id, doctor, patient, case_key, content_hash, trial, trials.seed, status, end_reason,
        doctor_turns, summary
    FROM trials JOIN runs USING (run_id) WHERE run_id = ? ORDER BY case_key, trial"""
