"""Takes annotations in: the release's workbooks, and plain CSV. What stands there already is not taken twice."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import AnamnesisError, UsageError
from core.measures.experts.release import workbooks_of
from core.measures.experts.results import IMPORTED, RELEASE
from core.measures.experts.workbooks import FILES, WorkbookRow, read_rows
from core.store.database import Store
from core.store.queries.reviews import Annotation, add_annotations, annotations_of, conversations_on, subjects
from core.store.review_records import ANSWERS, QUESTIONS, Item, parse_item

DATASET = "craftmd"
"""The data set that the cases of the release's workbooks belong to."""
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
    """Take in what the experts of the imported CRAFT-MD release said."""
    return _import_rows(store, [row for who, content in workbooks_of(store).items() for row in read_rows(content, who)])


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
    talks = _single_talks(store, [row for _, row in rows])
    taken: list[Annotation] = []
    rejected: list[tuple[int, str]] = []
    for line, row in rows:
        try:
            taken.append(_annotation(row, talks))
        except UsageError as error:
            rejected.append((line, str(error)))
    kept, gone = _with_known_trials(store, taken)
    lines = {id(one): line for one, line in zip(taken, _taken_lines(rows, rejected), strict=True)}
    rejected += [(lines[id(one)], f"There is no stored trial for {one.item}.") for one in gone]
    return _add(store, kept, tuple(sorted(rejected)))


def _taken_lines(rows: Sequence[tuple[int, object]], rejected: Sequence[tuple[int, str]]) -> list[int]:
    refused = {line for line, _ in rejected}
    return [line for line, _ in rows if line not in refused]


def _single_talks(store: Store, rows: Iterable[Mapping[str, str | None]]) -> dict[tuple[str, str], list[str]]:
    """Return (model, case) → the stored conversations on it, for the rows that name no item."""
    pairs = [(_cell(row, "model"), _cell(row, "case")) for row in rows if not _cell(row, "item")]
    with store.read() as cursor:
        return {pair: list(talks) for pair, talks in conversations_on(cursor, pairs).items()}


def _annotation(row: Mapping[str, str | None], talks: Mapping[tuple[str, str], Sequence[str]]) -> Annotation:
    question, value = _cell(row, "question"), _cell(row, "value").lower()
    if question not in QUESTIONS:
        raise UsageError(f"question {question[:40]!r} is none of {', '.join(QUESTIONS)}.")
    if value not in ANSWERS:
        raise UsageError(f"value {value[:40]!r} is neither yes nor no.")
    if not _cell(row, "annotator"):
        raise UsageError("annotator is empty.")
    item = _item(row, talks)
    return Annotation(str(item), _cell(row, "annotator"), question, value, _cell(row, "comment"), review_id=IMPORTED)


def _item(row: Mapping[str, str | None], talks: Mapping[tuple[str, str], Sequence[str]]) -> Item:
    if _cell(row, "item"):
        return parse_item(_cell(row, "item"))
    model, case = _cell(row, "model"), _cell(row, "case")
    if not (model and case):
        raise UsageError("neither item nor model and case are given.")
    held = talks.get((model, case), [])
    return Item("talk", trial_id=held[0]) if len(held) == 1 else Item("release", model=model, case_key=case)


def _with_known_trials(store: Store, new: Sequence[Annotation]) -> tuple[list[Annotation], list[Annotation]]:
    """Part annotations into those whose trial is stored, or that need none, and the others."""
    trials = {one.item: parse_item(one.item).trial_id for one in new}
    with store.read() as cursor:
        known = subjects(cursor, [trial for trial in trials.values() if trial])
    there = [one for one in new if not trials[one.item] or trials[one.item] in known]
    return there, [one for one in new if trials[one.item] and trials[one.item] not in known]


def _import_rows(store: Store, rows: Sequence[WorkbookRow]) -> Imported:
    pairs = [(row.model, f"{DATASET}/{row.case}") for row in rows]
    with store.read() as cursor:
        talks = conversations_on(cursor, pairs)
    new = [
        Annotation(
            str(matching_item(row, pair, talks.get(pair, {}))), f"release {row.annotator}", question, answer,
            review_id=RELEASE,
        )
        for row, pair in zip(rows, pairs, strict=True)
        for question, answer in row.answers.items()
    ]  # fmt: skip
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
        }  # fmt: skip
        fresh = [
            one for one in new
            if held.get((one.review_id, one.item, one.annotator, one.question)) != (one.value, one.comment)
        ]  # fmt: skip
        added = add_annotations(connection, fresh)
    items = {one.item for one in new}
    stored = sum(parse_item(item).kind in ("talk", "answer") for item in items)
    return Imported(added, len(new) - added, len(items), stored, rejected)


def _cell(row: Mapping[str, str | None], name: str) -> str:
    return (row.get(name) or "").strip()
