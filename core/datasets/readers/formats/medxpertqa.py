"""MedXpertQA: ``id``, ``question``, ``options``, ``label``, ``medical_task``, ``body_system``; multimodal: ``images``.

The question repeats its options after "Answer Choices:"; this list is removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, Work
from core.datasets.readers.item import item_fields, specialty_of, split_item
from core.datasets.readers.pictures import pictures_of
from core.datasets.readers.values import by_letter, optional, options, single, text

_LIST = re.compile(r"\s*Answer Choices:\s*(?=\(A\))", re.IGNORECASE)


def _case_fields(record: Record, work: Work) -> CaseFields:
    choices = options(record)
    vignette, question = split_item(_without_list(text(record, "question"), choices))
    answer = by_letter(single(record, "label"), choices, "label")
    images = pictures_of(record, ("images",), work)
    fields = item_fields(optional(record, "id"), vignette, question, choices, answer, images=images)
    return {**fields, "specialty": _specialty(optional(record, "body_system"), fields["sex"])}


def _without_list(item: str, choices: Mapping[str, str]) -> str:
    lists = list(_LIST.finditer(item))
    if not lists:
        return item
    last = item[lists[-1].end() :]
    if not all(choice in last for choice in choices.values()):
        raise RowError("the list of options in the question is not that of options")
    return item[: lists[-1].start()]


def _specialty(body_system: str, sex: str | None) -> str:
    # urology includes the male reproductive system
    if body_system.lower() == "reproductive":
        return "Urology and Nephrology" if sex == "male" else "Obstetrics and Gynecology"
    return specialty_of(body_system)


FORMAT = Format(
    name="medxpertqa",
    title="MedXpertQA",
    reads="Specialist board questions; the body system gives the specialty, pictures are in images next to the list.",
    source="MedXpertQA, Zuo et al. 2025, arXiv 2501.18362",
    licence="MIT",
    fields=frozenset({"question", "options", "label", "medical_task", "body_system"}),
    start=lambda work: partial(_case_fields, work=work),
    needs=("question", "options", "label"),
)
