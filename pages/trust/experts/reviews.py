"""The stored reviews with their blinded items: the list, opening one, and import and export of answers."""

import io
from collections.abc import Callable, Sequence
from typing import TextIO

import pandas as pd
import streamlit as st

from core import access
from core.datasets.case_fields import groups_in
from core.reviews import baseline
from core.reviews.exchange import COLUMNS, export_answers, import_csv, write_sheet
from core.reviews.items import BlindedItem
from core.reviews.state import ReviewState, readable_history, states, withheld_in_words
from core.store.database import Store
from core.store.queries.cases import cases
from core.store.review_records import ReviewSampling
from pages.kit.cached import ask, cached_query
from pages.kit.cases import clear_parameters
from pages.kit.look import counted, plain, show_errors
from pages.kit.tables import draw_table
from pages.kit.visitor import only

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


_OF_CASES = ("vignette", "case", "profile")
"""What a review is about if its items have no model."""


def draw_reviews() -> None:
    """Draw the controls to open a review, and every review with its progress."""
    stored = reviews()
    if not stored:
        st.info(
            "No review is planned yet. Under **Plan a review**, choose what is judged and by whom; the models’ names "
            "stay hidden until all items are answered.",
            icon=":material/rate_review:",
        )
        return
    _ask_review(stored)
    draw_progress(stored, "experts_progress")


def draw_progress(states: list[ReviewState], key: str, without: Sequence[str] = ()) -> None:
    """Draw a row for each review and annotator, leaving out the columns ``without``; a click opens the review."""
    keys = [(state.review.review_id, progress.annotator) for state in states for progress in state.progress]

    def open_(row: int) -> None:
        st.query_params.update(dict(zip((REVIEW, ANNOTATOR), keys[row], strict=True)))

    table = pd.DataFrame(
        {
            "Review": state.review.name,
            "About": state.form.title,
            "Annotator": progress.annotator,
            "Answered": progress.done / progress.items if progress.items else None,
            "Done": f"{progress.done} of {progress.items}" if progress.items else "third only",
            "Ties waiting": progress.ties,
            "Names": "no model" if state.form.about in _OF_CASES else "shown" if state.review.unblinded else "hidden",
        }
        for state in states
        for progress in state.progress
    )
    draw_table(
        table.drop(columns=list(without)),
        key,
        {"Answered": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1)},
        on_row=open_,
        height="content",
        download="",
        alt="Reviews with the progress of each annotator",
    )


def _ask_review(states: list[ReviewState]) -> None:
    blinded = {state.review.review_id: state for state in states if not state.review.unblinded}
    if not blinded:
        st.caption("All reviews are unblinded. Their figures are under **Results**.")
        return
    left, middle, right = st.columns([3, 2, 1], vertical_alignment="bottom")
    review = left.selectbox(
        "Review", list(blinded), format_func=lambda key: blinded[key].review.name, key="experts_open_review"
    )
    plan = blinded[review].review.plan
    annotator = middle.selectbox(
        "You are",
        plan.annotators,
        key=f"experts_open_as_{review}",
        accept_new_options=True,
        help="Type another name to settle ties between two annotators.",
    )
    if right.button("Open", type="primary", icon=":material/rate_review:", width="stretch") and annotator:
        st.query_params.update({REVIEW: review, ANNOTATOR: annotator.strip()})
        st.rerun()
    if tied := blinded[review].open_ties():
        st.caption(
            f":material/balance: Tied: {counted(len(tied), 'item')} of {plain(blinded[review].review.name)}. "
            f"{plan.ties_in_words}"
        )


def leave() -> None:
    clear_parameters(REVIEW, ANNOTATOR, ITEM)


_MAX_REJECTED = 20


def draw_exchange() -> None:
    st.markdown("**Export**")
    _download(
        "All answers as CSV",
        "answers",
        lambda file: export_answers(Store(), file),
        "Every answer with its history. Of a review in progress only your own, if people sign in.",
    )
    if withheld := withheld_in_words(ask(readable_history)[1]):
        st.caption(plain(withheld))
    st.markdown("**Import**")
    st.caption(
        f"A CSV with the columns {', '.join(COLUMNS)}, such as a sheet that an annotator has filled in.",
        help="In a review, item is its number; without one, either item, or model and case, may be missing. Answers to "
        "any form are read.",
    )
    file = st.file_uploader("CSV with answers", type="csv", key="experts_file")
    if file is not None and st.button(
        "Import them", icon=":material/playlist_add:", key="experts_import", **only("run")
    ):
        with show_errors(st.error):
            result = import_csv(Store(), file.getvalue())
            st.success(f"{result.added:,} answers imported, {result.unchanged:,} already present.")
            if result.rejected:
                st.warning(f"{len(result.rejected):,} rows were left out.", icon=":material/rule:")
                lines = [{"Line": line, "Why": reason} for line, reason in result.rejected[:_MAX_REJECTED]]
                st.dataframe(lines, hide_index=True, key="experts_rejected")


def draw_sheet(state: ReviewState, annotator: str) -> None:
    """Draw the download of an annotator’s questions, to be answered in a spreadsheet."""
    _download(
        "As CSV",
        "sheet",
        lambda file: write_sheet(Store(), state.review.review_id, annotator, file),
        "The open questions with the blinded items, to be answered in a spreadsheet and imported.",
    )


def _download(label: str, name: str, write: Callable[[TextIO], object], help: str) -> None:
    def content() -> bytes:
        text = io.StringIO()
        write(text)
        return text.getvalue().encode()

    st.download_button(
        label,
        access.carried(content),  # Streamlit calls it in a thread without the visitor’s session
        f"{name}.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"experts_{name}",
        help=help,
    )
