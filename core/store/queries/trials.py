"""Trials: pages of a filtered list, single trials with their events, and summaries of conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from core.case import AsksFor
from core.events import (
    Answered,
    Called,
    Ended,
    EndReason,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    QuestionType,
    Started,
    Summarised,
    Verdict,
)
from core.store.counted_rule import COUNTED_RULE
from core.store.queries.calls import calls_of
from core.store.queries.grades import grade_history
from core.store.queries.releases import FROM_TABLES
from core.store.queries.runs import LATER_ARMS, Run, run_records
from core.store.queries.utterances import utterances_of
from core.store.rows import stream_events
from core.store.selection import TRIALS, Selection, select
from core.store.tables import records


@dataclass(frozen=True)
class Conversation:
    """One trial in a list. ``verdicts`` maps "format:question_type" to the verdict that counts by the chosen rule."""

    trial_id: str
    run_id: str
    doctor: str
    patient: str
    case_key: str
    dataset: str | None
    specialty: str | None
    trial: int
    status: str
    end_reason: EndReason | None
    doctor_turns: int | None
    failure: str | None
    answer: str | None
    finished_at: float
    protocol: str = ""
    asks_for: AsksFor | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)


@dataclass(frozen=True)
class ConversationFilters:
    """The options of each filter of conversations. ``runs`` is run id → its doctor, newest first."""

    conversations: int
    runs: dict[str, str]
    datasets: tuple[str, ...]
    specialties: tuple[str, ...]
    end_reasons: tuple[EndReason, ...]
    arms: tuple[str, ...]

    @property
    def models(self) -> list[str]:
        return sorted(set(self.runs.values()))


def conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, *, limit: int | None = 100, offset: int = 0
) -> list[Conversation]:
    """Return a page of the conversations, ordered by run (newest first), case and trial; all without a limit."""
    return counted_page(cursor, selection, limit=limit, offset=offset)[1]


def counted_page(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, *, limit: int | None = 100, offset: int = 0
) -> tuple[int, list[Conversation]]:
    """Return the number of selected conversations and a page of them, by one query.

    A page after the last one is empty, with the number 0.
    """
    chosen = _of_all_cases(selection)
    sql = _PAGE.format(found=_FOUND.format(where=chosen.where()))
    rows = records(cursor.execute(sql, {**chosen.parameters(sql), "limit": limit, "offset": offset}))
    total = max([0, *(row.pop("total") for row in rows)])
    outcomes = _outcomes(cursor, chosen, [row["trial_id"] for row in rows])
    return total, [Conversation(**row, verdicts=outcomes.get(row["trial_id"], {})) for row in rows]


def count_conversations(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> int:
    chosen = _of_all_cases(selection)
    sql = f"SELECT count(*) {_FOUND.format(where=chosen.where())}"
    (count,) = cursor.execute(sql, chosen.parameters(sql)).fetchall()[0]
    return int(count)


def conversation_ids(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[str]:
    """Return the selected trials, in the order of ``conversations``."""
    chosen = _of_all_cases(selection)
    sql = f"SELECT trials.trial_id {_FOUND.format(where=chosen.where())} ORDER BY {_ORDER}"
    return [trial_id for (trial_id,) in cursor.execute(sql, chosen.parameters(sql)).fetchall()]


def _of_all_cases(selection: Selection | None) -> Selection:
    """Return a selection that also has the cases that figures leave out: every conversation can be read."""
    return replace(selection or Selection(), development=True)


def offer(cursor: duckdb.DuckDBPyConnection) -> ConversationFilters:
    runs = cursor.execute("""
        SELECT run_id, doctor, count(*) FROM runs JOIN trials USING (run_id)
        GROUP BY run_id, doctor, created_at ORDER BY created_at DESC, run_id""").fetchall()
    lists = (tuple(names or ()) for names in cursor.execute(_OFFER).fetchall()[0])
    return ConversationFilters(
        sum(count for _, _, count in runs), {run_id: doctor for run_id, doctor, _ in runs}, *lists
    )


def _outcomes(
    cursor: duckdb.DuckDBPyConnection, selection: Selection, trials: list[str]
) -> dict[str, dict[str, Verdict]]:
    """Return trial → arm → verdict; a few trials are queried by id, which reads nothing else."""
    few = len(trials) <= _FEW
    sql = _VERDICTS.format(trials="list_contains($trials, trial_id)" if few else "true", rule=COUNTED_RULE)
    parameters = {**selection.parameters(COUNTED_RULE), **({"trials": trials} if few else {})}
    return dict(cursor.execute(sql, parameters).fetchall())


_FEW = 1_000


_FOUND = f"{TRIALS} WHERE {{where}}"

# case_2 sorts before case_10
_NATURAL = "regexp_replace({0}, '[0-9]+$', ''), try_cast(regexp_extract({0}, '[0-9]+$') AS HUGEINT), {0}"


_ORDER = f"runs.created_at DESC, trials.run_id, {_NATURAL.format('trials.case_key')}, trials.trial"

_PAGE = f"""
    SELECT trials.trial_id, trials.run_id, runs.doctor, runs.patient, trials.case_key, cases.dataset, cases.specialty,
        cases.asks_for, trials.trial, trials.status, trials.end_reason, trials.doctor_turns, trials.failure,
        cases.answer, trials.finished_at, runs.protocol, count(*) OVER () AS total
    {{found}}
    ORDER BY {_ORDER} LIMIT $limit OFFSET $offset"""

# the rows of the view ``verdicts``, with the trials filtered on both sides: the filter is not pushed through its join
_VERDICTS = """
    SELECT trial_id, map_from_entries(list((format || ':' || question_type,
        CASE WHEN status = 'invalid' THEN coalesce(reason, 'ungradable') ELSE coalesce(newest.verdict, 'ungraded') END)
        ORDER BY format, question_type))
    FROM (SELECT answers.*, {rule} AS rule
        FROM (FROM answers WHERE {trials}) AS answers JOIN trials USING (trial_id) JOIN runs USING (run_id))
    LEFT JOIN (FROM newest_grades WHERE {trials}) AS newest USING (trial_id, format, question_type, rule)
    GROUP BY trial_id"""

_OFFER = f"""
    WITH with_trials AS (FROM runs SEMI JOIN trials USING (run_id)), used_cases AS (FROM cases SEMI JOIN trials USING
    (case_key)) SELECT (SELECT list(DISTINCT dataset ORDER BY dataset) FROM used_cases),
        (SELECT list(DISTINCT specialty ORDER BY specialty) FROM used_cases),
        (SELECT list(DISTINCT end_reason ORDER BY end_reason) FILTER (end_reason IS NOT NULL) FROM trials),
        (SELECT list(DISTINCT arm ORDER BY arm) FROM (
            SELECT unnest(arms) AS arm FROM with_trials UNION ALL SELECT unnest(arms) FROM ({LATER_ARMS})))"""


@dataclass(frozen=True)
class TrialOrigin:
    """The condition, run and case of a stored trial."""

    trial_id: str
    run_id: str
    model: str
    case_key: str
    content_hash: str | None
    dataset: str | None
    specialty: str | None
    trial: int


def trial_origins(
    cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str], within: Selection | None = None
) -> dict[str, TrialOrigin]:
    """Return trial → its subject, for stored trials; ``model`` is the condition among the runs of these trials.

    ``within``: only those of its trials that are also selected.
    """
    selection = within or Selection()
    chosen = trial_ids if selection.trials is None else sorted({*trial_ids} & {*selection.trials})
    select(cursor, replace(selection, trials=chosen))
    rows = cursor.execute("""
        SELECT trials.trial_id, run_id, model, chosen.case_key, trials.content_hash, dataset, specialty, trials.trial
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)""")
    return {row["trial_id"]: TrialOrigin(**row) for row in records(rows)}


def done_trial_ids(cursor: duckdb.DuckDBPyConnection, run_id: str) -> set[str]:
    """Return the stored trials of a run, including failed ones."""
    rows = cursor.execute("SELECT trial_id FROM trials WHERE run_id = ?", [run_id]).fetchall()
    return {trial_id for (trial_id,) in rows}


def trial_events(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Event]:
    """Return the events of a trial in their order; empty if the trial is not stored.

    Later grades are not included: see ``grade_history``.
    """
    rows = cursor.execute("SELECT events FROM trials WHERE trial_id = ?", [trial_id]).fetchall()
    if not rows:
        return []
    if rows[0][0] == FROM_TABLES:
        trial = records(cursor.execute("SELECT * FROM trials WHERE trial_id = ?", [trial_id]))[0]
        fields = {name: trial[name] for name in ("trial_id", "case_key", "trial", "seed")}
        events: list[Event] = [Started(at=trial["finished_at"], **fields), *utterances_of(cursor, trial_id)]
        if trial["end_reason"]:
            detail = trial["end_detail"] or ""
            events.append(Ended(reason=trial["end_reason"], doctor_turns=trial["doctor_turns"], detail=detail))
        if trial["failure"]:
            failure = {"where": trial["failed_where"], "failure": trial["failure"], "message": trial["failure_message"]}
            events.append(Failed(**failure))
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
    events = stream_events(rows[0][0], {call.call_id: call for call in calls_of(cursor, trial_id)})
    arms = {(event.format, event.question_type) for event in events if isinstance(event, Answered)}
    answers = [Answered(**row) for row in records(cursor.execute(_ANSWERS, [trial_id]))]
    later = [answer for answer in answers if (answer.format, answer.question_type) not in arms]
    place = next((n for n, event in enumerate(events) if isinstance(event, Finished)), len(events))
    return [*events[:place], *later, *events[place:]]


_ANSWERS = """
    SELECT format, question_type, response, status, reason, detail, call_id FROM answers
    WHERE trial_id = ? ORDER BY rowid"""


@dataclass(frozen=True)
class StoredTrial:
    """One stored trial: its case and content, its number and seed, and its run.

    ``messages`` includes the greeting.
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
        return self.run.run_id


