"""Contradictions on the Graders page: how often each grader judged the same both ways."""

import streamlit as st

from pages.parts.accuracy_view import is_dark
from pages.parts.graders_agreement import COUNTS
from pages.parts.graders_charts import flips_chart
from pages.parts.graders_controls import judge_colours
from pages.parts.graders_data import View, rates
from pages.parts.graders_tables import AGAIN, flips_table
from pages.parts.history_shown import draw_figure, draw_table


def draw_flips(view: View) -> None:
    """Draw the flip rates of the graders of a view, over all that they ever judged."""
    found = [one for one in rates() if one.grader in view.graders]
    if not found:
        st.info(
            "None of these graders has met the same response twice, or judged one answer again. Several trials of a "
            "case bring the same responses; `python -m core regrade RUN --grader M --fresh` asks again.",
            icon=":material/repeat:",
        )
        return
    chart = flips_chart(found, AGAIN, view.names, judge_colours(view), dark=is_dark())
    draw_figure(chart, "graders_flips", "Share of pairs that a grader judged both ways, with 95 % intervals")
    order = {same: place for place, same in enumerate(AGAIN)}
    found.sort(key=lambda one: (order[one.same], view.graders.index(one.grader)))
    percent = dict.fromkeys(("Share", "Low", "High"), st.column_config.NumberColumn(format="percent"))
    draw_table(flips_table(found, view.names), "graders-flips", {**COUNTS, **percent})
    st.caption(
        "A pair is a right answer with the same response, or with the same diagnosis read out of it, that a grader met "
        "more than once under the same prompts; “one answer, judged again” is the very same answer. Judged both ways: "
        "right at one time and not at another. A verdict that was taken over from an earlier identical answer is not "
        "counted again. Over all stored runs, whatever the filters; 95 % intervals resample right answers."
    )
