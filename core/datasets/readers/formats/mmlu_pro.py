"""MMLU-Pro: ``question``, a list of ``options``, ``answer`` (letter), ``answer_index``, ``category``."""

from __future__ import annotations

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, LeftOutError, RowError, each
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.values import by_letter, checked_answer, integer, optional, options, text

MEDICAL = ("health", "biology")
"""The categories that are read (Oh, Park, Kim, arXiv 2512.10195, data sets)."""


def _case_fields(record: Record) -> CaseFields:
    category = text(record, "category").lower()
    if category not in MEDICAL:
        raise LeftOutError(f"the category {category} is not medical")
    vignette, question = split_item(text(record, "question"))
    choices = options(record)
    index = integer(record, "answer_index")
    if not 0 <= index < len(choices):
        raise RowError(f"answer_index is {index}, but the options count from 0 to {len(choices) - 1}")
    answer = list(choices.values())[index]
    letter = optional(record, "answer")
    if letter:
        checked_answer(answer, by_letter(letter, choices, "answer"), "answer_index")
    return item_fields(optional(record, "question_id"), vignette, question, choices, answer)


FORMAT = Format(
    name="mmlu-pro",
    title="MMLU-Pro",
    reads="Questions of the categories health and biology with up to ten options; the other categories are left out.",
    source="MMLU-Pro, Wang et al. 2024, arXiv 2406.01574",
    licence="MIT",
    fields=frozenset({"question", "options", "answer_index", "category"}),
    start=each(_case_fields),
    needs=("question", "options", "answer_index", "category"),
)
