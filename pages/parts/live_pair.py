"""Two consultations on one case side by side: two doctors, or one doctor and two patients, message by message."""

import pandas as pd
import streamlit as st

from core.agents.base import Turn
from core.events import Answered, Called, Event, Graded, Rated, Utterance
from core.frameworks.base import framework
from core.measures.coverage import gathered, uncovered
from core.persona import label as persona_label
from core.persona import parse_persona
from pages.parts.figures import model_name
from pages.parts.live_panels import cost_of, draw_case, draw_differential, draw_figures
from pages.parts.live_sessions import Shown, leave, play_pair_again
from pages.parts.live_view import draw_controls, draw_fork_link, draw_take_away_watched, redrawn
from pages.parts.look import VERDICT, arm, plain
from pages.parts.setup import case_label
from pages.parts.transcript import draw_answers, draw_chat, hides_thoughts


def draw_pair(left: Shown, right: Shown) -> None:
    """Draw both; while either runs they are redrawn a few times a second."""
    sessions = (left.session, right.session)
    cases = list({shown.case.case_key: shown.case for shown in (left, right) if shown.case}.values())
    if len(cases) > 1:
        st.warning("These two are about different cases, so what they came to does not compare.")

    def draw() -> None:
        shared = cases[0] if len(cases) == 1 else None
        draw_controls(sessions, shared, leave, lambda: play_pair_again(left, right))
        for column, shown, other in zip(st.columns(2, gap="medium"), (left, right), (right, left), strict=True):
            with column:
                _side(shown, other)

    redrawn(sessions, draw)
    if not any(session.running for session in sessions):
        _draw_outcome(left, right)
    for case in cases:
        if len(cases) > 1:
            st.markdown(f"**{plain(case_label(case))}**")
        draw_case(case, open_=False, profiled=_profiled(left))


def side_name(shown: Shown, other: Shown) -> str:
    """Return what sets one side apart: its doctor, its persona, or both."""
    patient = f"patient: {persona_label(parse_persona(shown.persona))}"
    doctor = model_name(shown.doctor) if shown.doctor else "Doctor not recorded"
    if shown.doctor == other.doctor and shown.persona != other.persona:
        return patient[:1].upper() + patient[1:]
    return doctor if shown.persona == other.persona else f"{doctor} · {patient}"


def _side(shown: Shown, other: Shown) -> None:
    session = shown.session
    events = session.snapshot()
    st.subheader(plain(side_name(shown, other)), anchor=False)
    with st.container(height=460, autoscroll=True, border=True, gap="xxsmall", key=f"chat_{session.key}"):
        draw_chat(events, session.draft, known=shown.known, thoughts={} if hides_thoughts(session) else None)
    if session.error:
        st.error(plain(session.error))
    draw_figures(session, events, shown.known)
    _facts(shown, events)
    draw_differential(events)
    draw_answers(session, events, shown.known)
    draw_fork_link(shown)


def _profiled(shown: Shown) -> bool:
    known = shown.known
    return known is not None and known.needs_profile


def _facts(shown: Shown, events: list[Event]) -> None:
    if shown.case is None:
        return
    told, found = _uncovered(shown, events)
    by_whom = "patient and staff" if _profiled(shown) else "the patient"
    st.progress(found / max(1, told), text=f"{found} of {told} facts that {by_whom} can tell")


def _uncovered(shown: Shown, events: list[Event]) -> tuple[int, int]:
    """Return how many facts there are to be asked for, and how many of them were told."""
    if shown.case is None:
        return 0, 0
    dialogue = [Turn(e.role, e.text) for e in events if isinstance(e, Utterance)]
    if _profiled(shown):
        sought = gathered(shown.case, dialogue)
        return len(sought.asked), sought.brought
    told = [fact for fact in uncovered(shown.case, dialogue) if fact.told]
    return len(told), sum(fact.turn is not None for fact in told)


def _draw_outcome(left: Shown, right: Shown) -> None:
    """Draw what both came to as one table."""
    names = [side_name(left, right), side_name(right, left)]
    if names[0] == names[1]:
        names = [f"{name} ({place})" for name, place in zip(names, ("left", "right"), strict=True)]
    columns = [_outcome(shown) for shown in (left, right)]
    rows = list(dict.fromkeys([*columns[0], *columns[1]]))
    table = pd.DataFrame({name: [c.get(row, "—") for row in rows] for name, c in zip(names, columns, strict=True)})
    table.insert(0, "", rows)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Both at a glance", anchor=False)
        draw_take_away_watched([left, right], key="pair")
    st.dataframe(table, hide_index=True)
    st.caption("One consultation each: an impression, no comparison. Runs over many cases are compared under Compare.")


def _outcome(shown: Shown) -> dict[str, str]:
    events = shown.session.snapshot()
    calls = [event.call for event in events if isinstance(event, Called)]
    told, found = _uncovered(shown, events)
    known = shown.known or framework()
    rows = {"Questions": str(known.questions(events)), "Facts uncovered": f"{found} of {told}"}
    rows["Tokens"] = f"{sum(call.prompt_tokens + call.completion_tokens for call in calls):,}"
    rows["Cost"] = cost_of(calls)
    other = "mcq_loose" if known.mcq_rule == "mcq_strict" else "mcq_strict"
    for event in events:
        if isinstance(event, Answered) and event.reason is not None:
            rows[arm(event.format, event.question_type)] = VERDICT[event.reason][0]
        elif isinstance(event, Rated):
            rows[event.quality.capitalize()] = f"{event.rating or '–'} of 5"
        elif isinstance(event, Graded) and event.rule != other:
            rows[arm(event.format, event.question_type)] = VERDICT[event.verdict][0]
    return rows
