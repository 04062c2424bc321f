"""What stands beside a consultation: figures, the facts as they are uncovered, the doctor's differential."""

import time
from collections.abc import Sequence

import streamlit as st

from core.agents.base import Turn
from core.case import Case
from core.events import Called, CallRecord, Event, Probed
from core.frameworks.base import Framework, framework
from core.live.session import Session
from core.measures.coverage import Uncovered, uncovered
from pages.parts.case_pictures import draw_pictures
from pages.parts.look import money, plain

_COST = (
    "By the prices in data/models.toml; the reference cast costs nothing. A plus says that some calls have no known "
    "price."
)

_QUESTIONS = "The doctor's messages after the opening one, or its queries that were passed on."


def draw_figures(session: Session, events: Sequence[Event], known: Framework | None) -> None:
    """Draw turns, tokens, cost and time."""
    calls = [event.call for event in events if isinstance(event, Called)]
    seconds = (session.finished_at or time.time()) - session.started_at
    tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
    with st.container(border=True):
        columns = st.columns(4, gap="xsmall")
        columns[0].metric("Questions", (known or framework()).questions(events), help=_QUESTIONS)
        columns[1].metric("Tokens", f"{tokens:,}", help="Prompt and completion of all roles.")
        columns[2].metric("Cost", cost_of(calls), help=_COST)
        columns[3].metric("Time", f"{seconds:.0f} s" if seconds < 6000 else "—")


def cost_of(calls: Sequence[CallRecord]) -> str:
    """Return what calls cost as far as prices are known; a plus stands for answered calls without a known price."""
    costs = [call.cost_usd for call in calls if call.error is None]
    priced = [cost for cost in costs if cost is not None]
    if costs and not priced:
        return "unknown"
    return f"{money(sum(priced))}{'+' if len(priced) < len(costs) else ''}"


def draw_differential(events: Sequence[Event]) -> None:
    """Draw what the doctor believes after the last turn, where it can say so."""
    probes = [event for event in events if isinstance(event, Probed)]
    st.subheader("Differential", anchor=False, help="What the reference doctor holds likeliest after each reply.")
    if not probes:
        st.caption("Shown for the reference doctor, from the first reply on.")
        return
    before = dict(probes[-2].differential) if len(probes) > 1 else {}
    for diagnosis, probability in probes[-1].differential:
        change = probability - before.get(diagnosis, 0.0)
        arrow = "↑" if change > 0.01 else "↓" if change < -0.01 else ""
        st.progress(min(1.0, probability), text=f"{plain(diagnosis)} — {probability:.0%} {arrow}")


def draw_facts(case: Case, dialogue: Sequence[Turn]) -> None:
    """Draw the case's facts, lit up as the patient gives them away."""
    facts = uncovered(case, dialogue)
    told = [fact for fact in facts if fact.told]
    found = sum(fact.turn is not None for fact in told)
    st.subheader(
        "Facts uncovered", anchor=False,
        help="A fact counts as uncovered when one reply of the patient holds most of its telling words.",
    )  # fmt: skip
    st.progress(found / max(1, len(told)), text=f"{found} of {len(told)} facts that the patient can tell")
    with st.container(height=300, border=True, gap="xsmall"):
        for fact in told:
            _fact(fact)
        examined = [fact for fact in facts if not fact.told]
        if examined:
            st.caption("Only examination and tests show:")
            for fact in examined:
                _fact(fact)


def _fact(item: Uncovered) -> None:
    key = item.fact.key
    name = "" if key == "sentence" else f"{plain(key[:1].upper() + key[1:])}: "
    text = f"{name}{plain(item.fact.value)}"
    if item.turn is None:
        st.markdown(f":gray[:material/radio_button_unchecked: {text}]")
    else:
        st.markdown(f":green[:material/check_circle:] **{text}** :gray[· message {item.turn + 1}]")


def draw_case(case: Case, *, open_: bool, profiled: bool = False, shown: bool | None = None) -> None:
    """Draw the case itself, with its answer out of sight until asked for.

    Played from its profile (``profiled``), nobody who speaks holds the vignette. ``shown`` says whether the
    doctor was shown the case's pictures, ``None`` where that is no question.
    """
    draw_pictures(case, "case", shown=shown)
    held = "The vignette, which was shown to nobody here" if profiled else "The case as the patient holds it"
    with st.expander(held, expanded=open_):
        st.markdown(plain(case.vignette))
    with st.expander("Question, choices and answer"):
        st.markdown(plain(case.question))
        for letter, choice in case.letters.items():
            mark = " :green-badge[answer]" if choice == case.answer else ""
            st.markdown(f"{letter}. {plain(choice)}{mark}")
        if case.answer not in case.choices:
            st.markdown(f"Answer: **{plain(case.answer)}**")
