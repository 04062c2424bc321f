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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO, cast

import orjson

from core import access
from core.errors import AnamnesisError, UsageError
from core.events import QuestionType
from core.frameworks.answering import question_of
from core.judging.form import About, Form, forms
from core.judging.judgement import Judge, Judgement
from core.judging.request import numbered
from core.reviews.answering import answer_in, check_annotator
from core.reviews.baseline import baseline_cases, write_trials
from core.reviews.items import blinded_item, material_of
from core.reviews.state import ReviewState, read_states, readable_history, state_of
from core.spreadsheets import as_written, inert
from core.store.database import Store
from core.store.queries.judgements import add_judgements, judgements
from core.store.queries.trials import offer, trial_origins
from core.store.queries.utterances import conversations_on
from core.store.review_records import AnnotatedItem, ItemKind, parse_item

RELEASE, IMPORTED = "release", "imported"
"""Stored in place of a review's id with answers of the authors' release, and with those of a file."""
COLUMNS = ("review", "item", "model", "case", "annotator", "question", "value", "comment", "reason")
"""Columns of an import. ``item`` may be replaced by ``model`` and ``case``; in a review it is the item's number."""
SHEET = ("review", "item", "annotator", "question", "wording", "answers", "shown", "value", "comment", "reason")
EXPORTED = (
    "item", "model", "case", "annotator", "question", "value", "comment", "reason", "highlights", "review", "at"
)  # fmt: skip
HIDDEN = "hidden until unblinded"
_ABOUT: Mapping[ItemKind, tuple[About, ...]] = {
    "talk": ("conversation",),
    "release": ("conversation",),
    "answer": ("answer",),
    "pair": ("pair",),
    "criterion": ("criterion",),
    "case": ("case",),
    "profile": ("profile",),
}
"""Kind of an item → what the forms are about that are answered about it."""


def write_sheet(store: Store, review: str, annotator: str, out: TextIO) -> int:
    """Write a row for each question that waits for an annotator's answer; return their number.

    Of a form with final answers these are the first open questions. The rows are read by ``import_csv``.
    """
    check_annotator(annotator, review)
    state = state_of(store, review)
    if state.review.unblinded:
        raise UsageError("This review is unblinded: its answers can no longer be changed.")
    writer, rows = csv.writer(out, lineterminator="\n"), 0
    writer.writerow(SHEET)
    for item in state.queue(annotator):
        due = [
            question
            for question in state.due(item, annotator)
            if state.value(item.item, annotator, question) is None
            or (annotator in item.annotators and state.unsettled(item, question))
        ]
        shown = _shown(store, state, item.item, annotator) if due else ""
        for name in due:
            question = state.question(item, name)
            assert question is not None
            wording, answers = "\n".join(filter(None, (question.wording, question.guidance))), question.answers
            if state.form.final:
                case = baseline_cases(store, state.review, annotator)[item.item]
                asked = question_of(case, cast(QuestionType, name), ())
                wording, answers = asked.text, tuple(asked.choices)
            cells = (state.review.name, item.number, annotator, name, wording, " | ".join(answers), shown, "", "", "")
            writer.writerow(inert(cell) for cell in cells)
            rows += 1
    return rows


def _shown(store: Store, state: ReviewState, item: str, annotator: str) -> str:
    """Return what annotators see of an item, as text."""
    if state.form.final:
        return baseline_cases(store, state.review, annotator)[item].vignette
    with store.read() as cursor:
        blinded = blinded_item(cursor, item, state.review.plan.case_set, offer(cursor).models)
    if blinded is None:
        return "The conversation or case of this item is no longer stored."
    material = material_of(blinded)
    statement = state.review.plan.statements.get(parse_item(item).criterion, "")
    texts = [f"{title}:\n{text}" for title, text in material.texts(state.form.shown)]
    messages = [numbered(number, turn) for number, turn in enumerate(material.messages)]
    return "\n\n".join(filter(None, (statement, *texts, "\n".join(messages) if "dialogue" in state.form.shown else "")))


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
            {
                "turn": quoted.message,
                "start": quoted.start,
                "end": quoted.end,
                "text": quoted.words,
                "comment": quoted.comment,
            }
            for quoted in answer.quotations
        ]
        cells = {
            "item": name,
            "model": model,
            "case": case,
            "annotator": answer.judge.name,
            "question": answer.question,
            "value": answer.value or "",
            "comment": answer.comment,
            "reason": answer.reason,
            "highlights": orjson.dumps(marked).decode() if marked else "",
            "review": state.review.name if state else answer.review_id,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(answer.at)),
        }
        writer.writerow(inert(cells[column]) for column in EXPORTED)
    return len(answers), withheld


