"""Vignettes that an expert answers in Excel: one workbook for each question type, in the order of the review.

The workbook with choices is written only when all answers in the expert's own words are stored, because the choices
give the answer away.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core import access
from core.errors import AnamnesisError, UsageError
from core.frameworks.answering import question_of
from core.reviews.baseline import answer_vignette, baseline_cases, next_question
from core.reviews.state import state_of
from core.spreadsheets import as_written, inert
from core.store.database import Store

COLUMNS = ("review", "annotator", "number", "asked", "vignette", "question", "choices", "answer")
SHEETS = {"frq": "Own words", "mcq": "Choices"}
_WIDTHS = {"vignette": 90, "question": 45, "choices": 45, "answer": 40}


@dataclass(frozen=True)
class Returned:
    """Result of a returned workbook: new ``answers``, ``unchanged`` answers, and (row, reason) of rejected rows."""

    answers: int
    unchanged: int
    rejected: tuple[tuple[int, str], ...]


def vignette_workbook(store: Store, review: str, annotator: str) -> tuple[str, bytes]:
    """Return the question type that an expert answers next, and the workbook with the vignettes that lack it.

    Raises ``UsageError`` if the expert is not in the review, or has answered everything.
    """
    import openpyxl  # type: ignore[import-untyped]  # slow to load
    from openpyxl.styles import Alignment  # type: ignore[import-untyped]

    access.require("look")
    access.require_name(annotator)
    state = state_of(store, review)
    if state.review.plan.kind != "baseline":
        raise UsageError(f"In the review {state.review.name} experts do not answer vignettes.")
    cases = baseline_cases(store, state.review, annotator)
    items = state.items_for(annotator)
    next_questions = {item.item: next_question(state, item.item, annotator) for item in items}
    question_type = next((q for q in state.review.plan.asked_of(annotator) if q in next_questions.values()), None)
    if question_type is None:
        raise UsageError(f"{annotator} has answered every vignette of the review {state.review.name}.")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = SHEETS[question_type]
    sheet.append(COLUMNS)
    for item in items:
        if next_questions[item.item] != question_type:
            continue
        case = cases[item.item]
        question = question_of(case, question_type, ())  # type: ignore[arg-type]
        choices = "\n".join(f"{_letter(place)}. {choice}" for place, choice in enumerate(question.choices))
        cells = (
            state.review.review_id,
            annotator,
            item.number,
            question_type,
            case.vignette,
            question.text,
            choices,
            "",
        )
        sheet.append([inert(cell) for cell in cells])
    for column, name in zip(sheet.columns, COLUMNS, strict=True):
        sheet.column_dimensions[column[0].column_letter].width = _WIDTHS.get(name, 12)
        for cell in column:
            cell.alignment = Alignment(wrap_text=True, vertical="top")
    sheet.freeze_panes = "A2"
    content = io.BytesIO()
    book.save(content)
    return question_type, content.getvalue()


def is_vignette_workbook(content: bytes) -> bool:
    """Return whether the first sheet of a workbook has the columns of ``vignette_workbook``."""
    return next(_rows(content), None) is not None


def take_vignette_workbook(store: Store, content: bytes) -> Returned:
    """Store the answers of a workbook; answers are final, and rows that are not due are rejected one by one."""
    answers = unchanged = 0
    rejected: list[tuple[int, str]] = []
    for line, (review, annotator, number, question_type, answer) in _rows(content):
        if not answer:
            continue
        try:
            state = state_of(store, review)
            item = state.by_number.get(int(number)) if number.isdecimal() else None
            if item is None:
                raise UsageError(f"The review {state.review.name} has no vignette {number!r}.")
            if question_type == "mcq":
                choices = baseline_cases(store, state.review, annotator)[item.item].choices
                answer = _choice(answer, choices)
            if state.value(item.item, annotator, question_type) == answer:
                unchanged += 1
                continue
            answer_vignette(store, review, item.number, annotator, question_type, answer)
            answers += 1
        except KeyError:
            rejected.append((line, f"Vignette {number} is not among those of {annotator}."))
        except UsageError as error:
            rejected.append((line, str(error)))
    return Returned(answers, unchanged, tuple(rejected))


def _rows(content: bytes) -> Iterator[tuple[int, tuple[str, str, str, str, str]]]:
    """Yield row number and (review, annotator, number, question type, answer); nothing for other workbooks."""
    import openpyxl  # slow to load

    try:
        sheet = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True).worksheets[0]
        rows: list[Sequence[Any]] = list(sheet.values)
    except (zipfile.BadZipFile, LookupError, OSError, ValueError, TypeError, EOFError, SyntaxError) as error:
        raise AnamnesisError("The workbook is no Excel file, or damaged: export it again.") from error
    heads = [str(cell or "") for cell in rows[0]] if rows else []
    if not set(COLUMNS) <= set(heads):
        return
    places = [heads.index(name) for name in ("review", "annotator", "number", "asked", "answer")]
    for line, row in enumerate(rows[1:], start=2):
        review, annotator, number, question_type, answer = (
            _cell_text(row[place]) if place < len(row) else "" for place in places
        )
        yield line, (review, annotator, number, question_type, answer)


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # Excel stores every number as a float
    return "" if cell is None else as_written(str(cell).strip())


def _letter(place: int) -> str:
    return chr(ord("A") + place)


def _choice(answer: str, choices: Sequence[str]) -> str:
    """Return the choice that a cell contains in full, by letter, or as the workbook lists it (``B. Eczema``)."""
    for place, choice in enumerate(choices):
        names = (choice, f"{_letter(place)}. {choice}")
        if answer.lower() in [name.lower() for name in names]:
            return choice
    for place, choice in enumerate(choices):
        if answer.rstrip(".)").upper() == _letter(place):
            return choice
    raise UsageError(f"{answer[:40]!r} is not one of the choices: write a letter or a choice in full.")
