"""Whose AutoMedic conversations may be pooled: one doctor's with the same patient, staff, prompts, cap and pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import pandas as pd

from core.store.care import CareQuestion, trial_rows
from core.store.casts import RunCast
from core.store.database import Store
from core.store.figures import Selection

Shape = tuple[str, str, str, str, str]
_WORDS = ("patient {}", "staff {}", "prompts {}", "cap {}", "{}")


@dataclass(frozen=True)
class CareSeat:
    """A doctor with all that shapes its conversations, and the runs that hold them.

    ``key`` is unique: the doctor's full name, with whatever tells it from its other seats. ``prompts`` is the pack's
    name with the beginning of its hash.
    """

    key: str
    doctor: str
    patient: str
    staff: str
    prompts: str
    max_turns: str
    runs: tuple[str, ...]


def care_seats(runs: Sequence[RunCast]) -> list[CareSeat]:
    """Return the seats of AutoMedic runs, by key; runs of other protocols are left out."""
    held: dict[tuple[str, Shape], list[str]] = defaultdict(list)
    for run in runs:
        if run.protocol == "automedic":
            held[run.doctor, _shape(run)].append(run.run_id)
    seats = [_seat(doctor, shape, [s for d, s in held if d == doctor], ids) for (doctor, shape), ids in held.items()]
    return sorted(seats, key=lambda seat: seat.key)


def read_care(
    store: Store, seats: Sequence[CareSeat], question_type: CareQuestion = "mcq", selection: Selection | None = None
) -> pd.DataFrame:
    """Return ``core.store.care.trial_rows`` of the seats' runs, with each seat's key in the column ``seat``."""
    seat_of = {run: seat.key for seat in seats for run in seat.runs}
    chosen = Selection(**{**vars(selection or Selection()), "runs": list(seat_of)})
    with store.read() as cursor:
        table = trial_rows(cursor, chosen, question_type)
    keys = pd.Categorical(table["run_id"].map(seat_of), categories=sorted({seat.key for seat in seats}))
    return table.assign(seat=keys)


def _shape(run: RunCast) -> Shape:
    prompts = f"{PurePath(run.prompt_pack).name} {run.prompt_hash[:6]}"
    staff, turns = (str(run.settings.get(name) or "") for name in ("staff", "max_turns"))
    return run.patient, staff, prompts, turns, "with pictures" if run.settings.get("images") else ""


def _seat(doctor: str, shape: Shape, others: Sequence[Shape], runs: Sequence[str]) -> CareSeat:
    apart = [p for p, value in enumerate(shape) if any(other[p] != value for other in others)]
    words = [_WORDS[p].format(shape[p]) for p in apart if shape[p]]
    patient, staff, prompts, cap, _ = shape
    return CareSeat(" · ".join([doctor, *words]), doctor, patient, staff, prompts, cap, tuple(sorted(runs)))
