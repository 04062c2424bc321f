"""The history that doctors took, by condition, with the accuracy of the task beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from core.frameworks.consultation.oracle import Bound
from core.measures.history.figures import MeasureRow, read_history
from core.measures.history.measures import SCALARS
from core.store.database import Store
from core.store.queries.accuracy import case_scores
from core.store.selection import Selection, doctor_of

MEASURES = (*SCALARS, "accuracy")
"""What is figured of each case: the measures of its conversations, and the accuracy of the task's answers."""
TASK = Selection(formats=("multi_turn",), question_types=("mcq",))
"""The arm whose accuracy stands beside the history: the task T with its choices, after the conversation."""


def read_doctors(store: Store, selection: Selection | None = None) -> pd.DataFrame:
    """Return ``read_history``'s table with ``case_set`` and the task's accuracy, judged by the selection's rule.

    ``accuracy`` is the share of a case's counted answers that are right (NaN where none counts), ``n_accuracy`` their
    number, ``uncounted`` that of the answers that do not count. The upper bound holds no conversation by design, so
    none of it is excluded.
    """
    chosen = selection or Selection()
    table = read_history(store, chosen)
    task = replace(chosen, formats=TASK.formats, question_types=TASK.question_types)
    with store.read() as cursor:
        scores = case_scores(cursor, task, chosen.mcq_rule)
    answers = pd.DataFrame(
        [(s.model, s.case_key, s.score, s.counted, sum(s.excluded.values())) for s in scores],
        columns=["model", "case_key", "accuracy", "n_accuracy", "uncounted"],
    )
    table = table.merge(answers, how="left", on=["model", "case_key"])
    counts = ["n_accuracy", "uncounted"]
    bound = Bound("upper").name
    return table.assign(
        accuracy=table["accuracy"].astype(np.float64),
        **{name: table[name].fillna(0).astype(int) for name in counts},
        excluded=table["excluded"].where(table["model"].map(doctor_of) != bound, 0),
        case_set=table["case_key"].str.split("/", n=1).str[0],
    )


def accuracy_counted(row: MeasureRow, table: pd.DataFrame) -> MeasureRow:
    """Return a row of the accuracy with its own numbers: answers that count, and those that do not."""
    if row.measure != "accuracy":
        return row
    own = table[table["model"] == row.model]
    return replace(row, n_without=0, n_excluded=int(own["uncounted"].sum()), n_missing=0)
