"""Annotations in and out: the workbooks of the authors' release, and plain CSV with the history of every answer.

In the release two annotators have a workbook each, some conversations stand in both, and a third workbook holds what a
third annotator said where those two differ. A sheet is a model, a row a conversation; the questions are the columns
that begin with Q1, Q2 and Q3. The grader's file holds, for 317 cases, the diagnoses that the grader read out of GPT-4's
five answers to the whole vignette, and how many of them the experts call right. Its first 200 columns are the data
set's cases 0 to 199, the rest the MedQA dermatology cases in the order of the data set.

What stands in the database already is not taken twice. Of a blinded review no export says whose items they are.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import orjson

from core import access
from core.datasets.published import RELEASE_DATASETS
from core.datasets.readers.files import BROKEN_BOOK, check_workbook_size
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import Arm, released
from core.measures.base import Row as Figure
from core.measures.experts.adjudication import IMPORTED, RELEASE, Counts, Decision, count_agreement, decide
from core.reviews.reviewing import states
from core.spreadsheets import as_written, inert
from core.store.database import Store
from core.store.queries.annotations import Annotation, add_annotations, annotation_history, annotations_of
from core.store.queries.releases import ReleasedRun, document, released_runs
from core.store.queries.trials import subjects
from core.store.queries.utterances import conversations_on
from core.store.review_records import ANSWERS, QUESTIONS, Answer, Item, Judgement, Question, parse_item

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


def judgements(rows: Iterable[WorkbookRow]) -> Iterator[Judgement]:
    """Yield what was said in rows of workbooks."""
    for row in rows:
        for question, answer in row.answers.items():
            yield Judgement(row.model, row.case, question, row.annotator, answer)


def read_rows(content: bytes, annotator: str) -> list[WorkbookRow]:
    """Return the rows of a workbook that answer something.

    Raises ``AnamnesisError`` naming sheet and row of what cannot be read.
    """
    import openpyxl  # type: ignore[import-untyped]  # slow to load

    try:
        check_workbook_size(io.BytesIO(content), f"The workbook of annotator {annotator}")
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        # what nobody saw who looked at the workbook counts in no figure
        if hidden := [sheet.title for sheet in book if sheet.sheet_state != "visible"]:
            raise AnamnesisError(
                f"The workbook of annotator {annotator} has a hidden sheet ({hidden[0][:40]}): show it or delete it, "
                "then import the workbook again."
            )
        return [row for sheet in book for row in _of_sheet(sheet.title, sheet.values, annotator)]
    except BROKEN_BOOK as error:
        raise AnamnesisError(
            f"The workbook of annotator {annotator} is no Excel file, or damaged: import the release anew."
        ) from error


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
            columns = {
                index: _QUESTIONS[cell[:2]]
                for index, cell in enumerate(row)
                if isinstance(cell, str) and cell[:2] in _QUESTIONS
            }
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


def _answer(cell: Any, where: str) -> Answer:
    answer = _ANSWERS.get(str(cell).strip().lower())
    if answer is None:
        raise AnamnesisError(f"{where}: {str(cell)[:40]!r} is neither yes nor no.")
    return answer


GRADER_FILE = f"{FOLDER}/validation_graderai.csv"
GRADED_MODEL = "gpt_4"
_ARM: Arm = ("vignette", "frq")
_OWN_ID = 200
"""Columns before this one name cases of the data set."""


@dataclass(frozen=True)
class GradedCase:
    """A column of the grader's file: how many trials the experts call right, ``None`` where they left it open."""

    number: int
    trials: int
    right: int | None


def release_decisions(store: Store) -> list[Decision]:
    """Return what the experts of the release decided; raises ``AnamnesisError`` where no workbook was imported."""
    return decide(judgements(release_rows(store)))


def release_rows(store: Store) -> list[WorkbookRow]:
    """Return the rows of the workbooks that were imported; raises ``AnamnesisError`` where one is missing."""
    return [row for who, content in _documents(store, FILES).items() for row in read_rows(content, who)]


def grader_of_release(store: Store) -> tuple[Sequence[Figure], str]:
    """Compare the release's grader with its experts by counts of right trials.

    Returns the figures, or else why they cannot be computed from what is here.
    """
    cases = read_grader_file(_documents(store, {"grader": GRADER_FILE})["grader"])
    with store.read() as cursor:
        runs = released_runs(cursor, released("experts").name)
    run = next((run for run in runs if run.model == GRADED_MODEL), None)
    counted = [case for case in cases if case.right is not None]
    if run is not None:
        return count_agreement(GRADED_MODEL, counts_by_case(counted, run).values()), ""
    lacking = (
        "The experts judged GPT-4’s answers, and this part of the release lacks GPT-4’s results: the printed figure "
        f"cannot be computed from it. The experts’ counts are here for {len(counted)} of {len(cases)} cases."
    )
    return (), lacking


