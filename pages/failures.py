"""Why answers are wrong, what doctors never ask, and what they believed on the way."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.failures_belief import draw_belief
from pages.parts.failures_causes import draw_causes
from pages.parts.failures_data import answered
from pages.parts.failures_filters import ask_scope
from pages.parts.failures_marking import draw_marking
from pages.parts.failures_topics import draw_topics
from pages.parts.figure_controls import IMPORT_COMMAND
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app

require_app()


def draw_failures() -> None:
    """Draw the page, or what to do where nothing is stored."""
    found = answered()
    if not found:
        st.info(
            "No answer is stored yet. Import the authors’ public release, 50,100 conversations with their answers: "
            f"`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository. Or start a campaign; the "
            "reference cast needs no key.",
            icon=":material/troubleshoot:",
        )
        st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")
        return
    scope, names = ask_scope(found)
    draw_marking()
    causes, topics, belief = st.tabs(
        ["Causes", "Never asked", "Belief"], key="failures_tab", on_change="rerun", bind="query-params"
    )
    for tab, draw in ((causes, draw_causes), (topics, draw_topics), (belief, draw_belief)):
        if tab.open:
            with tab:
                draw(scope, names)


st.title("Failures", anchor=False)
st.caption("Why answers are wrong, by stated rules; what the doctor never asked; what it believed on the way.")
try:
    draw_failures()
except AnamnesisError as error:
    st.error(plain(str(error)))
