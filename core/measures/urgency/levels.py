"""The scale of urgency, the levels of the cases of this project, and what a given level is against them.

The levels of the library are in ``data/urgency``; those of other cases are labels
(``core.store.queries.case_labels``).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from core.errors import AnamnesisError
from core.judging.form import read_form
from core.paths import FORMS, URGENCY

LEVELS: Mapping[int, str] = {
    int(option.value): option.label.partition(".")[0].lower()
    for option in read_form(FORMS / "urgency.yaml").questions[0].options
}
"""Level → time until care (1 immediately to 5 no appointment): the beginning of its wording in the form."""
SEVERE_STEPS = 2
EMERGENCY, ROUTINE = 2, 4
"""The last level of an emergency, and the first that waits for an appointment."""
Triage = Literal["exact", "over-triage", "under-triage"]


class CaseLevel(NamedTuple):
    """The level of a case with its reason."""

    level: int
    reason: str


def triage_of(level: int, given: int) -> Triage:
    """Return what a given level is against the level of the case; a higher number is later care."""
    return "exact" if given == level else "under-triage" if given > level else "over-triage"


def is_severe(level: int, given: int) -> bool:
    """Return whether care comes two or more levels too late, or by appointment or never in an emergency.

    On a scale of five levels the second condition is part of the first. It is stated because it is the reason for it.
    """
    return given - level >= SEVERE_STEPS or (level <= EMERGENCY and given >= ROUTINE)


@cache
def levels_of_files() -> Mapping[str, CaseLevel]:
    """Return case key → level, from ``data/urgency/DATASET.csv`` with the columns case, level and reason."""
    levels: dict[str, CaseLevel] = {}
    for path in sorted(URGENCY.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["level"] not in map(str, LEVELS):
                    raise AnamnesisError(f"{path}: {row['case']} has the level {row['level']!r}, not 1 to 5.")
                levels[f"{path.stem}/{row['case']}"] = CaseLevel(int(row["level"]), row["reason"])
    return levels
