"""Draws how histories unfold on the History taking page: curves, order of inquiry, longer and shorter ones."""

from collections.abc import Sequence

import streamlit as st

from core.text.topics import Topic
from pages.parts.accuracy_view import is_dark
from pages.parts.history_charts import Dot, curves_chart, dots_chart
from pages.parts.history_data import curves, groups, order
from pages.parts.history_shown import Shown, draw_as_table, draw_figure
from pages.parts.history_tables import curves_table, group_words, groups_table, order_table
from pages.parts.history_words import MEASURE

_WHOSE = {"patient": "The patient’s, against the items", "doctor": "The doctor’s, against their keys"}
_SHARE = st.column_config.NumberColumn(format="percent")


def draw_course(shown: Shown) -> None:
    """Draw how the history unfolds: curves, order of inquiry, and longer against shorter histories."""
    who = st.segmented_control(
        "Whose words", ["patient", "doctor"], default="patient", required=True, key="history_who", bind="query-params",
        format_func=_WHOSE.__getitem__,
    ) or "patient"  # fmt: skip
    points = [p for p in curves(shown.view) if p.measure.startswith(who)]
    for column, kind in zip(st.columns(2), ("recall", "precision"), strict=True):
        with column:
            chart = curves_chart(points, f"{who}_{kind}", shown.names, shown.colours, dark=is_dark())
            draw_figure(chart, f"history_curve_{who}_{kind}", f"{who} {kind} against the share of the dialogue done")
    st.caption("0 % is the patient’s opening alone. Bands are 95 % intervals over cases.")
    draw_as_table(curves_table(points, shown.names), "history-curves", {"Dialogue done": _SHARE})
    _draw_order(shown)
    _draw_groups(shown)


def _draw_order(shown: Shown) -> None:
    st.subheader("Order of inquiry", anchor=False)
    rows = order(shown.view)
    told = [row for row in rows if row.position.mean is not None]
    if not told:
        st.info("No topic of the items was told in these conversations.")
        return
    topics = _by_place([(row.topic, row.position.mean or 0.0) for row in told])
    parts = (
        ("First told, as share of the dialogue", "position", [(r.topic, r.model, r.position) for r in told]),
        ("Told in the conversations", "told", [(r.topic, r.model, r.told) for r in rows]),
    )
    for column, (title, key, found) in zip(st.columns(2), parts, strict=True):
        dots = [Dot(model, topic.capitalize(), figure) for topic, model, figure in found]
        with column:
            chart = dots_chart(dots, topics, shown.names, shown.colours, title, share=True, axis=(-0.02, 1.02),
                               dark=is_dark())  # fmt: skip
            draw_figure(chart, f"history_order_{key}", f"Topics of the history by doctor: {title}")
    st.caption(
        "Topics of the cases’ items, the earliest on top. Left: where in the dialogue the patient first tells one, "
        "over the conversations where that happens. Right: in which share of the conversations it does."
    )
    shares = dict.fromkeys(("First told at", "Low", "High", "Told in", "Told, low", "Told, high"), _SHARE)
    draw_as_table(order_table(rows, shown.names), "history-order", shares)


def _by_place(places: Sequence[tuple[Topic, float]]) -> list[str]:
    """Return the topics by the mean of their places."""
    held: dict[str, list[float]] = {}
    for topic, place in places:
        held.setdefault(topic.capitalize(), []).append(place)
    return sorted(held, key=lambda topic: sum(held[topic]) / len(held[topic]))


def _draw_groups(shown: Shown) -> None:
    st.subheader("Shorter and longer histories", anchor=False)
    rows = groups(shown.view)
    measure = st.selectbox("Measure", list(MEASURE), format_func=lambda m: MEASURE[m][0], key="history_group_measure",
                           bind="query-params") or "patient_recall"  # fmt: skip
    found = list(dict.fromkeys(row.group for row in rows))
    if not found:
        st.info("No case in scope has items.")
        return
    labels = {group: f"{group_words(group)}<br>n = {len(group.cases):,} cases" for group in found}
    dots = [Dot(row.model, labels[row.group], row.figure) for row in rows if row.measure == measure]
    chart = dots_chart(dots, list(labels.values()), shown.names, shown.colours, MEASURE[measure][0], dark=is_dark())
    draw_figure(chart, f"history_groups_{measure}", f"{MEASURE[measure][0]} in three groups of cases")
    st.caption(f"Three equal groups of the cases in scope by their number of items. {MEASURE[measure][1]}")
    draw_as_table(groups_table(rows, shown.names), "history-groups")
