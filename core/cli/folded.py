"""The database as every report wants it: with all that the journals hold, and a word where one is damaged."""

from __future__ import annotations

import sys

from core.errors import UsageError
from core.store.database import Store
from core.store.fold import fold
from core.store.runs import run_ids


def folded_store() -> Store:
    """Fold the journals and return the store; damage is said on stderr, because figures lack what lies behind it."""
    store = Store()
    for damage in fold(store).damaged:
        print(f"Not all is shown: {damage.message}", file=sys.stderr)
    return store


def run_id_of(store: Store, name: str) -> str:
    """Return the id of a stored run, ours or of a release, by its id or the beginning of it."""
    with store.read() as cursor:
        known = run_ids(cursor)
    matches = [run_id for run_id in known if run_id == name] or [r for r in known if r.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UsageError(f"There is no run {name!r}; `python -m core runs` lists them.")
    raise UsageError(f"{name!r} is the beginning of {len(matches)} runs: {', '.join(matches[:5])}.")
