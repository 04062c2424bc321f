"""The format of this project's own cases (data/cases): the fields of a case by their names, with an ``id``."""

from __future__ import annotations

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, each
from core.datasets.readers.values import checked_options, lettered, optional, text, texts
from core.text.demographics import read_demographics
from core.text.questions import split_question


def _fields(record: Record) -> CaseFields:
    vignette, question = text(record, "vignette"), optional(record, "question")
    if not question:
        vignette, question = split_question(vignette)
    age, sex = read_demographics(vignette)
    own = {name: value for name, value in record.items() if name not in ("vignette", "question", "case_key")}
    told = {"id": text(record, "id"), "vignette": vignette, "question": question, "answer": text(record, "answer")}
    return {"age": age, "sex": sex, **own, **told, "choices": _choices(record)}


def _choices(record: Record) -> tuple[str, ...]:
    """Return the choices, none of them empty and the answer among them; no choices at all are no fault."""
    if not record.get("choices"):
        return ()
    choices = tuple(checked_options(lettered(texts(record, "choices"), "choices")).values())
    answer = text(record, "answer")
    if answer.lower() not in [choice.lower() for choice in choices]:
        raise RowError(f"the answer {answer!r} is none of the choices")
    return choices


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
