"""The format of the library (data/cases): the fields of a case by name, with an ``id``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, Work
from core.datasets.readers.formats.plain import FIRST, AnswerFinder, answer_finder, options_in
from core.datasets.readers.values import optional, text
from core.text.demographics import read_demographics
from core.text.questions import split_question


def _start(work: Work) -> Callable[[Record], CaseFields]:
    return partial(_case_fields, find=answer_finder(work, {"options": "choices", "answer": "answer"}))


def _case_fields(record: Record, find: AnswerFinder) -> CaseFields:
    vignette, question = text(record, "vignette"), optional(record, "question")
    if not question:
        vignette, question = split_question(vignette)
    age, sex = read_demographics(vignette)
    others = {
        name: value
        for name, value in record.items()
        if value is not None and name not in ("vignette", "question", "case_key")
    }
    required = {"id": text(record, "id"), "vignette": vignette, "question": question}
    choices, answer = options_in(record, ["choices"]), text(record, "answer")
    found = {"choices": tuple(choices.values()), "answer": find(answer, choices) if choices else answer}
    return {"age": age, "sex": sex, **others, **required, **found}


FORMAT = Format(
    name="anamnesis",
    title="Anamnesis",
    reads="Cases in the format of data/cases: id, specialty, vignette, question, choices, answer, profile and so on.",
    source="",
    licence="",
    fields=frozenset({"id", "vignette", "answer", "specialty"}),
    without=frozenset({"options"}),
    start=_start,
    takes=frozenset({FIRST}),
)
