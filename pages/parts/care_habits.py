"""How doctors converse, on the CARE page: turns, words, whom they ask, misuses of tags, endings."""

from collections.abc import Sequence

import streamlit as st

from core.figures.shares import Segment, stacked
from core.measures.care.profile import Estimate, Habits
from core.store.queries.care import MISUSES
from pages.parts.accuracy_view import is_dark
from pages.parts.care_charts import Row, panel, two_lines
from pages.parts.care_data import habits
from pages.parts.care_shown import Shown
from pages.parts.care_tables import habits_table
from pages.parts.care_words import ENDING, MISUSE
from pages.parts.history_shown import draw_figure, draw_table

_MEASURES = {
    "turns": ("Turns", "Queries that were answered, in a conversation.", 2),
    "words_per_turn": ("Words a turn", "Words of a query, tags and what stood beside them aside.", 1),
    "to_staff": ("To the clinical staff", "Share of the queries that went to the staff, not to the patient.", 3),
    "repeated": ("Asked again", "Share of the queries that had been asked before, word for word.", 3),
}
"""Measure → its name, what it is, decimals."""


def draw_habits(shown: Shown) -> None:
    """Draw how each model converses."""
    order = list(shown.names)
    rows = sorted(habits(shown.view), key=lambda h: order.index(h.seat))
    if not any(h.conversations for h in rows):
        st.info("No conversation here came to an end of its own.")
        return
    _draw_measures(shown, rows)
    labels = [f"{two_lines(shown.names[h.seat])}<br>n = {h.conversations:,}" for h in rows]
    st.markdown("**How the conversations ended**")
    draw_figure(stacked(labels, endings(rows), "Share of conversations", "conversations", dark=is_dark()),
                "care_endings", "Why each model’s conversations ended")  # fmt: skip
    st.markdown("**Messages against the tag protocol**")
    if any(any(h.misuses.values()) for h in rows):
        asked = [f"{two_lines(shown.names[h.seat])}<br>{h.queries:,} queries" for h in rows]
        draw_figure(stacked(asked, misuses(rows), "Misuses for each query", "messages", whole=False, dark=is_dark()),
                    "care_misuses", "Misuses of the tags by each model")  # fmt: skip
        st.caption("A message may break the protocol in several ways. Only the failures among them lower robustness.")
    else:
        st.caption("No message broke the protocol.")
    shares = {name: st.column_config.NumberColumn(format="%.3f") for name in ("To the staff", "Asked again")}
    decimals = {name: st.column_config.NumberColumn(format="%.2f") for name in ("Turns", "Words a turn")}
    draw_table(habits_table(rows, shown.names), "care-habits", {**shares, **decimals})
    st.caption("Turns and words are means over cases. Conversations that a provider broke off are left out.")


def _draw_measures(shown: Shown, rows: Sequence[Habits]) -> None:
    names = list(_MEASURES)
    for pair in (names[:2], names[2:]):
        for column, measure in zip(st.columns(2, gap="medium"), pair, strict=True):
            name, words, decimals = _MEASURES[measure]
            marks = [Row(shown.names[h.seat], Estimate(getattr(h, measure), n=h.items), shown.colours[h.seat],
                         note=f"{h.conversations:,} conversations") for h in rows]  # fmt: skip
            with column:
                st.markdown(f"**{name}**", help=words)
                draw_figure(panel(marks, name, decimals=decimals, dark=is_dark()), f"care_{measure}", words)


def endings(rows: Sequence[Habits]) -> list[Segment]:
    """Return the bars' parts: why conversations ended, as share of them."""
    return [
        Segment(name, colour, ink, [h.endings.get(reason, 0) / max(1, h.conversations) for h in rows],
                [h.endings.get(reason, 0) for h in rows])
        for reason, (name, colour, ink) in ENDING.items()
    ]  # fmt: skip


def misuses(rows: Sequence[Habits]) -> list[Segment]:
    """Return the bars' parts: messages with each misuse, for each query that was answered."""
    return [
        Segment(MISUSE[kind], *_MISUSE_COLOUR[place], [h.misuses[kind] / max(1, h.queries) for h in rows],
                [h.misuses[kind] for h in rows])
        for place, kind in enumerate(MISUSES)
    ]  # fmt: skip


_MISUSE_COLOUR = (
    ("#0072B2", "white"), ("#E69F00", "#1A2B2B"), ("#009E73", "white"), ("#CC79A7", "#1A2B2B"), ("#7A6A00", "white"),
    ("#8C8C8C", "white"), ("#6A51A3", "white"), ("#56B4E9", "#1A2B2B"), ("#D55E00", "white"),
)  # fmt: skip
"""In the order of the misuses."""
