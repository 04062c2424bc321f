"""Reviews by experts, from the plan to the end: planned, unblinded, withdrawn.

A review has a form (``core.judging.form``): its questions and what they are about. Until a review is unblinded,
annotators do not learn which model an item is from, and no answer is in a figure or an export.
"""

from __future__ import annotations

import time

from core import access
from core.errors import UsageError
from core.judging.form import Form
from core.reviews.baseline import begin_baseline, write_trials
from core.reviews.drawing import draw, pool_of
from core.reviews.state import read_state, state_of
from core.store.database import Store
from core.store.queries import reviews as rows
from core.store.review_records import Review, ReviewPlan
from core.store.tables import UnblindingRow


def plan_review(store: Store, name: str, plan: ReviewPlan) -> Review:
    """Draw the items of a plan and store the review; raise ``UsageError`` if the plan is not possible."""
    access.require("run")
    title = " ".join(name.split())
    if not title:
        raise UsageError("The review has no name: enter a name.")
    if "person" not in plan.asks.by:
        raise UsageError(f"Only models fill in the form {plan.asks.name}: `python -m core job judge {plan.asks.name}`.")
    if plan.asks.final and plan.order == "choices first":
        raise UsageError("Choices that are shown first give the answer away: choose own words first.")
    with store.read() as cursor:
        if any(review.name.lower() == title.lower() for review in rows.reviews(cursor)):
            raise UsageError(f"There is a review called {title!r} already: choose another name.")
        pool = pool_of(cursor, plan)
    items = tuple(draw(pool, plan))
    about = {candidate.item: (candidate.case_key, candidate.specialty) for candidate in pool}
    asked = {question for item in items for question in plan.asks.questions_for(*about[item.item])}
    questions = tuple(question for question in plan.asks.questions if question in asked)
    form = Form(**{**dict(plan.asks), "questions": questions})  # a copy would have the cached properties of the other
    review = Review(title, plan.model_copy(update={"form": form}), items)
    with store.write() as connection:
        rows.add_review(connection, review)
    if plan.asks.final:
        begin_baseline(store, review)
    return review


def unblind(store: Store, review: str, by: str, reason: str = "") -> None:
    """Unblind a review; while answers are missing this needs a reason, which is stored."""
    access.require("run")
    if not by.strip():
        raise UsageError("Enter the name of the person who unblinds the review.")
    with store.write() as connection:
        state = read_state(connection, review)
        if state.review.unblinded:
            raise UsageError("This review is unblinded already.")
        if state.missing and not reason.strip():
            raise UsageError(f"{state.missing:,} answers are missing: wait for them, or give a reason.")
        stored_reason = reason.strip() if state.missing else ""
        rows.add_unblinding(connection, UnblindingRow(state.review.review_id, by.strip(), stored_reason, time.time()))
    if state.form.final:
        write_trials(store, state_of(store, state.review.review_id))


def withdraw(store: Store, review: str, reason: str) -> Review:
    """Withdraw a review with all its answers, permanently; runs of a baseline stay until they are deleted.

    Raises ``UsageError`` if there is no such review, or no reason.
    """
    access.require("local")
    if not reason.strip():
        raise UsageError("Give a reason for the withdrawal: the answers of the review will no longer count.")
    with store.write() as connection:
        withdrawn = read_state(connection, review).review
        rows.withdraw_review(connection, withdrawn.review_id, reason.strip())
    return withdrawn
