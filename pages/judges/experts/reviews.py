"""The reviews that there are and the way into one; annotations brought in and taken out."""

import io
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core import access
from core.errors import AnamnesisError
from core.measures.experts.workbooks import COLUMNS, export_annotations, import_csv
from core.reviews.reviewing import ReviewState
from core.store.database import Store
from core.store.review_records import QUESTIONS
from pages.judges.experts.data import ANNOTATOR, ITEM, KIND, REVIEW, reviews
from pages.kit.cases import forget
from pages.kit.look import plain
from pages.kit.tables import draw_table
from pages.kit.visitor import only

_SOMEBODY = "somebody else…"


def draw_list() -> None:
    """Draw the way in, and every review with its progress."""
    held = reviews()
    if not held:
        st.info(
            "No review is planned yet. Under **Plan a review** you choose conversations, free responses or vignettes, "
            "and who judges them; the models’ names stay hidden until all is answered.",
            icon=":material/rate_review:",
        )
        return
    _ask_way_in(held)
    draw_progress(held, "experts_progress")


def draw_progress(held: list[ReviewState], key: str, without: Sequence[str] = ()) -> None:
    """Draw a line for each review and annotator, without some of the columns; a click on one opens it as theirs."""
    lines = [(state.review.review_id, one.annotator) for state in held for one in state.progress]

    def open_(row: int) -> None:
        st.query_params.from_dict(dict(zip((REVIEW, ANNOTATOR), lines[row], strict=True)))

    table = pd.DataFrame(
        {
            "Review": state.review.name,
            "About": KIND[state.review.plan.kind],
            "Annotator": one.annotator,
            "Answered": one.done / one.items if one.items else None,
            "Done": f"{one.done} of {one.items}" if one.items else "third only",
            "Ties waiting": one.ties,
            "Names": _names(state),
        }
        for state in held
        for one in state.progress
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


def _names(state: ReviewState) -> str:
    if state.review.plan.kind == "baseline":
        return "no model"
    return "shown" if state.review.unblinded else "hidden"


def _ask_way_in(held: list[ReviewState]) -> None:
    open_ = {s.review.review_id: s for s in held if not s.review.unblinded}
    if not open_:
        st.caption("All reviews are unblinded: their figures stand under **Results**.")
        return
    left, middle, right = st.columns([3, 2, 1], vertical_alignment="bottom")
    review = left.selectbox(
        "Review", list(open_), format_func=lambda key: open_[key].review.name, key="experts_open_review"
    )
    names = open_[review].review.plan.annotators if review else ()
    who = middle.selectbox(
        "You are",
        [*names, _SOMEBODY],
        key=f"experts_open_as_{review}",
        help="Somebody else can break the ties of two who differ.",
    )
    if who == _SOMEBODY:
        who = middle.text_input("Your name", key="experts_open_name").strip()
    if right.button("Open", type="primary", icon=":material/rate_review:", disabled=not who, width="stretch") and who:
        st.query_params.from_dict({REVIEW: review, ANNOTATOR: who})
        st.rerun()
    tied = open_[review].open_ties() if review else []
    if tied:
        st.caption(
            f":material/balance: {len(tied)} tied {'item waits' if len(tied) == 1 else 'items wait'} for a third "
            f"annotator of {plain(open_[review].review.name)}."
        )


def leave() -> None:
    """Go back to the list."""
    forget(REVIEW, ANNOTATOR, ITEM)


_SHOWN = 20


def draw_exchange() -> None:
    """Draw the export and the import of annotations."""
    st.markdown("**Export**")
    st.download_button(
        "All annotations as CSV",
        access.carried(_csv),  # it is called in a thread that does not know who asks
        "annotations.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key="experts_export",
        help="Every answer with its history; of a blinded review without models, and only your own if people sign in.",
    )
    st.markdown("**Import**")
    st.caption(
        f"A CSV with the columns {', '.join(COLUMNS)}: item, or model and case, may be left out. Questions are "
        f"{', '.join(QUESTIONS)}; values yes or no."
    )
    file = st.file_uploader("CSV with annotations", type="csv", key="experts_file")
    if file is not None and st.button(
        "Import them", icon=":material/playlist_add:", key="experts_import", **only("edit")
    ):
        try:
            found = import_csv(Store(), file.getvalue())
        except AnamnesisError as error:
            st.error(plain(str(error)))
            return
        st.success(f"{found.added:,} annotations came in, {found.unchanged:,} were here already.")
        if found.rejected:
            st.warning(f"{len(found.rejected):,} rows were left out.", icon=":material/rule:")
            lines = [{"Line": line, "Why": reason} for line, reason in found.rejected[:_SHOWN]]
            st.dataframe(lines, hide_index=True, key="experts_rejected")


def _csv() -> bytes:
    text = io.StringIO()
    export_annotations(Store(), text)
    return text.getvalue().encode()
