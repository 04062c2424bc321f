"""Find stored conversations, read one with all its answers, and go through the found ones by key."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.figure_controls import IMPORT_COMMAND
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app
from pages.parts.transcripts_data import on_offer
from pages.parts.transcripts_find import ask_filter
from pages.parts.transcripts_list import draw_list
from pages.parts.transcripts_read import draw_reading

require_app()


def draw_transcripts() -> None:
    """Ask for the filter, then draw the conversation in the address or the list."""
    held = on_offer()
    if not held.conversations:
        st.info(
            "No conversation is stored yet. Import the authors’ public release, 50,100 conversations with their "
            f"answers: `{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository. Or start a campaign; "
            "the reference cast needs no key.",
            icon=":material/forum:",
        )
        st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")
        return
    trial = st.query_params.get("trial")
    find = st.expander(
        "Find conversations", icon=":material/search:", expanded=not trial, key=f"transcripts_find_{bool(trial)}"
    )
    with find:
        wanted = ask_filter(held)
    if trial:
        draw_reading(trial, wanted)
    else:
        draw_list(wanted, held.conversations)


st.title("Transcripts", anchor=False)
try:
    draw_transcripts()
except AnamnesisError as error:
    st.error(plain(str(error)))
