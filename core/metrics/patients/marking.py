"""Marks stored conversations once by the rules on patients' replies, and keeps the marks.

Only what the present rules and the present lexicon have not marked is looked at, so that figures are quick. Where a
conversation's facts ledger is kept (``core.metrics.ledger.keeping``), the kind ``invented`` is marked from it, anew
whenever the ledger is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import orjson

from core.agents.base import Dialogue
from core.metrics.ledger.keeping import PARCEL, WRITTEN, default_processes
from core.metrics.ledger.workers import Parcel, marked_by
from core.metrics.patients.outside import invented_marks
from core.metrics.patients.rules import marks_in, replies_of, rules_version
from core.store.database import Store
from core.store.fact_sets import all_facts_saved
from core.store.failures import cases_of, dialogues
from core.store.patients import (
    Mark,
    PatientFilter,
    StoredMarks,
    ToMark,
    add_marks,
    facts_rules,
    to_mark,
    to_mark_facts,
)
from core.work import Progress, Stop

SECONDS_EACH = 0.002
"""Roughly what one conversation of the release takes on one core, without its facts ledger."""
MANY = 500
"""Conversations that are marked by their words alone between two looks at ``stop``."""


@dataclass(frozen=True)
class Marked:
    """How many conversations were marked now, and how many are still to be (after a stop)."""

    marked: int
    remaining: int


@dataclass(frozen=True)
class Replies(Parcel):
    """Conversations whose replies are to be marked, from the words alone or from the facts ledger."""

    of_facts: bool = False

    def summaries(self) -> list[str]:
        """Return the number of replies and the marks of each conversation, in their order."""
        return [orjson.dumps(self._found(place, said)).decode() for place, said in self.talks]

    def _found(self, place: int, said: Dialogue) -> tuple[int, list[dict[str, Any]]]:
        case, facts = self.cases[place]
        marks = invented_marks(case, said, facts) if self.of_facts else marks_in(case, said)
        return len(replies_of(said)), [mark._asdict() for mark in marks]


def count_unmarked(store: Store, wanted: PatientFilter | None = None) -> int:
    """Return how many conversations under a filter are not marked by the present rules."""
    with store.read() as cursor:
        return len(to_mark(cursor, rules_version(), wanted))


def seconds_for(conversations: int) -> float:
    """Return roughly how long marking so many conversations takes."""
    return conversations * SECONDS_EACH / max(1, default_processes(conversations))


def mark_patients(
    store: Store, wanted: PatientFilter | None = None, *, on_progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False, processes: int | None = None,
) -> Marked:  # fmt: skip
    """Mark the conversations under a filter that are not marked, and keep the marks.

    First by the words alone, then from the facts ledgers that are kept; makes no facts ledger
    (``core.metrics.ledger.keeping.mark_missing`` does). Stopped or killed, the next call goes on where this one was.
    ``processes``: ``None`` for as many as pay, 0 to mark in this one. Raises ``AnamnesisError`` where a process breaks
    off or the database stays busy.
    """
    rules = rules_version()
    with store.read() as cursor:
        by_words, by_facts = to_mark(cursor, rules, wanted), to_mark_facts(cursor, rules, wanted)
    # most ledgers hold nothing to look at: that is kept at once
    nothing = [StoredMarks(one.trial_id, facts_rules(rules), 0, (), time.time()) for one in by_facts if not one.found]
    by_facts = [one for one in by_facts if one.found]
    _write(store, nothing)
    planned, done = len(by_words) + len(by_facts), 0
    for todo, of_facts in ((by_words, False), (by_facts, True)):
        for marked in _marked(store, todo, of_facts, processes):
            done += marked
            on_progress(done, planned)
            if stop():
                return Marked(done, planned - done)
    return Marked(done, 0)


def _marked(store: Store, todo: Sequence[ToMark], of_facts: bool, processes: int | None) -> Iterator[int]:
    """Mark conversations and keep what is found; yields how many, a parcel at a time."""
    rules = facts_rules(rules_version()) if of_facts else rules_version()
    size = PARCEL if of_facts else MANY
    chunks = [todo[start : start + size] for start in range(0, len(todo), size)]
    number = default_processes(len(todo)) if processes is None else processes
    new: list[StoredMarks] = []
    try:
        with closing(marked_by(number, _parcels(store, chunks, of_facts))) as found:
            for chunk, made in zip(chunks, found, strict=False):
                new += [_kept(one.trial_id, rules, text) for one, text in zip(chunk, made, strict=True)]
                if len(new) >= WRITTEN:
                    new = _write(store, new)
                yield len(chunk)
    finally:
        _write(store, new)


def _parcels(store: Store, chunks: Sequence[Sequence[ToMark]], of_facts: bool) -> Iterator[Replies]:
    """Read what each chunk needs, when it is asked for."""
    if not chunks:
        return
    with store.read() as cursor:
        saved = all_facts_saved(cursor) if of_facts else {}
    for chunk in chunks:
        keys = list(dict.fromkeys((one.case_key, one.content_hash) for one in chunk))
        with store.read() as cursor:
            cases = cases_of(cursor, keys)
            said = dialogues(cursor, [one.trial_id for one in chunk])
        talks = tuple((keys.index((one.case_key, one.content_hash)), said[one.trial_id]) for one in chunk)
        yield Replies(tuple((cases[key], saved.get((key[0], str(key[1])))) for key in keys), talks, of_facts)


def _kept(trial_id: str, rules: str, text: str) -> StoredMarks:
    replies, marks = orjson.loads(text)
    return StoredMarks(trial_id, rules, replies, tuple(Mark(**mark) for mark in marks), time.time())


def _write(store: Store, new: Sequence[StoredMarks]) -> list[StoredMarks]:
    if new:
        with store.write() as connection:
            add_marks(connection, new)
    return []
