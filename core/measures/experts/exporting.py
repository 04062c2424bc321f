"""All annotations as one CSV table, with their history; a blinded review's rows do not say whose items they are."""

from __future__ import annotations

import csv
import time
from typing import TextIO

import orjson

from core.measures.experts.reviewing import states
from core.store.database import Store
from core.store.queries.reviews import Span, annotation_history, subjects
from core.store.review_records import parse_item

COLUMNS = (
    "item", "model", "case", "annotator", "question", "value", "comment", "reason", "highlights", "review", "at"
)  # fmt: skip
HIDDEN = "hidden until unblinded"


def export_annotations(store: Store, out: TextIO) -> int:
    """Write every annotation, the oldest first, and return how many; times are UTC."""
    reviews = states(store)
    held = {state.review.review_id: state.review for state in reviews}
    numbers = {(state.review.review_id, one.item): one.number for state in reviews for one in state.items}
    with store.read() as cursor:
        rows = annotation_history(cursor)
        items = {one.item: parse_item(one.item) for one in rows}
        known = subjects(cursor, [item.trial_id for item in items.values() if item.trial_id])
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in rows:
        item, review, name = items[one.item], held.get(one.review_id), one.item
        subject = known.get(item.trial_id)
        model, case = (subject.model, subject.case_key) if subject else (item.model, item.case_key)
        if review and not review.unblinded and review.plan.kind != "baseline":
            # a trial's name would lead to its model
            model, name = HIDDEN, f"item {numbers.get((one.review_id, one.item), '?')}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.annotated_at))
        writer.writerow(
            [name, model, case, one.annotator, one.question, one.value or "", one.comment, one.reason,
             _highlights(one.spans), review.name if review else one.review_id, at]
        )  # fmt: skip
    return len(rows)


def _highlights(spans: tuple[Span, ...]) -> str:
    return orjson.dumps([vars(span) for span in spans]).decode() if spans else ""
