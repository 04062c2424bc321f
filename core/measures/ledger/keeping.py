"""Marks stored conversations once and keeps a summary of each ledger, so that figures over all of them are quick.

A conversation is marked anew where its case's content, the list of facts saved for the case or ``RULES`` changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from core.measures.attribution_facts import LedgerFacts
from core.measures.ledger.summary import facts_from_json
from core.measures.ledger.workers import Parcel, marked_by
from core.store.database import Store
from core.store.queries.facts import StoredLedger, Unmarked, add_ledgers, all_facts_saved, summaries, unmarked
from core.store.queries.failures import cases_of, dialogues
from core.store.selection import Selection

RULES = "4"
"""Version of the ledger's rules and of the summary; a new one makes every kept summary missing."""
PARCEL = 60
"""Conversations that are marked between two looks at ``stop``."""
WRITTEN = 1_200
"""Conversations between two writes: how much a crash loses."""
FEW = 150
"""Up to so many conversations, starting processes takes longer than marking here."""
SECONDS_EACH = 0.03
"""Roughly what one conversation of the release takes on one core."""

Progress = Callable[[int, int], None]
"""Told how many conversations are marked, and of how many."""
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Marked:
    """How many conversations were marked now, and how many are still to be (after a stop)."""

    marked: int
    remaining: int


def count_unmarked(store: Store, selection: Selection | None = None) -> int:
    """Return how many selected conversations have no summary."""
    with store.read() as cursor:
        return len(unmarked(cursor, RULES, selection))


def kept_facts(store: Store, selection: Selection | None = None) -> dict[str, LedgerFacts]:
    """Return trial → its ledger in short, for the selected conversations that are marked."""
    with store.read() as cursor:
        return {trial: facts_from_json(summary) for trial, summary in summaries(cursor, RULES, selection)}


def default_processes(conversations: int) -> int:
    """Return how many processes mark so many conversations: none for few, else one a core, at most four."""
    return 0 if conversations <= FEW else min(4, os.cpu_count() or 1)


def seconds_for(conversations: int) -> float:
    """Return roughly how long marking so many conversations takes."""
    return conversations * SECONDS_EACH / max(1, default_processes(conversations))


def mark_missing(
    store: Store,
    selection: Selection | None = None,
    *,
    on_progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False,
    processes: int | None = None,
) -> Marked:
    """Mark the selected conversations that have no summary by the present facts and rules, and store the summaries.

    Stopped or killed, the next call goes on where this one was. ``processes``: ``None`` for as many as pay, 0 to mark
    in this one. Raises ``AnamnesisError`` where a process breaks off or the database stays busy.
    """
    with store.read() as cursor:
        todo = unmarked(cursor, RULES, selection)
    chunks = list(_chunks(todo))
    done = 0
    new: list[StoredLedger] = []
    number = default_processes(len(todo)) if processes is None else processes
    try:
        with closing(marked_by(number, _parcels(store, chunks))) as found:
            for chunk, made in zip(chunks, found, strict=False):
                now = time.time()
                new += [StoredLedger(u.trial_id, u.facts_hash, s, now) for u, s in zip(chunk, made, strict=True)]
                done += len(chunk)
                if len(new) >= WRITTEN:
                    new = _write(store, new)
                on_progress(done, len(todo))
                if stop():
                    break
    finally:
        _write(store, new)
    return Marked(done, len(todo) - done)


def _chunks(todo: Sequence[Unmarked]) -> Iterator[Sequence[Unmarked]]:
    return (todo[start : start + PARCEL] for start in range(0, len(todo), PARCEL))


def _parcels(store: Store, chunks: Sequence[Sequence[Unmarked]]) -> Iterator[Parcel]:
    """Read what each chunk needs, when it is asked for."""
    if not chunks:
        return
    with store.read() as cursor:
        saved = all_facts_saved(cursor)
    for chunk in chunks:
        keys = list(dict.fromkeys((u.case_key, u.content_hash) for u in chunk))
        with store.read() as cursor:
            cases = cases_of(cursor, keys)
            said = dialogues(cursor, [u.trial_id for u in chunk])
        talks = tuple((keys.index((u.case_key, u.content_hash)), said.get(u.trial_id, ())) for u in chunk)
        yield Parcel(tuple((cases[key], saved.get(key)) for key in keys), talks)


def _write(store: Store, new: list[StoredLedger]) -> list[StoredLedger]:
    if new:
        with store.write() as connection:
            add_ledgers(connection, new)
    return []
