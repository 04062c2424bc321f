"""Verdicts of graders on answers with choices, next to those of the rules, and the answers on which they differ."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from core.measures.graders.choices import AGREEMENT, DIFFERENCES
from core.store.selection import Selection
from pages.judges.graders.data import Graders
from pages.kit.navigation import lead_to
from pages.kit.section import draw_section, section_result, table_of, words_of
from pages.kit.tables import draw_table


def draw_choices(selection: Selection, _graders: Graders, names: Mapping[str, str]) -> None:
    """Draw the agreement by arm, and the list of differing answers; a click opens the transcript."""
    selection = replace(selection, question_types=None)  # the page's filter offers free responses only
    if draw_section(AGREEMENT, selection, names=names, name="graders_choices", titled=False) is None:
        return
    differing = section_result(DIFFERENCES, selection)
    st.header(DIFFERENCES.title, anchor=False)
    if not differing.rows:
        st.caption("The grader and the rules agree on every answer.")
        return

    def read(place: int) -> None:
        lead_to("transcripts", trial=differing.rows[place]["trial_id"])

    table = table_of(differing, {**words_of(differing, selection), **names}, DIFFERENCES)
    draw_table(table, "graders_differing_choices", on_row=read)
    st.caption("Choose a row to read its conversation.")
