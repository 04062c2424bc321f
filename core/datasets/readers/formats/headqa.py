"""HEAD-QA: ``exams`` → ``data`` → ``qtext``, ``answers`` (``aid``, ``atext``), ``ra``, ``category``, or one flat table.

Numbers of questions are unique only within an exam, so the id is exam and number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, Work
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.values import checked_options, integer, optional, plain, text


def _unpack(root: Mapping[str, Any]) -> list[Any] | None:
    """Return the questions of all exams, each with its exam's name and category."""
    exams = root.get("exams")
    if not isinstance(exams, dict | list):
        return None
    pairs = exams.items() if isinstance(exams, dict) else ((None, exam) for exam in exams)
    questions: list[Any] = []
    for name, exam in pairs:
        if not isinstance(exam, Mapping) or not isinstance(exam.get("data"), list):
            return None
        shared = {"name": name or exam.get("name"), "category": exam.get("category")}
        questions += [{**shared, **item} if isinstance(item, Mapping) else item for item in exam["data"]]
    return questions


def _case_fields(record: Record, work: Work) -> CaseFields:
    if record.get("image"):
        work.remark("the question comes with an image, which is not read")
    vignette, question = split_item(text(record, "qtext"))
    # number → text, from a list of pairs or, in tables, from a pair of lists
    value = record.get("answers")
    if isinstance(value, Mapping) and all(isinstance(value.get(name), list) for name in ("aid", "atext")):
        if len(value["aid"]) != len(value["atext"]):
            raise RowError(f"answers has {len(value['aid'])} aid but {len(value['atext'])} atext")
        pairs = list(zip(value["aid"], value["atext"], strict=True))
    elif isinstance(value, list) and all(
        isinstance(item, Mapping) and {"aid", "atext"} <= item.keys() for item in value
    ):
        pairs = [(item["aid"], item["atext"]) for item in value]
    else:
        raise RowError("answers should be a list of aid and atext")
    texts = {plain(number, "aid"): answer for number, answer in pairs}
    if len(texts) < len(pairs):
        raise RowError("two answers have the same aid")
    choices = checked_options(list(texts.items()))
    right = str(integer(record, "ra"))
    if right not in choices:
        raise RowError(f"the right answer (ra) {right} is none of the answers {', '.join(choices)}")
    exam, number = optional(record, "name"), optional(record, "qid")
    name = "-".join(part for part in (exam, number) if part) if number else None
    return item_fields(name, vignette, question, choices, choices[right])


FORMAT = Format(
    name="headqa",
    title="HEAD-QA",
    reads="Questions of Spanish health care exams, as exams in JSON or as one table; images are not read, and no "
    "specialty is named.",
    source="HEAD-QA, Vilares and Gómez-Rodríguez 2019, doi 10.18653/v1/P19-1092",
    licence="MIT; the exams: see the data set's own page",
    fields=frozenset({"qtext", "answers", "ra"}),
    start=lambda work: partial(_case_fields, work=work),
    needs=("qtext", "answers", "ra"),
    unpack=_unpack,
)
