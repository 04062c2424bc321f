"""Journals of two doctors on the same cases, with verdicts as a test wants them, and comparable in all other parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.events import Finished, Started
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, invalid, write_journal

ARMS = [("vignette", "frq")]
FAILURES = ("provider_error", "refused")


def write_run(
    store: Store, run_id: str, verdicts: Sequence[Sequence[Any]], *, trials: int = 0, folded: bool = True, **header: Any
) -> None:
    """Write a run with the verdicts of each case's trials; it has planned ``trials`` of each case, by default these.

    Without ``folded`` only its journal is written, and one fold of the caller reads several.
    """
    grader = header.get("grader", "openai/g")
    cases = [a_case(number) for number in range(len(verdicts))]
    lines = []
    for case, of_case in zip(cases, verdicts, strict=True):
        for number, verdict in enumerate(of_case):
            trial_id = f"{run_id}/{case.case_key}/{number}"
            counts = verdict not in FAILURES
            events = [
                Started(trial_id=trial_id, case_key=case.case_key, trial=number, seed=number, at=1.0),
                answered("vignette", "frq") if counts else invalid(verdict, "vignette", "frq"),
                *([graded(verdict, "vignette", "frq", grader=grader)] if counts else []),
                Finished(at=9.0),
            ]
            lines.append(
                a_trial(events, trial_id=trial_id, run_id=run_id, case_key=case.case_key, trial=number, seed=number)
            )
    settings: Mapping[str, Any] = {"arms": ARMS, "trials": trials or max(map(len, verdicts)), "case_set_hash": "c"}
    write_journal(store.journals, run_id, a_header(run_id, cases, **{**settings, **header}), *lines)
    if folded:
        fold(store)
