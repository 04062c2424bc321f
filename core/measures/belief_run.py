"""Reads the beliefs that a database holds as trajectories, with the facts that were never elicited."""

from __future__ import annotations

from collections.abc import Callable

from core.measures.attribution_run import CHUNK, Facts, Progress
from core.measures.belief import trajectory
from core.measures.belief_many import Course
from core.store.database import Store
from core.store.queries.failures import believed, cases_of
from core.store.selection import Selection


def courses(
    store: Store,
    selection: Selection | None = None,
    *,
    on_progress: Progress = lambda done, planned: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Course]:
    """Return the trajectory of every probed conversation of a selection whose case is stored.

    ``stop`` is asked between chunks; once it says so, what is read by then is returned.
    """
    with store.read() as cursor:
        held = believed(cursor, selection)
        cases = cases_of(cursor, (one.case for one in held))
    facts = Facts(store, selection or Selection(), cases)
    found: list[Course] = []
    for start in range(0, len(held), CHUNK):
        if stop():
            break
        chunk = [one for one in held[start : start + CHUNK] if one.case in cases]
        ledgers = facts.of({one.trial_id: one.case for one in chunk})
        for one in chunk:
            ledger = ledgers.get(one.trial_id)
            told = trajectory(cases[one.case], one.probes, one.end_reason, ledger.never if ledger else None)
            found.append(Course(one.model, one.case[0], told))
        on_progress(min(start + CHUNK, len(held)), len(held))
    return found
