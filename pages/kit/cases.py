"""What is behind a figure: its cases, of which one is chosen, and that case's conversations with the ways on."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.events import Verdict
from core.store.queries.conversations import Conversation
from pages.kit.look import END_SHORT, VERDICT, badge, verdict_in_words
from pages.kit.navigation import link
from pages.kit.tables import draw_table

_FEW = 8
"""Rows up to which a list is shown at full height."""


def choose_case(
    table: pd.DataFrame,
    name: str,
    key: str,
    columns: Mapping[str, Any] | None = None,
    *,
    of: str = "Case",
    ids: Sequence[str] | None = None,
    download: str = "Download these cases as CSV",
) -> str | None:
    """List cases, and return the one that was clicked, if it is still among them; it stands in the address as ``key``.

    ``of`` is the column that names a case; ``ids`` name the rows where no column does.
    """
    named = table[of].astype(str).tolist() if ids is None else list(ids)

    def take(row: int) -> None:
        st.query_params[key] = named[row]

    draw_table(table, name, columns, on_row=take, height=290 if len(table) > _FEW else "content", download=download)
    wanted = st.query_params.get(key)
    return wanted if wanted in named else None


def forget(*keys: str) -> None:
    """Take choices out of the address, because what they were chosen from has changed."""
    for key in keys:
        st.query_params.pop(key, None)


def draw_trials(talks: Sequence[Conversation], arm: str) -> None:
    """Draw a line for each conversation of a case: the way to its transcript, the verdict in an arm, how it ended.

    ``arm`` is "format:question type".
    """
    if not talks:
        st.caption("No trial of this case is stored.")
    for talk in talks:
        with st.container(horizontal=True, vertical_alignment="center"):
            link("transcripts", f"Trial {talk.trial + 1}", "forum", trial=talk.trial_id)
            st.markdown(verdict_badge(talk.verdicts.get(arm)))
            turns = f"{talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else "no conversation"
            ended = f", {END_SHORT[talk.end_reason].lower()}" if talk.end_reason else ""
            st.caption(f"{turns}{ended}")


def excluded_in_words(reasons: Mapping[Any, int]) -> str:
    """Return verdicts that do not count, with their numbers."""
    return ", ".join(f"{count:,} {verdict_in_words(reason, count)}" for reason, count in reasons.items() if count)


def verdict_badge(verdict: Verdict | None) -> str:
    """Return a verdict as a badge, or a word that there is none."""
    return badge(verdict) if verdict in VERDICT else ":gray-badge[not graded]"


def draw_ways_on(trial_id: str, **cell: str) -> None:
    """Draw the links from a conversation to its transcript and into the case debugger, there to a ``cell`` of it."""
    with st.container(horizontal=True):
        link("transcripts", "Read the transcript", "forum", trial=trial_id)
        link("debugger", "Open in the case debugger", "bug_report", trial=trial_id, **cell)
