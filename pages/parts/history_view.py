"""Draws the figures of the History taking page: the table, a comparison, the patient."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.measures.history.figures import Figure, MeasureRow
from core.measures.history.measures import LENGTHS
from core.stats.corrections import LABELS, Correction
from core.store.conditions import Condition
from pages.parts.accuracy_view import is_dark
from pages.parts.conditions import draw_conditions, draw_what_differs
from pages.parts.figure_controls import STARS, keep_valid
from pages.parts.history_charts import Dot, differences_chart, dots_chart, reached_chart
from pages.parts.history_data import by_measure, comparison, figures
from pages.parts.history_shown import Shown, draw_figure, draw_table, offer_csv
from pages.parts.history_tables import (
    PublishedRow,
    comparison_table,
    measures_table,
    overview_table,
    published_rows,
    virtues_table,
)
from pages.parts.history_words import MEASURE, PUBLISHED_SETS, VIRTUE_RULES, VIRTUES
from pages.parts.look import plain

_NONE = "none"


def draw_overview(shown: Shown) -> None:
    """Draw the table of all doctors beside the published ones, and what was uncovered against accuracy."""
    rows = figures(shown.view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        printed = ask_published()
        bounds = st.toggle("Intervals", key="history_bounds", bind="query-params",
                           help="95 %, by resampling cases.")  # fmt: skip
    draw_doctors(rows, shown.names, shown.seats, printed, bounds=bounds)
    held = {row.model for row in rows}
    draw_conditions({key: name for key, name in shown.names.items() if key in held}, shown.seats)
    st.markdown("**What was uncovered, and what came of it**")
    chart = reached_chart(by_measure(rows), printed, shown.names, shown.colours, dark=is_dark())
    draw_figure(chart, "history_reached", "Accuracy of the task against patient recall, by doctor")
    st.caption("A dashed line marks who answers without a conversation; open circles are published.")


def ask_published() -> list[PublishedRow]:
    """Ask which published figures stand beside ours, and return them."""
    dataset = st.segmented_control(
        "Published figures", [*PUBLISHED_SETS, _NONE], default="medqa", required=True,
        format_func=lambda name: PUBLISHED_SETS.get(name, "None"), key="history_published", bind="query-params",
        help="Liao et al. (arXiv 2309.02077), tables 2 and 3: other cases, and items made by a model, so that only "
        "their order compares. Repetition is printed for all of their data sets together.",
    )  # fmt: skip
    return [] if dataset in (None, _NONE) else published_rows(dataset)


def draw_doctors(
    rows: Sequence[MeasureRow], names: Mapping[str, str], seats: Sequence[Condition], printed: Sequence[PublishedRow],
    *, bounds: bool,
) -> None:  # fmt: skip
    """Draw a row for each doctor, ours first, with what the figures rest on."""
    table = overview_table(rows, names, seats, printed, bounds=bounds)
    st.dataframe(table, hide_index=True, key=f"history_table_{bounds}", placeholder="–", height="content",
                 column_config=_overview_columns(bounds=bounds))  # fmt: skip
    with st.container(horizontal=True):
        offer_csv(table, "history-taking")
        if rows:
            offer_csv(measures_table(rows, names, list(MEASURE)), "history-taking-intervals", "CSV with intervals")
    st.caption(
        "ROUGE-1 of what was said against the case’s items: of the patient’s words against their values, of the "
        "doctor’s questions against their keys, words stemmed. Means over a case’s conversations, then over cases. "
        "Conversations that broke off are left out; where there are none to measure, a dash stands."
    )


def _overview_columns(*, bounds: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: st.column_config.TextColumn(help=words)
        if bounds
        else st.column_config.NumberColumn(help=words, format="%.2f" if measure in LENGTHS else "%.3f")
        for measure, (name, words) in MEASURE.items()
    }
    whole = {
        "Conversations": "Conversations that were measured; the upper bound holds none by design.",
        "Broke off": "Conversations that a failure or refusal broke off: left out.",
        "Not measured": "Conversations still to be measured: left out.",
        "Answers": "Answers to the task that count in accuracy.",
        "Answers excluded": "Answers that a provider’s failure or a refusal keeps from counting.",
        "Cases": "Cases with a measured conversation or a counted answer.",
    }
    counts = {name: st.column_config.NumberColumn(format="localized", help=words) for name, words in whole.items()}
    return {**columns, **counts, "Doctor": st.column_config.TextColumn(pinned=True, width="medium")}


def draw_comparison(shown: Shown) -> None:
    """Ask for two doctors and compare them on the cases that both have."""
    held = [key for key in shown.names if any(row.model == key for row in figures(shown.view))]
    if len(held) < 2:
        st.info("A comparison needs two doctors on the same cases: take a filter away, or run another doctor.")
        return
    for key in ("history_first", "history_second"):
        keep_valid(key, held)
    columns = st.columns([3, 3, 2], vertical_alignment="bottom")
    first, second = (
        columns[i].selectbox(label, held, index=i, format_func=shown.names.__getitem__, key=key, bind="query-params")
        for i, (label, key) in enumerate((("First doctor", "history_first"), ("Second doctor", "history_second")))
    )
    correction: Correction = columns[2].selectbox(
        "Correction of p", list(LABELS), format_func=LABELS.__getitem__, key="history_correction", bind="query-params",
        help="Over all measures compared.",
    )  # fmt: skip
    if first == second:
        st.info("Choose two different doctors.")
        return
    rows = comparison(shown.view, first, second, correction)
    if not rows:
        st.info("These two have no measured case in common.")
        return
    one, other = shown.names[first], shown.names[second]
    st.caption(f"{plain(one)} minus {plain(other)}, paired by case. Colour: adjusted p ≤ .05.")
    draw_figure(differences_chart(rows, dark=is_dark()), "history_differences", f"Differences of {one} and {other}")
    table = comparison_table(rows, one, other, correction)
    signed = {name: st.column_config.NumberColumn(format="%+.3f") for name in ("Difference", "Low", "High")}
    draw_table(table, "history-comparison", signed)
    st.caption(
        f"Intervals and p by 10,000 resamples of the cases in pairs: p is not below .0001. Turns, questions and words "
        f"are numbers and not in the chart. {STARS}."
    )
    draw_what_differs({first: one, second: other}, shown.seats, "these two")


def draw_patients(shown: Shown) -> None:
    """Draw the patient's virtues in each doctor's conversations."""
    rows = [row for row in figures(shown.view) if row.measure in VIRTUES]
    if not any(row.figure.mean is not None for row in rows):
        st.info("The patient has said nothing in these conversations, or they are not measured yet.")
        return
    dots = [Dot(row.model, MEASURE[row.measure][0], row.figure) for row in rows]
    labels = [MEASURE[m][0] for m in VIRTUES]
    low = _floor([row.figure for row in rows])
    chart = dots_chart(dots, labels, shown.names, shown.colours, "Share", axis=(low, 1.01), dark=is_dark())
    draw_figure(chart, "history_virtues", "Honesty, strictness and colloquialism of the patient, by doctor")
    st.markdown(VIRTUE_RULES)
    draw_table(virtues_table(rows, shown.names, shown.seats), "history-patient")


def _floor(found: Sequence[Figure]) -> float:
    """Return where an axis up to 1 begins: a tenth below what is shown."""
    lows = [figure.ci_low for figure in found if figure.ci_low is not None]
    return max(0.0, int(10 * min(lows, default=0.0)) / 10)
