"""Measures the trials that a measure has not read yet, in several processes; can be stopped and resumed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from core.callbacks import ProgressCallback, StopCallback
from core.measures.base import Measure, Record, add_extensions
from core.processes import read_by
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.scores import Score, ToMeasure, add_scores, lists_of, parts_of, unmeasured
from core.store.queries.utterances import dialogues
from core.store.selection import Selection

WRITTEN = 1_200
"""Trials between two writes, which a crash loses at most."""
FEW = 150
"""Trials up to which starting processes takes longer than reading in this process."""


@dataclass(frozen=True)
class Measured:
    """How many trials were measured, and how many are not measured yet (after a stop)."""

    measured: int
    remaining: int


@dataclass(frozen=True)
class TrialParcel:
    """Records for a measure to read."""

    measure: Measure
    records: tuple[Record, ...]

    def read(self) -> list[list[Score]]:
        return [list(self.measure.scores(record)) for record in self.records]


def count_missing(store: Store, measure: Measure, selection: Selection | None = None) -> int:
    with store.read() as cursor:
        return len(unmeasured(cursor, measure, selection))


def default_processes(trials: int) -> int:
    """Return the number of processes: 0 for few trials, else one per core, at most four."""
    return 0 if trials <= FEW else min(4, os.cpu_count() or 1)


def seconds_for(measure: Measure, trials: int) -> float:
    return trials * measure.seconds_each / max(1, default_processes(trials))


def measure_missing(
    store: Store,
    measure: Measure,
    selection: Selection | None = None,
    *,
    progress: ProgressCallback = lambda done, planned: None,
    stop: StopCallback = lambda: False,
    processes: int | None = None,
) -> Measured:
    """Measure the selected trials without scores, and store the scores.

    After a stop or a kill, the next call continues. ``processes``: ``None`` for ``default_processes``, 0 for this
    process. Raises ``AnamnesisError`` if a process ends early or the database stays busy.
    """
    ready = measure.prepare(store, selection, stop)
    with store.read() as cursor:
        unmeasured_trials = unmeasured(cursor, measure, selection)
    if not ready or stop():
        return Measured(0, len(unmeasured_trials))
    chunks = [
        unmeasured_trials[start : start + measure.parcel] for start in range(0, len(unmeasured_trials), measure.parcel)
    ]
    number = default_processes(len(unmeasured_trials)) if processes is None else processes
    done, new = 0, list[tuple[ToMeasure, list[Score]]]()
    try:
        with closing(read_by(number, _parcels(store, measure, chunks), add_extensions)) as scored_chunks:
            for chunk, scores in zip(chunks, scored_chunks, strict=False):
                new += zip(chunk, scores, strict=True)
                done += len(chunk)
                if len(new) >= WRITTEN:
                    _write(store, measure, new)
                    new = []
                progress(done, len(unmeasured_trials))
                if stop():
                    break
    finally:
        _write(store, measure, new)
    return Measured(done, len(unmeasured_trials) - done)


def _parcels(store: Store, measure: Measure, chunks: Iterable[Sequence[ToMeasure]]) -> Iterator[TrialParcel]:
    """Yield a parcel for each chunk; the database is read only when the next parcel is requested."""
    for chunk in chunks:
        trials = [item.trial_id for item in chunk]
        with store.read() as cursor:
            cases = cases_of(cursor, {(item.case_key, item.content_hash) for item in chunk})
            dialogues_by_trial = dialogues(cursor, trials)
            parts = {part: parts_of(cursor, part, trials) for part in measure.needs}
            against = lists_of(cursor, measure.against, cases) if measure.against else {}
        yield TrialParcel(
            measure,
            tuple(
                Record(
                    item.trial_id,
                    cases[key],
                    dialogues_by_trial.get(item.trial_id, ()),
                    against=against.get(key),
                    **{part: tuple(values.get(item.trial_id, ())) for part, values in parts.items()},
                )
                for item in chunk
                for key in [(item.case_key, item.content_hash)]
            ),
        )


def _write(store: Store, measure: Measure, new: list[tuple[ToMeasure, list[Score]]]) -> None:
    if new:
        with store.write() as connection:
            add_scores(connection, measure, new)
