"""Recomputes the paper's tables in a thread; the tables that are finished can be read meanwhile."""

from __future__ import annotations

from pathlib import Path

from core.callbacks import ProgressCallback
from core.jobs.background import Job, begin, job_at
from core.jobs.progress import Stop
from core.measures.reproduce.release import Reproduction
from core.measures.reproduce.remarks import reproduce
from core.store.database import Store

_finished_tables: dict[Path, Reproduction] = {}


def reproducing(store: Store, digest: str, *, again: bool = False) -> Job[Reproduction]:
    """Return the job that recomputes the tables of the release with this digest, started if necessary or ``again``."""
    key = ("reproduction", store.path, digest)

    def do(tell: ProgressCallback, stop: Stop) -> Reproduction:
        _finished_tables.pop(store.path, None)
        return reproduce(store, tell, lambda tables: _finished_tables.update({store.path: tables}))

    work = None if again else job_at(key)
    return work or begin(key, do, "Recomputing the paper’s tables")


def finished_tables(store: Store) -> Reproduction | None:
    """Return the tables that a running job has finished; ``None`` if there are none yet."""
    return _finished_tables.get(store.path)
