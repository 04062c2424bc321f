"""Data of the tab Experts: reviews, their blinded items, and labels."""

import streamlit as st

from core import access
from core.datasets.case_fields import groups_in
from core.reviews import baseline
from core.reviews.items import BlindedItem
from core.reviews.state import ReviewState, states
from core.store.database import Store
from core.store.queries.cases import cases
from core.store.review_records import ReviewSampling
from pages.kit.cached import ask, cached_query

SAMPLING: dict[ReviewSampling, str] = {
    "random": "At random", "specialty": "By model and specialty", "dataset": "By model and data set",
    "disagreement": "Where graders or rules disagree",
}  # fmt: skip
SAMPLING_HELP = (
    "At random: every item has the same chance. By model and specialty or data set: equal numbers, on the same cases "
    "for every model. Disagreement: only items on which two graders, the two multiple-choice rules, or two verdicts on "
    "the same words differ."
)
REVIEW, ANNOTATOR, ITEM = "review", "annotator", "item"
"""URL parameters of an open review."""


@cached_query(entries=2)
def fields_of_stored_cases() -> dict[str, list[str]]:
    """Return field → its values in the stored cases, of the fields by which a plan can be restricted."""
    return groups_in(ask(cases))


@cached_query(entries=4)
def reviews() -> list[ReviewState]:
    return states(Store())


def review_at(review_id: str) -> ReviewState | None:
    return next((state for state in reviews() if state.review.review_id == review_id), None)


def item_for(state: ReviewState, item: str, annotator: str) -> BlindedItem | None:
    """Return an item as an annotator sees it, ``None`` if its trial or case is no longer stored."""
    return _item_for(f"{Store().path} {access.visible_owner()}", state.review.review_id, item, annotator, state)


# Annotators’ answers never change an item, so it stays cached while each answer reruns the page.
@st.cache_resource(max_entries=256, show_spinner=False, ttl="10m")
def _item_for(path: str, review_id: str, item: str, annotator: str, _state: ReviewState) -> BlindedItem | None:
    return baseline.item_for(Store(), _state, item, annotator)
