"""Branches of conversations: the families, one while it runs or once it is stored, and the form to fork one."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.events import Finished
from core.store.queries.forks import Family, families, tree
from pages.kit.cached import ask
from pages.kit.cases import forget
from pages.kit.chat import draw_chat
from pages.kit.fork import fork_form
from pages.kit.look import plain
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.sessions import Shown, watched
from pages.kit.tables import draw_table
from pages.kit.watched import draw_session, draw_take_away_watched
from pages.transcripts.branches.family import draw_family

_PLACES = ("trial", "other", "fork")
"""What stands in the address: a conversation, the one beside it, and whether its form is open."""


def draw_branches() -> None:
    """Draw the conversation of the address with its family, while it runs or once it is stored, or the list."""
    trial = st.query_params.get("trial")
    if not trial:
        draw_families()
        return
    st.button("All branched conversations", icon=":material/arrow_back:", on_click=forget, args=_PLACES)
    family = ask(tree, trial)
    node = family.node(trial) if family else None
    shown = watched(trial)
    if shown is not None and (node is None or node.talk is None):
        # no conditional expression: Streamlit would draw its value
        if shown.session.running:
            draw_running(shown)
        else:
            draw_broken_off(shown)
    if family is not None and node is not None:
        draw_family(family, node)
    elif shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        draw_way_back()


def draw_families() -> None:
    """List the families with the newest branches; a click opens one."""
    held = ask(families)
    if not held:
        st.info(
            "No conversation has branched yet. Open any conversation and choose “Fork from here”: what was said before "
            "that message is kept, and from there on you can change the words, the doctor, the patient, the persona or "
            "the prompts, and continue. The branches are then drawn here as a tree.",
            icon=":material/account_tree:",
        )
        with st.container(horizontal=True):
            link("transcripts", "Choose a conversation", "forum")
            link("live", "Start a consultation", "play_arrow")
        return

    def open_(row: int) -> None:
        if "trial" not in st.query_params:
            st.query_params["trial"] = held[row].newest

    st.caption("Conversations that have branches, the newest branch first. Choose a row to see its tree.")
    columns = {"Newest branch": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm")}
    draw_table(families_table(held), "families", columns, on_row=open_, alt="Conversations that have branches")


def families_table(held: Sequence[Family]) -> pd.DataFrame:
    """Return the families as rows; the time is UTC."""
    return pd.DataFrame(
        [
            {
                "Case": family.case_key,
                "Doctor of the original": model_name(family.doctor) if family.doctor else "not stored",
                "Branches": family.branches,
                "Newest branch": pd.Timestamp(family.finished_at, unit="s").floor("s"),
            }
            for family in held
        ]
    )


def draw_running(shown: Shown) -> None:
    """Draw a consultation under way, and below it the form to fork it at what was said so far."""
    if st.query_params.get("other"):
        st.caption("This branch is being run. When it is over, it stands in the tree of branches.")
    draw_session(shown, on_new=lambda: forget(*_PLACES), on_again=lambda _: None, forks=False)
    with st.expander(
        "Fork this consultation while it runs",
        icon=":material/fork_right:",
        on_change="rerun",
        expanded="fork" in st.query_params,
    ) as form:
        if form.open:
            fork_form(shown.trial_id, shown.session.snapshot(), shown.case, "branches_running", session=shown.session)


def draw_broken_off(shown: Shown) -> None:
    """Draw what was said in a consultation that did not come to its end, or is not in the database yet."""
    session = shown.session
    events = session.snapshot()
    if session.error:
        st.error(plain(session.error))
    if any(isinstance(event, Finished) for event in events) and not session.error:
        st.info("This consultation is over and is being stored: look again in a moment.", icon=":material/sync:")
        st.button("Look again", icon=":material/refresh:", key="branches_look_again")
    else:
        st.info(
            "This consultation was stopped before its end, so it is not stored and stands in no tree.",
            icon=":material/stop_circle:",
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_way_back()
        draw_take_away_watched([shown], key="branches_broken")
    with st.container(border=True):
        draw_chat(events, None, known=shown.known)


def draw_way_back() -> None:
    """Link to what the conversation of the address branched off, which a new branch's address names."""
    other = st.query_params.get("other")
    if other and other != st.query_params.get("trial"):
        link("branches", "Back to what it branched off", "account_tree", trial=other)
