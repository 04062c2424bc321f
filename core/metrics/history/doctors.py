"""Whose conversations may be pooled under one name, and the history they took.

Conversations are pooled where doctor, protocol, patient, solver, prompt, persona and pictures are the same; cases
of different sets are never mixed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from core.agents.oracle import Bound
from core.metrics.history.figures import MeasureRow, read_history
from core.metrics.history.measures import SCALARS
from core.store.casts import RunCast
from core.store.database import Store
from core.store.figures import McqRule, Selection, case_scores

MEASURES = (*SCALARS, "accuracy")
"""What is figured of each case: the measures of its conversations, and the accuracy of the task's answers."""
TASK = Selection(formats=("multi_turn",), question_types=("mcq",))
"""The arm whose accuracy stands beside the history: the task T with its choices, after the conversation."""
_APART: dict[str, Callable[[RunCast], str]] = {
    "protocol": lambda run: {"craftmd": "CRAFT-MD", "consultation": "Consultation"}.get(run.protocol, run.protocol),
    "doctor_prompt": lambda run: str(run.settings.get("doctor_prompt") or ""),
    "patient": lambda run: run.patient,
    "persona": lambda run: str(run.settings.get("persona") or ""),
    "images": lambda run: "with pictures" if run.settings.get("images") else "",
    "max_questions": lambda run: str(run.settings.get("max_questions") or ""),
    "solver": lambda run: str(run.settings.get("solver") or ""),
}
"""What tells conversations of one doctor apart. The solver does not change them, but the accuracy beside them."""
_WORDS = {
    "doctor_prompt": "{} prompt",
    "patient": "patient {}",
    "persona": "persona {}",
    "max_questions": "cap {}",
    "solver": "solver {}",
}


@dataclass(frozen=True)
class Seat:
    """A doctor with all that shapes its conversations, and the runs that hold them.

    ``key`` is unique: the doctor's full name, with whatever tells it from its other seats.
    """

    key: str
    doctor: str
    protocol: str
    patient: str
    source: str
    runs: tuple[str, ...]


def seats_of(runs: Sequence[RunCast]) -> list[Seat]:
    """Return the seats of campaigns and releases, by doctor and key; AutoMedic's are measured by CARE instead."""
    held: dict[tuple[str, ...], list[RunCast]] = defaultdict(list)
    for run in runs:
        if run.protocol == "automedic":
            continue
        held[run.doctor, *(read(run) for read in _APART.values())].append(run)
    seats = [_seat(shape, _telling_apart(shape, held), found) for shape, found in held.items()]
    return sorted(seats, key=lambda seat: seat.key)


def _telling_apart(shape: tuple[str, ...], every: Iterable[tuple[str, ...]]) -> list[int]:
    """Return the places of a shape that other seats of the doctor fill otherwise; past the protocol, within it."""
    mine = [other for other in every if other[0] == shape[0]]
    within = [other for other in mine if other[1] == shape[1]]
    return [p for p in range(1, len(shape)) if len({other[p] for other in (mine if p == 1 else within)}) > 1]


def _seat(shape: tuple[str, ...], apart: Sequence[int], runs: Sequence[RunCast]) -> Seat:
    names = list(_APART)
    words = [_WORDS.get(names[p - 1], "{}").format(shape[p]) for p in apart if shape[p]]
    ids = tuple(sorted(run.run_id for run in runs))
    return Seat(" · ".join([shape[0], *words]), shape[0], shape[1], shape[3], runs[0].source, ids)


def read_seats(store: Store, seats: Sequence[Seat], mcq_rule: McqRule = "mcq_loose") -> pd.DataFrame:
    """Return ``read_history``'s table with a seat's key as its model, and with ``case_set`` and the task's accuracy.

    ``accuracy`` is the share of a case's counted answers that are right (NaN where none counts), ``n_accuracy`` their
    number, ``uncounted`` that of the answers that do not count. The upper bound holds no conversation by design, so
    none of it is excluded.
    """
    tables = [_layer(store, layer, mcq_rule) for layer in _layers(seats)]
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=["model", "case_key", "case_set"])


def _layers(seats: Sequence[Seat]) -> list[list[Seat]]:
    """Divide seats into groups in which no doctor occurs twice, because a read pools by doctor."""
    before: Counter[str] = Counter()
    layers: list[list[Seat]] = []
    for seat in seats:
        if before[seat.doctor] == len(layers):
            layers.append([])
        layers[before[seat.doctor]].append(seat)
        before[seat.doctor] += 1
    return layers


def _layer(store: Store, seats: Sequence[Seat], mcq_rule: McqRule) -> pd.DataFrame:
    runs = [run for seat in seats for run in seat.runs]
    table = read_history(store, Selection(runs=runs))
    with store.read() as cursor:
        scores = case_scores(cursor, replace(TASK, runs=runs), mcq_rule)
    answers = pd.DataFrame(
        [(s.model, s.case_key, s.score, s.counted, sum(s.excluded.values())) for s in scores],
        columns=["model", "case_key", "accuracy", "n_accuracy", "uncounted"],
    )
    table = table.merge(answers, how="left", on=["model", "case_key"])
    counts = ["n_accuracy", "uncounted"]
    return table.assign(
        accuracy=table["accuracy"].astype(np.float64),
        **{name: table[name].fillna(0).astype(int) for name in counts},
        excluded=table["excluded"].where(table["model"] != Bound("upper").name, 0),
        model=table["model"].map({seat.doctor: seat.key for seat in seats}),
        case_set=table["case_key"].str.partition("/")[0],
    )


def accuracy_counted(row: MeasureRow, table: pd.DataFrame) -> MeasureRow:
    """Return a row of the accuracy with its own numbers: answers that count, and those that do not."""
    if row.measure != "accuracy":
        return row
    own = table[table["model"] == row.model]
    return replace(row, n_without=0, n_excluded=int(own["uncounted"].sum()), n_missing=0)
