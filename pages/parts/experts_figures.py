"""Draws the figures of experts' judgements: shares by model, tests between models, agreement."""

from collections.abc import Mapping

import streamlit as st

from core.store.review_records import ASKED
from pages.parts.accuracy_view import is_dark
from pages.parts.experts_data import Figures
from pages.parts.experts_tables import agreement_table, dots_of, pairs_table, shares_table
from pages.parts.experts_words import MEASURE_HELP
from pages.parts.figure_controls import unique_names
from pages.parts.figures import model_colours
from pages.parts.history_charts import dots_chart
from pages.parts.history_shown import draw_figure, draw_table


def draw_figures(
    found: Figures,
    key: str,
    shares_printed: Mapping[tuple[str, str], str] | None = None,
    tests_printed: Mapping[tuple[str, frozenset[str]], str] | None = None,
) -> None:
    """Draw all figures of decisions; the paper's stand beside them where they are given."""
    if not found.shares:
        st.info("Nobody has answered anything yet.")
        return
    models = list(dict.fromkeys(one.model for one in found.shares))
    names, colours = unique_names(models), model_colours(models)
    rows = [ASKED[q] for q in found.questions]
    chart = dots_chart(
        dots_of(found.shares), rows, names, colours, "Share of yes", share=True, axis=(-0.02, 1.02), dark=is_dark()
    )
    draw_figure(chart, f"experts_shares_{key}", "Share of yes by question and model, with 95 % intervals")
    ranked = sorted(found.shares, key=lambda one: (found.questions.index(one.question), list(names).index(one.model)))
    draw_table(shares_table(ranked, names, shares_printed), f"experts-shares-{key}")
    st.caption(
        "Intervals: 95 %, cases resampled; Wilson’s where each case has one item. Where two annotators differ the "
        "third’s word counts; open ties are left out."
    )
    if found.pairs:
        st.markdown("**Models against one another**")
        draw_table(pairs_table(found.pairs, names, tests_printed), f"experts-pairs-{key}")
        st.caption(
            "McNemar’s exact two-sided test on the cases that both have; p is not corrected for the number of tests."
        )
    st.markdown("**Agreement of the annotators**", help=MEASURE_HELP)
    if any(one.n for one in found.agreement):
        draw_table(agreement_table(found.agreement), f"experts-agreement-{key}")
        st.caption(
            "Intervals by resampling cases with all their items, 95 %. A dash: undefined, since all answers are the "
            "same."
        )
    else:
        st.caption("No item was judged by two.")
