"""The facts of a case's profile beside its consultation, by who holds them, lit up as they come to the doctor."""

from collections.abc import Sequence

import streamlit as st

from core.agents.base import Turn
from core.case import Case, Fact
from core.measures.coverage import Gathered, Uncovered, gathered
from pages.parts.data_words import PARTS
from pages.parts.look import plain

_HELP = (
    "The doctor is told the demographics; all else it has to ask for, the patient or the clinical staff. A fact counts "
    "as brought when one reply of who holds it has most of its telling words."
)
_HEIGHT = 380


def draw_gathered(case: Case, dialogue: Sequence[Turn]) -> None:
    """Draw every fact of the profile under who holds it."""
    found = gathered(case, dialogue)
    st.subheader("Facts gathered", anchor=False, help=_HELP)
    st.progress(found.brought / max(1, len(found.asked)), text=gathered_words(found))
    with st.container(height=_HEIGHT, border=True, gap="xsmall"):
        _head("demographics")
        for known in found.known:
            st.markdown(f":green[:material/check_circle:] {_words(known)}")
        _head("basic")
        for fact in found.patient:
            _fact(fact)
        _head("optional")
        for fact in found.staff:
            _fact(fact)
        if not found.staff:
            st.caption("The case has no results; the staff says that nothing is available.")


def gathered_words(found: Gathered) -> str:
    """Return how much of what either holds has come to the doctor."""
    told, shown = (sum(fact.turn is not None for fact in facts) for facts in (found.patient, found.staff))
    return f"{told} of the patient’s {len(found.patient)} facts, {shown} of the staff’s {len(found.staff)}"


def _head(part: str) -> None:
    who, icon, how = PARTS[part]
    st.caption(f":material/{icon}: **{who}**", help=how)


def _fact(item: Uncovered) -> None:
    if item.turn is None:
        st.markdown(f":gray[:material/radio_button_unchecked: {_words(item.fact)}]")
    else:
        st.markdown(f":green[:material/check_circle:] **{_words(item.fact)}** :gray[· message {item.turn + 1}]")


def _words(fact: Fact) -> str:
    made_up = " (imputed)" if fact.imputed else ""
    return f"{plain(fact.key[:1].upper() + fact.key[1:])}: {plain(fact.value)}{made_up}"
