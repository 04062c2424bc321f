"""A session on the page: controls, chat, answers, and the panels beside them, redrawn while it runs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import streamlit as st

from core.agents.base import Turn
from core.case import Case
from core.events import Ended, Finished, Speaker, Started, Utterance
from core.export.reading import was_shown
from core.frameworks.base import Framework, framework
from core.journal import RunHeader
from core.live.session import Session
from pages.parts.live_facts import draw_gathered
from pages.parts.live_panels import draw_case, draw_differential, draw_facts, draw_figures
from pages.parts.live_sessions import Shown, draw_resume
from pages.parts.look import plain
from pages.parts.navigation import BRANCHES
from pages.parts.setup import case_label
from pages.parts.take_away import draw_take_away, draw_take_away_unstored
from pages.parts.transcript import draw_answers, draw_chat, hides_thoughts
from pages.parts.work_progress import draw_remembered

_SPEEDS = {"0.5×": 0.5, "1×": 1.0, "2×": 2.0, "4×": 4.0, "At once": 1000.0}
_REPEATED_WITHIN_S = 1.5
"""Nobody reads a reply and writes the same words again in so many seconds."""
REDRAW_S = 0.4
"""Seconds between two looks at what is going on."""


def draw_session(
    shown: Shown, on_new: Callable[[], None], on_again: Callable[[Shown], None], *, forks: bool = True
) -> None:
    """Draw a session; while it runs, it is redrawn a few times a second. ``forks`` links it to where it can fork."""
    session = shown.session

    def draw() -> None:
        draw_controls((session,), shown.case, on_new, lambda: on_again(shown), lambda: _take_on(shown, forks=forks))
        _body(shown)
        if (sent := st.session_state.get(_sending(session))) is not None:
            st.session_state[_sending(session)] = replace(sent, drawn_at=sent.drawn_at or time.monotonic())

    redrawn([session], draw)


def redrawn(sessions: Sequence[Session], draw: Callable[[], None]) -> None:
    """Draw; while a session runs a few times a second, and the whole page anew when the last one is over."""
    running = any(session.running for session in sessions)

    @st.fragment(run_every=REDRAW_S if running else None)
    def live() -> None:
        draw()
        if running and not any(session.running for session in sessions):
            st.rerun()

    live()


def draw_controls(
    sessions: Sequence[Session],
    case: Case | None,
    on_new: Callable[[], None],
    on_again: Callable[[], None],
    more: Callable[[], None] = lambda: None,
) -> None:
    """Draw the buttons that hold, step, stop and speed up sessions, when all are over those to begin again; ``more``.

    ``more`` draws what stands behind them.
    """

    def everyone(what: Callable[[Session], None]) -> None:
        for session in sessions:
            what(session)

    with st.container(horizontal=True, vertical_alignment="center"):
        if any(session.running for session in sessions):
            if any(session.paused for session in sessions):
                st.button(
                    "Go on", icon=":material/play_arrow:", on_click=everyone, args=(Session.resume,), shortcut="p"
                )
            else:
                st.button("Pause", icon=":material/pause:", on_click=everyone, args=(Session.pause,), shortcut="p")
            st.button(
                "Step", icon=":material/skip_next:", on_click=everyone, args=(Session.step,), shortcut="s",
                help="One message, then hold.",
            )  # fmt: skip
            st.button("Stop", icon=":material/stop:", on_click=everyone, args=(Session.stop,))
            _speed(sessions)
        else:
            if st.button("New consultation", icon=":material/add:", type="primary"):
                on_new()
                st.rerun()
            if all(session.events for session in sessions) and st.button("Play again", icon=":material/replay:"):
                on_again()
                st.rerun()
        more()
        if case is not None:
            st.caption(plain(case_label(case)))


def _take_on(shown: Shown, *, forks: bool) -> None:
    """Link a consultation to where it can be forked; when it is over, let it be taken away."""
    if forks:
        draw_fork_link(shown)
    session, header = shown.session, shown.session.meta.get("header")
    if session.running:
        return
    if isinstance(header, RunHeader) and not any(isinstance(event, Finished) for event in session.snapshot()):
        draw_resume(header, session.key, session.spoken)
    draw_take_away_watched([shown], key="live")


def draw_fork_link(shown: Shown) -> None:
    """Link a consultation that is stored, or runs and has begun, to where it can be forked, if its framework can."""
    events, known = shown.session.snapshot(), shown.known
    if known is not None and known.cannot_fork:
        return
    started = next((event for event in events if isinstance(event, Started)), None)
    under_way = shown.session.running and "header" in shown.session.meta
    if started is None or not (under_way or any(isinstance(event, Finished) for event in events)):
        return
    st.page_link(
        BRANCHES, label="Fork from here", icon=":material/fork_right:",
        query_params={"trial": started.trial_id, "fork": "yes"},
        help="Take it up at any message: change what is said, the model, the persona or the prompts, and run on.",
    )  # fmt: skip


def draw_take_away_watched(watched: Sequence[Shown], key: str) -> None:
    """Let consultations be taken away: as they are stored, or what was said in those that were stopped."""
    held = [shown.session.snapshot() for shown in watched]
    if all(any(isinstance(event, Finished) for event in events) for events in held):
        draw_take_away([shown.trial_id for shown in watched], key)
    elif all(any(isinstance(event, Started) for event in events) for events in held):
        headers = [shown.session.meta.get("header") for shown in watched]
        draw_take_away_unstored(
            [
                (shown.case, events, header if isinstance(header, RunHeader) else None)
                for shown, events, header in zip(watched, held, headers, strict=True)
            ],
            key,
        )


def _speed(sessions: Sequence[Session]) -> None:
    """Ask for the speed. Only a change is passed on: several visitors may watch one consultation."""
    key = f"speed_{sessions[0].key}"

    def change() -> None:
        for session in sessions:
            session.speed = _SPEEDS.get(st.session_state[key], session.speed)

    now = next((name for name, speed in _SPEEDS.items() if speed == sessions[0].speed), "1×")
    st.segmented_control(
        "Speed", list(_SPEEDS), default=now, key=key, label_visibility="collapsed", required=True, on_change=change
    )


def _body(shown: Shown) -> None:
    session, case = shown.session, shown.case
    events = session.snapshot()
    dialogue = [Turn(e.role, e.text) for e in events if isinstance(e, Utterance)]
    known = shown.known
    tested = (known or framework()).tested.role
    human_doctor = session.meta.get(tested) == "human" and session.running
    left, right = st.columns([5, 3], gap="medium")
    with left:
        with st.container(height=520, autoscroll=True, border=True, gap="xxsmall", key=f"chat_{session.key}"):
            thoughts: dict[str, str] | None = {} if hides_thoughts(session) else None
            draw_chat(events, session.draft, known=known, thoughts=thoughts)
        _seat(session, known or framework())
        if session.error:
            st.error(plain(session.error))
        if (unit := session.unit) is not None:
            draw_remembered(unit.remembered, unit.unused if unit.calls > unit.remembered else 0)
        draw_answers(session, events, known)
    with right:
        draw_figures(session, events, known)
        if human_doctor:
            st.info("Facts and case are shown when the consultation is over.", icon=":material/visibility_off:")
            return
        draw_differential(events)
        if case is None:
            return
        profiled = known is not None and known.needs_profile
        if profiled:
            draw_gathered(case, dialogue)
        else:
            draw_facts(case, dialogue)
        human = session.meta.get("patient") == "human" and session.running
        draw_case(case, open_=human and not profiled, profiled=profiled, shown=was_shown(events))


def _seat(session: Session, known: Framework) -> None:
    """Let a human speak. The box stays while the others speak, so that nothing typed into it is lost."""
    role = _human_seat(session, known.tested.role)
    if role is None:
        return
    waiting = session.waiting
    prompt = waiting.prompt if waiting is not None else ""
    if prompt:
        with st.container(key=f"asked_{session.key}"):
            st.info(plain(prompt), icon=":material/quiz:")
    if session.unsent is not None:
        st.warning(f"This was not sent, because something else was asked by then: {plain(session.unsent)}")
    key = f"say_{session.key}"

    def send() -> None:
        text = str(st.session_state[key])
        # a run that is broken off by the next redraw is repeated with what it was sent: say it once only
        before: _Sent | None = st.session_state.get(_sending(session))
        if before is None or not before.again(text, prompt):
            st.session_state[_sending(session)] = _Sent(text, prompt)
            session.say(role, text, prompt)

    invitation = "Your answer" if prompt else known.invitation(role)
    st.chat_input(invitation, key=key, on_submit=send)


@dataclass(frozen=True)
class _Sent:
    """What was said last, to what, and when the run that was sent it had drawn the page."""

    text: str
    prompt: str
    drawn_at: float | None = None

    def again(self, text: str, prompt: str) -> bool:
        """Say whether this is the same message once more: sent before its run was over, or hardly after that."""
        at_once = self.drawn_at is None or time.monotonic() - self.drawn_at < _REPEATED_WITHIN_S
        return at_once and (text, prompt) == (self.text, self.prompt)


def _sending(session: Session) -> str:
    """Return where the last message of a visitor is noted."""
    return f"sending_{session.key}"


def _human_seat(session: Session, tested: str) -> Speaker | None:
    """Return the seat from which a human speaks now or next, or ``None`` where no human has more to say."""
    if session.waiting is not None:
        return session.waiting.role
    if not session.running:
        return None
    talking = not any(isinstance(event, Ended) for event in session.snapshot())
    people: list[Speaker] = [role for role in get_args(Speaker) if session.meta.get(role) == "human"]
    return next((role for role in people if talking or role == tested), None)
