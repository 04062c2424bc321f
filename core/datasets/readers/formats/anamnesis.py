"""The format of the library (data/cases): the fields of a case by name, with an ``id``."""

from __future__ import annotations

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, each
from core.datasets.readers.values import checked_options, optional, text, texts, with_letters
from core.text.demographics import read_demographics
from core.text.questions import split_question


def _case_fields(record: Record) -> CaseFields:
    vignette, question = text(record, "vignette"), optional(record, "question")
    if not question:
        vignette, question = split_question(vignette)
    age, sex = read_demographics(vignette)
    others = {
        name: value
        for name, value in record.items()
        if value is not None and name not in ("vignette", "question", "case_key")
    }
    required = {"id": text(record, "id"), "vignette": vignette, "question": question, "answer": text(record, "answer")}
    return {"age": age, "sex": sex, **others, **required, "choices": _choices(record)}


def _choices(record: Record) -> tuple[str, ...]:
    """Return the choices, which may be missing. Raises ``RowError`` if one is empty or the answer is not among them."""
    if not record.get("choices"):
        return ()
    choices = tuple(checked_options(with_letters(texts(record, "choices"), "choices")).values())
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
    start=each(_case_fields),
)
