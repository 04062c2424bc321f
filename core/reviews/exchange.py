"""Answers of people as CSV: sheets that annotators fill in, import of answers to any form, export with the history.

A sheet has a row for each question that an annotator has to answer, with the blinded item. Rows that name a review are
answers in it, as on its page; other rows are imported answers, which are in no review. Answers that are stored already
are not imported twice. The export of a blinded review has a person's own answers alone, without the models.
"""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TextIO

import duckdb
import orjson

from core import access
from core.errors import AnamnesisError, UsageError
from core.judging.form import About, Shown, forms
from core.judging.judgement import Judge, Judgement
from core.judging.request import Material, numbered
from core.reviews.answering import answer_in, check_annotator
from core.reviews.baseline import item_for, own_question, write_trials
from core.reviews.state import ReviewState, about_items, read_states, readable_history, state_of
from core.spreadsheets import as_written, inert
from core.store.database import Store
from core.store.queries.judgements import add_judgements, judgements
from core.store.queries.trials import trial_origins
from core.store.queries.utterances import conversations_on
from core.store.review_records import AnnotatedItem, ItemKind, parse_item
from core.store.selection import Selection

RELEASE, IMPORTED = "release", "imported"
"""Stored in place of a review's id with answers of the authors' release, and with those of a file."""
COLUMNS = ("review", "item", "model", "case", "annotator", "question", "value", "comment", "reason")
"""Columns of an import. ``item`` may be replaced by ``model`` and ``case``; in a review it is the item's number."""
SHEET = ("review", "item", "annotator", "question", "wording", "answers", "shown", "value", "comment", "reason")
Row = Mapping[str, str]
"""A row of a file: column → text."""
EXPORTED = (
    "item", "model", "case", "annotator", "question", "value", "comment", "reason", "highlights", "review", "at"
)  # fmt: skip
HIDDEN = "hidden until unblinded"
_ABOUT: Mapping[ItemKind, tuple[About, ...]] = {
    "talk": ("conversation",),
    "release": ("conversation",),
    "answer": ("answer",),
    "pair": ("pair",),
    "case": ("case",),
    "profile": ("profile",),
}
"""Kind of an item → what the forms are about that are answered about it."""


def write_sheet(store: Store, review: str, annotator: str, out: TextIO) -> int:
    """Write a row for each question that waits for an annotator's answer; return their number.

    Of a form with final answers these are the first open questions. The rows are read by ``import_csv``.
    """
    check_annotator(annotator)
    state = state_of(store, review)
    if state.review.unblinded:
        raise UsageError("This review is unblinded: its answers can no longer be changed.")
    writer, rows = csv.writer(out, lineterminator="\n"), 0
    writer.writerow(SHEET)
    for item in state.queue(annotator):
        asked = {question.id: question for question in state.asked(item)}
        due = [
            asked[name]
            for name in state.due(item, annotator)
            if state.value(item.item, annotator, name) is None
            or (annotator in item.annotators and state.unsettled(item, name))
        ]
        blinded = item_for(store, state, item.item, annotator) if due else None
        shown = (
            _shown(state, blinded.material) if blinded else "The conversation or case of this item is no longer stored."
        )
        for question in due:
            if state.form.final and blinded is not None and blinded.case is not None:
                question = own_question(blinded.case, question)
            wording, answers = "\n".join(filter(None, (question.wording, question.explained))), question.answers
            cells = (
                state.review.name,
                item.number,
                annotator,
                question.id,
                wording,
                " | ".join(answers),
                shown,
                "",
                "",
                "",
            )
            writer.writerow(inert(cell) for cell in cells)
            rows += 1
    return rows


def _shown(state: ReviewState, material: Material) -> str:
    """Return what annotators see of an item, as text."""
    parts: tuple[Shown, ...] = ("vignette",) if state.form.final else state.form.shown
    texts = [text if state.form.final else f"{title}:\n{text}" for title, text in material.texts(parts)]
    messages = [numbered(number, turn) for number, turn in enumerate(material.messages)]
    return "\n\n".join(filter(None, (*texts, "\n".join(messages) if "dialogue" in parts else "")))


