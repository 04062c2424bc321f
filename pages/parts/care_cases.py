"""One model's cases on the CARE page: a list with what each brought, then the conversations of one."""

import streamlit as st

from core.store.queries.conversations import Conversation
from pages.parts.care_data import items
from pages.parts.care_shown import Shown, choose_row
from pages.parts.care_tables import items_table
from pages.parts.care_transcript import draw_conversation
from pages.parts.figure_controls import keep_valid, three_decimals
from pages.parts.look import plain
from pages.parts.stored import case_conversations

_ADDRESS = "care_case"


def draw_cases(shown: Shown) -> None:
    """Ask for a model, list its cases, and draw a conversation of the chosen case."""
    table = items(shown.view)
    held = [key for key in shown.names if (table["seat"] == key).any()]
    keep_valid("care_model", held)
    key = st.selectbox("Model", held, format_func=shown.names.__getitem__, key="care_model", bind="query-params")
    if key is None:
        return
    own = items_table(table[table["seat"] == key])
    whole = {name: st.column_config.NumberColumn(format="%.1f") for name in ("Turns", "Words a turn")}
    chosen = choose_row(own, list(own.index), _ADDRESS, "care-cases", "Cases of a model",
                        {**three_decimals(own), **whole})  # fmt: skip
    if chosen is None:
        return
    seat = next(seat for seat in shown.seats if seat.name == key)
    talks = case_conversations(seat.runs, chosen)
    if talks:
        draw_conversation(_ask_trial(talks).trial_id, None, f"**{plain(shown.names[key])}**")


def _ask_trial(talks: list[Conversation]) -> Conversation:
    if len(talks) == 1:
        return talks[0]
    held = {talk.trial_id: f"Trial {place}" for place, talk in enumerate(talks, start=1)}
    keep_valid("care_trial", held)
    chosen = st.segmented_control("Conversation", list(held), default=next(iter(held)), format_func=held.__getitem__,
                                  required=True, key="care_trial", bind="query-params")  # fmt: skip
    return next(talk for talk in talks if talk.trial_id == (chosen or next(iter(held))))
