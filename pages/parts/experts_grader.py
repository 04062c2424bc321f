"""How far graders of free responses can be trusted: against experts, and against themselves."""

import streamlit as st

from core.errors import AnamnesisError
from core.measures.experts.figures import JudgedAnswer, case_counts, confusion, corrected_accuracies, count_agreement
from core.measures.experts.reviewing import ReviewState
from core.store.database import Store
from pages.parts.experts_data import beside_grader, grader_flips
from pages.parts.experts_tables import confusion_table, corrected_table, flips_table, trust_table
from pages.parts.figure_controls import unique_names
from pages.parts.figures import model_name
from pages.parts.history_shown import draw_table
from pages.parts.look import plain


def draw_flips() -> None:
    """Draw how often each grader contradicted itself on the same words."""
    rows = grader_flips()
    if not rows:
        st.info("No grader has met the same free response twice yet: run a campaign with several trials a case.")
        return
    st.markdown("**The same words, judged again**")
    percent = {"Share": st.column_config.NumberColumn(format="percent"),
               **{name: st.column_config.NumberColumn(format="localized")
                  for name in ("Pairs", "Judged both ways", "Verdicts")}}  # fmt: skip
    draw_table(flips_table(rows), "grader-flips", percent)
    st.caption(
        "Pairs of a right answer with the same response, or with the same diagnosis read out of it, that a grader met "
        "more than once; judged both ways: right at one time and not at another. Verdicts that do not count are left "
        "out, letters’ case is ignored."
    )


def draw_review_grader(state: ReviewState) -> None:
    """Draw every grader of a review's responses beside the experts."""
    found = beside_grader(state.review.review_id)
    st.markdown("**The grader beside the experts**")
    graders = list(dict.fromkeys(one.grader for one in found.judged))
    if not graders:
        st.info("No free response of this review has both the experts’ answer and a grader’s verdict that counts.")
        return
    grader = graders[0]
    if len(graders) > 1:
        grader = st.segmented_control(
            "Grader", graders, default=graders[0], required=True, format_func=model_name, key="experts_grader"
        )
    else:
        st.caption(f"Graded by {plain(model_name(grader))}.")
    judged = [one for one in found.judged if one.grader == grader]
    _draw_trust(judged)
    _draw_corrected(state, judged)
    if found.excluded or found.undecided:
        st.caption(
            f"Left out: {found.excluded} without a verdict that counts, {found.undecided} without the experts’ answer."
        )


def _draw_trust(judged: list[JudgedAnswer]) -> None:
    table, counts = confusion(judged), count_agreement(case_counts(judged))
    left, right = st.columns(2)
    with left:
        st.dataframe(confusion_table(table), hide_index=True, key="experts_confusion")
    with right:
        draw_table(trust_table(table), "experts-trust")
    columns = st.columns(3)
    columns[0].metric(
        "Agreement of counts", _decimal(counts.agreement),
        help="1 − mean |difference of the counts of right trials| / trials, over a model’s cases (the paper’s rule).",
    )  # fmt: skip
    columns[1].metric("Same count", _decimal(counts.whole), help="Share of a model’s cases with the same count.")
    columns[2].metric("Spearman’s ρ", _decimal(counts.spearman), help="Rank correlation of the counts over cases.")


def _draw_corrected(state: ReviewState, judged: list[JudgedAnswer]) -> None:
    st.markdown("**Accuracy, corrected for the grader’s error**")
    try:
        rows = corrected_accuracies(Store(), state, judged)
    except AnamnesisError as error:
        st.caption(plain(str(error)))
        return
    names = unique_names([one.model for one in rows])
    draw_table(corrected_table(rows, names), "experts-corrected")
    st.caption(
        "By Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with the grader’s "
        "sensitivity and specificity on all items of this review. Intervals resample cases with all their items, 95 %; "
        "what lies outside 0 to 1 is clipped and marked. A dash: the grader is no better than chance on these items."
    )


def _decimal(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"
