"""Reads the facts of a report in a thread, for pages."""

from __future__ import annotations

from collections.abc import Sequence

from core import access
from core.callbacks import ProgressCallback
from core.jobs.background import Job, begin, job_at, remove_job
from core.jobs.progress import Stop
from core.report.reading import EvaluationFacts, read_facts
from core.store.database import Store


def facts_job(store: Store, run_ids: Sequence[str]) -> Job[EvaluationFacts] | None:
    """Return the job that reads the facts of these runs, or has read them; ``None`` if it was not started."""
    return job_at(_key(store, run_ids))


def begin_facts(store: Store, run_ids: Sequence[str]) -> Job[EvaluationFacts]:
    """Start to read the facts of these runs, also if they were read before."""

    def do(tell: ProgressCallback, stop: Stop) -> EvaluationFacts:
        return read_facts(store, run_ids, tell, stop)

    key = _key(store, run_ids)
    if (earlier := job_at(key)) is not None and not earlier.running:
        remove_job(key)
    return begin(key, do, "Evaluation report")


def _key(store: Store, run_ids: Sequence[str]) -> tuple[object, ...]:
    """Return the key of the job: visitors who see other rows have other facts."""
    return ("evaluation", store.path, access.visible_owner(), tuple(sorted(run_ids)))
