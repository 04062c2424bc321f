"""Compares the numbers of a row with the conversations that it opens."""

from __future__ import annotations

import math
from dataclasses import replace

from core.measures.base import MetricRequest, Row
from core.measures.behind import Behind, Part, read_address, trials_behind

TRIALS: dict[str, Part] = {
    "n_trials": "counted",
    "n_excluded": "excluded",
    "conversations": "counted",
    "without_diagnosis": "without_diagnosis",
}
"""Column of a row → the part that has so many trials."""
CASES: dict[str, Part] = {"n_cases": "counted", "improved": "improved", "regressed": "regressed", "equal": "equal"}
"""Column of a row → the part that has so many cases."""


def faults_of(row: Row, request: MetricRequest) -> list[str]:
    """Return how the conversations behind a row differ from its numbers; a row must have a number to compare."""
    if row.counts is None:
        return []
    behind = read_address(Behind(request.selection, row.counts).address)
    trials = trials_behind(replace(request, selection=behind.selection), behind.counts)
    cells = row.cells(plain=True)
    numbers = {
        **{name: (cells[name], len(trials[part])) for name, part in TRIALS.items() if name in cells and part in trials},
        **{
            name: (cells[name], len(set(trials[part].values())))
            for name, part in CASES.items()
            if name in cells and part in trials
        },
    }
    faults = [f"{dict(row.label)}: {name} {n}, opens {got}" for name, (n, got) in numbers.items() if n != got]
    if "right" in trials and row.estimate is not None:
        by_case: dict[str, list[bool]] = {}
        for trial_id, case_key in trials["counted"].items():
            by_case.setdefault(case_key, []).append(trial_id in trials["right"])
        mean = sum(sum(right) / len(right) for right in by_case.values()) / max(1, len(by_case))
        if not math.isclose(mean, row.estimate):
            faults.append(f"{dict(row.label)}: {row.estimate}, of the opened conversations {mean} are right")
    return faults if numbers else [f"{dict(row.label)}: no number says how many conversations the row opens"]
