"""Which cases every condition fails: a line for each case, with a column for each condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, Literal

from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import CASES_OF_RUNS, Counted, MetricRequest, Section, Side, metric
from core.measures.notes import excluded_note
from core.measures.paired import Arm, is_right, read_scores
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.runs import run_records
from core.store.selection import Selection, conditions
from core.words import arm as arm_in_words

Outcome = Literal["all_wrong", "all_right", "differ"]


@metric(
    "case_matrix",
    *CASES_OF_RUNS,
    "formats",
    "questions",
    "asks_for",
    "mcq_rule",
    empty="There is no answered case with this outcome.",
    starts=(CAMPAIGN, RELEASE),
    page="conversations",
)
def report_case_matrix(
    request: MetricRequest,
    outcome: Annotated[
        Outcome | None, "Only cases that all conditions answer wrong, that all answer right, or on which they differ."
    ] = None,
) -> Iterator[dict[str, Any]]:
    """List for each case the share of right trials under each condition, the cases that most conditions fail first.

    A condition fails a case if fewer than half of its counted trials are right. Without a counted trial its cell is
    empty, and the case is neither right nor wrong. A case that changed between two conditions has a line for each text.
    The answers are those of one format and question type: after the conversation and as free response, if there are
    such answers; choose others by --formats and --questions.
    """
    selection = replace(request.selection, pooled=False)
    arms = request.read(read_arms, selection)
    scores: list[CaseScore] = []
    while arms and not scores:
        (format_, question_type), *arms = arms
        of_arm = replace(selection, formats=(format_,), question_types=(question_type,))
        scores = request.read(read_scores, of_arm, selection.mcq_rule)
    if not scores:
        return
    models = list(dict.fromkeys(score.model for score in scores))
    by_case: dict[tuple[str, int], dict[str, CaseScore]] = {}
    for score in scores:
        by_case.setdefault((score.case_key, score.content), {})[score.model] = score
    lines = [_line(cells, models) for cells in by_case.values()]
    lines.sort(key=lambda line: (-line["failed"], sum(line[model] or 0 for model in models), -line["counted"]))
    yield from (line for line in lines if outcome in (None, line["outcome"]))
    request.conditions = models
    excluded: dict[str, Counter[str]] = {model: Counter() for model in models}
    for score in scores:
        excluded[score.model].update({str(reason): n for reason, n in score.excluded.items()})
    request.notes.append(excluded_note(excluded, request.name))
    others = f" Others, by format and question: {'; '.join(arm_in_words(*arm) for arm in arms)}." if arms else ""
    request.note(f"Answers: {arm_in_words(format_, question_type)}.{others}")


def read_arms(store: Store, selection: Selection) -> list[Arm]:
    """Return the arms of the runs behind a selection; answers after the conversation, and free responses, first."""
    behind = [run_id for condition in conditions(store, selection) for run_id in condition.runs]
    with store.read() as cursor:
        asked = {arm for run in run_records(cursor, behind) for arm in run.arms}
    formats: list[Format] = ["multi_turn", *(name for name in FORMATS if name != "multi_turn")]
    question_types: list[QuestionType] = ["frq", *(name for name in QUESTION_TYPES if name != "frq")]
    return [
        arm
        for arm in product(formats, question_types)
        if arm in asked
        and arm[0] in (selection.formats or FORMATS)
        and arm[1] in (selection.question_types or QUESTION_TYPES)
    ]


def _line(cells: Mapping[str, CaseScore], models: list[str]) -> dict[str, Any]:
    first = next(iter(cells.values()))
    right = [is_right(score) for score in cells.values() if score.counted]
    outcome = "differ" if len(set(right)) == 2 else "all_right" if all(right) else "all_wrong"
    return {
        "case": first.case_key,
        "failed": right.count(False),
        "counted": len(right),
        **{model: cells[model].score if model in cells else None for model in models},
        "specialty": first.specialty,
        "outcome": outcome if right else None,
        "format": first.format,
        "question_type": first.question_type,
    }


def cell_behind(selection: Selection, line: Mapping[str, Any], column: str) -> tuple[Selection, Counted] | None:
    """Return what the cell of a condition counts, and in which selection; ``None`` for an empty or another column."""
    if not isinstance(line[column], float):
        return None
    arm = (line["format"], line["question_type"])
    return replace(selection, cases=(line["case"],), pooled=False), Counted((Side(column, arm),))


MATRIX = Section(
    "Cases by condition",
    report_case_matrix,
    kind="table",
    heads={"failed": "Wrong", "counted": "Of", "question_type": "Question"},
    words={"all_wrong": "All wrong", "all_right": "All right", "differ": "Differ"},
    cell_behind=cell_behind,
    caption="A cell is the share of right trials of a case. Choose one to read its conversations.",
    help="A model is wrong on a case if fewer than half of its counted trials are right. Wrong, of: the models that "
    "are wrong, of those with a counted trial.",
    page="conversations",
)
SECTIONS = (MATRIX,)
