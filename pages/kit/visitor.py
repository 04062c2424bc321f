"""The visitor of a page: signing in and out, the visitor's name in the sidebar, and buttons that need a role."""

import functools
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core import access
from core.access import ANONYMOUS, HERE, Role, Visitor
from core.errors import AnamnesisError
from pages.kit.look import plain

T = TypeVar("T")
_LOGIN_CACHE_S = 2.0
"""Seconds for which the secrets are not read again: every read of the store asks for the visitor."""


@functools.lru_cache(maxsize=1)
def _login_configured(_period: int) -> bool:
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def _current_visitor() -> Visitor | None:
    """Return the visitor of the page whose script runs in this thread; ``None`` if there is no login."""
    # There is a login if the secrets have ``[auth]``, or had it when the server started.
    if access.LOGIN not in os.environ and not _login_configured(int(time.monotonic() / _LOGIN_CACHE_S)):
        return None
    if get_script_run_ctx(suppress_warning=True) is None or not st.user.get("is_logged_in"):
        return ANONYMOUS
    claim = access.rules().claim
    name = str(st.user.get(claim) or "").strip()
    # Only True counts: an unverified address may be anyone's, and providers send "false" in several forms.
    trusted = claim != "email" or st.user.get("email_verified") is True
    return access.person(name) if name and trusted else ANONYMOUS


access.ask_who(_current_visitor)


def require_sign_in() -> None:
    """Draw the visitor's name and a sign-out button; without a role, draw only the sign-in page and stop the script."""
    visitor = access.visitor()
    if visitor == HERE:
        return
    if visitor.role is not None:
        with st.sidebar.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/person: {plain(visitor.name)} · may {visitor.role}", width="stretch")
            st.button("Sign out", type="tertiary", icon=":material/logout:", on_click=st.logout, key="sign_out")
        return
    with st.container(width=480):
        st.title("Anamnesis", anchor=False)
        if not st.user.get("is_logged_in"):
            st.markdown("This server is for people who have signed in.")
            auth = st.secrets.get("auth", {}) if st.secrets.load_if_toml_exists() else {}
            providers = [name for name, value in auth.items() if hasattr(value, "keys") and "client_id" in value]
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
            account = f"You have signed in{f' as {plain(name)}' if name else ''}, but have no access yet"
            st.info(f"{account}: ask {plain(access.rules().contact)}.", icon=":material/lock:")
            st.button("Sign out", icon=":material/logout:", on_click=st.logout, key="sign_out")
    st.stop()


def draw_button(
    label: str, why_not: str = "", *, role: Role | None = None, where: Any = st, help: str | None = None, **options: Any
) -> bool:
    """Draw a button and return whether it was pressed. With ``why_not`` (a sentence) it is disabled, and says so."""
    lacking = access.refusal(role) if role else None
    if lacking:
        return bool(where.button(label, disabled=True, help=lacking, **options))
    return bool(draw_control(where.button, label, why_not, where=where, help=help, **options))


def draw_control(draw: Callable[..., T], label: str, why_not: str = "", *, where: Any = st, **options: Any) -> T:
    """Draw a control with ``draw`` and return its value. With ``why_not`` (a sentence) it is disabled, and says so."""
    value = draw(label, disabled=bool(why_not), **options)
    if why_not:
        where.caption(plain(why_not), width="content")
    return value


def offer_file(
    label: str, make: Callable[[], bytes | str], file_name: str, mime: str, key: str, why_not: str = "", **options: Any
) -> None:
    """Draw a button that makes a file when it is downloaded, and its error at the next drawing of the page."""
    failed: dict[str, str] = st.session_state.setdefault("files_failed", {})

    def data() -> bytes | str:  # in another thread, which can draw nothing
        failed.pop(file_name, None)
        try:
            return make()
        except AnamnesisError as error:
            failed[file_name] = str(error)
            raise

    draw_control(
        st.download_button,
        label,
        why_not,
        data=data,
        file_name=file_name,
        mime=mime,
        key=key,
        on_click="ignore",
        **options,
    )
    if file_name in failed:
        st.caption(plain(failed[file_name]))


def only(role: Role, *, help: str | None = None) -> dict[str, Any]:
    """Return arguments of a button that needs a role: without it the button is disabled, and its help says why."""
    lacking = access.refusal(role)
    return {"disabled": bool(lacking), "help": lacking or help}
