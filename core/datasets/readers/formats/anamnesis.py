"""The format of this project's own cases (data/cases): the fields of a case by their names, with an ``id``."""

from __future__ import annotations

from core.case import read_demographics, split_question
from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, each
from core.datasets.readers.values import optional, text


def _fields(record: Record) -> CaseFields:
    vignette, question = text(record, "vignette"), optional(record, "question")
    if not question:
        vignette, question = split_question(vignette)
    age, sex = read_demographics(vignette)
    own = {name: value for name, value in record.items() if name not in ("vignette", "question")}
    return {"age": age, "sex": sex, **own, "id": text(record, "id"), "vignette": vignette, "question": question}


FORMAT = Format(
    name="anamnesis",
    title="Anamnesis",
    reads="Cases in the format of data/cases: id, specialty, vignette, question, choices, answer, profile and so on.",
    source="",
    licence="",
    fields=frozenset({"id", "vignette", "answer", "specialty"}),
    without=frozenset({"options"}),
    start=each(_fields),
)