@dataclass(frozen=True)
class ImportedAnswers:
    """Result of an import: ``added`` and ``unchanged`` answers, and (line, reason) of rejected rows.

    ``matched`` of the ``items`` are stored conversations or answers.
    """

    added: int = 0
    unchanged: int = 0
    items: int = 0
    matched: int = 0
    rejected: tuple[tuple[int, str], ...] = ()


class _Row(dict[str, str]):
    """A row of a file: column → text; missing cells are empty."""

    def __missing__(self, column: str) -> str:
        return ""


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

    Rows without a value are skipped, invalid rows are rejected with their line, the others are imported. ``review`` is
    the review of rows that name none. Without a review, ``model`` and ``case`` identify a stored conversation if there
    is exactly one, else a conversation that is not stored here.
    """
    access.require("run")
    rows = _rows(content)
    in_reviews: dict[str, dict[int, _Row]] = {}
    alone: dict[int, _Row] = {}
    for line, row in rows.items():
        name = row["review"] or review
        if name and name not in (IMPORTED, RELEASE):
            in_reviews.setdefault(name, {})[line] = row
        else:
            alone[line] = row
    results = [_import_into(store, name, of_review) for name, of_review in in_reviews.items()]
    results.append(_import_alone(store, alone))
    return ImportedAnswers(
        sum(result.added for result in results),
        sum(result.unchanged for result in results),
        sum(result.items for result in results),
        sum(result.matched for result in results),
        tuple(sorted(rejected for result in results for rejected in result.rejected)),
    )


def _rows(content: bytes) -> dict[int, _Row]:
    """Return line → row of a CSV, of the rows with any value; raises ``AnamnesisError`` if it is none of answers."""
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        heads, rows = set(reader.fieldnames or ()), dict[int, _Row]()
        line = reader.line_num + 1
        for row in reader:
            # the line on which it begins: comments may have line breaks
            rows[line] = _Row({name: as_written((text or "").strip()) for name, text in row.items() if name})
            line = reader.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise AnamnesisError(f"The file is not CSV in UTF-8 ({error}): save it as CSV UTF-8.") from error
    if not {"annotator", "question", "value"} <= heads or not ("item" in heads or {"model", "case"} <= heads):
        raise AnamnesisError(
            "The CSV lacks columns: it needs item (or model and case), annotator, question and value; review, comment "
            "and reason are optional."
        )
    return {line: row for line, row in rows.items() if row["value"] or not row["wording"]}


def _import_into(store: Store, review: str, rows: Mapping[int, _Row]) -> ImportedAnswers:
    """Save rows as answers in a review, as its annotators give them."""
    rejected: list[tuple[int, str]] = []
    new: list[Judgement] = []
    unchanged, items = 0, set[int]()
    try:
        with store.write() as connection:
            state = next((s for s in read_states(connection) if review in (s.review.name, s.review.review_id)), None)
            if state is None:
                raise UsageError(f"There is no review {review[:40]!r}.")
            newest = dict(state.newest)
            state = replace(state, newest=newest)
            by_name = {item.item: item.number for item in state.items}
            for line, row in rows.items():
                try:
                    check_annotator(row["annotator"], review)
                    number = row["item"].removeprefix("item").strip()
                    numbered_item = int(number) if number.isdecimal() else by_name.get(row["item"], 0)
                    given = (numbered_item, row["annotator"], row["question"])
                    answer = answer_in(state, *given, row["value"], row["reason"], comment=row["comment"])
                except AnamnesisError as error:
                    rejected.append((line, str(error)))
                    continue
                items.add(numbered_item)
                if answer is None:
                    unchanged += 1
                    continue
                new.append(answer)
                newest[answer.subject, answer.judge.name, answer.question] = answer
                state = replace(state, newest=newest)
            add_judgements(connection, new)
    except UsageError as error:
        return ImportedAnswers(rejected=tuple((line, str(error)) for line in rows))
    if state.form.final:
        write_trials(store, state_of(store, state.review.review_id))
    return ImportedAnswers(len(new), unchanged, len(items), len(items), tuple(rejected))


def _import_alone(store: Store, rows: Mapping[int, _Row]) -> ImportedAnswers:
    """Save rows that name no review."""
    on_cases = [(row["model"], row["case"]) for row in rows.values() if not row["item"]]
    with store.read() as cursor:
        conversations = {pair: list(trials) for pair, trials in conversations_on(cursor, on_cases).items()}
    accepted: dict[int, Judgement] = {}
    rejected: list[tuple[int, str]] = []
    for line, row in rows.items():
        try:
            if not row["annotator"]:
                raise UsageError("annotator is empty.")
            accepted[line] = _imported(_item(row, conversations), row)
        except UsageError as error:
            rejected.append((line, str(error)))
    trials = {answer.subject: parse_item(answer.subject).trials for answer in accepted.values()}
    with store.read() as cursor:
        stored = trial_origins(cursor, [trial for of_item in trials.values() for trial in of_item])
    valid = {item for item, of_item in trials.items() if all(trial in stored for trial in of_item)}
    rejected += [
        (line, f"There is no stored trial for {answer.subject}.")
        for line, answer in accepted.items()
        if answer.subject not in valid
    ]
    return add_imported(store, [answer for answer in accepted.values() if answer.subject in valid], rejected)


def _imported(item: AnnotatedItem, row: _Row) -> Judgement:
    """Return a row's answer; raises ``UsageError`` if no form about such items has the question, or it is no answer."""
    fitting = [form for form in forms().values() if form.about in _ABOUT[item.kind]]
    form: Form | None = next((form for form in fitting if form.question(row["question"])), None)
    question = form.question(row["question"]) if form else None
    if form is None or question is None:
        known = ", ".join(dict.fromkeys(asked.id for form in fitting for asked in form.questions))
        raise UsageError(f"question {row['question'][:40]!r} is not one of {known}.")
    value = next((value for value in question.answers if value.lower() == row["value"].lower()), row["value"])
    return Judgement(
        subject=str(item),
        form=form.name,
        question=question.id,
        judge=Judge(row["annotator"]),
        value=question.check(value),
        at=time.time(),
        against=question.hash,
        comment=row["comment"],
        review_id=IMPORTED,
    )


