"""MedQA: ``question``, ``options`` by letter, ``answer``, ``answer_idx``, ``meta_info`` (the step of the exam)."""

from __future__ import annotations

from collections.abc import Callable

from core.datasets.readers.files import Record
from core.datasets.readers.format import SEE_PAGE, CaseFields, Format, Work
from core.datasets.readers.formats.plain import start
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.values import by_letter, checked_answer, optional, options, text


def _case_fields(record: Record) -> CaseFields:
    vignette, question = split_item(text(record, "question"))
    choices = options(record)
    option = by_letter(text(record, "answer_idx"), choices, "answer_idx")
    answer = checked_answer(option, optional(record, "answer"), "answer_idx")
    return item_fields(optional(record, "id"), vignette, question, choices, answer)


def _start(work: Work) -> Callable[[Record], CaseFields]:
    # other lists with these fields have numbers of options, MedQA has letters
    numbered = any(optional(record, "answer_idx").isdecimal() for record in work.rows.first(1))
    return start(work) if numbered else _case_fields


FORMAT = Format(
    name="medqa",
    title="MedQA",
    reads="Questions of the USMLE with four or five options by letter; it names no specialty, so all are Other.",
    source="MedQA, Jin et al. 2021, doi 10.3390/app11146421",
    licence=f"MIT; the questions: {SEE_PAGE}",
    fields=frozenset({"question", "options", "answer_idx"}),
    without=frozenset({"facts", "context"}),
    start=_start,
    needs=("question", "options", "answer_idx"),
)
