"""A page in tabs of which only the open one is drawn; which one is open stands in the address."""

from collections.abc import Callable, Mapping

import streamlit as st


def draw_sections(sections: Mapping[str, Callable[..., None]], key: str, *shown: object) -> None:
    """Draw the tabs by their titles, and in the open one its section, which is given what is ``shown``."""
    tabs = st.tabs(list(sections), key=key, on_change="rerun", bind="query-params")
    for tab, draw in zip(tabs, sections.values(), strict=True):
        if tab.open:
            with tab:
                draw(*shown)
