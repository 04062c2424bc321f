"""Branches of conversations: the family as a tree, two of them beside each other, and the form to fork one."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.branches_data import family_of
from pages.parts.branches_list import draw_families
from pages.parts.branches_running import draw_broken_off, draw_running, draw_way_back
from pages.parts.branches_view import draw_family
from pages.parts.live_sessions import watched
from pages.parts.look import plain
from pages.parts.navigation import require_app

require_app()


def draw_branches() -> None:
    """Draw the conversation of the address with its family, while it runs or once it is stored, or the list."""
    trial = st.query_params.get("trial")
    if not trial:
        draw_families()
        return
    st.button("All families", icon=":material/arrow_back:", on_click=_back)
    tree = family_of(trial)
    node = tree.node(trial) if tree else None
    shown = watched(trial)
    if shown is not None and (node is None or node.talk is None):
        # no conditional expression: Streamlit would draw its value
        if shown.session.running:
            draw_running(shown)
        else:
            draw_broken_off(shown)
    if tree is not None and node is not None:
        draw_family(tree, node)
    elif shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        draw_way_back()


def _back() -> None:
    for name in ("trial", "other", "fork"):
        st.query_params.pop(name, None)


st.title("Branches", anchor=False)
try:
    draw_branches()
except AnamnesisError as error:
    st.error(plain(str(error)))
