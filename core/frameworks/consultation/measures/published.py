"""Published figures of history taking, next to which stored figures are shown."""

from __future__ import annotations

from typing import Final, Literal

from core.datasets import published
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import LENGTHS, MEASURES
from core.measures.base import Row

HistorySet = Literal["medqa", "qmax", "sample_exam"]
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
"""Printed metric → name of the measure here, if it differs."""


def published_rows(dataset: HistorySet = "medqa") -> list[Row]:
    """Return the printed figures of one of ``HISTORY_SETS``, in printed order; shares (0 to 1), or lengths.

    Repetition is printed for all three data sets together.
    """
    rows = []
    for row in published.rows(publisher("history").name):
        measure = _HISTORY_METRICS.get(row["metric"], row["metric"])
        if row["model"] and measure in MEASURES and (row["table"], row["dataset"]) in (("2", dataset), ("3", "")):
            cases = HISTORY_SETS.get(row["dataset"], "all three data sets")
            label = {"cases": cases, "model": row["model"], "measure": measure}
            value = float(row["value"]) / (1 if measure in LENGTHS else 100)
            rows.append(Row(label, value, source=f"Liao et al., table {row['table']}, {cases}"))
    return rows
