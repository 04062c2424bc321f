"""Scores of cases as one table: what every figure, comparison and test is made of.

A row is one case in one arm of one model; it is read once for each state of the database and then only filtered.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import AccuracyRow, Group, IntervalKind, accuracy_of
from core.store.database import Store
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.selection import McqRule, Selection

COLUMNS = ("model", "format", "question_type", "case_key", "dataset", "specialty", "correct", "counted", "excluded")


def read_scores(store: Store, selection: Selection | None = None, mcq_rule: McqRule = "mcq_loose") -> list[CaseScore]:
    """Return the scores of every case, arm and model of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return case_scores(cursor, selection, mcq_rule)


def score_table(scores: Sequence[CaseScore]) -> pd.DataFrame:
    """Return scores as a table; ``score`` is the share of counted trials that were right, NaN where none counts.

    ``excluded`` maps a verdict to its number. Format and question type are ordered categories.
    """
    table = pd.DataFrame([[getattr(s, name) for name in COLUMNS] for s in scores], columns=list(COLUMNS))
    table["format"] = pd.Categorical(table["format"], FORMATS, ordered=True)
    table["question_type"] = pd.Categorical(table["question_type"], QUESTION_TYPES, ordered=True)
    table["score"] = table["correct"] / table["counted"].where(table["counted"] > 0)
    return table


def chosen(
    scores: Sequence[CaseScore],
    *,
    models: Sequence[str] | None = None,
    formats: Sequence[str] | None = None,
    question_types: Sequence[str] | None = None,
    specialties: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
) -> list[CaseScore]:
    """Return the scores that fit; ``None`` is no restriction."""
    wanted = (
        ("model", models), ("format", formats), ("question_type", question_types), ("specialty", specialties),
        ("dataset", datasets),
    )  # fmt: skip
    tests = [(name, frozenset(values)) for name, values in wanted if values is not None]
    return [s for s in scores if all(getattr(s, name) in values for name, values in tests)]


def accuracy_rows(
    scores: Sequence[CaseScore], by: Group | None = None, interval: IntervalKind = "bootstrap"
) -> list[AccuracyRow]:
    """Return the accuracy of every arm and model of scores that were read already."""
    return accuracy_of(scores, by, interval=interval)
