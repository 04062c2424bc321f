"""A session on the page: controls, chat, answers, and the panels beside them, redrawn while it runs."""

from collections.abc import Callable

import streamlit as st

from core.agents.base import Turn
from core.events import Utterance
from core.live.session import Session
from pages.parts.live_panels import draw_case, draw_differential, draw_facts, draw_figures
from pages.parts.live_sessions import Shown
from pages.parts.look import plain
from pages.parts.setup import case_label
from pages.parts.transcript import draw_answers, draw_chat

_SPEEDS = {"0.5×": 0.5, "1×": 1.0, "2×": 2.0, "4×": 4.0, "At once": 1000.0}
_REDRAW_S = 0.4


def draw_session(shown: Shown, on_new: Callable[[], None], on_again: Callable[[Shown], None]) -> None:
    """Draw a session; while it runs, it is redrawn a few times a second."""
    session = shown.session

    @st.fragment(run_every=_REDRAW_S if session.running else None)
    def live() -> None:
        _controls(shown, on_new, on_again)
        _body(shown)
        if not session.running and not st.session_state.get(f"over_{session.key}"):
            st.session_state[f"over_{session.key}"] = True
            st.rerun()

    live()


def _controls(shown: Shown, on_new: Callable[[], None], on_again: Callable[[Shown], None]) -> None:
    session = shown.session
    with st.container(horizontal=True, vertical_alignment="center"):
        if session.running:
            if session.paused:
                st.button("Go on", icon=":material/play_arrow:", on_click=session.resume, shortcut="p")
            else:
                st.button("Pause", icon=":material/pause:", on_click=session.pause, shortcut="p")
            st.button(
                "Step", icon=":material/skip_next:", on_click=session.step, shortcut="s", help="One message, then hold."
            )
            st.button("Stop", icon=":material/stop:", on_click=session.stop)
            _speed(session)
        else:
            if st.button("New consultation", icon=":material/add:", type="primary"):
                on_new()
                st.rerun()
            if session.events and st.button("Play again", icon=":material/replay:"):
                on_again(shown)
                st.rerun()
        if shown.case is not None:
            st.caption(plain(case_label(shown.case)))


def _speed(session: Session) -> None:
    """Ask for the speed. Only a change is passed on: several visitors may watch one consultation."""
    key = f"speed_{session.key}"

    def change() -> None:
        session.speed = _SPEEDS.get(st.session_state[key], session.speed)

    now = next((name for name, speed in _SPEEDS.items() if speed == session.speed), "1×")
    st.segmented_control(
        "Speed", list(_SPEEDS), default=now, key=key, label_visibility="collapsed", required=True, on_change=change
    )


def _body(shown: Shown) -> None:
    session, case = shown.session, shown.case
    events = session.snapshot()
    dialogue = [Turn(e.role, e.text) for e in events if isinstance(e, Utterance)]
    human_doctor = session.meta.get("doctor") == "human" and session.running
    left, right = st.columns([5, 3], gap="medium")
    with left:
        with st.container(height=520, autoscroll=True, border=True, gap="xxsmall", key=f"chat_{session.key}"):
            draw_chat(events, session.draft)
        _seat(session)
        if session.error:
            st.error(plain(session.error))
        draw_answers(session, events)
    with right:
        draw_figures(session, events)
        if human_doctor:
            st.info("Facts and case are shown when you have given your diagnosis.", icon=":material/visibility_off:")
            return
        draw_differential(events)
        if case is not None:
            draw_facts(case, dialogue)
            draw_case(case, open_=session.meta.get("patient") == "human" and session.running)


def _seat(session: Session) -> None:
    """Let a human speak when it is their turn."""
    waiting = session.waiting
    if waiting is None:
        return
    if waiting.prompt:
        st.info(plain(waiting.prompt), icon=":material/quiz:")
    ask = "Ask the patient one question, or write Final Diagnosis: and its name"
    invitation = {"doctor": ask, "patient": "Answer the doctor"}[waiting.role]
    text = st.chat_input(invitation if not waiting.prompt else "Your diagnosis", key=f"say_{session.key}")
    if text:
        session.say(waiting.role, text)
