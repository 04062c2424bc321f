"""The facts ledger of one conversation: what was asked, came unasked or never came; what was withheld or invented."""

import functools
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.agents.base import Turn
from core.agents.ledger_models import Fault, JudgedPatient, Mark
from core.case import Case
from core.events import Event, Started, Utterance
from core.figures.style import FAINT
from core.measures.ledger.marks import MEASURED, FactMark, Ledger, coverage, ledger
from core.text.facts import AtomicFact
from pages.parts.accuracy_view import is_dark
from pages.parts.case_facts_edit import draw_fact_editor, facts_in_use
from pages.parts.case_judge import draw_judge
from pages.parts.facts_judging import draw_form, judge_words, judged_here, verdict_words
from pages.parts.figure_controls import CHART
from pages.parts.look import plain
from pages.parts.transcript import message

_MARK: dict[Mark, str] = {"asked": "✓ Asked", "volunteered": "↑ Volunteered", "never_elicited": "✗ Never elicited"}
_INK: dict[Mark, tuple[str, str]] = {
    "asked": ("#00694A", "#3DCB9B"), "volunteered": ("#005C8F", "#7CC4EE"), "never_elicited": ("#B03A00", "#FF8A50"),
}  # fmt: skip
_LINE = "#0072B2"


def ledger_of(case: Case, events: Sequence[Event]) -> Ledger:
    """Return the marks of a conversation on the facts that are in use for its case."""
    dialogue = tuple(Turn(e.role, e.text) for e in events if isinstance(e, Utterance))
    return _ledger(case, dialogue, facts_in_use(case))


@functools.lru_cache(maxsize=64)
def _ledger(case: Case, dialogue: tuple[Turn, ...], facts: tuple[AtomicFact, ...]) -> Ledger:
    return ledger(case, dialogue, facts)


