"""Published figures of history taking, to compare with stored figures (``core.measures.counterparts``)."""

from __future__ import annotations

from typing import Final, Literal

from core.datasets import published
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import LENGTHS, MEASURES
from core.measures.base import Row
from core.measures.counterparts import printed_row

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
"""Printed metric → name of the measure here, if it differs."""


def printed_histories(dataset: str = "medqa") -> list[Row]:
    """Return the printed figures of history taking on one of ``HISTORY_SETS``, in printed order."""
    figures = []
    for row in published.rows(publisher("history").name):
        measure = _HISTORY_METRICS.get(row["metric"], row["metric"])
        if row["model"] and measure in MEASURES and (row["table"], row["dataset"]) in (("2", dataset), ("3", "")):
            cases = HISTORY_SETS.get(row["dataset"], "all three data sets")
            unit = 1 if measure in LENGTHS else 100
            value, length = float(row["value"]) / unit, measure in LENGTHS
            source = f"table {row['table']}"
            figures.append(printed_row(source, row["model"], value, measure=measure, cases=cases, nearest=length))
    return figures


def published_rows(dataset: HistorySet = "medqa") -> list[Row]:
    """Return the printed figures of one of ``HISTORY_SETS``; repetition is printed for all three together."""
    return [
        Row(
            {"cases": printed.more["cases"], "model": printed.label["model"], "measure": printed.label["measure"]},
            printed.estimate,
            source=f"Liao et al., {printed.source}, {printed.more['cases']}",
        )
        for printed in printed_histories(dataset)
    ]
