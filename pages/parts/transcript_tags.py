"""A message of AutoMedic's doctor: to whom it went as a badge, what was passed on, and what broke the protocol."""

from collections.abc import Callable

import streamlit as st

from core.events import Misused
from core.frameworks.automedic.messages import GOES, Goes, message_of
from core.words import ROLE, misused
from pages.parts.look import ROLE_ICON, plain

_BADGE: dict[Goes, tuple[str, str]] = {
    "patient": ("blue", ROLE_ICON["patient"]),
    "staff": ("violet", ROLE_ICON["staff"]),
    "both": ("blue", ":material/groups:"),
    "end": ("gray", ":material/flag:"),
    "nowhere": ("orange", ":material/block:"),
}


def role_badge(role: str) -> str:
    """Return who speaks as a small badge, for those whom the side of the chat does not tell apart."""
    return f":violet-badge[{ROLE[role]}]"  # type: ignore[index]


def draw_tagged(text: str, misuse: Misused | None, written: Callable[[str], str] = plain) -> None:
    """Draw one message; all of it as it was written where it was misused, else on demand if it holds more.

    ``written`` makes Markdown of what a model wrote.
    """
    shown = message_of(text)
    colour, icon = _BADGE[shown.goes]
    badge = f":{colour}-badge[{icon} {GOES[shown.goes]}]"
    st.markdown(f"{badge}  \n{written(shown.text)}" if shown.text else badge)
    if misuse is not None:
        quote = f" “{plain(misuse.detail)}”" if misuse.detail else ""
        st.caption(f":orange[:material/warning:] {plain(misused(misuse.kinds))}{quote}")
    if shown.whole is None:
        return
    if misuse is not None and shown.goes != "nowhere":
        st.caption(f"As it was written: {written(shown.whole)}")
    elif misuse is None:
        with st.popover("As it was written", type="tertiary"):
            st.markdown(written(shown.whole))
