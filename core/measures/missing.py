"""Measures what is missing: whatever a measure has not read yet, in processes, kept as it comes, with a stop."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from core.callbacks import Progress, Stop
from core.measures.base import Measure, Record, add_extensions
from core.processes import read_by
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.scores import Score, ToMeasure, add_scores, lists_of, parts_of, unmeasured
from core.store.queries.utterances import dialogues
from core.store.selection import Selection

WRITTEN = 1_200
"""Trials between two writes: how much a crash loses."""
FEW = 150
"""Up to so many trials, starting processes takes longer than reading them here."""


@dataclass(frozen=True)
class Measured:
    """How many trials were measured now, and how many are still to be (after a stop)."""

    measured: int
    remaining: int


@dataclass(frozen=True)
class Parcel:
    """Records for a measure to read."""

    measure: Measure
    records: tuple[Record, ...]

    def read(self) -> list[list[Score]]:
        """Return the scores of each record."""
        return [list(self.measure.scores(record)) for record in self.records]


def count_missing(store: Store, measure: Measure, selection: Selection | None = None) -> int:
    """Return how many trials are still to be measured."""
    with store.read() as cursor:
        return len(unmeasured(cursor, measure, selection))


def default_processes(trials: int) -> int:
    """Return how many processes read so many trials: none for few, else one a core, at most four."""
    return 0 if trials <= FEW else min(4, os.cpu_count() or 1)


def seconds_for(measure: Measure, trials: int) -> float:
    """Return roughly how long measuring so many trials takes."""
    return trials * measure.seconds_each / max(1, default_processes(trials))


def measure_missing(
    store: Store,
    measure: Measure,
    selection: Selection | None = None,
    *,
    progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False,
    processes: int | None = None,
) -> Measured:
    """Measure the selected trials that are not, and keep their scores.

    Stopped or killed, the next call goes on where this one was. ``processes``: ``None`` for as many as pay, 0 to do it
    here. Raises ``AnamnesisError`` where a process breaks off or the database stays busy.
    """
    ready = measure.prepare(store, selection, stop)
    with store.read() as cursor:
        todo = unmeasured(cursor, measure, selection)
    if not ready or stop():
        return Measured(0, len(todo))
    chunks = [todo[start : start + measure.parcel] for start in range(0, len(todo), measure.parcel)]
    number = default_processes(len(todo)) if processes is None else processes
    done, new = 0, list[tuple[ToMeasure, list[Score]]]()
    try:
        with closing(read_by(number, _parcels(store, measure, chunks), add_extensions)) as found:
            for chunk, made in zip(chunks, found, strict=False):
                new += zip(chunk, made, strict=True)
                done += len(chunk)
                if len(new) >= WRITTEN:
                    _write(store, measure, new)
                    new = []
                progress(done, len(todo))
                if stop():
                    break
    finally:
        _write(store, measure, new)
    return Measured(done, len(todo) - done)


def _parcels(store: Store, measure: Measure, chunks: Iterable[Sequence[ToMeasure]]) -> Iterator[Parcel]:
    """Read what each chunk needs, when it is asked for."""
    for chunk in chunks:
        trials = [one.trial_id for one in chunk]
        with store.read() as cursor:
            cases = cases_of(cursor, {(one.case_key, one.content_hash) for one in chunk})
            said = dialogues(cursor, trials)
            parts = {part: parts_of(cursor, part, trials) for part in measure.needs}
            against = lists_of(cursor, measure.against, cases) if measure.against else {}
        yield Parcel(
            measure,
            tuple(
                Record(
                    one.trial_id,
                    cases[key],
                    said.get(one.trial_id, ()),
                    against=against.get(key),
                    **{part: tuple(held.get(one.trial_id, ())) for part, held in parts.items()},
                )
                for one in chunk
                for key in [(one.case_key, one.content_hash)]
            ),
        )


def _write(store: Store, measure: Measure, new: list[tuple[ToMeasure, list[Score]]]) -> None:
    if new:
        with store.write() as connection:
            add_scores(connection, measure, new)