def _item(row: _Row, conversations: Mapping[tuple[str, str], Sequence[str]]) -> AnnotatedItem:
    if row["item"]:
        return parse_item(row["item"])
    model, case = row["model"], row["case"]
    if not (model and case):
        raise UsageError("item, or model and case, are empty.")
    trials = conversations.get((model, case), [])
    if len(trials) == 1:
        return AnnotatedItem("talk", trial_id=trials[0])
    return AnnotatedItem("release", model=model, case_key=case)


def add_imported(store: Store, new: Sequence[Judgement], rejected: Sequence[tuple[int, str]] = ()) -> ImportedAnswers:
    """Save those answers that are not stored like this already."""

    def key(answer: Judgement) -> tuple[str, ...]:
        return (answer.review_id, answer.subject, answer.judge.name, answer.question)

    with store.write() as connection:
        before = {key(answer): (answer.value, answer.comment) for answer in judgements(connection, kinds=("person",))}
        changed = [answer for answer in new if before.get(key(answer)) != (answer.value, answer.comment)]
        added = add_judgements(connection, changed)
    items = {answer.subject for answer in new}
    stored = sum(bool(parse_item(item).trial_id) for item in items)
    return ImportedAnswers(added, len(new) - added, len(items), stored, tuple(sorted(rejected)))
