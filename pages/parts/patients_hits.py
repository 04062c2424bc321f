"""Hits on the Patients page: page by page, and the chosen one's conversation with all its hits marked."""

from collections.abc import Sequence

import streamlit as st

from core.measures.patients.rules import ABOUT
from core.store.queries.patients import Hit
from pages.parts.patients_controls import PAGE_NAME, first_page
from pages.parts.patients_conversation import draw_conversation
from pages.parts.patients_data import PAGE, View, every_hit, page_of
from pages.parts.patients_tables import hits_table

_ADDRESS = "patients_hit"
_DIGITS = 6
"""Digits of a number in an address from which on it is nonsense."""


def draw_hits(view: View) -> None:
    """Ask for words, list the hits, draw the conversation of the chosen one."""
    words = st.text_input(
        "Words of the hit", key="patients_words", bind="query-params", type="search", on_change=first_page,
        placeholder="vignette, pruritus …", width=320,
    ).strip()  # fmt: skip
    page = _number(st.query_params.get(PAGE_NAME, "1"), 1)
    total, shown = page_of(view, words, page - 1)
    if not shown and page > 1:
        first_page()
        page = 1
        total, shown = page_of(view, words, 0)
    if shown:
        _draw_list(view, words, total, shown, page)
    else:
        st.info("No hit fits: take a filter away, or mark what is not marked.", icon=":material/filter_alt_off:")
    trial_id, _, turn = st.query_params.get(_ADDRESS, "").rpartition("|")
    if trial_id:
        draw_conversation(trial_id, _number(turn, 1) - 1)


def _draw_list(view: View, words: str, total: int, shown: Sequence[Hit], page: int) -> None:
    pages = -(-total // PAGE)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** hits. Choose one to read it where it was said.")
        if pages > 1:
            turner = f"patients_pages_{pages}_{page}"
            st.pagination(pages, default=page, key=turner, on_change=lambda: _turn(turner))
    key = f"patients_rows_{page}_{shown[0].trial_id}_{shown[-1].trial_id}_{total}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(shown):
            st.query_params[_ADDRESS] = f"{shown[rows[0]].trial_id}|{shown[rows[0]].mark.turn + 1}"

    st.dataframe(
        hits_table(shown, view.patients, view.doctors), hide_index=True, key=key, on_select=choose,
        selection_mode="single-row", height=320 if len(shown) > 8 else "content", placeholder="–",
        alt=f"Hits: {', '.join(ABOUT[kind].name.lower() for kind in view.kinds)}",
        column_config={"Words": st.column_config.TextColumn(width="medium"),
                       "Reply": st.column_config.TextColumn(width="large")},
    )  # fmt: skip
    st.download_button(
        "Download all of them as CSV",
        lambda: _csv(view, words),
        "patient-hits.csv", "text/csv", icon=":material/download:", on_click="ignore", key="patients_hits_csv",
    )  # fmt: skip


def _csv(view: View, words: str) -> bytes:
    table = hits_table(every_hit(view, words), view.patients, view.doctors, whole=True)
    return table.to_csv(index=False).encode()


def _turn(key: str) -> None:
    st.query_params[PAGE_NAME] = str(st.session_state[key])


def _number(asked: str, otherwise: int) -> int:
    return max(1, int(asked)) if asked.isdecimal() and asked.isascii() and len(asked) < _DIGITS else otherwise
