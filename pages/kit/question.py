"""Asks a model something beside any trial (sections, facts, marks): choose it, press, watch, stop, read the outcome."""

from typing import Any

import streamlit as st

from core.debugger.question import Ask, ask_model, outcome_of
from core.errors import AnamnesisError
from core.events import Called
from core.frameworks.casting import REFERENCE, CastNames, is_model
from core.live.session import Session
from pages.kit.look import money, plain
from pages.kit.seats import Seats, ask_address, ask_seat, seat_problem
from pages.kit.visitor import only

_REDRAW_S = 0.5


def draw_question(key: str, label: str, ask: Ask, subject: str) -> Any | None:
    """Draw the way to ask a model, and return what came of it for this ``subject``, if anything did yet."""
    kept: dict[str, tuple[str, Session]] = st.session_state.setdefault("model_questions", {})
    about, session = kept.get(key, ("", None))
    if about != subject:
        session = None
    if session is not None and session.running:
        st.fragment(_watch, run_every=_REDRAW_S)(session, key)
        return None
    left, right = st.columns(2)
    with left:
        model = ask_seat(key, "grader", label="Model")
    with right:
        address = ask_address(key)
    if is_model(model):
        problem = seat_problem(Seats(CastNames(REFERENCE["doctor"], grader=model), address))
        if problem:
            st.warning(plain(problem), icon=":material/key:")
        if st.button(label, key=f"{key}_go", icon=":material/forum:", **only("run", disabled=bool(problem))):
            try:
                kept[key] = (subject, ask_model(model, ask, f"{label} {subject}", base_url=address))
                st.rerun()
            except AnamnesisError as error:
                st.error(plain(str(error)))
    else:
        st.caption("Choose a language model: this cannot be done by rules.")
    if session is None:
        return None
    if session.error:
        st.error(plain(session.error), icon=":material/cloud_off:")
    outcome = outcome_of(session)
    if outcome is not None:
        calls = [item.call for item in session.snapshot() if isinstance(item, Called)]
        tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
        priced = [call.cost_usd for call in calls]
        cost = "cost unknown" if None in priced else money(sum(c or 0.0 for c in priced)).replace("$", r"\$")
        number = f"{len(calls)} {'call' if len(calls) == 1 else 'calls'}"
        st.caption(f"{plain(session.title)} · {number} · {tokens:,} tokens · {cost}")
    return outcome


def _watch(session: Session, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        said = len(session.draft.text) if session.draft else 0
        st.markdown(f":material/hourglass_top: {plain(session.title)} is answering… :gray[{said:,} characters]")
        st.button("Stop", icon=":material/stop:", key=f"{key}_stop", on_click=session.stop)
    if not session.running:
        st.rerun()
