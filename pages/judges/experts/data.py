"""What the part Experts reads, with its words: reviews as they stand and their items."""

from dataclasses import dataclass

import streamlit as st

from core import access
from core.case import Case
from core.events import Answered, Event
from core.reviews.reviewing import ReviewState, blinded_dialogue, hidden, states
from core.store.database import Store
from core.store.queries.trials import offer
from core.store.review_records import Kind, Sampling, parse_item
from pages.kit.cached import ask, cached_query
from pages.kit.stored import reading

KIND: dict[Kind, str] = {
    "conversations": "Conversations",
    "answers": "Free responses",
    "baseline": "Vignettes, answered by experts",
}
SAMPLING: dict[Sampling, str] = {
    "random": "At random", "specialty": "By model and specialty", "dataset": "By model and data set",
    "disagreement": "Where graders or rules disagree",
}  # fmt: skip
SAMPLING_HELP = (
    "At random: every item has the same chance. By model and specialty or data set: as many of each, on the same cases "
    "for every model, so that models can be compared in pairs. Disagreement: only items on which the two rules for "
    "choices, two graders, or two verdicts on the same words differ."
)
REVIEW, ANNOTATOR, ITEM = "review", "annotator", "item"
"""The parameters in the address of a review under way."""


@dataclass(frozen=True)
class Shown:
    """An item as annotators see it: the case, the dialogue and the response, without anything that names the model."""

    case: Case | None
    dialogue: list[Event]
    response: str | None


@cached_query(entries=4)
def reviews() -> list[ReviewState]:
    """Return every review as it stands, the newest first."""
    return states(Store())


def review_at(review_id: str) -> ReviewState | None:
    """Return one review as it stands."""
    return next((state for state in reviews() if state.review.review_id == review_id), None)


def shown_item(item: str) -> Shown | None:
    """Return an item without its model's name, ``None`` where its trial is no longer stored."""
    return _shown(f"{Store().path} {access.visible_owner()}", item)


# what was said does not change with the answers, after each of which the page is drawn again
@st.cache_resource(max_entries=256, show_spinner=False, ttl="10m")
def _shown(path: str, item: str) -> Shown | None:
    parsed = parse_item(item)
    held = reading(parsed.trial_id)
    if held is None:
        return None
    models = ask(offer).models  # one model may name another
    answers = [e for e in held.events if isinstance(e, Answered) and e.question_type == "frq"]
    response = next((e.response for e in answers if e.format == parsed.format), None)
    told = None if parsed.kind != "answer" or response is None else hidden(response, models)
    return Shown(held.case, blinded_dialogue(held.events, models), told)
