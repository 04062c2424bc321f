"""Verdicts of several graders on the same free responses, counted by case: what figures about graders are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.errors import UsageError
from core.events import COUNTED
from core.store.database import Store
from core.store.queries.graders import GraderHeld, VerdictCount, graders_held, verdict_counts
from core.store.selection import Selection

NOT_JUDGED = -1
"""Code of an answer that a grader has not judged, or not with a verdict that counts."""
_CODE = {verdict: code for code, verdict in enumerate(COUNTED)}


@dataclass(frozen=True)
class Judged:
    """What ``graders`` say now of the same answers; ``counts`` hold their verdicts in this order."""

    graders: tuple[str, ...]
    counts: Sequence[VerdictCount]

    @cached_property
    def cases(self) -> NDArray[np.int64]:
        """Of each count the number of its case, from 0; answers to one case hang together."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(one.case_key, len(numbers)) for one in self.counts], dtype=np.int64)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Count × grader: the place of its verdict among ``COUNTED``, or ``NOT_JUDGED``."""
        rows = [[_CODE.get(v, NOT_JUDGED) if v else NOT_JUDGED for v in one.verdicts] for one in self.counts]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.graders))

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        """How many answers each count stands for."""
        return np.array([one.n for one in self.counts], dtype=np.int64)

    def of(self, graders: Sequence[str]) -> Judged:
        """Return the same with these graders only, in their order; raise ``UsageError`` for one that judged nothing."""
        places = [self.place(name) for name in graders]
        if tuple(graders) == self.graders:
            return self
        counts = [replace(one, verdicts=tuple(one.verdicts[p] for p in places)) for one in self.counts]
        return Judged(tuple(graders), counts)

    def narrowed(
        self, case_set: str = "", models: Sequence[str] = (), formats: Sequence[str] = (),
        question_types: Sequence[str] = (),
    ) -> Judged:  # fmt: skip
        """Return the answers to a case set by these models in these formats and question types; none named is all."""
        prefix = f"{case_set}/" if case_set else ""
        counts = [
            one for one in self.counts
            if one.case_key.startswith(prefix) and (not models or one.model in models)
            and (not formats or one.format in formats) and (not question_types or one.question_type in question_types)
        ]  # fmt: skip
        return Judged(self.graders, counts)

    def place(self, name: str) -> int:
        """Return where a grader stands among the others; raise ``UsageError`` for one that judged nothing."""
        if name not in self.graders:
            known = ", ".join(self.graders) or "nobody"
            raise UsageError(f"No grader {name!r} has judged these answers, only {known}: grade them with `regrade`.")
        return self.graders.index(name)


def read_graders(store: Store, selection: Selection | None = None) -> list[GraderHeld]:
    """Return who judged free responses of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return graders_held(cursor, selection)


def read_judged(store: Store, graders: Sequence[str] | None = None, selection: Selection | None = None) -> Judged:
    """Return the newest verdict of each grader (all by default) on every free response of a selection."""
    if graders is None:
        graders = [one.grader for one in read_graders(store, selection)]
    with store.read() as cursor:
        return Judged(tuple(graders), verdict_counts(cursor, graders, selection))
