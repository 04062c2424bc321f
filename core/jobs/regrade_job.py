"""A re-grading in the background of this process, for pages: started, watched and stopped; one at a time.

``begin_regrading(wanted, budget_usd=…)`` starts it and ``regrading()`` finds it again: ``done`` of ``planned`` answers,
``stop()``, and at the end ``error`` or ``result``. What it takes beforehand: ``core.jobs.regrade_estimate``.
"""

from __future__ import annotations

from core.jobs.engine import Progress
from core.jobs.engine import Stop as StopAsked
from core.jobs.regrade import Regraded, regrade
from core.jobs.regrade_plan import Regrading
from core.jobs.run import Options
from core.models.registry import load_registry
from core.store.database import Store
from core.work import Progress as Told
from core.work import Stop, Work, begin, work_at


def begin_regrading(wanted: Regrading, *, concurrency: int = 16, budget_usd: float | None = None) -> Work[Regraded]:
    """Start a re-grading, unless one is under way in this process: then return that.

    What cannot be done as asked (an unknown grader, a missing key, a run that another process works on) is in
    ``error`` at its end, as one sentence. Stopped, it keeps what was graded, and the same again goes on.
    """

    def do(tell: Told, asked_to_stop: Stop) -> Regraded:
        stop = StopAsked()

        def show(progress: Progress) -> None:
            tell(progress.done, progress.planned)
            if asked_to_stop():
                stop.ask("It was asked to stop.")

        return regrade(wanted, load_registry(), Options(concurrency, budget_usd, show), stop=stop)

    return begin(_place(), do)


def regrading() -> Work[Regraded] | None:
    """Return the re-grading that is under way or was the last of this process, or ``None``."""
    return work_at(_place())


def _place() -> tuple[str, str]:
    return "regrading", str(Store().path)
