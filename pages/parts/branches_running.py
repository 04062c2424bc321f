"""A branch while it runs, a consultation that can be forked while it runs, and one that broke off."""

import streamlit as st

from core.events import Finished
from pages.parts.fork_form import fork_form
from pages.parts.live_sessions import Shown
from pages.parts.live_view import draw_session, draw_take_away_watched
from pages.parts.look import plain
from pages.parts.navigation import BRANCHES
from pages.parts.transcript import draw_chat


def draw_running(shown: Shown) -> None:
    """Draw a consultation under way, and below it the form to fork it at what was said so far."""
    other = st.query_params.get("other")
    if other:
        st.caption("This branch is being run. When it is over, it stands in the tree of its family.")
    draw_session(shown, on_new=_leave, on_again=lambda _: None, forks=False)
    with st.expander(
        "Fork this consultation while it runs", icon=":material/fork_right:", on_change="rerun",
        expanded="fork" in st.query_params,
    ) as form:  # fmt: skip
        if form.open:
            fork_form(
                shown.trial_id, shown.session.snapshot(), shown.case, "branches_running", session=shown.session
            )  # fmt: skip


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
        st.page_link(
            BRANCHES,
            label="Back to what it branched off",
            icon=":material/account_tree:",
            query_params={"trial": other},
        )


def _leave() -> None:
    for name in ("trial", "other", "fork"):
        st.query_params.pop(name, None)
