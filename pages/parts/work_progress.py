"""The progress of work that a page started, with the way to stop it."""

import streamlit as st

from core.work import Work
from pages.parts.look import duration


def draw_work(work: Work[object], doing: str, starting: str, key: str, of: str = "conversations") -> None:
    """Draw how far work on conversations, or something else ``of`` which there are many, is.

    Once it is over, the whole page is drawn again. ``doing`` says what is done ("Marking facts"), ``starting`` what is
    shown before the first count is in.
    """
    if not work.running:
        st.rerun()
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        left = f", about {duration(work.seconds_left)} left" if work.seconds_left else ""
        words = f"{doing}: {work.done:,} of {work.planned:,} {of}{left}" if work.planned else starting
        st.progress(work.done / max(1, work.planned), text=words, width="stretch")
        st.button(
            "Stop", icon=":material/stop:", on_click=work.stop, disabled=work.stopped, key=f"{key}_stop",
            help="What is done by then is kept; it goes on from there.",
        )  # fmt: skip
    st.caption("The figures below are of what was done when this page was last drawn.")


def draw_remembered(replies: int, unused: int) -> None:
    """Say how many replies were not paid for again; ``unused`` ones no longer fit what is asked."""
    if not replies:
        return
    words = f"{replies} {'reply was' if replies == 1 else 'replies were'} given before, and not paid for again."
    if unused:
        words += f" {unused} more are no longer asked for, because the program or its prompts have changed since."
    st.caption(words)
