"""Converts journal lines to database rows, and the stored stream of a trial back to its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson

from core.case import Case
from core.events import (
    EVENTS,
    PASSING,
    Answered,
    Assessed,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Finished,
    Graded,
    Parent,
    Probed,
    Started,
    Summarised,
    Utterance,
)
from core.journal import GradesLine, ReplyLine, RowLine, RunHeader, TrialLine
from core.short_calls import whole_calls
from core.store.tables import SCHEMAS, TableRow
from core.text.questions import question_kind

E = TypeVar("E")
CHILDREN = ("utterances", "answers", "grades", "calls", "probes", "forks", "misuses", "ratings")
"""The tables with rows from the events of a trial."""
_OPTIONAL = ("probe", "rating")
"""Places of failures that do not fail the trial: neither the conversation nor an answer depends on them."""
_AFTER_THE_TRIAL = 1_000_000
"""Position of the first call of a re-grading: after all events of the trial."""


def _row(table: str, source: object, **values: object) -> TableRow:
    """Return a row of a table: for each column the given value, else the attribute of ``source`` with its name."""
    return tuple(values[name] if name in values else getattr(source, name) for name in SCHEMAS[table].names)


def run_row(header: RunHeader) -> TableRow:
    arms = [":".join(arm) for arm in header.arms]
    hypothesis = header.hypothesis.model_dump_json() if header.hypothesis else None
    return _row("runs", header, arms=arms, settings=_json(header.settings), hypothesis=hypothesis)


def case_row(case: Case, added_at: float) -> TableRow:
    profile = None if case.profile is None else case.profile.model_dump_json()
    images = _json([image.model_dump(mode="json") for image in case.images]) if case.images else None
    lists = {name: list(getattr(case, name)) for name in ("choices", "synonyms", "supertypes", "subtypes")}
    return _row("cases", case, profile=profile, images=images, added_at=added_at, asks_for=question_kind(case), **lists)


def trial_row(line: TrialLine) -> TableRow:
    """Return the row of ``trials``; a trial without a ``Finished`` event has failed."""
    started = _first(line.events, Started)
    ended = _first(line.events, Ended)
    failed = _first((e for e in line.events if not (isinstance(e, Failed) and e.where in _OPTIONAL)), Failed)
    summary = _first(line.events, Summarised)
    status = "finished" if _first(line.events, Finished) else "failed"
    ending = (ended.reason, ended.detail, ended.doctor_turns) if ended else (None, None, None)
    failure = (failed.where, failed.failure, failed.message) if failed else (None, None, None)
    return (
        line.trial_id,
        line.run_id,
        line.case_key,
        line.trial,
        line.seed,
        status,
        *ending,
        summary.text if summary else None,
        *failure,
        started.at if started else None,
        line.finished_at,
        stream_text(line.events),
    )


def child_rows(line: TrialLine) -> dict[str, list[TableRow]]:
    rows: dict[str, list[TableRow]] = {name: [] for name in CHILDREN}
    for position, event in enumerate(line.events):
        match event:
            case Utterance() as e:
                rows["utterances"].append((line.trial_id, position, e.turn, e.role, e.text, e.call_id))
            case Answered():
                rows["answers"].append(_answer_row(line.trial_id, event))
            case Graded():
                rows["grades"].append(_grade_row(line.trial_id, event))
            case Called() if event.call.call_id not in line.paid:
                rows["calls"].append(_call_row(line.run_id, line.trial_id, position, event.call))
            case Probed():
                ranked = enumerate(event.differential, start=1)
                rows["probes"].extend((line.trial_id, event.turn, rank, name, p) for rank, (name, p) in ranked)
            case Assessed(turn=int()):
                rows["misuses"].append((line.trial_id, event.turn, list(event.values), event.words))
            case Assessed():
                rating = (event.name, event.by, event.value, event.words, event.call_id)
                rows["ratings"].append((line.trial_id, *rating))
            case Started(parent=Parent() as parent):
                rows["forks"].append((line.trial_id, parent.trial_id, parent.turn, list(parent.changes)))
            case _:
                pass
    return rows


def grade_rows(line: GradesLine) -> list[TableRow]:
    return [_grade_row(line.trial_id, grade) for grade in line.grades]


def later_answer_rows(line: GradesLine) -> list[TableRow]:
    return [_answer_row(line.trial_id, answer) for answer in line.answers]


def reply_row(line: ReplyLine) -> TableRow:
    """Return the row of ``calls`` of a reply; calls after the end of a trial are positioned after its own calls."""
    place = line.place if line.unit == line.trial_id else _AFTER_THE_TRIAL + line.place
    return _call_row(line.run_id, line.trial_id, place, line.call)


def job_row(line: RowLine) -> TableRow:
    row = {"visitor": "", **line.row}
    return tuple(row[name] for name in SCHEMAS[line.table].names)


def _answer_row(trial_id: str, answer: Answered) -> TableRow:
    outcome = (answer.response, answer.status, answer.reason, answer.detail, answer.call_id)
    return trial_id, answer.format, answer.question_type, *outcome


def _grade_row(trial_id: str, grade: Graded) -> TableRow:
    return (
        trial_id,
        grade.format,
        grade.question_type,
        grade.rule,
        grade.grader,
        grade.extracted,
        grade.verdict,
        list(grade.call_ids),
        grade.at,
        grade.prompt_hash,
        grade.rule_version,
    )


def stream_text(events: Iterable[Event]) -> str:
    """Return the events as JSON; a call has only its id, because its record is in ``calls``."""
    return _json(
        [
            {"kind": "called", "call_id": e.call.call_id} if isinstance(e, Called) else e.model_dump(mode="json")
            for e in events
            if not isinstance(e, PASSING)
        ]
    )


def stream_events(text: str, calls: Mapping[str, CallRecord]) -> list[Event]:
    stored: list[dict[str, Any]] = orjson.loads(text)
    for event in stored:
        if event["kind"] == "called":
            event["call"] = calls[event.pop("call_id")]
    return EVENTS.validate_python(stored)


def calls_in(rows: Iterable[Mapping[str, Any]]) -> dict[str, CallRecord]:
    """Return call id → call with its whole request, from rows of ``calls``.

    They include the rows of the calls that their short requests follow (``core.short_calls``).
    """
    return whole_calls(
        CallRecord(**{**row, "request": orjson.loads(row["request"]), "parts": orjson.loads(row["parts"] or "[]")})
        for row in rows
    )


def _call_row(run_id: str, trial_id: str, position: int, c: CallRecord) -> TableRow:
    return (
        run_id,
        trial_id,
        position,
        c.call_id,
        c.role,
        c.purpose,
        c.model,
        _json(c.request),
        c.response,
        c.finish_reason,
        c.served_by,
        c.prompt_tokens,
        c.completion_tokens,
        c.tokens_estimated,
        c.latency_s,
        c.first_token_s,
        c.attempts,
        c.cost_usd,
        c.error,
        c.reasoning,
        c.reasoning_tokens,
        c.cached_tokens,
        _json([part.model_dump() for part in c.parts]),
        c.cache_write_tokens,
        c.price_source,
    )


def _first(events: Iterable[Event], kind: type[E]) -> E | None:
    return next((e for e in events if isinstance(e, kind)), None)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
