"""Watch a doctor question a patient, two of them side by side, take either seat, or play one again."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.live_pair import draw_pair
from pages.parts.live_sessions import beside, current, leave, play_again
from pages.parts.live_setup import ask_and_start
from pages.parts.live_view import draw_session
from pages.parts.look import plain
from pages.parts.navigation import require_app
from pages.parts.run_data import recent_consultations
from pages.parts.run_view import recent_table

require_app()


def draw_recent() -> None:
    """List the newest consultations that were watched here, to be opened again."""
    try:
        found = recent_consultations()
    except AnamnesisError as error:
        st.warning(plain(str(error)))
        return
    if not found:
        return
    st.subheader("Watched before", anchor=False)
    event = st.dataframe(
        recent_table(found), hide_index=True, on_select="rerun", selection_mode="single-row", key="live_recent"
    )
    rows = event.selection.rows
    if rows and rows[0] < len(found):
        st.query_params["trial"] = found[rows[0]].trial_id
        st.session_state.pop("live_recent", None)
        st.rerun()


st.title("Live consultation", anchor=False)
shown = current()
if shown is None:
    ask_and_start()
    draw_recent()
elif (other := beside()) is not None:
    draw_pair(shown, other)
else:
    draw_session(shown, on_new=leave, on_again=play_again)
