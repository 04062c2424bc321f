"""MedBullets: ``question``, ``opa``…``ope``, ``answer_idx``, ``answer``, ``explanation``, ``link``.

A file of four options has no ``ope``, or leaves it empty.
"""

from __future__ import annotations

from core.datasets.readers.files import Record
from core.datasets.readers.format import SEE_PAGE, CaseFields, Format, each
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.values import by_letter, checked_answer, checked_options, optional, text


def _case_fields(record: Record) -> CaseFields:
    vignette, question = split_item(text(record, "question"))
    letters = "abcde" if optional(record, "ope") else "abcd"
    choices = checked_options([(letter.upper(), record.get(f"op{letter}")) for letter in letters])
    option = by_letter(text(record, "answer_idx"), choices, "answer_idx")
    answer = checked_answer(option, optional(record, "answer"), "answer_idx")
    return item_fields(optional(record, "id"), vignette, question, choices, answer)


FORMAT = Format(
    name="medbullets",
    title="MedBullets",
    reads="Questions in the style of USMLE steps 2 and 3, four or five options in columns; no specialty is named.",
    source="MedBullets, Chen et al. 2024, arXiv 2402.18060",
    licence=SEE_PAGE,
    fields=frozenset({"question", "opa", "opb", "opc", "opd", "answer_idx"}),
    without=frozenset({"cop"}),
    start=each(_case_fields),
    needs=("question", "opa", "opb", "opc", "opd", "answer_idx"),
)
