"""What the doctor held likeliest after every reply of one conversation, as curves, and what follows from them."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.case import Case
from core.events import Ended, Event, Probed, Utterance
from core.figures.style import FAINT, INK
from core.measures.belief import RIGHT, Trajectory, is_right, trajectory
from pages.parts.accuracy_view import is_dark
from pages.parts.case_facts import ledger_of
from pages.parts.figure_controls import CHART
from pages.parts.figures import model_colours

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
    course = _trajectory(case, events, probes)
    for sentence in belief_sentences(course):
        st.markdown(sentence)
    options = {"toImageButtonOptions": {"format": "svg", "filename": f"belief-{case.case_key.replace('/', '-')}"}}
    st.plotly_chart(belief_chart(case, probes, dark=is_dark()), config={**CHART, **options}, key=f"{key}_belief")
    st.caption(
        f"{len(probes)} beliefs, each after a reply of the patient. Broader names and synonyms of the answer count as "
        "the right diagnosis."
    )
    st.download_button(
        "Download the belief", lambda: belief_frame(probes).to_csv(index=False).encode(), "belief.csv", "text/csv",
        icon=":material/download:", on_click="ignore", type="tertiary", key=f"{key}_belief_csv",
    )  # fmt: skip


def _trajectory(case: Case, events: Sequence[Event], probes: Sequence[Probed]) -> Trajectory:
    ended = next((event for event in events if isinstance(event, Ended)), None)
    never = None
    if any(isinstance(event, Utterance) for event in events):
        marks = ledger_of(case, events).marks
        never = sum(mark.mark == "never_elicited" and mark.fact.told for mark in marks)
    return trajectory(case, probes, ended.reason if ended else None, never)


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
        found.append(
            f":blue-badge[Over-asking] {_questions(course.over_asked)} answered after the right diagnosis had settled "
            "at 90 % or more."
        )
    return found


def _questions(count: int) -> str:
    return "1 more question was" if count == 1 else f"{count} more questions were"


def belief_chart(case: Case, probes: Sequence[Probed], *, dark: bool = False) -> go.Figure:
    """Return a curve for each diagnosis that was ever likely; right ones together as one thick curve."""
    turns = [probe.turn + 1 for probe in probes]
    listed = [_merged(case, probe) for probe in probes]
    names = sorted({name for one in listed for name in one}, key=lambda n: (n != _RIGHT, -max(_over(listed, n))))
    colours = model_colours([name for name in names if name != _RIGHT][:_MOST])
    figure = go.Figure()
    for name in names[: _MOST + 1]:
        right = name == _RIGHT
        figure.add_scatter(
            name=name, mode="lines+markers", x=turns, y=_over(listed, name),
            line={"color": INK[dark] if right else colours.get(name), "width": 4 if right else 2},
            marker={"size": 7, "symbol": "diamond" if right else "circle"},
            hovertemplate="%{fullData.name}<br>after message %{x}: %{y:.0%}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        height=360, margin={"l": 8, "r": 8, "t": 8, "b": 8}, hovermode="closest",
        xaxis={"title": "After message", "tickvals": turns, "gridcolor": FAINT[dark], "zeroline": False},
        yaxis={"title": "Probability", "range": [0, 1.02], "tickformat": ".0%", "gridcolor": FAINT[dark]},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
    )  # fmt: skip
    return figure


def _merged(case: Case, probe: Probed) -> dict[str, float]:
    """Return diagnosis → probability, with all right ones under one name."""
    merged: dict[str, float] = {}
    for name, probability in probe.differential:
        shown = _RIGHT if is_right(case, name) else name
        merged[shown] = merged.get(shown, 0.0) + probability
    return merged


def _over(listed: Sequence[dict[str, float]], name: str) -> list[float]:
    return [one.get(name, 0.0) for one in listed]


def belief_frame(probes: Sequence[Probed]) -> pd.DataFrame:
    """Return every belief as rows."""
    return pd.DataFrame(
        [
            {"message": probe.turn + 1, "rank": rank, "diagnosis": diagnosis, "probability": probability}
            for probe in probes
            for rank, (diagnosis, probability) in enumerate(probe.differential, start=1)
        ]
    )
