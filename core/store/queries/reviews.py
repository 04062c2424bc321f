"""Reviews by experts: candidates and drawn items. Reviews and unblindings are journaled, then inserted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import duckdb
import orjson
from pydantic import ValidationError

from core.errors import AnamnesisError
from core.frameworks.base import framework
from core.judging.form import RUBRIC
from core.store.former_rows import criterion_of
from core.store.queries.runs import CAMPAIGNS
from core.store.review_records import (
    AnnotatedItem,
    Candidate,
    ItemKind,
    Review,
    ReviewItem,
    ReviewPlan,
    parse_item,
    stored_plan,
)
from core.store.selection import TRIALS, Selection
from core.store.tables import UnblindingRow, records
from core.store.written import withdraw, write

_NOT_OF_A_STUDY = f"""(
    json_extract_string(runs.settings, '$.study') IS NULL OR NOT EXISTS (
        SELECT run_id FROM runs AS other
        WHERE json_extract_string(other.settings, '$.study') IS NULL
            AND list_contains({list(CAMPAIGNS)}, other.source)
    ))"""


def candidates(cursor: duckdb.DuckDBPyConnection, plan: ReviewPlan) -> list[Candidate]:
    """Return the conversations, free responses or pairs of conversations that a review may draw from.

    If the plan names no runs, these are campaigns and releases of the form's framework (the first if it names none)
    without a persona or pictures; those of a study that comes with the program only if there are no others.
    """
    form = plan.asks
    filters: dict[str, Any] = {
        name: getattr(plan, name) or None for name in ("runs", "models", "datasets", "specialties")
    }
    if form.framework:
        filters["frameworks"] = (form.framework,)
    elif not form.name.startswith(RUBRIC):
        filters["arm"] = f"{plan.format}:frq"
    if not plan.runs:
        filters |= {"sources": CAMPAIGNS, "personas": ("",), "pictures": False}
        filters.setdefault("frameworks", (framework().name,))
    chosen = Selection(statuses=("finished",), development=True, **filters)
    differ = _DIFFER[form.about] if plan.sampling == "disagreement" else "false"
    reviewed = _REVIEWED["answer" if form.about == "answer" else "conversation"]
    sql = f"""
        SELECT trials.trial_id, runs.doctor, trials.case_key, cases.dataset, cases.specialty, {differ}, trials.trial
        {TRIALS} WHERE {chosen.where()} AND trials.trial_id IN ({reviewed})
            AND {"true" if plan.runs else _NOT_OF_A_STUDY}"""
    rows = cursor.execute(sql, chosen.parameters(sql)).fetchall()
    if form.about == "pair":
        return _pairs(rows, plan.seed)
    kind: ItemKind = "answer" if form.about == "answer" else "talk"
    return [
        Candidate(
            str(AnnotatedItem(kind, trial_id, plan.format)), model, case, dataset or "", specialty or "", bool(differs)
        )
        for trial_id, model, case, dataset, specialty, differs, _ in rows
    ]


def _pairs(rows: Sequence[tuple[Any, ...]], seed: int) -> list[Candidate]:
    """Return every two conversations of different doctors on one case and trial, the sides swapped at random."""
    by_case: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: str(row[0])):
        by_case.setdefault((row[2], row[6]), []).append(row)
    pairs = []
    for (case_key, _), conversations in by_case.items():
        for one, other in combinations(conversations, 2):
            if one[1] != other[1]:
                sides = [one, other]
                random.Random(f"{seed} {one[0]} {other[0]}").shuffle(sides)
                item = AnnotatedItem("pair", trial_id=sides[0][0], second_trial=sides[1][0])
                models = " and ".join(sorted((one[1], other[1])))
                pairs.append(Candidate(str(item), models, case_key, one[3] or "", one[4] or ""))
    return pairs


def add_review(connection: duckdb.DuckDBPyConnection, review: Review) -> None:
    """Journal and insert a review. Needs a write lease."""
    items = [{"item": item.item, "number": item.number, "annotators": list(item.annotators)} for item in review.items]
    row = {
        "review_id": review.review_id,
        "name": review.name,
        "kind": review.plan.kind,
        "plan": review.plan.model_dump_json(),
        "created_at": review.created_at,
        "items": items,
    }
    write(connection, "review", [row])


def add_unblinding(connection: duckdb.DuckDBPyConnection, unblinding: UnblindingRow) -> None:
    """Store that the models' names of a review may be shown. Needs a write lease."""
    write(connection, "unblinding", [asdict(unblinding)])


