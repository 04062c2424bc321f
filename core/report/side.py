"""One run as a side of a comparison: its record, its condition, and how much of it is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from core.errors import AnamnesisError
from core.events import Format, QuestionType
from core.measures.paired import read_scores
from core.store.condition_parts import PARTS, ConditionPart
from core.store.conditions import MEASURED, Condition
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.run_cases import Extent, extents
from core.store.queries.runs import Run, run_record
from core.store.selection import McqRule, Selection, select


@dataclass(frozen=True)
class RunSide:
    """A run with the condition of the graders whose verdicts count, read without any other run.

    Read alone, two runs of one condition stay apart, and no trial is a repeat of the other run's.
    """

    run: Run
    condition: Condition
    extent: Extent

    @property
    def keys(self) -> dict[ConditionPart, str]:
        """Part → key of the condition, of the parts that a plan can know and that are not empty."""
        keys = self.condition.keys
        return {part: key for part in PARTS if part not in MEASURED and (key := keys.get(part, "").strip())}


def run_side(store: Store, run_id: str) -> RunSide:
    """Return the side of a stored run; raises ``AnamnesisError`` if it has no condition."""
    selection = Selection(runs=[run_id])
    with store.read() as cursor:
        run = run_record(cursor, run_id)
        main = [condition for condition in select(cursor, selection) if not condition.partial]
        if run is None or not main:
            raise AnamnesisError(f"Run {run_id} has no answers of a doctor.")
        (extent,) = extents(cursor, main[:1], selection)
    return RunSide(run, main[0], extent)


def arm_scores(store: Store, side: RunSide, arm: str, mcq_rule: McqRule = "usual") -> list[CaseScore]:
    """Return the scores of the cases of a side in an arm ("format:question_type")."""
    format_, _, question_type = arm.partition(":")
    selection = Selection(
        runs=[side.run.run_id],
        conditions=[side.condition.name],
        formats=[cast(Format, format_)],
        question_types=[cast(QuestionType, question_type)],
    )
    return read_scores(store, selection, mcq_rule)


def excluded_answers(scores: Iterable[CaseScore]) -> Counter[str]:
    """Return reason → number of answers that do not count; questions that a case does not allow are left out."""
    excluded: Counter[str] = Counter()
    for score in scores:
        for reason, n in score.excluded.items():
            excluded[reason] += n
    del excluded["not_applicable"]
    return excluded
