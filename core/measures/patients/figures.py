"""How often simulated patients go wrong, by patient's model, run, doctor's model, specialty or data set.

The share of conversations with at least one hit, and hits per 100 replies. 95 % intervals resample cases with all their
conversations (``core.stats.ratios``); where every case has one conversation, or none or all of them have a hit, the
share's interval is Wilson's over cases.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import UsageError
from core.measures.history.resampling import drawn_cases
from core.measures.patients.rules import marks_in, rules_version
from core.stats.bootstrap import SEED
from core.stats.intervals import NOTHING, Interval
from core.stats.proportions import wilson, wilson_if_alike
from core.stats.ratios import RESAMPLES, percentiles, ratio
from core.store.database import Store
from core.store.queries.failures import cases_of, dialogues
from core.store.queries.patients import KINDS, Hit, Kind, Mark, hits, talks
from core.store.queries.transcripts import stored_trial
from core.store.selection import Selection, select

By = Literal["patient", "run", "doctor", "specialty", "dataset"]
Floats = NDArray[np.float64]
_COLUMN: dict[By, str] = {"run": "run_id"}


@dataclass(frozen=True)
class PatientRate:
    """One kind of hit in one group of conversations; plain patients and each persona are groups apart.

    ``group`` is the value of what was grouped by (the patient's model, the run's id, …), ``condition`` the name of the
    one condition that its conversations share, or how many were pooled on purpose. ``n`` conversations of
    ``cases`` cases with ``replies`` replies were looked at; ``n_hit`` of them hold at least one of ``hits`` hits.
    ``rate`` is a share (0 to 1), ``per_100`` hits in a hundred replies; NaN where nothing was looked at. Rates are
    claimed only where the rule is right often enough (``core.measures.patients.kinds.About.claimed``).
    """

    group: str
    persona: str
    protocol: str
    kind: Kind
    cases: int
    n: int
    n_hit: int
    rate: float
    interval: Interval
    hits: int
    replies: int
    per_100: float
    per_100_interval: Interval
    condition: str = ""


def patient_rates(
    store: Store, by: By = "patient", wanted: Selection | None = None, kinds: Sequence[Kind] = KINDS, *,
    pooled: bool = False,
) -> list[PatientRate]:  # fmt: skip
    """Return a row for each group, condition and kind, from what is marked; nothing is marked here.

    Who grades, solves or summarises makes no condition here: none of them speaks to the patient. ``pooled`` puts the
    conditions of a group, persona, protocol and data set together on purpose, and says how many they are.
    ``core.measures.patients.marking.count_unmarked`` says how many conversations are not marked and therefore left out.
    """
    with store.read() as cursor:
        found = talks(cursor, rules_version(), wanted)
        runs = Selection(runs=found["run_id"].unique().tolist())
        named = select(cursor, runs, without=("grader", "reader", "solver", "summariser"))
    condition_of = {run: one.name for one in named for run in one.runs}
    data_set = found["case_key"].str.split("/", n=1).str[0]
    found = found.assign(condition=found["run_id"].map(condition_of), data_set=data_set)
    place = [_COLUMN.get(by, by), "persona", "protocol", "data_set" if pooled else "condition"]
    found[place] = found[place].fillna("")
    return [
        replace(rate, condition=_pool(members) if pooled else str(members["condition"].iat[0]))
        for (group, persona, protocol, _), members in found.groupby(place)
        for rate in _rates((str(group), str(persona), str(protocol)), members, kinds)
    ]


def _pool(members: pd.DataFrame) -> str:
    """Return what stands for the conditions of conversations about one data set that are put together."""
    names = members["condition"].unique()
    return str(names[0]) if len(names) == 1 else f"{members['data_set'].iat[0]}, {len(names)} conditions pooled"


def patient_hits(
    store: Store, kind: Kind, wanted: Selection | None = None, *, words: str | None = None,
    limit: int | None = 50, offset: int = 0,
) -> tuple[int, list[Hit]]:  # fmt: skip
    """Return how many kept hits of a kind there are under a filter, and a page of them by run, case, trial and turn.

    ``words`` keeps hits whose words hold it, in any case of letters.
    """
    with store.read() as cursor:
        return hits(cursor, rules_version(), [kind], wanted, words=words, limit=limit, offset=offset)


def trial_marks(store: Store, trial_id: str) -> tuple[Mark, ...]:
    """Return everything that is wrong with the replies of one conversation, marked now.

    For a transcript: ``start`` and ``end`` are places in the text of message ``turn``. Raises ``UsageError`` where
    no such conversation is stored.
    """
    with store.read() as cursor:
        held = stored_trial(cursor, trial_id)
        key = (held.case_key, held.content_hash) if held else None
        case = cases_of(cursor, [key]).get(key) if key else None
        said = dialogues(cursor, [trial_id]).get(trial_id)
    if case is None or said is None:
        raise UsageError(f"No conversation {trial_id!r} with its case is stored: choose one from the list.")
    return tuple(marks_in(case, said))


def hit_sample(
    store: Store, kind: Kind, number: int = 20, seed: int = 20, wanted: Selection | None = None
) -> list[Hit]:
    """Return so many kept hits of a kind, drawn at random without replacement (all where there are fewer)."""
    found = patient_hits(store, kind, wanted, limit=None)[1]
    return random.Random(seed).sample(found, min(number, len(found)))


def _rates(place: tuple[str, str, str], looked: pd.DataFrame, kinds: Sequence[Kind]) -> list[PatientRate]:
    """Return the rates of a group; one draw of cases serves all kinds."""
    cases, row_of = np.unique(looked["case_key"].to_numpy(dtype=str), return_inverse=True)
    by_talk = looked[list(kinds)].to_numpy(dtype=np.float64)
    numbers = np.column_stack([by_talk > 0, by_talk, np.ones(len(looked)), looked["replies"].to_numpy()])
    sums = np.zeros((len(cases), numbers.shape[1]))
    np.add.at(sums, row_of, numbers)
    hit, said, (n, replies) = sums[:, : len(kinds)], sums[:, len(kinds) : -2], sums[:, -2:].T
    shares, per_100 = _resampled(sums, len(kinds))
    return [
        PatientRate(
            *place, kind, len(cases), int(n.sum()), int(hit[:, i].sum()), ratio(hit[:, i], n),
            _share_interval(int(hit[:, i].sum()), int(n.sum()), len(cases), shares[i]), int(said[:, i].sum()),
            int(replies.sum()), 100 * ratio(said[:, i], replies), _per_100(per_100[i], len(cases)),
        )
        for i, kind in enumerate(kinds)
    ]  # fmt: skip


def _resampled(sums: Floats, kinds: int) -> tuple[list[Interval], list[Interval]]:
    """Return for each kind the intervals of its share of conversations and of its hits in 100 replies."""
    if not len(sums):
        return [NOTHING] * kinds, [NOTHING] * kinds
    drawn = np.concatenate([block @ sums for block in drawn_cases(len(sums), RESAMPLES, SEED)])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares, per_100 = drawn[:, :kinds] / drawn[:, -2:-1], 100 * drawn[:, kinds:-2] / drawn[:, -1:]
    n = len(sums)
    return [percentiles(column, n) for column in shares.T], [percentiles(column, n) for column in per_100.T]


def _share_interval(hit: int, n: int, cases: int, resampled: Interval) -> Interval:
    """As ``core.stats.ratios.share_interval``, of what is resampled already."""
    if n == cases:
        return wilson(hit, cases)
    return wilson_if_alike(resampled, hit / n, cases) if n else NOTHING


def _per_100(resampled: Interval, cases: int) -> Interval:
    """Return the interval of hits in 100 replies; where there is none, as if all replies of a case were alike."""
    return resampled if resampled.high else Interval(0.0, 100 * wilson(0, cases).high)