def counts_by_case(cases: Sequence[GradedCase], run: ReleasedRun) -> dict[str, Counts]:
    """Return case → counts of experts and grader, of the cases that both have."""
    by_id = {case.case_key.rpartition("_")[2]: case.case_key for case in run.cases}
    rest = [
        case.case_key
        for case in sorted(run.cases, key=lambda case: case.position)
        if case.dataset == RELEASE_DATASETS["medqa_usmle"] and case.specialty == "Dermatology"
    ]
    found: dict[str, Counts] = {}
    for case in cases:
        place = case.number - _OWN_ID
        key = by_id.get(str(case.number)) if place < 0 else rest[place] if place < len(rest) else None
        counts = run.counts.get((_ARM, key)) if key else None
        if key and counts and case.right is not None:
            found[key] = (case.right, counts[0], case.trials)
    return found


def read_grader_file(content: bytes) -> list[GradedCase]:
    """Return the columns of the grader's file; raises ``AnamnesisError`` where it is laid out otherwise."""
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
            f"{GRADER_FILE} has no rows case_… and dermatologist_accuracy: import the release anew."
        ) from error
    trials = sum(name.startswith("trial_") for name in rows)
    return [GradedCase(number, trials, _count(cell, head)) for number, head, cell in numbers]


def _count(cell: str, head: str) -> int | None:
    if not cell.strip():
        return None
    try:
        return int(float(cell))
    except (ValueError, OverflowError) as error:
        raise AnamnesisError(f"{GRADER_FILE}, column {head}: {cell[:40]!r} is no number of trials.") from error


def _documents(store: Store, wanted: Mapping[str, str]) -> dict[str, bytes]:
    with store.read() as cursor:
        found = {name: document(cursor, path) for name, path in wanted.items()}
    missing = [wanted[name] for name, content in found.items() if content is None]
    if missing:
        raise AnamnesisError(
            f"The experts' files are not here ({', '.join(missing)}): import the authors' release with "
            f"`python -m core import {released('experts').name} PATH`."
        )
    return {name: content for name, content in found.items() if content is not None}


EXPORTED = (
    "item", "model", "case", "annotator", "question", "value", "comment", "reason", "highlights", "review", "at"
)  # fmt: skip
HIDDEN = "hidden until unblinded"


def export_annotations(store: Store, out: TextIO) -> int:
    """Write every annotation, the oldest first, and return how many; times are UTC.

    Of a review that is still blinded a person who has signed in gets only the own answers, an admin all.
    """
    reviews = states(store)
    held = {state.review.review_id: state.review for state in reviews}
    numbers = {(state.review.review_id, one.item): one.number for state in reviews for one in state.items}
    with store.read() as cursor:
        rows = [
            row
            for row in annotation_history(cursor)
            if (review := held.get(row.review_id)) is None or review.unblinded or access.answers_as(row.annotator)
        ]
        items = {one.item: parse_item(one.item) for one in rows}
        known = subjects(cursor, [item.trial_id for item in items.values() if item.trial_id])
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EXPORTED)
    for one in rows:
        item, review, name = items[one.item], held.get(one.review_id), one.item
        subject = known.get(item.trial_id)
        model, case = (subject.model, subject.case_key) if subject else (item.model, item.case_key)
        if review and not review.unblinded and review.plan.kind != "baseline":
            # a trial's name would lead to its model
            model, name = HIDDEN, f"item {numbers.get((one.review_id, one.item), '?')}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.annotated_at))
        writer.writerow(
            inert(cell)
            for cell in (
                name,
                model,
                case,
                one.annotator,
                one.question,
                one.value or "",
                one.comment,
                one.reason,
                (orjson.dumps([vars(span) for span in one.spans]).decode() if one.spans else ""),
                review.name if review else one.review_id,
                at,
            )
        )
    return len(rows)


COLUMNS = ("item", "model", "case", "annotator", "question", "value", "comment")
_SPEAKER = re.compile(r"\b(?:Doctor|Patient)-AI\s*:")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Imported:
    """What came in: ``added`` annotations, ``known`` that stood there already, and (line, reason) of rejected rows.

    ``matched`` of the ``items`` are conversations that are stored here.
    """

    added: int = 0
    known: int = 0
    items: int = 0
    matched: int = 0
    rejected: tuple[tuple[int, str], ...] = ()


def import_release_annotations(store: Store) -> Imported:
    """Take in what the experts of the imported release said."""
    access.require("edit", "import annotations of the release")
    return _import_rows(store, release_rows(store))


