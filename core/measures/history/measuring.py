"""Measures stored conversations once and keeps the result; cases without items first get some by rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from core.case import Case
from core.frameworks.consultation.items import BY_RULE, ItemSet, items_by_rule, items_from_json, items_to_json
from core.measures.history.measures import Yardstick, measure, to_json, yardstick
from core.store.database import Store
from core.store.queries.history import (
    StoredItems,
    StoredMeasures,
    Unmeasured,
    add_items,
    add_measures,
    cases_of_trials,
    cases_without_items,
    dialogues,
    newest_items,
    unmeasured,
)
from core.store.selection import Selection

VERSION = "1-stem"
"""Of the measures' definitions; a new one makes all stored measures missing."""
CHUNK = 2_000
"""Conversations between two writes, which is also how soon a stop is heard and how much a crash loses."""

Progress = Callable[[int, int], None]
"""Told how many conversations of how many are measured."""
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Measured:
    """How many conversations were measured now, and how many are still to be (after a stop)."""

    measured: int
    remaining: int


def save_items(store: Store, case: Case, items: ItemSet) -> None:
    """Store items of a case; its conversations are then to be measured again."""
    with store.write() as connection:
        add_items(connection, [_stored(case, items)])


def stored_items(store: Store, case: Case) -> ItemSet | None:
    """Return the items that count for a case, or ``None`` where none were stored for this content of it."""
    with store.read() as cursor:
        found = [s for s in newest_items(cursor, [case.case_key]) if s.content_hash == case.content_hash]
    return ItemSet(items_from_json(found[0].items), found[0].made_by) if found else None


def count_missing(store: Store, selection: Selection | None = None) -> int:
    """Return how many conversations are to be measured; those whose case has no items yet are not among them."""
    with store.read() as cursor:
        return len(unmeasured(cursor, VERSION, selection))


def measure_missing(
    store: Store,
    selection: Selection | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Measured:
    """Measure the selected conversations that have no measures by their case's newest items, and store them.

    ``stop`` is asked between chunks; what was measured until then is kept, and another call goes on from there.
    """
    stopped = stop or _never
    if not make_items(store, selection, stopped):
        return Measured(0, count_missing(store, selection))
    with store.read() as cursor:
        todo = unmeasured(cursor, VERSION, selection)
        against = _Yardsticks(store, selection) if todo else None
    done = 0
    while against and done < len(todo) and not stopped():
        done += _measure_chunk(store, todo[done : done + CHUNK], against)
        if progress:
            progress(done, len(todo))
    return Measured(done, len(todo) - done)


def make_items(store: Store, selection: Selection | None = None, stop: Stop | None = None) -> bool:
    """Make items by rule for the cases of selected trials that have none; say whether all have some now."""
    with store.read() as cursor:
        cases = cases_without_items(cursor, selection, tuple(BY_RULE.values()))
    made: list[StoredItems] = []
    for case in cases:
        if stop and stop():
            break
        made.append(_stored(case, items_by_rule(case)))
    if made:
        with store.write() as connection:
            add_items(connection, made)
    return len(made) == len(cases)


class _Yardsticks:
    """Yardsticks by case, each made when first needed."""

    def __init__(self, store: Store, selection: Selection | None) -> None:
        with store.read() as cursor:
            self._items = {(s.case_key, s.content_hash): s.items for s in newest_items(cursor)}
            self._cases = {
                (case.case_key, content): case
                for content, cases in cases_of_trials(cursor, selection).items()
                for case in cases
            }
        self._made: dict[tuple[str, str], Yardstick] = {}

    def of(self, key: tuple[str, str]) -> Yardstick:
        if key not in self._made:
            self._made[key] = yardstick(information_of(self._cases[key]), items_from_json(self._items[key]))
        return self._made[key]


def information_of(case: Case) -> str:
    """Return what a patient may truly tell: M, and a profile's facts in their clinical and lay words."""
    facts = case.profile.facts if case.profile else ()
    return "\n".join([case.vignette, *(f"{f.key}: {f.value}. {f.lay}" for f in facts)])


def _measure_chunk(store: Store, chunk: Sequence[Unmeasured], against: _Yardsticks) -> int:
    with store.read() as cursor:
        said = {d.trial_id: d.turns for d in dialogues(cursor, [u.trial_id for u in chunk])}
    now = time.time()

    def rows() -> Iterator[StoredMeasures]:
        for trial in chunk:
            found = measure(said.get(trial.trial_id, ()), against.of((trial.case_key, trial.content_hash)))
            yield StoredMeasures(trial.trial_id, trial.items_hash, to_json(found), now)

    new = list(rows())
    with store.write() as connection:
        add_measures(connection, new)
    return len(new)


def _stored(case: Case, items: ItemSet) -> StoredItems:
    return StoredItems(case.case_key, case.content_hash, items_to_json(items.items), items.made_by, time.time())


def _never() -> bool:
    return False
