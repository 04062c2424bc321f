"""The case file of CRAFT-MD's authors: case_vignette, choice_1…4, answer, category, dataset, case_id."""

from __future__ import annotations

from core.case import RELEASE_SPECIALTIES, SPECIALTIES
from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, each
from core.datasets.readers.values import optional
from core.text.demographics import read_demographics
from core.text.questions import split_question

COLUMNS = ("case_vignette", "choice_1", "choice_2", "choice_3", "choice_4", "answer", "category", "dataset", "case_id")


def _case_fields(record: Record) -> CaseFields:
    empty = [name for name in ("case_id", "case_vignette", "answer", "category") if not optional(record, name)]
    if empty:
        raise RowError(f"{' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty")
    category = optional(record, "category")
    specialty = RELEASE_SPECIALTIES.get(category, category)
    if specialty not in SPECIALTIES:
        raise RowError(f"the category {record['category']!r} is none of the specialties")
    vignette, question = split_question(optional(record, "case_vignette").strip('"'))
    age, sex = read_demographics(vignette)
    fields: CaseFields = {
        "id": optional(record, "case_id"),
        "specialty": specialty,
        "vignette": vignette,
        "question": question,
        "choices": tuple(choice for name in COLUMNS[1:5] if (choice := optional(record, name))),
        "answer": optional(record, "answer"),
        "age": age,
        "sex": sex,
    }
    dataset = optional(record, "dataset")
    return {**fields, "dataset": dataset} if dataset else fields


FORMAT = Format(
    name="craftmd",
    title="CRAFT-MD",
    reads="The case file of the CRAFT-MD release: vignettes with four choices, by specialty.",
    source="CRAFT-MD, doi 10.1038/s41591-024-03328-5",
    licence="see the authors' repository",
    fields=frozenset({"case_vignette"}),
    start=each(_case_fields),
    needs=COLUMNS,
    files=frozenset({"usmle_and_derm_dataset.csv"}),
)
