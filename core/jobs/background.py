"""Jobs in threads of this process, which pages watch and may stop; one for each key."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

from core import access
from core.callbacks import ProgressCallback, StepProgress
from core.datasets.archive import ArchiveLimits
from core.errors import AnamnesisError
from core.frameworks.release import Release
from core.jobs.progress import Stop
from core.jobs.release.importing import ImportReport, import_copy
from core.measures.base import Measure
from core.measures.missing import Measured, count_missing, measure_missing
from core.store.database import Store
from core.store.selection import Selection

_log = logging.getLogger(__name__)

T = TypeVar("T")
_REMEMBERED = 6
"""Maximum of ended jobs whose results stay readable."""


class Job(Generic[T]):
    """A job in a thread; its public attributes can be read from other threads at any time."""

    def __init__(self, do: Callable[[StepProgress, Stop], T], title: str = "") -> None:
        """``do`` is called with a function that takes its progress, and with the stop that it must check.

        ``title`` names the job in the list of all running jobs.
        """
        self.title = title
        self.done = self.planned = 0
        self.step = ""
        """The present step of work in several steps; ``done`` and ``planned`` are those of this step."""
        self.result: T | None = None
        self.error: str | None = None
        self.stopped = False
        """Whether a stop was requested."""
        self.started_at = time.time()
        self.finished_at: float | None = None
        self._step_start = (self.started_at, 0)
        """Time and count at the beginning of the present step."""
        self._stop = Stop()
        self._owner = access.visitor().name
        self._thread = threading.Thread(target=access.carried(self._run), args=(do,), name="job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the job to end soon; its results so far stay. Another visitor's job needs the right to run."""
        if access.visitor().name != self._owner:
            access.require("run")
        self.stopped = True
        self._stop.ask("It was asked to stop.")

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def running(self) -> bool:
        return self.finished_at is None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the job, or its present step, is done at the pace so far; ``None`` before progress."""
        start, done_before = self._step_start
        if self.done <= done_before or not self.running:
            return None
        return (time.time() - start) * (self.planned - self.done) / (self.done - done_before)

    def _run(self, do: Callable[[StepProgress, Stop], T]) -> None:
        try:
            self.result = do(self._tell, self._stop)
        except AnamnesisError as error:
            self.error = str(error)
        except Exception as error:  # no caller awaits this thread, so the error goes to the page and to the log
            _log.exception("The job broke off.")
            self.error = f"It broke off: {str(error) or type(error).__name__}."
        finally:
            self.finished_at = time.time()

    def _tell(self, done: int, planned: int, step: str = "") -> None:
        if step != self.step:
            self._step_start = (time.time(), done)
        self.done, self.planned, self.step = done, planned, step


_lock = threading.Lock()
_jobs: dict[Hashable, Job[Any]] = {}


def job_at(key: Hashable) -> Job[Any] | None:
    return _jobs.get(key)


def remove_job(key: Hashable) -> None:
    """Remove a job, so that the next job of its key starts from the beginning."""
    with _lock:
        _jobs.pop(key, None)


def running_jobs() -> list[Job[Any]]:
    return [job for job in list(_jobs.values()) if job.running and job.title]


def begin(key: Hashable, do: Callable[[StepProgress, Stop], T], title: str = "") -> Job[T]:
    with _lock:
        job = _jobs.pop(key, None)
        if job is None or not job.running:
            job = Job(do, title)
            job.start()
        _jobs[key] = job
        ended = [name for name, other in _jobs.items() if not other.running]
        for name in ended[: max(0, len(ended) - _REMEMBERED)]:
            del _jobs[name]
        return job


# measuring


def begin_measuring(store: Store, measure: Measure, selection: Selection | None = None) -> Job[Measured]:
    """Start to compute the missing scores of a measure, or return the job that does so."""
    access.require("run")

    def do(tell: ProgressCallback, stop: Stop) -> Measured:
        return measure_missing(store, measure, selection, progress=tell, stop=stop)

    return begin(_measuring(store, measure), do, f"Measuring: {measure.title or measure.name}")


def measuring_few(store: Store, measure: Measure, selection: Selection) -> Job[Measured]:
    """Return the job that measures a few trials for a page, started if necessary; it needs no right.

    Its key includes the state of the database, so that it is not repeated if nothing has changed.
    """
    key = (*_measuring(store, measure), store.version, selection)

    def do(tell: ProgressCallback, stop: Stop) -> Measured:
        return measure_missing(store, measure, selection, progress=tell, stop=stop, processes=0)

    return job_at(key) or begin(key, do)


def measuring(store: Store, measure: Measure) -> Job[Measured] | None:
    """Return the running or last job for a measure and a database, or ``None``."""
    return job_at(_measuring(store, measure))


def begin_all(store: Store, measures: Sequence[Measure]) -> Job[None]:
    """Start to compute the missing scores of these measures, one measure after another."""
    access.require("run")
    todo = {measure.name: count_missing(store, measure) for measure in measures}
    planned = sum(todo.values())

    def do(tell: ProgressCallback, stop: Stop) -> None:
        done = 0
        for measure in measures:
            part = begin_measuring(store, measure)
            while part.running:
                part.join(0.2)
                tell(done + part.done, planned)
                if stop():
                    part.stop()
            if part.error:
                raise AnamnesisError(part.error)
            if stop():
                return
            done += todo[measure.name]

    return begin(_measuring(store), do)


def measuring_all(store: Store) -> Job[None] | None:
    """Return the running or last job for all measures, or ``None``."""
    return job_at(_measuring(store))


def _measuring(store: Store, measure: Measure | None = None) -> tuple[str, ...]:
    return "measuring", str(store.path), measure.name if measure else ""


# importing a release


def begin_import(
    store: Store, release: Release, lent: Callable[[], AbstractContextManager[Path]], name: str, limits: ArchiveLimits
) -> Job[ImportReport]:
    """Start to import a whole release, or return the job that does so; ``lent`` opens the folder or archive."""
    access.require("run")

    def do(tell: ProgressCallback, stop: Stop) -> ImportReport:
        with lent() as path:
            return import_copy(store, release, path, name, limits=limits, progress=tell, stop=stop)

    return begin(_importing(store, release), do, f"Importing {release.about}")


def importing(store: Store, release: Release) -> Job[ImportReport] | None:
    return job_at(_importing(store, release))


def _importing(store: Store, release: Release) -> tuple[object, ...]:
    return store.path, release.name, "import"
