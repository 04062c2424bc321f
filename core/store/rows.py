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
from core.store.stored_table import Row
from core.store.tables import (
    AnswerRow,
    BranchRow,
    CallRow,
    CaseRow,
    GradeRow,
    MisuseRow,
    ProbeRow,
    RatingRow,
    RunCaseRow,
    RunRow,
    TrialRow,
    UtteranceRow,
)
from core.text.questions import question_kind

E = TypeVar("E")
_OPTIONAL = ("probe", "rating")
"""Places of failures that do not fail the trial: neither the conversation nor an answer depends on them."""
_AFTER_THE_TRIAL = 1_000_000
"""Position of the first call of a re-grading: after all events of the trial."""


def run_row(header: RunHeader) -> RunRow:
    made: dict[str, Any] = {
        "arms": [":".join(arm) for arm in header.arms],
        "settings": _json(header.settings),
        "hypothesis": header.hypothesis.model_dump_json() if header.hypothesis else None,
    }
    return RunRow(**{name: made[name] if name in made else getattr(header, name) for name in RunRow.stored_in.columns})


def case_row(case: Case, added_at: float) -> CaseRow:
    made: dict[str, Any] = {
        "profile": None if case.profile is None else case.profile.model_dump_json(),
        "images": _json([image.model_dump(mode="json") for image in case.images]) if case.images else None,
        "added_at": added_at,
        "asks_for": question_kind(case),
    }
    return CaseRow(**{name: made[name] if name in made else getattr(case, name) for name in CaseRow.stored_in.columns})


def run_case_rows(header: RunHeader) -> list[RunCaseRow]:
    return [RunCaseRow(header.run_id, c.case_key, c.content_hash, position) for position, c in enumerate(header.cases)]


def trial_row(line: TrialLine) -> TrialRow:
    """Return the row of ``trials``; a trial without a ``Finished`` event has failed."""
    started = _first(line.events, Started)
    ended = _first(line.events, Ended)
    failed = _first((e for e in line.events if not (isinstance(e, Failed) and e.where in _OPTIONAL)), Failed)
    summary = _first(line.events, Summarised)
    return TrialRow(
        trial_id=line.trial_id,
        run_id=line.run_id,
        case_key=line.case_key,
        trial=line.trial,
        seed=line.seed,
        status="finished" if _first(line.events, Finished) else "failed",
        end_reason=ended.reason if ended else None,
        end_detail=ended.detail if ended else None,
        doctor_turns=ended.doctor_turns if ended else None,
        summary=summary.text if summary else None,
        failed_where=failed.where if failed else None,
        failure=failed.failure if failed else None,
        failure_message=failed.message if failed else None,
        started_at=started.at if started else None,
        finished_at=line.finished_at,
        events=stream_text(line.events),
    )


def child_rows(line: TrialLine) -> list[Row]:
    """Return the rows that the events of a trial make, in their order."""
    trial = line.trial_id
    rows: list[Row] = []
    for position, event in enumerate(line.events):
        match event:
            case Utterance() as e:
                rows.append(UtteranceRow(trial, position, e.turn, e.role, e.text, e.call_id))
            case Answered():
                rows.append(_answer_row(trial, event))
            case Graded():
                rows.append(_grade_row(trial, event))
            case Called() if event.call.call_id not in line.paid:
                rows.append(_call_row(line.run_id, trial, position, event.call))
            case Probed():
                ranked = enumerate(event.differential, start=1)
                rows.extend(ProbeRow(trial, event.turn, rank, name, p) for rank, (name, p) in ranked)
            case Assessed(turn=int(turn)) as e:
                rows.append(MisuseRow(trial, turn, list(e.values), e.words))
            case Assessed() as e:
                rows.append(RatingRow(trial, e.name, e.by, e.value, e.words, e.call_id))
            case Started(parent=Parent() as parent):
                rows.append(BranchRow(trial, parent.trial_id, parent.turn, list(parent.changes)))
            case _:
                pass
    return rows


def grade_rows(line: GradesLine) -> list[GradeRow]:
    return [_grade_row(line.trial_id, grade) for grade in line.grades]


def later_answer_rows(line: GradesLine) -> list[AnswerRow]:
    return [_answer_row(line.trial_id, answer) for answer in line.answers]


def reply_row(line: ReplyLine) -> CallRow:
    """Return the row of ``calls`` of a reply; calls after the end of a trial are positioned after its own calls."""
    place = line.place if line.unit == line.trial_id else _AFTER_THE_TRIAL + line.place
    return _call_row(line.run_id, line.trial_id, place, line.call)


def row_line(row: Row, unit: str = "") -> RowLine:
    """Return the journal line of a job's row that completes the work ``unit``."""
    return RowLine(table=row.stored_in.name, row=vars(row), unit=unit)


def _answer_row(trial_id: str, a: Answered) -> AnswerRow:
    return AnswerRow(trial_id, a.format, a.question_type, a.response, a.status, a.reason, a.detail, a.call_id)


def _grade_row(trial_id: str, grade: Graded) -> GradeRow:
    return GradeRow(
        trial_id=trial_id,
        format=grade.format,
        question_type=grade.question_type,
        rule=grade.rule,
        grader=grade.grader,
        extracted=grade.extracted,
        verdict=grade.verdict,
        call_ids=list(grade.call_ids),
        graded_at=grade.at,
        prompt_hash=grade.prompt_hash,
        rule_version=grade.rule_version,
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


def _call_row(run_id: str, trial_id: str, position: int, c: CallRecord) -> CallRow:
    return CallRow(
        run_id=run_id,
        trial_id=trial_id,
        position=position,
        call_id=c.call_id,
        role=c.role,
        purpose=c.purpose,
        model=c.model,
        request=_json(c.request),
        response=c.response,
        finish_reason=c.finish_reason,
        served_by=c.served_by,
        prompt_tokens=c.prompt_tokens,
        completion_tokens=c.completion_tokens,
        tokens_estimated=c.tokens_estimated,
        latency_s=c.latency_s,
        first_token_s=c.first_token_s,
        attempts=c.attempts,
        cost_usd=c.cost_usd,
        error=c.error,
        reasoning=c.reasoning,
        reasoning_tokens=c.reasoning_tokens,
        cached_tokens=c.cached_tokens,
        parts=_json([part.model_dump() for part in c.parts]),
        cache_write_tokens=c.cache_write_tokens,
        price_source=c.price_source,
    )


def _first(events: Iterable[Event], kind: type[E]) -> E | None:
    return next((e for e in events if isinstance(e, kind)), None)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
