"""The workbooks with the answers of the experts of the authors' release.

In the release two annotators have one workbook each; some conversations are in both, and a third workbook has the
answers of a third annotator if the two differ. A sheet is a model, a row a conversation; the questions are the columns
that begin with Q1, Q2 and Q3. For 317 cases the grader's file has the diagnoses that the grader extracted from GPT-4's
five answers to the whole vignette, and the number of them that the experts call right. Its first 200 columns are the
data set's cases 0 to 199, the others the MedQA dermatology cases in the order of the data set.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core import access
from core.datasets.published import RELEASE_DATASETS
from core.datasets.readers.files import opened_workbook
from core.errors import AnamnesisError
from core.frameworks import starts
from core.frameworks.base import Arm, released
from core.judging.form import form_named
from core.judging.judgement import Judge, Judgement
from core.measures.base import Row as Figure
from core.measures.experts.adjudication import Counts, count_agreement, imported_reviews, review_of
from core.reviews.exchange import RELEASE, ImportedAnswers, add_imported
from core.reviews.state import About, ReviewState
from core.store.database import Store
from core.store.queries.releases import ReleasedRun, document, released_runs
from core.store.queries.utterances import conversations_on
from core.store.review_records import AnnotatedItem

FOLDER = "results/expert_annotations"
FILES = {
    "d1": f"{FOLDER}/validation_clinicalllm_patientai_d1.xlsx",
    "d2": f"{FOLDER}/validation_clinicalllm_patientai_d2.xlsx",
    "d3": f"{FOLDER}/validation_clinicallm_patientai_tiebreak_d3.xlsx",
}
"""Annotator → workbook inside the release; the third breaks ties."""
MODELS = {"GPT-4": "gpt_4", "GPT-3.5": "gpt_3_5", "Mistral-v2": "mistral_v2_7b", "LLaMA2": "llama_2_7b"}
_QUESTIONS: dict[str, str] = {"Q1": "single_diagnosis", "Q2": "complete_history", "Q3": "medical_terms"}
_WORDS = _CONVERSATION, _DIAGNOSIS = "multi-turn conversation", "final diagnosis"
SheetRow = Sequence[Any]


@dataclass(frozen=True)
class WorkbookRow:
    """One conversation in a workbook with its answers; conversation and diagnosis are empty if the sheet lacks them."""

    model: str
    case: str
    annotator: str
    conversation: str
    diagnosis: str
    answers: Mapping[str, str]


def answers_in(rows: Iterable[WorkbookRow], items: Iterable[object], source: str = "") -> list[Judgement]:
    """Return the answers of rows about these items; ``source`` stands before the names of the annotators."""
    return [
        Judgement(
            subject=str(item),
            form="conversations",
            question=question,
            judge=Judge(f"{source} {row.annotator}".strip()),
            value=answer,
            at=time.time(),
            review_id=RELEASE,
        )
        for row, item in zip(rows, items, strict=True)
        for question, answer in row.answers.items()
    ]


def read_rows(content: bytes, annotator: str) -> list[WorkbookRow]:
    """Return the rows of a workbook that have answers.

    Raises ``AnamnesisError`` with sheet and row if a row cannot be read.
    """
    name = f"The workbook of annotator {annotator}"
    with opened_workbook(io.BytesIO(content), name) as book:
        # rows that a reader of the workbook cannot see must not count
        if hidden := [sheet.title for sheet in book if sheet.sheet_state != "visible"]:
            raise AnamnesisError(
                f"{name} has a hidden sheet ({hidden[0][:40]}): show it or delete it, then import the workbook again."
            )
        return [row for sheet in book for row in _of_sheet(sheet.title, sheet.values, annotator)]


def _of_sheet(title: str, rows: Iterator[SheetRow], annotator: str) -> Iterator[WorkbookRow]:
    model = MODELS.get(title.strip())
    if model is None:
        raise AnamnesisError(
            f"The workbook of annotator {annotator} has a sheet {title!r}; sheets are called {', '.join(MODELS)}."
        )
    columns: Mapping[int, str] = {}
    words: Mapping[str, int] = {}
    for number, row in enumerate(rows, start=1):
        case = row[0] if row else None
        if case == "case_id":
            columns = {
                index: _QUESTIONS[cell[:2]]
                for index, cell in enumerate(row)
                if isinstance(cell, str) and cell[:2] in _QUESTIONS
            }
            words = {cell: index for index, cell in enumerate(row) if cell in (_CONVERSATION, _DIAGNOSIS)}
        elif columns and case is not None:
            where = f"annotator {annotator}, sheet {title}, row {number}"
            answers = {q: _answer(row[i], where) for i, q in columns.items() if row[i] is not None}
            conversation, diagnosis = (str(row[words[name]] or "") if name in words else "" for name in _WORDS)
            if answers:
                yield WorkbookRow(model, str(case).removesuffix(".json"), annotator, conversation, diagnosis, answers)
    if len(columns) != len(_QUESTIONS):
        raise AnamnesisError(
            f"The sheet {title} of annotator {annotator} has no header with case_id and {', '.join(_QUESTIONS)}."
        )


def _answer(cell: Any, where: str) -> str:
    answer = str(cell).strip().lower()
    if answer not in ("yes", "no"):
        raise AnamnesisError(f"{where}: {str(cell)[:40]!r} is neither yes nor no.")
    return answer


GRADER_FILE = f"{FOLDER}/validation_graderai.csv"
GRADED_MODEL = "gpt_4"
_ARM: Arm = ("vignette", "frq")
_OWN_ID = 200
"""Columns with a smaller number are cases of the data set with this id."""


@dataclass(frozen=True)
class GradedCase:
    """A column of the grader's file; ``right`` trials by the experts, ``None`` if they did not judge the case."""

    number: int
    trials: int
    right: int | None


