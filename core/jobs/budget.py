"""The budget of a run or job, stored next to its journal: a resume keeps it unless it names another one."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from core.journal import journal_path, writable

_FILE = "budget_usd"
_USED_UP = "The budget"


def stored_budget(journal: str, job: str = "", folder: Path | None = None) -> float | None:
    """Return the budget in US dollars of an unfinished run, or of a ``job`` with this journal; ``None`` without one."""
    with suppress(OSError, ValueError):
        return float(_path(journal, job, folder).read_text(encoding="ascii"))
    return None


def budget_in_force(given: float | None, stored: float | None) -> float | None:
    """Return the budget of a start: the given one, without limit if that is ``math.inf``, else the stored one."""
    budget_usd = stored if given is None else given
    return None if budget_usd == math.inf else budget_usd


def used_up(budget_usd: float) -> str:
    """Return the reason of a stop by the budget."""
    return f"{_USED_UP} of ${budget_usd:.2f} is used up."


def is_used_up(reason: str) -> bool:
    return reason.startswith(_USED_UP)


def store_budget(journal: str, budget_usd: float | None, job: str = "", folder: Path | None = None) -> None:
    """Store the budget of a run or job for its resumes; ``None`` forgets it, as after its end."""
    path = _path(journal, job, folder)
    with writable(path):
        if budget_usd is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(repr(budget_usd), encoding="ascii")


def _path(journal: str, job: str, folder: Path | None) -> Path:
    return journal_path(journal, folder).with_name(f"{_FILE}.{job}" if job else _FILE)
