"""What is printed of history taking, to stand next to what this database holds (``core.measures.counterparts``)."""

from __future__ import annotations

from typing import Final, Literal

from core.datasets import published
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import LENGTHS, MEASURES
from core.measures.base import Row
from core.measures.counterparts import Printed

PUBLICATION: Final = "Liao et al. 2023: history taking and accuracy (tables 2, 3)"
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


def published_rows(dataset: HistorySet = "medqa") -> list[Row]:
    """Return what is printed of one of ``HISTORY_SETS``; repetition is printed for all of them together."""
    return [
        Row(
            {"cases": printed.cases, "model": printed.model, "measure": printed.what},
            printed.value,
            source=f"Liao et al., table {printed.table}, {printed.cases}",
        )
        for printed in printed_histories(dataset)
    ]
