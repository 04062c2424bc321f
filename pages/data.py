"""The cases at hand: data sets, each case with its faults and profile, suitability, import, delete."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.data_about import draw_about, draw_delete
from pages.parts.data_cases import draw_cases
from pages.parts.data_import import draw_import
from pages.parts.data_list import draw_list, draw_published, format_title
from pages.parts.data_sets import Overview, lines, overviews
from pages.parts.data_suitability import draw_suitability
from pages.parts.data_words import counted
from pages.parts.figure_controls import dataset_name
from pages.parts.look import plain
from pages.parts.navigation import require_app

require_app()

_TABS = ("Cases", "Suitability", "Record")


def draw_page() -> None:
    """Draw the data set in the address, or all of them."""
    told = st.session_state.pop("data_told", None)
    if told:
        st.toast(plain(told), icon=":material/check:")
    held = overviews()
    wanted = st.query_params.get("dataset")
    shown = next((one for one in held if one.name == wanted), None)
    if shown is not None:
        draw_one(shown)
        return
    st.caption(
        "The cases that can be run: the library that comes with Anamnesis, and what you import. Imported cases stay in "
        "the folder of the database."
    )
    if wanted:
        st.info(f"There is no data set {plain(wanted)} here. Import it below.", icon=":material/search_off:")
    for one in held:
        if one.trouble is not None:
            st.warning(f"**{plain(dataset_name(one.name))}:** {plain(one.trouble)}", icon=":material/broken_image:")
    draw_list(held)
    draw_import({one.name: one.cases for one in held})
    draw_published()


def draw_one(shown: Overview) -> None:
    """Draw one data set: its cases, how suitable they are, and its record."""
    _draw_head(shown)
    if shown.trouble is not None:
        st.error(plain(shown.trouble), icon=":material/broken_image:")
        draw_delete(shown)
        return
    held = lines(shown.name)
    tabs = st.tabs(list(_TABS), key="data_tab", on_change="rerun", bind="query-params")
    for name, tab in zip(_TABS, tabs, strict=True):
        if tab.open:
            with tab:
                if name == "Cases":
                    draw_cases(shown.name, held)
                elif name == "Suitability":
                    draw_suitability(shown.name, held)
                else:
                    draw_about(shown)


def _draw_head(shown: Overview) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All data sets", icon=":material/arrow_back:", on_click=_leave, key="data_leave")
        st.subheader(plain(dataset_name(shown.name)), anchor=False, width="content")
        title = format_title(shown)
        parts = [plain(title)] if title and title != dataset_name(shown.name) else []
        parts += [counted(shown.cases, "case"), counted(len(shown.specialties), "specialty", "specialties")]
        parts += [counted(shown.findings, "finding")] if shown.findings else []
        st.markdown("" if shown.trouble else f":gray[{' · '.join(parts)}]")


def _leave() -> None:
    for parameter in ("dataset", "case"):
        st.query_params.pop(parameter, None)


st.title("Data", anchor=False)
try:
    draw_page()
except AnamnesisError as error:
    st.error(plain(str(error)))
