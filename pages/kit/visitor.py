"""Who looks at the pages: the door where people sign in, whose name stands beside the pages, what a role cannot do."""

import functools
import os
import time
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core import access
from core.access import HERE, NOBODY, Right, Visitor
from pages.kit.look import plain

_NOTED = "_signed_in"
_LOOKED_AT_AGAIN_S = 2.0
"""Seconds for which it holds what the secrets said of a login: every look at the store asks who it is for."""


@functools.lru_cache(maxsize=1)
def _told(_when: int) -> bool:
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def _who() -> Visitor | None:
    """Return who looks at the page whose script runs here; ``None`` where nobody signs in."""
    # people sign in where ``[auth]`` stands in the secrets, or stood there when the server began
    if access.LOGIN not in os.environ and not _told(int(time.monotonic() / _LOOKED_AT_AGAIN_S)):
        return None
    if get_script_run_ctx(suppress_warning=True) is None or not st.user.get("is_logged_in"):
        return NOBODY
    claim = access.rules().claim
    name = str(st.user.get(claim) or "").strip()
    # An address that its provider has not verified may be anybody's, and providers send "false" in several forms.
    trusted = claim != "email" or st.user.get("email_verified") is True
    return access.person(name) if name and trusted else NOBODY


access.ask_who(_who)


def let_in() -> None:
    """Draw the door for who has not signed in or is not known, and nothing else; else who it is, and the way out."""
    who = access.visitor()
    if who == HERE:
        return
    if who.role is not None:
        if _NOTED not in st.session_state:
            st.session_state[_NOTED] = True
            access.note("signed in", "")
        with st.sidebar.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/person: {plain(who.name)} · {who.role}", width="stretch")
            st.button("Sign out", type="tertiary", icon=":material/logout:", on_click=st.logout, key="sign_out")
        return
    with st.container(width=480):
        st.title("Anamnesis", anchor=False)
        if not st.user.get("is_logged_in"):
            st.markdown("This server is for people who have signed in.")
            auth = st.secrets.get("auth", {}) if st.secrets.load_if_toml_exists() else {}
            providers = [name for name, held in auth.items() if hasattr(held, "keys") and "client_id" in held]
            for name in providers or [None]:
                if st.button(
                    f"Sign in with {name}" if name else "Sign in",
                    type="primary",
                    icon=":material/login:",
                    key=f"sign_in_{name}",
                ):
                    st.login(name)
        else:
            name = str(st.user.get(access.rules().claim) or "")
            whom = f"You have signed in{f' as {plain(name)}' if name else ''}, and nobody has let you in yet"
            st.info(f"{whom}: ask {plain(access.rules().contact)}.", icon=":material/lock:")
            st.button("Sign out", icon=":material/logout:", on_click=st.logout, key="sign_out")
    st.stop()


def only(right: Right, *, disabled: bool = False, help: str | None = None) -> dict[str, Any]:
    """Return what a button is told that takes a right: where it is lacking, it is shown disabled, and says why."""
    lacking = access.refusal(right)
    return {"disabled": disabled or bool(lacking), "help": lacking or help}