def export_answers(store: Store, out: TextIO) -> tuple[int, Counter[str]]:
    """Write the answers that the visitor may read, the oldest first; times are UTC.

    Returns their number, and review → number of withheld ones (``core.reviews.state.readable_history``).
    """
    with store.read() as cursor:
        reviews = read_states(cursor)
        answers, withheld = readable_history(cursor)
        items = {answer.subject: parse_item(answer.subject) for answer in answers}
        by_trial = trial_origins(cursor, [item.trial_id for item in items.values() if item.trial_id])
    state_of_review = {state.review.review_id: state for state in reviews}
    numbers = {(state.review.review_id, item.item): item.number for state in reviews for item in state.items}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EXPORTED)
    for answer in answers:
        item, state, name = items[answer.subject], state_of_review.get(answer.review_id), answer.subject
        origin = by_trial.get(item.trial_id)
        model, case = (origin.model, origin.case_key) if origin else (item.model, item.case_key)
        if state and state.blinded and not state.form.final:
            # the id of a trial would reveal its model
            model, name = HIDDEN, f"item {numbers.get((answer.review_id, answer.subject), '?')}"
        marked = [
            {"turn": q.message, "start": q.start, "end": q.end, "text": q.words, "comment": q.comment}
            for q in answer.quotations
        ]
        cells = (
            *(name, model, case, answer.judge.name, answer.question, answer.value or "", answer.comment, answer.reason),
            orjson.dumps(marked).decode() if marked else "",
            state.review.name if state else answer.review_id,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(answer.at)),
        )
        writer.writerow(inert(cell) for cell in cells)
    return len(answers), withheld


class ImportedAnswers(NamedTuple):
    """Result of an import: ``added`` and ``unchanged`` answers, and (line, reason) of rejected rows.

    ``matched`` of the ``items`` are stored conversations or answers.
    """

    added: int = 0
    unchanged: int = 0
    items: int = 0
    matched: int = 0
    rejected: tuple[tuple[int, str], ...] = ()


def import_file(store: Store, path: Path, review: str = "") -> ImportedAnswers:
    """Import a CSV file; raises ``UsageError`` if it is none or cannot be read."""
    if path.suffix.lower() != ".csv":
        raise UsageError(f"{path} is not .csv: save the answers as CSV UTF-8.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a .csv file.") from error
    return import_csv(store, content, review)


def import_csv(store: Store, content: bytes, review: str = "") -> ImportedAnswers:
    """Import answers to any form from a CSV with columns of ``COLUMNS``, of which comment and reason are optional.

    Rows of a sheet without a value are skipped, invalid rows are rejected with their line, the others are imported.
    ``review`` is the review of rows that name none. Without a review, ``model`` and ``case`` identify a stored
    conversation if there is exactly one, else a conversation that is not stored here.
    """
    access.require("run")
    rows = _rows(content)
    given: dict[int, tuple[str, Judgement | None]] = {}
    rejected: list[tuple[int, str]] = []
    with store.write() as connection:
        states = {name: s for s in read_states(connection) for name in (s.review.review_id, s.review.name)}
        on_cases = [(row["model"], row["case"]) for row in rows.values() if not row["item"]]
        conversations = {pair: list(trials) for pair, trials in conversations_on(connection, on_cases).items()}
        for line, row in rows.items():
            name = row["review"] or review
            try:
                if name in ("", IMPORTED, RELEASE):
                    answer: Judgement | None = _imported(_item(row, conversations), row)
                elif name in states:
                    check_annotator(row["annotator"])
                    answer = _answer(states[name], row)
                else:
                    raise UsageError(f"There is no review {name[:40]!r}.")
            except AnamnesisError as error:
                rejected.append((line, str(error)))
                continue
            given[line] = name, answer
            if answer is not None and name in states:
                before = states[name]
                newest = {**before.newest, (answer.subject, answer.judge.name, answer.question): answer}
                states |= dict.fromkeys((before.review.review_id, before.review.name), replace(before, newest=newest))
        items = {a.subject for _, a in given.values() if a and a.review_id == IMPORTED}
        gone = items - about_items(connection, items, Selection()).keys()
        rejected += [
            (n, f"There is no stored trial for {a.subject}.") for n, (_, a) in given.items() if a and a.subject in gone
        ]
        new = [answer for _, answer in given.values() if answer and answer.subject not in gone]
        result = add_imported(connection, new)
    for state in {name: states[name] for name, _ in given.values() if name in states}.values():
        if state.form.final:
            write_trials(store, state_of(store, state.review.review_id))
    equal = sum(answer is None for _, answer in given.values())
    return result._replace(unchanged=result.unchanged + equal, rejected=tuple(sorted(rejected)))


