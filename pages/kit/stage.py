"""A consultation on a stage: large, without the sidebar, for people who look on from across a room."""

from collections.abc import Callable, Sequence

import streamlit as st

from core.events import Answered, Ended, Event, Graded, Probed
from core.frameworks.base import framework
from pages.kit.chat import hides_thoughts
from pages.kit.look import QUESTION_TYPE, VERDICT, plain
from pages.kit.names import model_name
from pages.kit.profiles import counted
from pages.kit.seats import case_label
from pages.kit.sessions import Shown
from pages.kit.watched import draw_controls, draw_seat, draw_watched_chat, facts_to_ask, redrawn

_KEY = "present"
_MOST = 4
"""Diagnoses of a differential, and verdicts, that are read from afar."""
_STYLE = """<style>
[data-testid="stSidebar"], [data-testid="stExpandSidebarButton"], [data-testid="stHeader"], h1 { display: none; }
.stMainBlockContainer { max-width: 100%; padding: 0.8rem 2.5rem; }
.st-key-stage p, .st-key-stage li, .st-key-stage button, .st-key-stage [data-testid="stCaptionContainer"],
.st-key-stage label, .st-key-stage textarea { font-size: 26px !important; line-height: 1.35; }
.st-key-stage h2 { font-size: 38px !important; padding: 0; }
.st-key-stage h3 { font-size: 30px !important; padding: 0; }
.st-key-stage [class*="stMarkdownBadge"], .st-key-stage [class*="stMarkdownBadge"] * { font-size: 26px !important; }
.st-key-stage [data-testid="stIconMaterial"] { font-size: 28px !important; }
</style>"""


def ask_to_present() -> bool:
    """Ask whether to show it large; the answer stands in the address."""
    return st.toggle(
        "Presentation",
        key=_KEY,
        bind="query-params",
        help="Large type, no sidebar: names and verdict on top, for an audience.",
    )


def presenting() -> bool:
    """Say whether a consultation is to be shown large."""
    return bool(st.session_state.get(_KEY, st.query_params.get(_KEY) == "true"))


def draw_stage(sides: Sequence[Shown], on_new: Callable[[], None], on_again: Callable[[], None]) -> None:
    """Draw one consultation or two side by side, large; redrawn a few times a second while they run."""
    sessions = [shown.session for shown in sides]
    st.html(_STYLE)

    def draw() -> None:
        with st.container(key="stage"):
            st.header(plain(_headline(sides)), anchor=False)
            for column, shown in zip(st.columns(len(sides), gap="large"), sides, strict=True):
                with column:
                    if len(sides) > 1:
                        st.subheader(plain(_who(shown)), anchor=False)
                    _draw_outcome(shown)
                    _draw_side(shown, alone=len(sides) == 1)
            draw_controls(sessions, None, on_new, on_again, ask_to_present)

    redrawn(sessions, draw)


def _headline(sides: Sequence[Shown]) -> str:
    case = sides[0].case
    words = f" · {case_label(case)}" if case is not None else ""
    return f"{_who(sides[0])}{words}" if len(sides) == 1 else f"Side by side{words}"


def _who(shown: Shown) -> str:
    known, meta = shown.known or framework(), shown.session.meta
    tested = known.title_of(known.tested.role)
    doctor = model_name(shown.doctor) if shown.doctor else tested
    patient = str(meta.get("patient") or "")
    return f"{tested}: {doctor}" + (f" · Patient: {model_name(patient)}" if patient else "")


def _draw_outcome(shown: Shown) -> None:
    """Draw the verdicts and the right answer once the consultation has ended, and before that where it stands."""
    session, events = shown.session, shown.session.snapshot()
    known = shown.known or framework()
    grades = _verdicts(events, known.mcq_rule)
    if not grades:
        state = "Paused" if session.paused else "Answering" if any(isinstance(e, Ended) for e in events) else "Talking"
        words = f"{state} · {counted(known.questions(events), 'question')}" if session.running else "Stopped"
        st.markdown(f":gray-badge[{words}]")
        return
    st.markdown(
        " · ".join(
            f":{VERDICT[grade.verdict][1]}-badge[{VERDICT[grade.verdict][2]} {VERDICT[grade.verdict][0]}] "
            f"{QUESTION_TYPE[grade.question_type]}"
            for grade in grades[:_MOST]
        )
    )
    # who still has to answer is not told
    if shown.case is not None and not session.running:
        st.markdown(f"Right answer: **{plain(shown.case.answer)}**")


def _verdicts(events: Sequence[Event], rule: str) -> list[Graded]:
    """Return the newest verdict on each answer after the conversation, or on all where none came after one."""
    other = "mcq_loose" if rule == "mcq_strict" else "mcq_strict"
    grades = {(e.format, e.question_type): e for e in events if isinstance(e, Graded) and e.rule != other}
    after = [grade for (format_, _), grade in grades.items() if format_ != "vignette"]
    return after or list(grades.values())


def _draw_side(shown: Shown, *, alone: bool) -> None:
    events = shown.session.snapshot()
    left, right = st.columns([5, 3], gap="large") if alone else (st.container(), st.container())
    with left:
        # who plays is to see what is asked, below
        height = 360 if hides_thoughts(shown.session) else 700 if alone else 480
        draw_watched_chat(shown, events, height=height)
        known, session = shown.known or framework(), shown.session
        if alone:
            draw_seat(session, known, f"sending_{session.key}")
        if session.error:
            st.error(plain(session.error))
    if session.running and session.meta.get(known.tested.role) == "human":
        return  # who plays the doctor is not shown what there is to find
    with right:
        facts = facts_to_ask(shown)
        told = sum(fact.turn is not None for fact in facts)
        if facts:
            st.progress(told / len(facts), text=f"{told} of {len(facts)} facts uncovered")
        answers = [event for event in events if isinstance(event, Answered) and event.response]
        probes = [event for event in events if isinstance(event, Probed)]
        for diagnosis, probability in (probes[-1].differential if probes else ())[:_MOST]:
            st.progress(min(1.0, probability), text=f"{plain(diagnosis)} {probability:.0%}")
        if answers and not shown.session.running and alone:
            st.markdown(f"Answer: {plain(answers[-1].response or '')}")
