"""What is printed of history taking, to stand next to what this database holds (``core.measures.counterparts``)."""

from __future__ import annotations

from typing import Final

import pandas as pd

from core.datasets import published
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import LENGTHS
from core.frameworks.consultation.measures.summary import MEASURES, TASK, measure_rows
from core.measures.counterparts import Own, Printed

PUBLICATION: Final = "Liao et al. 2023: history taking and accuracy (tables 2, 3)"
HISTORY_SETS: Final = {"medqa": "MedQA", "qmax": "QMax", "sample_exam": "Sample exam"}
"""Data sets of Liao et al. → their names."""
HISTORY_DOCTORS: Final = {
    "upper_bound": "Upper bound", "lower_bound": "Lower bound", "chatgpt_long": "ChatGPT, long prompt",
    "chatgpt_short": "ChatGPT, short prompt", "vicuna": "Vicuna", "vicuna_ft": "Vicuna, fine-tuned",
}  # fmt: skip
"""Doctors of Liao et al. → their names."""
_HISTORY_METRICS: Final = {
    "patient_len": "patient_words", "doctor_len": "doctor_words", "turn": "doctor_turns",
    "rouge_1": "repetition_1", "rouge_2": "repetition_2", "rouge_l": "repetition_l",
}  # fmt: skip
"""Printed metrics whose names are not ours."""


def printed_histories(dataset: str = "medqa") -> list[Printed]:
    """Return what is printed of history taking on one of ``HISTORY_SETS``, in its order."""
    figures = []
    for row in published.rows(publisher("history").name):
        what = _HISTORY_METRICS.get(row["metric"], row["metric"])
        if row["model"] and what in MEASURES and (row["table"], row["dataset"]) in (("2", dataset), ("3", "")):
            cases = HISTORY_SETS.get(row["dataset"], "all three data sets")
            unit = 1 if what in LENGTHS else 100
            value, length = float(row["value"]) / unit, what in LENGTHS
            figures.append(Printed(row["table"], row["model"], what, value, cases=cases, nearest=length))
    return figures


def own_histories(table: pd.DataFrame) -> list[Own]:
    """Return every measure of history taking of every condition, from a table of ``read_doctors``."""
    (format_,), (question_type,) = TASK.formats or (), TASK.question_types or ()
    return [
        Own(r.model, r.measure, f.mean, f.ci_low, f.ci_high, f.n_cases, format_, question_type)
        for r in (measure_rows(table, MEASURES) if len(table) else ())
        if (f := r.figure).mean is not None
    ]
