"""Why conversations stopped, how long they were, and what accuracy would be under other rules."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.endings_data import ending_rows, stored_endings
from pages.parts.endings_view import ask_scope, draw_reasons, draw_turns, draw_what_if
from pages.parts.figure_controls import IMPORT_COMMAND
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app

require_app()


def draw_endings() -> None:
    """Draw the page, or what to do where nothing is stored."""
    table = stored_endings()
    if not table["end_reason"].notna().any():
        st.info(
            "No conversation is stored yet. Import the authors’ public release, 50,100 conversations with their "
            f"answers: `{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository. Or start a campaign; "
            "the reference cast needs no key.",
            icon=":material/forum:",
        )
        st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")
        return
    scope, names = ask_scope(table)
    rows = [row for row in ending_rows(scope) if row.conversations]
    if not rows:
        st.info("No conversation fits these filters: take one away.", icon=":material/filter_alt_off:")
        return
    draw_reasons(rows, names, scope)
    draw_turns(rows, names, scope)
    draw_what_if(names, scope)


st.title("Endings", anchor=False)
st.caption(
    "How the doctor’s conversations with the simulated patient came to an end, and what that does to the figures."
)
try:
    draw_endings()
except AnamnesisError as error:
    st.error(plain(str(error)))
