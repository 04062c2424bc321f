"""What exports withhold: the texts of cases without an open licence, and of the conversations and answers about them.

Every export asks here. A case whose licence is not stated has no open licence, also if it is the user's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, TypeAdapter

from core.case import Case
from core.datasets.licences import texts_may_leave
from core.events import (
    Answered,
    Assessed,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Graded,
    Probed,
    Started,
    Summarised,
    Utterance,
)
from core.store.queries.answers import results
from core.store.queries.cases import CaseKey, cases_of
from core.store.queries.trials import transcripts
from core.store.selection import Selection
from core.text.questions import question_kind

WITHHELD = "[withheld]"
"""Stands for a text that is not exported because of the licence of its case."""
ALLOW = "--with-cases"
"""The option of every export that includes all texts."""
_TEXTS = ("response", "answer", "extracted", "detail")
"""Columns of ``results`` with words of a case or of a model."""


def withheld_in_words(cases: int) -> str:
    """Return the sentence of an export that withholds the texts of so many cases, and how to allow them."""
    return (
        f"Withheld: the texts of {cases:,} {'case' if cases == 1 else 'cases'} without an open licence, and of "
        f"conversations about them. If you have the right to pass them on, or export for yourself: {ALLOW}"
    )


class PublicTexts:
    """Decides for each case whether an export has its texts, and remembers those that are withheld.

    ``with_cases`` allows all. Cases are read from the store when they are asked for.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, *, with_cases: bool) -> None:
        self.withheld: set[CaseKey] = set()
        self._cursor, self._with_cases = cursor, with_cases
        self._asked: dict[CaseKey, bool] = {}

    def may_leave(self, case_key: str, content_hash: str | None) -> bool:
        key = (case_key, content_hash or None)
        return key in self.of([key])

    def of(self, keys: Collection[CaseKey]) -> set[CaseKey]:
        """Return the cases whose texts may leave."""
        if self._with_cases:
            return set(keys)
        if new := [key for key in keys if key not in self._asked]:
            cases = cases_of(self._cursor, new)
            self._asked |= {key: texts_may_leave(cases.get(key)) for key in new}
        allowed = {key for key in keys if self._asked[key]}
        self.withheld |= set(keys) - allowed
        return allowed

    @property
    def sentence(self) -> str:
        """What was withheld so far; empty if nothing was."""
        return withheld_in_words(len(self.withheld)) if self.withheld else ""


def public_results(cursor: duckdb.DuckDBPyConnection, selection: Selection, texts: PublicTexts) -> pa.Table:
    """Return the rows of ``results``, without texts that may not leave."""
    table = results(cursor, selection)
    keys = [
        (row["case_key"], row["content_hash"] or None) for row in table.select(["case_key", "content_hash"]).to_pylist()
    ]
    public = texts.of(set(keys))
    allowed = pa.array([key in public for key in keys], pa.bool_())
    for name in _TEXTS:
        column = table[name]
        hidden = pc.if_else(pc.or_kleene(allowed, pc.is_null(column)), column, WITHHELD)
        table = table.set_column(table.column_names.index(name), name, hidden)
    return table


def public_transcripts(
    cursor: duckdb.DuckDBPyConnection, run_id: str, texts: PublicTexts, *, calls: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the trials of ``transcripts``, without texts that may not leave."""
    for trial in transcripts(cursor, run_id, calls=calls):
        if texts.may_leave(trial["case_key"], trial["content_hash"]):
            yield trial
        else:
            yield {**trial, "summary": hidden(trial["summary"]), "events": dumped_without_text(trial["events"])}


_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def dumped_without_text(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return stored events without texts; a call that is stored elsewhere is only named by its id."""
    return [
        event
        if event["kind"] == "called" and "call" not in event
        else event_without_text(_EVENT.validate_python(event)).model_dump(mode="json")
        for event in events
    ]


def event_without_text(event: Event) -> Event:
    match event:
        case Started() if event.parent:
            changes = tuple(WITHHELD for _ in event.parent.changes)
            return event.model_copy(update={"parent": event.parent.model_copy(update={"changes": changes})})
        case Called():
            return event.model_copy(update={"call": call_without_text(event.call)})
        case Utterance() | Summarised():
            return event.model_copy(update={"text": hidden(event.text)})
        case Assessed():
            return event.model_copy(update={"words": hidden(event.words)})
        case Probed():
            differential = tuple((WITHHELD, probability) for _, probability in event.differential)
            return event.model_copy(update={"differential": differential})
        case Ended():
            return event.model_copy(update={"detail": hidden(event.detail)})
        case Answered():
            return event.model_copy(update={"response": hidden(event.response), "detail": hidden(event.detail)})
        case Graded():
            return event.model_copy(update={"extracted": hidden(event.extracted)})
        case Failed():
            return event.model_copy(update={"message": hidden(event.message)})
    return event


def call_without_text(call: CallRecord) -> CallRecord:
    texts = {name: hidden(getattr(call, name)) for name in ("response", "reasoning", "error")}
    return call.model_copy(update={"request": {}, "parts": (), **texts})


def hidden(text: str | None) -> str | None:
    return WITHHELD if text else text


def case_without_text(case: Case) -> Case:
    """Return a stand-in for a case: its key, data set and specialty, and what its question asks for."""
    return Case(
        case_key=case.case_key,
        dataset=case.dataset,
        specialty=case.specialty,
        vignette=f"{WITHHELD} {case.content_hash}",  # equal vignettes would be duplicates
        question=WITHHELD,
        answer=WITHHELD,
        single_diagnosis=case.single_diagnosis,
        difficulty=case.difficulty,
        asks_for=question_kind(case),
        source=case.source,
        licence=case.licence,
    )
