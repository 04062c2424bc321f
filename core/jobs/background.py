"""Jobs in threads of this process, which pages watch and may stop; one for each key."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Hashable
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
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.store.database import Store

_log = logging.getLogger(__name__)

T = TypeVar("T")
_ENDS_WITHIN_S = 5.0
"""Seconds that the end of the program waits for a job."""
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
            if threading.main_thread().is_alive():  # at the end of the program, work is cut off at any place
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
    return [job for job in list(_jobs.values()) if job.running and job.title and job.planned]


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


@atexit.register
def _end_jobs() -> None:
    """Let the jobs end before the program: a thread that is cut off inside DuckDB would abort the process."""
    running = [job for job in list(_jobs.values()) if job.running]
    for job in running:
        job._stop.ask("The program ends.")
    for job in running:
        job.join(_ENDS_WITHIN_S)


MEASURING = "Measuring"
"""Title of the job."""
_settled: dict[Path, str] = {}
"""Database → its version after all that can be measured was measured."""


def keep_measured(store: Store) -> Job[None] | None:
    """Measure in the background the trials that are not measured yet, after other jobs, which it would slow down.

    Returns ``None`` if another job runs, or if nothing was stored since all was measured.
    """
    if _settled.get(store.path) == store.version or running_jobs():
        return None

    def do(tell: ProgressCallback, stop: Stop) -> None:
        with access.acting(access.HERE):  # also conversations that the visitor does not see
            done = True
            while done:
                _settled[store.path] = store.version  # after an error, too, until something is stored
                done = measure_trials(store, measures().values(), progress=tell, stop=stop) > 0

    return begin(("measuring", store.path), do, MEASURING)


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