def import_file(store: Store, path: Path, annotator: str | None = None) -> Imported:
    """Take in a CSV file, or a workbook as the release has them, whose annotator its name or ``annotator`` tells."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a .csv or .xlsx file.") from error
    if path.suffix.lower() == ".csv":
        return import_csv(store, content)
    if path.suffix.lower() != ".xlsx":
        raise UsageError(f"{path} is neither .csv nor .xlsx: annotations come as CSV or as the release's workbooks.")
    known = {Path(name).name: who for who, name in FILES.items()}
    who = annotator or known.get(path.name)
    if who is None:
        raise UsageError(f"{path.name} is none of the release's workbooks: say whose it is with --annotator.")
    return _import_rows(store, read_rows(content, who))


def import_csv(store: Store, content: bytes) -> Imported:
    """Take in a CSV with the columns item (or model and case), annotator, question, value and perhaps comment.

    A row that cannot be used is rejected by its line, the others go in. ``model`` and ``case`` name a stored
    conversation where there is exactly one, else one held elsewhere.
    """
    access.require("edit", "import annotations")
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        rows = list(enumerate(reader, start=2))
    except (UnicodeDecodeError, csv.Error) as error:
        raise AnamnesisError(f"The file is no CSV in UTF-8 ({error}): save it as such.") from error
    heads = set(reader.fieldnames or ())
    if not {"annotator", "question", "value"} <= heads or not ("item" in heads or {"model", "case"} <= heads):
        raise AnamnesisError(
            "The CSV lacks columns: it needs item (or model and case), annotator, question and value; comment may "
            "stand beside them."
        )
    pairs = [(_cell(row, "model"), _cell(row, "case")) for _, row in rows if not _cell(row, "item")]
    with store.read() as cursor:
        talks = {pair: list(held) for pair, held in conversations_on(cursor, pairs).items()}
    taken: dict[int, Annotation] = {}
    rejected: list[tuple[int, str]] = []
    for line, row in rows:
        try:
            question, value = _cell(row, "question"), _cell(row, "value").lower()
            if question not in QUESTIONS:
                raise UsageError(f"question {question[:40]!r} is none of {', '.join(QUESTIONS)}.")
            if value not in ANSWERS:
                raise UsageError(f"value {value[:40]!r} is neither yes nor no.")
            if not _cell(row, "annotator"):
                raise UsageError("annotator is empty.")
            item = str(_item(row, talks))
            said = (_cell(row, "annotator"), question, value, _cell(row, "comment"))
            taken[line] = Annotation(item, *said, review_id=IMPORTED)
        except UsageError as error:
            rejected.append((line, str(error)))
    trials = {one.item: parse_item(one.item).trial_id for one in taken.values()}
    with store.read() as cursor:
        known = subjects(cursor, [trial for trial in trials.values() if trial])
    there = {one.item for one in taken.values() if not trials[one.item] or trials[one.item] in known}
    rejected += [(n, f"There is no stored trial for {a.item}.") for n, a in taken.items() if a.item not in there]
    return _add(store, [one for one in taken.values() if one.item in there], tuple(sorted(rejected)))


def _item(row: Mapping[str, str | None], talks: Mapping[tuple[str, str], Sequence[str]]) -> Item:
    if _cell(row, "item"):
        return parse_item(_cell(row, "item"))
    model, case = _cell(row, "model"), _cell(row, "case")
    if not (model and case):
        raise UsageError("neither item nor model and case are given.")
    held = talks.get((model, case), [])
    return Item("talk", trial_id=held[0]) if len(held) == 1 else Item("release", model=model, case_key=case)


def _import_rows(store: Store, rows: Sequence[WorkbookRow]) -> Imported:
    pairs = [(row.model, f"{released('experts').name}/{row.case}") for row in rows]
    with store.read() as cursor:
        talks = conversations_on(cursor, pairs)
    new = [
        Annotation(
            str(matching_item(row, pair, talks.get(pair, {}))),
            f"release {row.annotator}",
            question,
            answer,
            review_id=RELEASE,
        )
        for row, pair in zip(rows, pairs, strict=True)
        for question, answer in row.answers.items()
    ]
    return _add(store, new, ())


def matching_item(row: WorkbookRow, pair: tuple[str, str], talks: Mapping[str, Sequence[str]]) -> Item:
    """Return the stored conversation with the same words, up to its last message, or one held elsewhere.

    Of several, which then differ in nothing but the diagnosis, the one with the workbook's diagnosis.
    """
    said = _words(_SPEAKER.sub(" ", row.conversation))
    same = [trial for trial, texts in talks.items() if said and _words(" ".join(texts[:-1])) == said]
    same += [trial for trial, texts in talks.items() if said and _words(" ".join(texts)) == said]
    closing = [trial for trial in same if _words(row.diagnosis) and _words(talks[trial][-1]) == _words(row.diagnosis)]
    found = next(iter([*closing, *same]), None)
    return Item("talk", trial_id=found) if found else Item("release", model=pair[0], case_key=pair[1])


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _add(store: Store, new: Sequence[Annotation], rejected: tuple[tuple[int, str], ...]) -> Imported:
    with store.write() as connection:
        held = {
            (one.review_id, one.item, one.annotator, one.question): (one.value, one.comment)
            for one in annotations_of(connection)
        }
        fresh = [
            one
            for one in new
            if held.get((one.review_id, one.item, one.annotator, one.question)) != (one.value, one.comment)
        ]
        added = add_annotations(connection, fresh)
    items = {one.item for one in new}
    stored = sum(parse_item(item).kind in ("talk", "answer") for item in items)
    return Imported(added, len(new) - added, len(items), stored, rejected)


def _cell(row: Mapping[str, str | None], name: str) -> str:
    return as_written((row.get(name) or "").strip())
