"""Watch a doctor question a patient, take either seat, or play a stored consultation again."""

import streamlit as st

from core.agents.casting import CastNames
from core.campaigns.plan import Campaign, Settings
from core.errors import AnamnesisError
from core.live.start import one_case, start_consultation
from core.protocols.craftmd import Arm
from pages.parts.live_sessions import adopt, current, leave, play_again
from pages.parts.live_view import draw_session
from pages.parts.look import arm, plain
from pages.parts.navigation import require_app
from pages.parts.run_data import recent_consultations
from pages.parts.run_view import recent_table
from pages.parts.setup import Seats, ask_address, ask_case, ask_seat, seat_problem

require_app()

_ARMS: list[Arm] = [
    ("multi_turn", "frq"), ("multi_turn", "mcq"), ("single_turn", "frq"), ("summarized", "frq"),
    ("vignette", "frq"), ("vignette", "mcq"),
]  # fmt: skip


def ask_and_start() -> None:
    """Show a chosen case, the cast, and one button."""
    st.caption(
        "A doctor questions a simulated patient, then gives a diagnosis, which is graded. "
        "Press start: nothing else is needed, no key and no network."
    )
    case = ask_case("live")
    left, right = st.columns(2)
    with left:
        doctor = ask_seat("live", "doctor", human=True)
    with right:
        patient = ask_seat("live", "patient", human=True)
    with st.expander("More settings", icon=":material/tune:"):
        columns = st.columns(2)
        with columns[0]:
            grader = ask_seat("live", "grader")
            summariser = ask_seat("live", "summariser")
            address = ask_address("live")
        with columns[1]:
            arms = st.pills(
                "Asked afterwards", _ARMS, selection_mode="multi", default=[_ARMS[0], _ARMS[1], _ARMS[4], _ARMS[5]],
                format_func=lambda a: arm(*a), key="live_arms", persist_state="session",
            )  # fmt: skip
            seed = st.number_input(
                "Seed",
                0,
                2**31 - 1,
                20,
                key="live_seed",
                persist_state="session",
                help="Another seed, another wording.",
            )
            cap = st.number_input(
                "Cap of messages",
                4,
                200,
                30,
                key="live_cap",
                persist_state="session",
                help="The doctor's prompt counts as one.",
            )
    seats = Seats(CastNames(doctor, patient, grader, summariser), address)
    problem = seat_problem(seats)
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    ready = case is not None and problem is None and bool(arms)
    if st.button("Start the consultation", type="primary", icon=":material/play_arrow:", disabled=not ready) and case:
        campaign = Campaign(
            names=seats.names, cases=(case,), arms=tuple(arms), seed=int(seed),
            settings=Settings(max_messages=int(cap), base_url=address),
        )  # fmt: skip
        try:
            adopt(start_consultation(one_case(campaign, case)), case)
        except AnamnesisError as error:
            st.error(plain(str(error)))
            return
        st.rerun()


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
else:
    draw_session(shown, on_new=leave, on_again=play_again)
