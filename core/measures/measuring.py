"""Measures the trials that a measure has not read yet, in several processes.

A trial is read again if its case, the list that it is measured against or the version of the measure has changed. The
database is locked only to store scores. After a stop or a kill, the next call continues.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from core.callbacks import ProgressCallback, StopCallback
from core.measures.base import Measure, Record, add_extensions
from core.processes import read_by
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.scores import Score, ToMeasure, add_scores, lists_of, parts_of, unmeasured
from core.store.queries.utterances import dialogues

PARCEL = 300
"""Trials that are read between two checks for a stop."""
WRITTEN = 1_200
"""Trials between two writes, which a crash loses at most."""
FEW = 150
"""Trials up to which starting processes takes longer than reading in this process."""


@dataclass(frozen=True)
class TrialParcel:
    """Records for a measure to read; ``None`` stands for a trial whose case was deleted meanwhile."""

    measure: Measure
    records: tuple[Record | None, ...]

    def read(self) -> list[list[Score] | None]:
        return [None if record is None else list(self.measure.scores(record)) for record in self.records]


def measure_trials(
    store: Store,
    measures: Iterable[Measure],
    *,
    progress: ProgressCallback = lambda done, planned: None,
    stop: StopCallback = lambda: False,
    processes: int | None = None,
) -> int:
    """Read all trials that these measures have not read, store the scores, and return how many readings that were.

    ``processes``: 0 for this process; ``None``: 0 for few trials, else one for each core, at most four. Raises
    ``AnamnesisError`` if a process ends early or the database stays busy.
    """
    chunks: list[tuple[Measure, list[ToMeasure]]] = []
    for measure in measures:
        if not measure.prepare(store, stop):
            return 0
        with store.read() as cursor:
            waiting = unmeasured(cursor, measure)
        chunks += [(measure, waiting[start : start + PARCEL]) for start in range(0, len(waiting), PARCEL)]
    planned = sum(len(chunk) for _, chunk in chunks)
    if not planned or stop():
        return 0
    if processes is None:
        processes = 0 if planned <= FEW else min(4, os.cpu_count() or 1)
    done, new = 0, list[tuple[Measure, ToMeasure, list[Score]]]()
    try:
        with closing(read_by(processes, _parcels(store, chunks), add_extensions)) as scored_chunks:
            for (measure, trials), scores in zip(chunks, scored_chunks, strict=False):
                new += [(measure, trial, of) for trial, of in zip(trials, scores, strict=True) if of is not None]
                done += len(trials)
                if len(new) >= WRITTEN:
                    _write(store, new)
                    new = []
                progress(done, planned)
                if stop():
                    break
    finally:
        _write(store, new)
    return done


def _parcels(store: Store, chunks: Iterable[tuple[Measure, list[ToMeasure]]]) -> Iterator[TrialParcel]:
    """Yield a parcel for each chunk; the database is read only when the next parcel is requested."""
    for measure, chunk in chunks:
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
                if key in cases
                else None
                for item in chunk
                for key in [(item.case_key, item.content_hash)]
            ),
        )


def _write(store: Store, new: Iterable[tuple[Measure, ToMeasure, list[Score]]]) -> None:
    by_measure: dict[Measure, list[tuple[ToMeasure, list[Score]]]] = defaultdict(list)
    for measure, trial, scores in new:
        by_measure[measure].append((trial, scores))
    if by_measure:
        with store.write() as connection:
            for measure, scored in by_measure.items():
                add_scores(connection, measure, scored)