def stored_trials(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, StoredTrial]:
    rows = records(cursor.execute(_STORED, {"trials": list(trial_ids)}))
    runs = {run.run_id: run for run in run_records(cursor, [row["run_id"] for row in rows])}
    return {row["trial_id"]: StoredTrial(run=runs[row.pop("run_id")], **row) for row in rows}


def stored_trial(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> StoredTrial | None:
    """Return the record of a trial without events, or ``None`` if it is not stored."""
    return stored_trials(cursor, [trial_id]).get(trial_id)


def trials_about(cursor: duckdb.DuckDBPyConnection, run_id: str, case_key: str | None = None) -> list[StoredTrial]:
    """Return the stored trials of a run on one case (by default its first), ordered by number."""
    sql = """
        SELECT trial_id FROM trials WHERE run_id = $run_id AND case_key = coalesce($case_key,
            (SELECT arg_min(case_key, position) FROM run_cases WHERE run_id = $run_id))"""
    rows = cursor.execute(sql, {"run_id": run_id, "case_key": case_key}).fetchall()
    trials = stored_trials(cursor, [trial_id for (trial_id,) in rows])
    return sorted(trials.values(), key=lambda trial: trial.trial)


_STORED = """
    SELECT trial_id, run_id, case_key, content_hash, trial, seed, coalesce(counts.messages, 0) AS messages
    FROM trials SEMI JOIN runs USING (run_id)
    LEFT JOIN (
        SELECT trial_id, count(*) AS messages FROM utterances WHERE list_contains($trials, trial_id) GROUP BY trial_id
    ) AS counts USING (trial_id)
    WHERE list_contains($trials, trial_id)"""


def transcripts(cursor: duckdb.DuckDBPyConnection, run_id: str, *, calls: bool = False) -> Iterator[dict[str, Any]]:
    """Yield every trial of a run as JSON data; the lease must stay open until the last one.

    ``calls`` includes every prompt and raw reply.
    """
    result = cursor.execute(_TRIALS, [run_id])
    names = [column[0] for column in result.description or ()]
    for row in result.fetchall():
        trial = dict(zip(names, row, strict=True))
        events = trial_events(cursor, trial["trial_id"])
        dumped = [e.model_dump(mode="json") for e in events if calls or not isinstance(e, Called)]
        yield {**trial, "events": dumped}


_TRIALS = """
    SELECT trial_id, run_id, doctor, patient, case_key, content_hash, trial, trials.seed, status, end_reason,
        doctor_turns, summary
    FROM trials JOIN runs USING (run_id) WHERE run_id = ? ORDER BY case_key, trial"""