def withdraw_review(connection: duckdb.DuckDBPyConnection, review_id: str, reason: str = "") -> None:
    """Withdraw a review with its answers and unblindings. Needs a write lease."""
    for kind in ("review", "judgement", "unblinding"):
        withdraw(connection, kind, "review_id", [review_id], reason)


def reviews(cursor: duckdb.DuckDBPyConnection) -> list[Review]:
    return [_review(row) for row in records(cursor.execute(_REVIEWS))]


def reviewed_runs(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> set[str]:
    """Return those of the runs of which a review has a conversation, an answer, or a pair with one."""
    items = [item for (listed,) in cursor.execute("SELECT items FROM reviews").fetchall() for item in _items(listed)]
    trials = sorted({trial for item in items for trial in parse_item(item.item).trials})
    sql = "SELECT DISTINCT run_id FROM trials WHERE list_contains($1, run_id) AND list_contains($2, trial_id)"
    return {run_id for (run_id,) in cursor.execute(sql, [list(run_ids), trials]).fetchall()}


def _items(listed: str) -> tuple[ReviewItem, ...]:
    """Return items as they are stored; a criterion of a conversation, as up to version 0.6, is a question about it."""
    items = []
    for stored in sorted(orjson.loads(listed), key=lambda stored: stored["number"]):
        item, questions = stored["item"], tuple(stored.get("questions") or ())
        if criterion := criterion_of(item):
            item, questions = criterion[0], (criterion[1], f"{criterion[1]}:words")
        items.append(ReviewItem(item, stored["number"], tuple(stored["annotators"]), questions))
    return tuple(items)


def _review(row: dict[str, Any]) -> Review:
    try:
        plan = stored_plan(orjson.loads(row["plan"]))
    except ValidationError as error:
        raise AnamnesisError(
            f"The plan of the review {row['name']} cannot be read ({error.errors()[0]['msg']}): plan it again."
        ) from error
    by = row["unblinded_by"]
    unblinded = UnblindingRow(row["review_id"], by, row["reason"], row["unblinded_at"]) if by is not None else None
    return Review(row["name"], plan, _items(row["items"]), row["review_id"], row["created_at"], unblinded)


_REVIEWED = {
    "conversation": "SELECT trial_id FROM utterances WHERE role = 'patient'",
    "answer": """
        SELECT trial_id FROM answers WHERE format = $format AND question_type = 'frq' AND status = 'answered'""",
}


# the history of an answer and rule has different verdicts
_BOTH_WAYS = """
    SELECT trial_id FROM grades {where} GROUP BY trial_id, format, question_type, rule
    HAVING bool_or(verdict = 'correct') AND NOT bool_and(verdict = 'correct')"""


_RULES_DIFFER = """
    SELECT trial_id FROM verdicts WHERE starts_with(rule, 'mcq') GROUP BY trial_id, format, question_type
    HAVING bool_or(verdict = 'correct') AND NOT bool_and(verdict = 'correct')"""


# the same words have different verdicts, possibly in another trial
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
    "conversation": f"(trials.trial_id IN ({_RULES_DIFFER}) OR trials.trial_id IN ({_BOTH_WAYS.format(where='')}))",
    "answer": f"""(trials.trial_id IN ({_SAME_WORDS}) OR trials.trial_id IN (
        {_BOTH_WAYS.format(where="WHERE rule = 'frq' AND format = $format")}))""",
}


_REVIEWS = """
    SELECT reviews.*, unblinded_by, reason, unblinded_at
    FROM reviews LEFT JOIN (
        FROM unblindings QUALIFY row_number() OVER (PARTITION BY review_id ORDER BY unblinded_at, rowid) = 1
    ) AS unblinded USING (review_id)
    ORDER BY created_at DESC, review_id"""