def release_review(rows: Sequence[WorkbookRow]) -> ReviewState:
    """Return the release's experts as a review of conversations that are not stored here."""
    items = [str(AnnotatedItem("release", model=row.model, case_key=row.case)) for row in rows]
    about = {item: About(row.case, (row.model,)) for item, row in zip(items, rows, strict=True)}
    return review_of(form_named("conversations"), answers_in(rows, items), about)


def outside_reviews(store: Store, *, imported: bool) -> list[ReviewState]:
    """Return the imported answers, or those of the release's experts, as reviews."""
    return imported_reviews(store) if imported else [release_review(release_rows(store))]


def release_rows(store: Store) -> list[WorkbookRow]:
    """Return the rows of the imported workbooks; raises ``AnamnesisError`` if a workbook is missing."""
    workbooks = _documents(store, FILES)
    return [row for annotator, content in workbooks.items() for row in read_rows(content, annotator)]


def grader_of_release(store: Store) -> tuple[Sequence[Figure], str]:
    """Compare the release's grader with its experts by counts of right trials.

    Returns the figures, or the reason why they cannot be computed from the imported part of the release.
    """
    cases = read_grader_file(_documents(store, {"grader": GRADER_FILE})["grader"])
    with store.read() as cursor:
        runs = released_runs(cursor, released("experts").name)
    run = next((run for run in runs if run.model == GRADED_MODEL), None)
    counted = [case for case in cases if case.right is not None]
    if run is not None:
        return count_agreement(GRADED_MODEL, counts_by_case(counted, run).values()), ""
    reason = (
        "The experts judged GPT-4’s answers, and the imported part of the release lacks GPT-4’s results: the printed "
        f"figure cannot be computed. The experts’ counts are available for {len(counted)} of {len(cases)} cases."
    )
    return (), reason


