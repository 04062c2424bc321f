"""Marks stored conversations once by the rules on patients' replies, and keeps the marks.

Only what the present rules and the present lexicon have not marked is looked at, so that figures are quick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import orjson

from core.agents.base import Dialogue
from core.measures.ledger.keeping import WRITTEN, default_processes
from core.measures.ledger.workers import Parcel, marked_by
from core.measures.patients.rules import marks_in, replies_of, rules_version
from core.store.database import Store
from core.store.queries.failures import cases_of, dialogues
from core.store.queries.patients import Mark, StoredMarks, ToMark, add_marks, to_mark
from core.store.selection import Selection
from core.work import Progress, Stop

SECONDS_EACH = 0.002
"""Roughly what one conversation of the release takes on one core."""
MANY = 500
"""Conversations that are marked between two looks at ``stop``."""


@dataclass(frozen=True)
class Marked:
    """How many conversations were marked now, and how many are still to be (after a stop)."""

    marked: int
    remaining: int


@dataclass(frozen=True)
class Replies(Parcel):
    """Conversations whose replies are to be marked."""

    def summaries(self) -> list[str]:
        """Return the number of replies and the marks of each conversation, in their order."""
        return [orjson.dumps(self._found(place, said)).decode() for place, said in self.talks]

    def _found(self, place: int, said: Dialogue) -> tuple[int, list[dict[str, Any]]]:
        return len(replies_of(said)), [mark._asdict() for mark in marks_in(self.cases[place][0], said)]


def count_unmarked(store: Store, wanted: Selection | None = None) -> int:
    """Return how many conversations under a filter are not marked by the present rules."""
    with store.read() as cursor:
        return len(to_mark(cursor, rules_version(), wanted))


def seconds_for(conversations: int) -> float:
    """Return roughly how long marking so many conversations takes."""
    return conversations * SECONDS_EACH / max(1, default_processes(conversations))


def mark_patients(
    store: Store, wanted: Selection | None = None, *, on_progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False, processes: int | None = None,
) -> Marked:  # fmt: skip
    """Mark the conversations under a filter that are not marked, and keep the marks.

    Stopped or killed, the next call goes on where this one was. ``processes``: ``None`` for as many as pay, 0 to mark
    in this one. Raises ``AnamnesisError`` where a process breaks off or the database stays busy.
    """
    rules = rules_version()
    with store.read() as cursor:
        todo = to_mark(cursor, rules, wanted)
    done = 0
    chunks = [todo[start : start + MANY] for start in range(0, len(todo), MANY)]
    number = default_processes(len(todo)) if processes is None else processes
    new: list[StoredMarks] = []
    try:
        with closing(marked_by(number, _parcels(store, chunks))) as found:
            for chunk, made in zip(chunks, found, strict=False):
                new += [_kept(one.trial_id, rules, text) for one, text in zip(chunk, made, strict=True)]
                if len(new) >= WRITTEN:
                    new = _write(store, new)
                done += len(chunk)
                on_progress(done, len(todo))
                if stop():
                    break
    finally:
        _write(store, new)
    return Marked(done, len(todo) - done)


def _parcels(store: Store, chunks: Sequence[Sequence[ToMark]]) -> Iterator[Replies]:
    """Read what each chunk needs, when it is asked for."""
    for chunk in chunks:
        keys = list(dict.fromkeys((one.case_key, one.content_hash) for one in chunk))
        with store.read() as cursor:
            cases = cases_of(cursor, keys)
            said = dialogues(cursor, [one.trial_id for one in chunk])
        talks = tuple((keys.index((one.case_key, one.content_hash)), said[one.trial_id]) for one in chunk)
        yield Replies(tuple((cases[key], None) for key in keys), talks)


def _kept(trial_id: str, rules: str, text: str) -> StoredMarks:
    replies, marks = orjson.loads(text)
    return StoredMarks(trial_id, rules, replies, tuple(Mark(**mark) for mark in marks), time.time())


def _write(store: Store, new: Sequence[StoredMarks]) -> list[StoredMarks]:
    if new:
        with store.write() as connection:
            add_marks(connection, new)
    return []
