"""Reviews by experts: what can be drawn, what was drawn, what people said of it and what graders did.

Reviews, annotations and unblindings are journaled before they are inserted (``core.store.written``). Annotations are
added, never changed; the newest of an annotator counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import duckdb
import orjson
from pydantic import ValidationError

from core.errors import AnamnesisError
from core.events import Verdict
from core.frameworks.base import framework
from core.store.review_records import Candidate, Item, ItemKind, Review, ReviewItem, ReviewPlan, Unblinding, stored_plan
from core.store.runs import CAMPAIGNS
from core.store.selection import TRIALS, Selection, select
from core.store.tables import records
from core.store.written import withdraw, write


@dataclass(frozen=True)
class Span:
    """Highlighted words: those from character ``start`` to ``end`` of message ``turn``."""

    turn: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Annotation:
    """What one person said on one question about one item (see ``core.store.review_records``); ``value`` may be open.

    ``annotated_at`` is in seconds since 1970 (UTC). ``review_id`` is empty outside reviews; ``reason`` says why an
    earlier answer was changed.
    """

    item: str
    annotator: str
    question: str
    value: str | None
    comment: str = ""
    annotated_at: float = field(default_factory=time.time)
    review_id: str = ""
    reason: str = ""
    spans: tuple[Span, ...] = ()


def add_annotations(connection: duckdb.DuckDBPyConnection, new: Iterable[Annotation]) -> int:
    """Journal and insert annotations; return how many. Needs a write lease."""
    rows = [
        {**vars(one), "spans": orjson.dumps([asdict(span) for span in one.spans]).decode() if one.spans else None}
        for one in new
    ]
    return write(connection, "annotation", rows)


def annotations_of(cursor: duckdb.DuckDBPyConnection, review_id: str | None = None) -> list[Annotation]:
    """Return the newest annotation of every item, annotator and question, of one review or all."""
    sql = f"""
        {_ANNOTATIONS} WHERE $review_id::VARCHAR IS NULL OR coalesce(review_id, '') = $review_id
        QUALIFY row_number() OVER (
            PARTITION BY review_id, item, annotator, question ORDER BY annotated_at DESC, rowid DESC) = 1
        ORDER BY item, question, annotator, review_id"""
    return [_annotation(row) for row in records(cursor.execute(sql, {"review_id": review_id}))]


def annotation_history(cursor: duckdb.DuckDBPyConnection) -> list[Annotation]:
    """Return every annotation that was ever saved, the oldest first."""
    return [_annotation(row) for row in records(cursor.execute(f"{_ANNOTATIONS} ORDER BY annotated_at, rowid"))]


def _annotation(row: dict[str, Any]) -> Annotation:
    spans = orjson.loads(row["spans"]) if row["spans"] else []
    # rows of an older database have neither review nor reason
    given = {name: value for name, value in row.items() if value is not None or name == "value"}
    return Annotation(**{**given, "spans": tuple(Span(**span) for span in spans)})


_ANNOTATIONS = f"SELECT {', '.join(one.name for one in fields(Annotation))} FROM annotations"


_OWN = f"""(
    json_extract_string(runs.settings, '$.study') IS NULL OR NOT EXISTS (
        SELECT run_id FROM runs AS own
        WHERE json_extract_string(own.settings, '$.study') IS NULL AND list_contains({list(CAMPAIGNS)}, own.source)
    ))"""


@dataclass(frozen=True)
class Subject:
    """What a stored trial is about: whose it is, and the case as its run held it."""

    trial_id: str
    run_id: str
    model: str
    case_key: str
    content_hash: str | None
    dataset: str | None
    specialty: str | None
    trial: int


def candidates(cursor: duckdb.DuckDBPyConnection, plan: ReviewPlan) -> list[Candidate]:
    """Return what a review of conversations or free responses may draw from.

    Without named runs: campaigns and releases of the first framework whose patient is as the case has it; those of a
    study that came with the program only where there are no others.
    """
    named: dict[str, Any] = {
        name: getattr(plan, name) or None for name in ("runs", "models", "datasets", "specialties")
    }
    if not plan.runs:
        named |= {"sources": CAMPAIGNS, "frameworks": (framework().name,), "personas": ("",), "pictures": False}
    chosen = Selection(statuses=("finished",), arm=f"{plan.format}:frq", **named)
    differ = _DIFFER[plan.kind] if plan.sampling == "disagreement" else "false"
    sql = f"""
        SELECT trials.trial_id, runs.doctor, trials.case_key, cases.dataset, cases.specialty, {differ}
        {TRIALS} WHERE {chosen.where()} AND trials.trial_id IN ({_REVIEWED[plan.kind]})
            AND {"true" if plan.runs else _OWN}"""
    kind: ItemKind = "talk" if plan.kind == "conversations" else "answer"
    return [
        Candidate(str(Item(kind, trial_id, plan.format)), model, case, dataset or "", specialty or "", bool(both))
        for trial_id, model, case, dataset, specialty, both in cursor.execute(sql, chosen.parameters(sql)).fetchall()
    ]


def add_review(connection: duckdb.DuckDBPyConnection, review: Review, items: Sequence[ReviewItem]) -> None:
    """Journal and insert a review with its items and who judges which. Needs a write lease."""
    row = {
        "review_id": review.review_id,
        "name": review.name,
        "kind": review.plan.kind,
        "plan": review.plan.model_dump_json(),
        "created_at": review.created_at,
        "items": [{"item": one.item, "number": one.number, "annotators": list(one.annotators)} for one in items],
    }
    write(connection, "review", [row])


def add_unblinding(connection: duckdb.DuckDBPyConnection, review_id: str, unblinding: Unblinding) -> None:
    """Note that the names of a review may be shown from now on. Needs a write lease."""
    row = {
        "review_id": review_id,
        "unblinded_by": unblinding.by,
        "reason": unblinding.reason,
        "unblinded_at": unblinding.at,
    }
    write(connection, "unblinding", [row])


def withdraw_review(connection: duckdb.DuckDBPyConnection, review_id: str, reason: str = "") -> None:
    """Take back a review with all that was said in it. Needs a write lease."""
    for kind in ("review", "annotation", "unblinding"):
        withdraw(connection, kind, "review_id", [review_id], reason)


def reviews(cursor: duckdb.DuckDBPyConnection) -> list[Review]:
    """Return all reviews, the newest first."""
    return [_review(row) for row in records(cursor.execute(_REVIEWS))]


def items_of(cursor: duckdb.DuckDBPyConnection, review_id: str) -> list[ReviewItem]:
    """Return the items of a review by their number."""
    sql = "SELECT item, number, annotators FROM review_items WHERE review_id = ? ORDER BY number"
    return [ReviewItem(item, number, tuple(who)) for item, number, who in cursor.execute(sql, [review_id]).fetchall()]


def subjects(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, Subject]:
    """Return trial → what it is about, for those that are stored; its model is the condition among their runs."""
    select(cursor, Selection(trials=trial_ids))
    found = cursor.execute("""
        SELECT trials.trial_id, run_id, model, chosen.case_key, trials.content_hash, dataset, specialty, trials.trial
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)""")
    return {row["trial_id"]: Subject(**row) for row in records(found)}


def free_verdicts(
    cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]
) -> dict[tuple[str, str], list[tuple[str, Verdict]]]:
    """Return (trial, format) → (grader, its newest verdict) on the free response, one for each grader."""
    found: dict[tuple[str, str], list[tuple[str, Verdict]]] = {}
    for trial_id, format_, grader, verdict in cursor.execute(_FREE_VERDICTS, [list(trial_ids)]).fetchall():
        found.setdefault((trial_id, format_), []).append((grader, verdict))
    return found


def conversations_on(
    cursor: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, list[str]]]:
    """Return (model, case) → trial → the texts of its messages, for the pairs asked for, in the order of trials."""
    wanted = set(pairs)
    models, keys = list({model for model, _ in wanted}), list({key for _, key in wanted})
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for model, case_key, trial_id, texts in cursor.execute(_TALKS, [models, keys, list(CAMPAIGNS)]).fetchall():
        if (model, case_key) in wanted:
            found.setdefault((model, case_key), {})[trial_id] = texts
    return found


def _review(row: dict[str, Any]) -> Review:
    try:
        plan = stored_plan(orjson.loads(row["plan"]))
    except ValidationError as error:
        raise AnamnesisError(
            f"The plan of the review {row['name']} cannot be read ({error.errors()[0]['msg']}): plan it anew."
        ) from error
    unblinded = None
    if row["unblinded_at"] is not None:
        unblinded = Unblinding(row["unblinded_by"], row["reason"], row["unblinded_at"])
    return Review(row["name"], plan, row["review_id"], row["created_at"], unblinded)


_REVIEWED = {
    "conversations": "SELECT trial_id FROM utterances WHERE role = 'patient'",
    "answers": """
        SELECT trial_id FROM answers WHERE format = $format AND question_type = 'frq' AND status = 'answered'""",
}
# of one answer and rule: two verdicts in its history
_BOTH_WAYS = """
    SELECT trial_id FROM grades {where} GROUP BY trial_id, format, question_type, rule
    HAVING bool_or(verdict = 'correct') AND NOT bool_and(verdict = 'correct')"""
_RULES_DIFFER = """
    SELECT trial_id FROM verdicts WHERE starts_with(rule, 'mcq') GROUP BY trial_id, format, question_type
    HAVING bool_or(verdict = 'correct') AND NOT bool_and(verdict = 'correct')"""
# the same words were judged both ways, be it in another trial
_SAME_WORDS = """
    SELECT trial_id FROM (
        SELECT grades.trial_id, bool_or(verdict = 'correct') OVER same AND NOT bool_and(verdict = 'correct') OVER same
            AS differ
        FROM grades JOIN answers USING (trial_id, format, question_type)
        JOIN trials ON trials.trial_id = grades.trial_id
        JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE rule = 'frq' AND grades.format = $format
        WINDOW same AS (PARTITION BY grader, lower(trim(cases.answer)), lower(trim(answers.response)))
    ) WHERE differ"""
_DIFFER = {
    "conversations": f"(trials.trial_id IN ({_RULES_DIFFER}) OR trials.trial_id IN ({_BOTH_WAYS.format(where='')}))",
    "answers": f"""(trials.trial_id IN ({_SAME_WORDS}) OR trials.trial_id IN (
        {_BOTH_WAYS.format(where="WHERE rule = 'frq' AND format = $format")}))""",
}
_REVIEWS = """
    SELECT reviews.*, unblinded_by, reason, unblinded_at
    FROM reviews LEFT JOIN (
        FROM unblindings QUALIFY row_number() OVER (PARTITION BY review_id ORDER BY unblinded_at, rowid) = 1
    ) AS shown USING (review_id)
    ORDER BY created_at DESC, review_id"""
_FREE_VERDICTS = """
    SELECT trial_id, format, grader, verdict FROM grades WHERE rule = 'frq' AND list_contains(?, trial_id)
    QUALIFY row_number() OVER (PARTITION BY trial_id, format, grader ORDER BY graded_at DESC, rowid DESC) = 1
    ORDER BY trial_id, format, grader"""
_TALKS = """
    SELECT runs.doctor, trials.case_key, trials.trial_id, list(utterances.text ORDER BY position)
    FROM trials JOIN runs USING (run_id) JOIN utterances USING (trial_id)
    WHERE list_contains(?, runs.doctor) AND list_contains(?, trials.case_key) AND list_contains(?, runs.source)
    GROUP BY runs.doctor, trials.case_key, trials.trial_id, trials.trial ORDER BY trials.trial, trials.trial_id"""