def draw_facts_ledger(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the ledger of a conversation: its figures, coverage over turns, every fact, and what a model judged."""
    said = [event for event in events if isinstance(event, Utterance)]
    if not any(event.role == "patient" for event in said):
        st.info("The patient has said nothing in this trial, so there is no ledger.", icon=":material/fact_check:")
        return
    found = ledger_of(case, events)
    judged = judged_here(trial_of(events))
    _draw_figures(found, judged[0] if judged else None)
    _draw_coverage(case, found, key)
    _draw_facts(found, said, key)
    for turn in found.leaked:
        st.markdown(f":red-badge[:material/lock_open: Leaked] In message {turn + 1} the patient named the diagnosis.")
    draw_patient(trial_of(events), key)
    draw_judge(found, [Turn(event.role, event.text) for event in said], _MARK, key)
    draw_fact_editor(case, key)


def trial_of(events: Sequence[Event]) -> str | None:
    """Return the trial whose events these are; ``None`` where it did not come to its end."""
    started = next((event for event in events if isinstance(event, Started)), None)
    over = any(event.kind == "finished" for event in events)
    return started.trial_id if started is not None and over else None


def draw_patient(trial_id: str | None, key: str) -> None:
    """Draw what each judge says that the patient withheld and invented, with its words, and the way to ask one."""
    for judged in judged_here(trial_id):
        dropped = f"; {judged.dropped} dropped, whose quotation is not there" if judged.dropped else ""
        nothing = "" if judged.verdicts else ": nothing withheld, nothing invented"
        st.markdown(f":gray[:material/gavel: Judged by {judge_words(judged)}{nothing}{dropped}]")
        for one in judged.verdicts:
            st.markdown(verdict_words(one))
    if not judged_here(trial_id):
        st.markdown(":gray-badge[:material/gavel: Not judged] What the patient withheld or invented no rule decides.")
    with st.expander("Have a model judge what the patient withheld and invented", icon=":material/gavel:"):
        if trial_id is None:
            st.caption("It can be judged once the trial has come to its end and is stored.")
        else:
            draw_form((trial_id,), key, "this conversation")


def _draw_figures(found: Ledger, judged: JudgedPatient | None) -> None:
    told = [mark for mark in found.marks if mark.fact.told]
    counts = {name: sum(mark.mark == name for mark in told) for name in _MARK}
    figures: list[tuple[str, str | int, str]] = [
        ("Asked", f"{counts['asked']} of {len(told)}", "Facts that the doctor asked for."),
        ("Volunteered", counts["volunteered"], "Told by the patient without being asked."),
        ("Never elicited", counts["never_elicited"], "Facts that a patient can tell."),
        ("Withheld", _judged_number(judged, "withheld"), "Facts asked for and kept back, by a model; – not judged."),
        ("Invented", _judged_number(judged, "invented"), "What the case does not support, by a model; – not judged."),
    ]
    with st.container(border=True, horizontal=True):
        for label, value, words in figures:
            st.metric(label, value, help=words, width="content")


def _judged_number(judged: JudgedPatient | None, kind: Fault) -> str:
    return "–" if judged is None else str(len(judged.of(kind)))


def _draw_coverage(case: Case, found: Ledger, key: str) -> None:
    name = f"coverage-{case.case_key.replace('/', '-')}"
    options = {"toImageButtonOptions": {"format": "svg", "filename": name}}
    st.plotly_chart(coverage_chart(found, dark=is_dark()), config={**CHART, **options}, key=f"{key}_coverage")


def coverage_chart(found: Ledger, *, dark: bool = False) -> go.Figure:
    """Return the coverage of facts over the messages of a conversation."""
    points = coverage(found)
    figure = go.Figure()
    figure.add_scatter(
        x=[turn + 1 for turn, _ in points], y=[share for _, share in points], mode="lines",
        line={"color": _LINE, "width": 2, "shape": "hv"}, fill="tozeroy", fillcolor="rgba(0, 114, 178, .12)",
        hovertemplate="after message %{x}: %{y:.0%}<extra></extra>", showlegend=False,
    )  # fmt: skip
    figure.update_layout(
        height=190, margin={"l": 8, "r": 8, "t": 8, "b": 8},
        xaxis={"title": "After message", "gridcolor": FAINT[dark], "zeroline": False, "rangemode": "tozero"},
        yaxis={"title": "Facts told", "range": [0, 1.02], "tickformat": ".0%", "gridcolor": FAINT[dark]},
    )  # fmt: skip
    return figure


def facts_frame(found: Ledger) -> pd.DataFrame:
    """Return every fact with its mark; messages are counted from 1."""
    return pd.DataFrame(
        [
            {
                "Mark": _MARK[mark.mark] if mark.fact.told or mark.turn is not None else "– Not for the patient",
                "Asked in": _message(mark.question_turn),
                "Told in": _message(mark.turn),
                "Fact": f"{mark.fact.key[:1].upper()}{mark.fact.key[1:]}: {mark.fact.text}",
                "Topic": mark.fact.topic,
            }
            for mark in found.marks
        ]
    )


def _message(turn: int | None) -> str:
    return "–" if turn is None else str(turn + 1)


def _draw_facts(found: Ledger, said: Sequence[Utterance], key: str) -> None:
    """Draw the facts; a chosen one shows the messages that asked for it and told it."""
    frame = facts_frame(found)
    inks = {_MARK[name]: ink[is_dark()] for name, ink in _INK.items()}
    event = st.dataframe(
        frame.style.map(lambda text: f"color: {inks[text]}" if text in inks else "", subset=["Mark"]),
        hide_index=True, key=f"{key}_facts", on_select="rerun", selection_mode="single-row", placeholder="–",
        height="content" if len(frame) <= 10 else 400, alt="Facts of the case with their marks",
        column_config={
            "Fact": st.column_config.TextColumn(width="large"),
            "Mark": st.column_config.TextColumn(width=118),
            "Asked in": st.column_config.TextColumn(
                help="The doctor's message that asked for it. Of a fact that never came up: the first that asked for "
                "just this.", width=58,
            ),
            "Told in": st.column_config.TextColumn(help="The patient's message that told it.", width=52),
        },
    )  # fmt: skip
    st.caption(
        "Choose a fact to see the messages behind its mark. Facts that only examination or tests show are not for the "
        f"patient to tell and stand outside the figures. {measured_words()}"
    )
    rows = event.selection.rows
    if rows and rows[0] < len(found.marks):
        _draw_messages(found.marks[rows[0]], said)


def _draw_messages(mark: FactMark, said: Sequence[Utterance]) -> None:
    wanted = [mark.question_turn, mark.turn]
    if mark.turn is None and mark.question_turn is not None:
        wanted.append(mark.question_turn + 1)  # the answer that did not tell it
    turns = sorted({turn for turn in wanted if turn is not None})
    st.markdown(f"**{plain(mark.fact.text)}** :gray[· as a patient says it: {plain(mark.fact.lay)}]")
    if not turns:
        st.caption("No message asked for it or told it.")
    for spoken in said:
        if spoken.turn in turns:
            st.caption(f"Message {spoken.turn + 1}")
            message(spoken.role, spoken.text)


def measured_words() -> str:
    """Return how often the rules for marks are right, on dialogues that they were not made for."""
    words = {mark: mark.replace("_", " ") for mark in MEASURED}
    recall = ", ".join(f"{words[mark]} {m.recall:.2f} ({m.right} of {m.by_hand})" for mark, m in MEASURED.items())
    precision = ", ".join(f"{m.precision:.2f} ({m.right} of {m.by_rule})" for m in MEASURED.values())
    return (
        "Asked, volunteered and never elicited are marked by rules on words, which miss free paraphrase: what never "
        "came up is an upper bound. Measured on eight held-out dialogues whose patients avoid the case’s words on "
        f"purpose: recall {recall}; precision {precision}."
    )
