"""Reads the experts' workbooks of the CRAFT-MD release: one sheet a model, one row a conversation, three questions.

Two annotators have a workbook each, some conversations stand in both, and a third workbook holds what a third annotator
said where those two differ. The questions are the columns that begin with Q1, Q2 and Q3.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import AnamnesisError
from core.store.review_records import Answer, Judgement, Question

FOLDER = "results/expert_annotations"
FILES = {
    "d1": f"{FOLDER}/validation_clinicalllm_patientai_d1.xlsx",
    "d2": f"{FOLDER}/validation_clinicalllm_patientai_d2.xlsx",
    "d3": f"{FOLDER}/validation_clinicallm_patientai_tiebreak_d3.xlsx",
}
"""Annotator → workbook inside the release; the third breaks ties."""
MODELS = {"GPT-4": "gpt_4", "GPT-3.5": "gpt_3_5", "Mistral-v2": "mistral_v2_7b", "LLaMA2": "llama_2_7b"}
_QUESTIONS: dict[str, Question] = {"Q1": "single_diagnosis", "Q2": "complete_history", "Q3": "medical_terms"}
_ANSWERS: dict[str, Answer] = {"yes": "yes", "no": "no"}
_WORDS = _CONVERSATION, _DIAGNOSIS = "multi-turn conversation", "final diagnosis"
Row = Sequence[Any]


@dataclass(frozen=True)
class WorkbookRow:
    """One conversation in a workbook with the words that were said, as far as they stand there, and the answers."""

    model: str
    case: str
    annotator: str
    conversation: str
    diagnosis: str
    answers: Mapping[Question, Answer]


def read_workbook(content: bytes, annotator: str) -> list[Judgement]:
    """Return the judgements of one annotator; raises ``AnamnesisError`` naming sheet and row of what cannot be read."""
    return [
        Judgement(row.model, row.case, question, row.annotator, answer)
        for row in read_rows(content, annotator)
        for question, answer in row.answers.items()
    ]


def read_rows(content: bytes, annotator: str) -> list[WorkbookRow]:
    """Return the rows of a workbook that answer something; raises as ``read_workbook`` does."""
    import openpyxl  # type: ignore[import-untyped]  # slow to load

    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise AnamnesisError(
            f"The workbook of annotator {annotator} is no Excel file: import the release anew."
        ) from error
    return [row for sheet in book for row in _of_sheet(sheet.title, sheet.values, annotator)]


def _of_sheet(title: str, rows: Iterator[Row], annotator: str) -> Iterator[WorkbookRow]:
    model = MODELS.get(title.strip())
    if model is None:
        raise AnamnesisError(
            f"The workbook of annotator {annotator} has a sheet {title!r}; sheets are called {', '.join(MODELS)}."
        )
    columns: Mapping[int, Question] = {}
    words: Mapping[str, int] = {}
    for number, row in enumerate(rows, start=1):
        case = row[0] if row else None
        if case == "case_id":
            columns = _columns(row)
            words = {cell: index for index, cell in enumerate(row) if cell in (_CONVERSATION, _DIAGNOSIS)}
        elif columns and case is not None:
            where = f"annotator {annotator}, sheet {title}, row {number}"
            answers = {q: _answer(row[i], where) for i, q in columns.items() if row[i] is not None}
            said, diagnosis = (str(row[words[name]] or "") if name in words else "" for name in _WORDS)
            if answers:
                yield WorkbookRow(model, str(case).removesuffix(".json"), annotator, said, diagnosis, answers)
    if len(columns) != len(_QUESTIONS):
        raise AnamnesisError(
            f"The sheet {title} of annotator {annotator} has no header with case_id and {', '.join(_QUESTIONS)}."
        )


def _columns(header: Row) -> dict[int, Question]:
    return {
        index: _QUESTIONS[cell[:2]]
        for index, cell in enumerate(header)
        if isinstance(cell, str) and cell[:2] in _QUESTIONS
    }


def _answer(cell: Any, where: str) -> Answer:
    answer = _ANSWERS.get(str(cell).strip().lower())
    if answer is None:
        raise AnamnesisError(f"{where}: {str(cell)[:40]!r} is neither yes nor no.")
    return answer
