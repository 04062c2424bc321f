"""What came of a review: counts while it is blinded, figures by model afterwards, and the way from one to the other."""

import pandas as pd
import streamlit as st

from core.errors import AnamnesisError
from core.measures.accuracy import accuracy_of, chosen
from core.measures.experts.reviewing import ReviewState, unblind
from core.store.conditions import doctor_of
from core.store.database import Store
from pages.parts.experts_data import IMPORTED, figures_of, imported_are_here, reviews
from pages.parts.experts_figures import draw_figures
from pages.parts.experts_grader import draw_review_grader
from pages.parts.experts_list import draw_progress
from pages.parts.experts_words import KIND, SAMPLING
from pages.parts.figure_controls import dataset_name, keep_valid
from pages.parts.figures import scores
from pages.parts.history_shown import draw_table
from pages.parts.look import QUESTION_TYPE, plain
from pages.parts.navigation import ACCURACY


def draw_results() -> None:
    """Ask whose judgements are shown, and draw them."""
    held = {state.review.review_id: state for state in reviews()}
    options = [*held, *([IMPORTED] if imported_are_here() else [])]
    if not options:
        st.info("There is nothing to show yet: plan a review, or import annotations.", icon=":material/rate_review:")
        st.code("python -m core experts import FILE.csv", language=None)
        return
    keep_valid("experts_source", options)
    source = st.selectbox(
        "Judgements of", options, key="experts_source", bind="query-params",
        format_func=lambda key: held[key].review.name if key in held else "Imported annotations",
    )  # fmt: skip
    if source == IMPORTED:
        draw_figures(figures_of(IMPORTED), IMPORTED)
        return
    state = held[source]
    _say_how_drawn(state)
    if state.review.plan.kind == "baseline":
        _draw_baseline(state)
    elif state.review.unblinded:
        _say_unblinded(state)
        draw_figures(figures_of(source), source)
        if state.review.plan.kind == "answers":
            draw_review_grader(state)
    else:
        _draw_counts(state)


def _say_how_drawn(state: ReviewState) -> None:
    plan = state.review.plan
    drawn = SAMPLING[plan.sampling].lower()
    two = sum(len(one.annotators) > 1 for one in state.items)
    st.caption(
        f"{KIND[plan.kind]} · {len(state.items)} items drawn {drawn}, seed {plan.seed} · {two} seen by two · "
        f"annotators: {plain(', '.join(plan.annotators))}"
    )


def _draw_counts(state: ReviewState) -> None:
    missing, ties = state.missing, len(state.open_ties())
    columns = st.columns(3)
    columns[0].metric("Items", len(state.items))
    columns[1].metric("Answers missing", missing)
    columns[2].metric("Open ties", ties)
    draw_progress([state], "experts_counts", ["Review", "About", "Names"])
    st.markdown("**Unblind**")
    st.caption("Shows the models’ names and the figures by model. From then on no answer can be changed.")
    with st.form("experts_unblind", border=True):
        by = st.text_input("Your name", key="experts_unblind_by")
        reason = ""
        if missing:
            reason = st.text_input(f"Why before the last {missing:,} answers are in? Stored with the review.",
                                   key="experts_unblind_reason")  # fmt: skip
        if st.form_submit_button("Unblind the review", icon=":material/visibility:"):
            try:
                unblind(Store(), state.review.review_id, by, reason)
            except AnamnesisError as error:
                st.warning(plain(str(error)))
            else:
                st.rerun()


def _say_unblinded(state: ReviewState) -> None:
    shown = state.review.unblinded
    if shown is not None and shown.reason:
        st.warning(
            f"Unblinded by {plain(shown.by)} before all was answered: “{plain(shown.reason)}”. {state.missing:,} "
            "answers are missing.",
            icon=":material/visibility:",
        )
    elif shown is not None:
        st.caption(f":material/visibility: Unblinded by {plain(shown.by)} when all was answered.")


def _draw_baseline(state: ReviewState) -> None:
    draw_progress([state], "experts_counts", ["Review", "About", "Names", "Ties waiting"])
    doctors = [f"human/{name}" for name in state.review.plan.annotators]
    held = [one for one in scores("mcq_strict") if doctor_of(one.model) in doctors]
    found = accuracy_of(chosen(held, formats=["vignette"]))
    if not found:
        st.info("No vignette is answered whole yet.")
        return
    lines = [
        {
            "Expert": row.model.removeprefix("human/"), "Question": QUESTION_TYPE[row.question_type],
            "Accuracy": row.mean, "Low": row.ci_low, "High": row.ci_high, "Vignettes": row.n_cases,
            "Excluded": row.n_excluded,
        }
        for row in found
    ]  # fmt: skip
    draw_table(pd.DataFrame(lines), "experts-baseline")
    st.caption(
        f"All vignettes that these experts have answered, from {plain(dataset_name(state.review.plan.case_set))} or "
        "other reviews; choices by the strict rule, diagnoses in own words by the reference grader."
    )
    st.page_link(ACCURACY, label="Beside the models on Accuracy", icon=":material/bar_chart:")
