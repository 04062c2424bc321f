"""Accuracy of models by format, question type, specialty and data set, with intervals and the cases behind each bar."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.accuracy_cases import draw_cases
from pages.parts.accuracy_data import cells
from pages.parts.accuracy_filters import ask_shown, ask_view
from pages.parts.accuracy_view import (
    draw_figures,
    draw_leaderboard,
    draw_notes,
    draw_tables,
    shown_pairs,
    stars_of,
)
from pages.parts.figure_controls import IMPORT_COMMAND, unique_names
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app

require_app()


def draw_accuracy() -> None:
    """Ask what to show, then draw figures, notes, tables and the cases behind a bar."""
    view = ask_view()
    known = cells(view)
    names = unique_names(dict.fromkeys(cell.model for cell in known))
    if not any(cell.own for cell in known):
        _say_how_to_get_answers(published=bool(known))
    if not known:
        return
    shown = ask_shown(view, known, names)
    listed = shown.cells(known)
    if not listed:
        st.info("Choose at least one model, one format and one question that go together.")
        return
    found, adjusted = shown_pairs(view, shown)
    draw_figures(listed, stars_of(found, adjusted), names, list(names))
    draw_notes(view, listed, names, len(found))
    draw_tables(listed, found, adjusted, names)
    draw_cases(view, listed, names)


def _say_how_to_get_answers(*, published: bool) -> None:
    what = "These are the **published** figures." if published else "No answer of this kind is stored."
    st.info(
        f"{what} To get the answers and transcripts behind them, import the authors’ public release: "
        f"`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository. For figures of your own, start a "
        "campaign; the reference cast needs no key.",
        icon=":material/menu_book:",
    )
    st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")


st.title("Accuracy", anchor=False)
figures, board = st.tabs(
    ["Figures", "Published leaderboard"], key="acc_tab", on_change="rerun", bind="query-params"
)  # fmt: skip
try:
    if figures.open:
        with figures:
            draw_accuracy()
    if board.open:
        with board:
            draw_leaderboard()
except AnamnesisError as error:
    st.error(plain(str(error)))
