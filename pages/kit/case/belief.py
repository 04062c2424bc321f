"""What the doctor held likeliest after every reply of one conversation, as curves, and what follows from them."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.case import Case
from core.events import Ended, Event, Probed, Utterance
from core.figures.curves import Point, curves
from core.figures.style import INK, Axis
from core.measures.belief import RIGHT, Trajectory, is_right, trajectory
from pages.kit.case.facts import ledger_of
from pages.kit.figures import draw_figure
from pages.kit.names import model_colours
from pages.kit.tables import offer_csv

_MOST = 6
"""Diagnoses that get a curve of their own: those that were ever likeliest."""
_RIGHT = RIGHT[:1].upper() + RIGHT[1:]


def draw_belief(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the doctor's belief over the turns of a conversation; says how to get one where there is none."""
    probes = sorted((e for e in events if isinstance(e, Probed) and e.differential), key=lambda e: e.turn)
    if not probes:
        st.info(
            "The doctor was not asked what it believed. Switch on “Ask the doctor's belief after every reply” under "
            "More settings and run the case again; the reference doctor shows its belief by itself.",
            icon=":material/psychology:",
        )
        return
    ended = next((event for event in events if isinstance(event, Ended)), None)
    never = None
    if any(isinstance(event, Utterance) for event in events):
        marks = ledger_of(case, events).marks
        never = sum(mark.mark == "never_elicited" and mark.fact.told for mark in marks)
    for sentence in belief_sentences(trajectory(case, probes, ended.reason if ended else None, never)):
        st.markdown(sentence)
    words = (
        f"{len(probes)} beliefs, each after a reply of the patient. Broader names and synonyms of the answer count as "
        "the right diagnosis."
    )
    draw_figure(
        lambda dark: belief_chart(case, probes, dark=dark),
        f"{key}_belief",
        "What the doctor believed after each reply",
        f"One conversation on {case.case_key}. {words}",
    )
    st.caption(words)
    offer_csv(belief_frame(probes), "belief", "Download the belief", key=f"{key}_belief_csv")


def belief_sentences(course: Trajectory) -> list[str]:
    """Return what a course of belief says, in sentences of Markdown; messages are counted from 1."""
    found = []
    if course.first_led is None:
        found.append("The right diagnosis never led.")
    else:
        found.append(f"The right diagnosis led for the first time after message {course.first_led + 1}.")
        if course.lost:
            found.append("It was lost again: at the end another one led.")
        elif course.led_for_good is not None and course.led_for_good != course.first_led:
            found.append(f"It led for good from message {course.led_for_good + 1} on.")
    if course.last_change is not None:
        found.append(f"The leader changed for the last time after message {course.last_change + 1}.")
    if course.premature:
        found.append(
            ":orange-badge[Premature closure] The doctor concluded while its leading diagnosis was wrong or unlikely "
            "and facts that the patient could tell were left."
        )
    if course.over_asked:
        more = "1 more question was" if course.over_asked == 1 else f"{course.over_asked} more questions were"
        found.append(f":blue-badge[Over-asking] {more} answered after the right diagnosis had settled at 90 % or more.")
    return found


def belief_chart(case: Case, probes: Sequence[Probed], *, dark: bool = False) -> go.Figure:
    """Return a curve for each diagnosis that was ever likely; right ones together as one thick curve."""
    shares: list[dict[str, float]] = []
    for probe in probes:
        shares.append({})
        for diagnosis, probability in probe.differential:
            name = _RIGHT if is_right(case, diagnosis) else diagnosis
            shares[-1][name] = shares[-1].get(name, 0.0) + probability
    most = {name: max(one.get(name, 0.0) for one in shares) for one in shares for name in one}
    names = sorted(most, key=lambda name: (name != _RIGHT, -most[name]))[: _MOST + 1]
    points = [
        Point(name, probe.turn + 1, one.get(name, 0.0))
        for name in names
        for probe, one in zip(probes, shares, strict=True)
    ]
    others = [name for name in names if name != _RIGHT]
    return curves(
        points,
        {name: name for name in names},
        {**model_colours(others), _RIGHT: INK[dark]},
        Axis("After message", number="g"),
        Axis("Probability", (0, 1.02), ".0%", None, ".0%"),
        strong=_RIGHT,
        dark=dark,
    ).update_xaxes(tickvals=[probe.turn + 1 for probe in probes])


def belief_frame(probes: Sequence[Probed]) -> pd.DataFrame:
    """Return every belief as rows."""
    return pd.DataFrame(
        [
            {"message": probe.turn + 1, "rank": rank, "diagnosis": diagnosis, "probability": probability}
            for probe in probes
            for rank, (diagnosis, probability) in enumerate(probe.differential, start=1)
        ]
    )
