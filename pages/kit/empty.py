"""What a page shows where there is nothing to show: why, and the links or the button that change it."""

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.starts import CAMPAIGN, Missing, Start
from core.store.queries.run_cases import without_case
from pages.kit.cached import ask
from pages.kit.look import plain
from pages.kit.navigation import PARTS, link
from pages.kit.notes import with_commands

_FILTERS = ("source", "models", "formats", "questions", "datasets", "specialties", "asks_for")
"""Keys of the filters that pages share (``pages.kit.view``)."""


def draw_empty(sentence: str, *starts: Start, icon: str = "info") -> None:
    """Draw a sentence (Markdown) on what is missing, and links to where it is made, except to what is open already."""
    st.info(sentence, icon=f":material/{icon}:")
    elsewhere = [start for start in starts if not _is_open(start)]
    if elsewhere:
        with st.container(horizontal=True, gap="small"):
            for start in elsewhere:
                link(start.page, start.title, start.icon, **start.query)
    if CAMPAIGN in starts and ask(without_case):  # what a campaign would fill needs a case
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                "Imported conversations have answers once a vignette and a right answer are attached by id; rubrics "
                "compare them without."
            )
            link("conversations", "Attach cases", "attach_file", conversations_part="Import")
            link("rubrics", "Scores by rubrics", "rule")


def draw_error(error: AnamnesisError) -> None:
    """Draw the message of an error; of what is missing, the links to where it is made."""
    if isinstance(error, Missing):
        draw_empty(plain(error.sentence), *error.starts)
    else:
        st.info(with_commands(str(error)), icon=":material/info:")


def draw_no_match(sentence: str, *keys: str, name: str = "page") -> None:
    """Draw that nothing matches (a sentence in Markdown), and a button that clears the filters.

    ``keys`` are those of the page's own filters, in addition to the filters that pages share; ``name`` tells several
    such buttons of a page apart.
    """
    st.info(sentence, icon=":material/filter_alt_off:")
    if narrowed(*keys):
        st.button(
            "Clear the filters",
            icon=":material/filter_alt_off:",
            key=f"clear_filters_{name}",
            on_click=_clear,
            args=keys,
        )


def narrowed(*keys: str) -> bool:
    """Return whether the reader has set a filter: one that pages share, or the page's own with one of these keys."""
    return any(st.session_state.get(key) for key in (*_FILTERS, *keys))


def _clear(*keys: str) -> None:
    for key in (*_FILTERS, *keys):
        if isinstance(value := st.session_state.get(key), (list, tuple, str)):
            st.session_state[key] = type(value)()


def _is_open(start: Start) -> bool:
    page, part = PARTS.get(start.page, (start.page, {}))
    wanted = {**part, **start.query}
    here = page == st.session_state.get("_page")
    return here and all(st.query_params.get(key) == value for key, value in wanted.items())
