"""Data of the part Experts: reviews, their blinded items, and labels."""

from dataclasses import dataclass

import streamlit as st

from core import access
from core.case import Case
from core.events import Answered, Event
from core.reviews.reviewing import ReviewState, blinded_dialogue, hidden, states
from core.store.database import Store
from core.store.queries.trials import offer
from core.store.review_records import ReviewKind, ReviewSampling, parse_item
from pages.kit.cached import ask, cached_query
from pages.kit.stored import reading

KIND: dict[ReviewKind, str] = {
    "conversations": "Conversations",
    "answers": "Free responses",
    "baseline": "Vignettes, answered by experts",
}
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


@dataclass(frozen=True)
class BlindedItem:
    """An item as annotators see it: case, dialogue and response, without anything that names the model."""

    case: Case | None
    dialogue: list[Event]
    response: str | None


@cached_query(entries=4)
def reviews() -> list[ReviewState]:
    return states(Store())


def review_at(review_id: str) -> ReviewState | None:
    return next((state for state in reviews() if state.review.review_id == review_id), None)


def blinded_item(item: str) -> BlindedItem | None:
    """Return an item without its model’s name, ``None`` if its trial is no longer stored."""
    return _blinded_item(f"{Store().path} {access.visible_owner()}", item)


# Annotators’ answers never change an item, so it stays cached while each answer reruns the page.
@st.cache_resource(max_entries=256, show_spinner=False, ttl="10m")
def _blinded_item(path: str, item: str) -> BlindedItem | None:
    parsed = parse_item(item)
    stored = reading(parsed.trial_id)
    if stored is None:
        return None
    models = ask(offer).models  # a dialogue may also name another model
    answers = [e for e in stored.events if isinstance(e, Answered) and e.question_type == "frq"]
    response = next((e.response for e in answers if e.format == parsed.format), None)
    blinded = None if parsed.kind != "answer" or response is None else hidden(response, models)
    return BlindedItem(stored.case, blinded_dialogue(stored.events, models), blinded)