def counts_by_case(cases: Sequence[GradedCase], run: ReleasedRun) -> dict[str, Counts]:
    """Return case → counts of experts and grader, for the cases of both."""
    by_id = {case.case_key.rpartition("_")[2]: case.case_key for case in run.cases}
    medqa_dermatology = [
        case.case_key
        for case in sorted(run.cases, key=lambda case: case.position)
        if case.dataset == RELEASE_DATASETS["medqa_usmle"] and case.specialty == "Dermatology"
    ]
    counts_of: dict[str, Counts] = {}
    for case in cases:
        place = case.number - _OWN_ID
        key = (
            by_id.get(str(case.number))
            if place < 0
            else medqa_dermatology[place]
            if place < len(medqa_dermatology)
            else None
        )
        counts = run.counts.get((_ARM, key)) if key else None
        if key and counts and case.right is not None:
            counts_of[key] = (case.right, counts[0], case.trials)
    return counts_of


def read_grader_file(content: bytes) -> list[GradedCase]:
    """Return the columns of the grader's file; raises ``AnamnesisError`` if its layout is different."""
    try:
        lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))
        rows = {row[0]: row for row in lines if row and row[0]}
        heads, right = next(row for row in lines if "case_0" in row), rows["dermatologist_accuracy"]
        numbers = [
            (int(head.removeprefix("case_")), head, cell)
            for head, cell in zip(heads, right, strict=True)
            if head.startswith("case_")
        ]
    except (csv.Error, ValueError, StopIteration, KeyError) as error:
        raise AnamnesisError(
            f"{GRADER_FILE} has no rows case_… and dermatologist_accuracy: import the release again."
        ) from error
    trials = sum(name.startswith("trial_") for name in rows)
    return [GradedCase(number, trials, _count(cell, head)) for number, head, cell in numbers]


def _count(cell: str, head: str) -> int | None:
    if not cell.strip():
        return None
    try:
        return int(float(cell))
    except (ValueError, OverflowError) as error:
        raise AnamnesisError(f"{GRADER_FILE}, column {head}: {cell[:40]!r} is not a number of trials.") from error


def _documents(store: Store, paths: Mapping[str, str]) -> dict[str, bytes]:
    with store.read() as cursor:
        contents = {name: document(cursor, path) for name, path in paths.items()}
    missing = [paths[name] for name, content in contents.items() if content is None]
    if missing:
        raise starts.Missing(f"The experts' files are not imported ({', '.join(missing)}).", starts.RELEASE)
    return {name: content for name, content in contents.items() if content is not None}


_SPEAKER = re.compile(r"\b(?:Doctor|Patient)-AI\s*:")
_WORD = re.compile(r"\w+")


def import_release_answers(store: Store) -> ImportedAnswers:
    """Save the answers of the release's experts, about the stored conversations with the same words."""
    access.require("run")
    rows = release_rows(store)
    pairs = [(row.model, f"{released('experts').name}/{row.case}") for row in rows]
    with store.read() as cursor:
        conversations = conversations_on(cursor, pairs)
    items = [matching_item(row, pair, conversations.get(pair, {})) for row, pair in zip(rows, pairs, strict=True)]
    with store.write() as connection:
        return add_imported(connection, answers_in(rows, items, "release"))


def matching_item(row: WorkbookRow, pair: tuple[str, str], conversations: Mapping[str, Sequence[str]]) -> AnnotatedItem:
    """Return the stored conversation with the same words, up to its last message, or else an item of the release.

    If several match, they differ only in the diagnosis; the one with the workbook's diagnosis is chosen.
    """
    words = _lower_words(_SPEAKER.sub(" ", row.conversation))
    diagnosis = _lower_words(row.diagnosis)
    same = [trial for trial, texts in conversations.items() if words and _lower_words(" ".join(texts[:-1])) == words]
    same += [trial for trial, texts in conversations.items() if words and _lower_words(" ".join(texts)) == words]
    same_diagnosis = [trial for trial in same if diagnosis and _lower_words(conversations[trial][-1]) == diagnosis]
    match = next(iter([*same_diagnosis, *same]), None)
    return AnnotatedItem("talk", trial_id=match) if match else AnnotatedItem("release", model=pair[0], case_key=pair[1])


def _lower_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
