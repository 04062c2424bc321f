"""Data of the part Experts: reviews, their blinded items, and labels."""

from dataclasses import dataclass, field

import streamlit as st

from core import access
from core.case import Case, Profile
from core.datasets.case_fields import groups_in
from core.datasets.select import cases_of
from core.events import Answered, Event
from core.reviews.reviewing import ReviewState, blinded_dialogue, hidden, states
from core.store.database import Store
from core.store.queries.cases import cases
from core.store.queries.profiles import profile_versions
from core.store.queries.trials import offer
from core.store.review_records import AnnotatedItem, ReviewSampling, parse_item
from pages.kit.cached import ask, cached_query
from pages.kit.stored import reading

SAMPLING: dict[ReviewSampling, str] = {
    "random": "At random", "specialty": "By model and specialty", "dataset": "By model and data set",
    "disagreement": "Where graders or rules disagree", "conversation": "Whole conversations",
}  # fmt: skip
SAMPLING_HELP = (
    "At random: every item has the same chance. By model and specialty or data set: equal numbers, on the same cases "
    "for every model. Disagreement: only items on which two graders, the two multiple-choice rules, or two verdicts on "
    "the same words differ."
)
REVIEW, ANNOTATOR, ITEM = "review", "annotator", "item"
"""URL parameters of an open review."""


def kind_of(state: ReviewState) -> str:
    return state.form.title


@dataclass(frozen=True)
class BlindedItem:
    """An item as annotators see it, without anything that names a model.

    ``second`` is the other dialogue of a pair; ``profile`` is the one that is judged.
    """

    case: Case | None
    dialogue: list[Event] = field(default_factory=list)
    response: str | None = None
    second: list[Event] = field(default_factory=list)
    profile: Profile | None = None


@cached_query(entries=2)
def fields_of_stored_cases() -> dict[str, list[str]]:
    """Return field → its values in the stored cases, of the fields by which a plan can be restricted."""
    return groups_in(ask(cases))


@cached_query(entries=4)
def reviews() -> list[ReviewState]:
    return states(Store())


def review_at(review_id: str) -> ReviewState | None:
    return next((state for state in reviews() if state.review.review_id == review_id), None)


def blinded_item(item: str, case_set: str) -> BlindedItem | None:
    """Return an item without its model’s name, ``None`` if its trial or case is no longer stored."""
    return _blinded_item(f"{Store().path} {access.visible_owner()}", item, case_set)


# Annotators’ answers never change an item, so it stays cached while each answer reruns the page.
@st.cache_resource(max_entries=256, show_spinner=False, ttl="10m")
def _blinded_item(path: str, item: str, case_set: str) -> BlindedItem | None:
    parsed = parse_item(item)
    if parsed.kind in ("case", "profile"):
        return _case_item(parsed, case_set)
    stored, second = reading(parsed.trial_id), reading(parsed.second_trial) if parsed.second_trial else None
    if stored is None or (parsed.second_trial and second is None):
        return None
    models = ask(offer).models  # a dialogue may also name another model
    answers = [e for e in stored.events if isinstance(e, Answered) and e.question_type == "frq"]
    response = next((e.response for e in answers if e.format == parsed.format), None)
    blinded = None if parsed.kind != "answer" or response is None else hidden(response, models)
    other = blinded_dialogue(second.events, models) if second else []
    return BlindedItem(stored.case, blinded_dialogue(stored.events, models), blinded, other)


def _case_item(item: AnnotatedItem, case_set: str) -> BlindedItem | None:
    case = next((case for case in cases_of(case_set) if case.case_key == item.case_key), None)
    if case is None or item.kind == "case":
        return None if case is None else BlindedItem(case)
    with Store().read() as cursor:
        versions = profile_versions(cursor, case)
    rated = next((version.generated.profile for version in versions if version.version == item.version), None)
    return None if rated is None else BlindedItem(case, profile=rated)