def _rows(content: bytes) -> dict[int, Row]:
    """Return line → row of a CSV, what is missing empty; raises ``AnamnesisError`` if it is none of answers."""
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        heads, rows = set(reader.fieldnames or ()), dict[int, Row]()
        line = reader.line_num + 1
        for row in reader:
            # the line on which it begins: comments may have line breaks
            given = {name: as_written((text or "").strip()) for name, text in row.items() if name}
            rows[line] = dict.fromkeys((*COLUMNS, *SHEET), "") | given
            line = reader.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise AnamnesisError(f"The file is not CSV in UTF-8 ({error}): save it as CSV UTF-8.") from error
    if not {"annotator", "question", "value"} <= heads or not ("item" in heads or {"model", "case"} <= heads):
        raise AnamnesisError(
            "The CSV lacks columns: it needs item (or model and case), annotator, question and value; review, comment "
            "and reason are optional."
        )
    return {line: row for line, row in rows.items() if row["value"] or not row["wording"]}


def _answer(state: ReviewState, row: Row) -> Judgement | None:
    """Return a row's answer in a review; ``None`` if it is the stored one, so that a sheet can be imported again."""
    number = row["item"].removeprefix("item").strip()
    named = {item.item: item.number for item in state.items}
    place = int(number) if number.isdecimal() else named.get(row["item"], 0)
    item = state.by_number.get(place)
    if item is not None and state.value(item.item, row["annotator"], row["question"]) == row["value"]:
        return None
    given = (row["annotator"], row["question"], row["value"], row["reason"])
    return answer_in(state, place, *given, comment=row["comment"])


def _imported(item: AnnotatedItem, row: Row) -> Judgement:
    """Return a row's answer; raises ``UsageError`` if no form about such items has the question, or it is no answer."""
    fitting = [form for form in forms().values() if form.about in _ABOUT[item.kind]]
    asked = next(((form, q) for form in fitting if (q := form.question(row["question"]))), None)
    if asked is None:
        known = ", ".join(dict.fromkeys(question.id for form in fitting for question in form.questions))
        raise UsageError(f"question {row['question'][:40]!r} is not one of {known}.")
    if not row["annotator"]:
        raise UsageError("annotator is empty.")
    form, question = asked
    return Judgement(
        subject=str(item),
        form=form.name,
        question=question.id,
        judge=Judge(row["annotator"]),
        value=question.check(next((v for v in question.answers if v.lower() == row["value"].lower()), row["value"])),
        at=time.time(),
        against=question.hash,
        comment=row["comment"],
        review_id=IMPORTED,
    )


def _item(row: Row, conversations: Mapping[tuple[str, str], Sequence[str]]) -> AnnotatedItem:
    if row["item"]:
        return parse_item(row["item"])
    model, case = row["model"], row["case"]
    if not (model and case):
        raise UsageError("item, or model and case, are empty.")
    trials = conversations.get((model, case), [])
    if len(trials) == 1:
        return AnnotatedItem("talk", trial_id=trials[0])
    return AnnotatedItem("release", model=model, case_key=case)


def add_imported(connection: duckdb.DuckDBPyConnection, new: Sequence[Judgement]) -> ImportedAnswers:
    """Save those answers that are not stored like this already. Needs a write lease."""

    def key(answer: Judgement) -> tuple[str, ...]:
        return (answer.review_id, answer.subject, answer.judge.name, answer.question)

    before = {key(answer): (answer.value, answer.comment) for answer in judgements(connection, kinds=("person",))}
    added = add_judgements(connection, [a for a in new if before.get(key(a)) != (a.value, a.comment)])
    items = {answer.subject for answer in new}
    return ImportedAnswers(added, len(new) - added, len(items), sum(bool(parse_item(item).trial_id) for item in items))
