"""Plan a campaign with its cost before it starts, start it, watch it, stop it, resume it."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.look import plain
from pages.parts.navigation import require_app
from pages.parts.run_data import campaigns, state_of
from pages.parts.run_start import ask_campaign, form_is_wanted
from pages.parts.run_view import draw_list, draw_run

require_app()

# seconds between two looks at the runs, when idle too: another process may start one at any time
_BUSY_S, _IDLE_S = 2.0, 5.0

st.title("Runs", anchor=False)
try:
    known = campaigns()
except AnamnesisError as error:
    st.error(plain(str(error)))
    st.stop()
busy = any(state_of(run) == "running" for run in known)
with st.expander("A new campaign", icon=":material/add:", expanded=not known or form_is_wanted()):
    ask_campaign()


@st.fragment(run_every=_BUSY_S if busy else _IDLE_S)
def watch() -> None:
    """Draw the list and the chosen run, again every few seconds."""
    runs = campaigns()
    if not runs:
        st.info("No run yet. Press the button above: the reference cast needs no key and takes under a minute.")
        return
    if busy != any(state_of(run) == "running" for run in runs):
        st.rerun()
    wanted = st.query_params.get("run")
    shown = next((run for run in runs if run.run_id == wanted), runs[0])
    if wanted and shown.run_id != wanted:
        st.info("The run in this address is not stored here; the newest one is shown.", icon=":material/search_off:")
    draw_list(runs, shown)
    draw_run(shown)


watch()
