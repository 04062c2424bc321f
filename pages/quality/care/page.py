"""CARE: what conversations are worth in accuracy, efficiency, empathy and robustness, down to the message."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from core.figures.shares import Segment
from core.frameworks.automedic.measures.profile import Estimate, item_rows
from core.frameworks.automedic.queries import MISUSES, RULES
from core.frameworks.base import publisher
from pages.kit.cached import cached_query
from pages.kit.cases import choose_case, choose_trial, draw_answers_of, draw_conversation
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import END_SHORT, counted, plain
from pages.kit.names import dataset_name, model_colours, natural
from pages.kit.page import draw_sections, say_how_to_begin
from pages.kit.stored import care_conditions, case_conversations, runs_behind
from pages.kit.tables import draw_table
from pages.kit.view import View, ask_view, offers_in
from pages.quality.care.conversations import draw_empathy, draw_failures, draw_shares, habits
from pages.quality.care.profile import (
    Row,
    draw_profile,
    draw_published,
    draw_scatter,
    panel,
    rests,
    stored_trials,
    trials,
)
from pages.quality.care.tables import ENDING, MISUSE, QUESTION, case_name

_MEASURES = {
    "turns": ("Turns", "Queries that were answered, in a conversation.", 2),
    "words_per_turn": ("Words a turn", "Words of the doctor’s messages a query, those outside the tags too.", 1),
    "to_staff": ("To the clinical staff", "Share of the queries that went to the staff, not to the patient.", 3),
    "repeated": ("Asked again", "Share of the queries that had been asked before, word for word.", 3),
}
"""Measure → its name, what it is, decimals."""
_MISUSE_COLOUR = (
    ("#0072B2", "white"), ("#E69F00", "#1A2B2B"), ("#009E73", "white"), ("#CC79A7", "#1A2B2B"), ("#7A6A00", "white"),
    ("#8C8C8C", "white"), ("#6A51A3", "white"), ("#56B4E9", "#1A2B2B"), ("#D55E00", "white"),
)  # fmt: skip
"""In the order of the misuses."""


@cached_query()
def items(view: View) -> pd.DataFrame:
    """Return a row for each condition and case."""
    return item_rows(trials(view))


def draw_habits(view: View) -> None:
    """Draw how each model converses."""
    rows = habits(view)
    if not any(h.conversations for h in rows):
        st.info("No conversation here came to an end of its own.")
        return
    names, colours = view.names, model_colours(list(view.names))
    for pair in (("turns", "words_per_turn"), ("to_staff", "repeated")):
        for column, measure in zip(st.columns(2, gap="medium"), pair, strict=True):
            name, words, decimals = _MEASURES[measure]
            held = [
                Row(
                    names[h.seat],
                    Estimate(getattr(h, measure), n=h.items),
                    colours[h.seat],
                    note=f"{h.conversations:,} conversations",
                )
                for h in rows
            ]
            with column:
                draw_figure(
                    lambda dark, held=held, name=name, decimals=decimals: panel(  # type: ignore[misc]
                        held, name, decimals=decimals, dark=dark
                    ),
                    f"care_{measure}",
                    name,
                    f"{words} {rests(view)}.",
                )
                st.caption(words)
    ends = {h.seat: h.endings for h in rows}
    endings = [
        Segment(
            END_SHORT[reason],
            *colour,
            [ends[h.seat].get(reason, 0) / max(1, h.conversations) for h in rows],
            [ends[h.seat].get(reason, 0) for h in rows],
        )
        for reason, colour in ENDING.items()
    ]
    labels = [(h.seat, f"n = {h.conversations:,}") for h in rows]
    draw_shares(view, labels, endings, "Share of conversations", "care_endings", "How the conversations ended")
    if any(any(h.misuses.values()) for h in rows):
        misuses = [
            Segment(
                MISUSE[kind],
                *_MISUSE_COLOUR[place],
                [h.misuses[kind] / max(1, h.queries) for h in rows],
                [h.misuses[kind] for h in rows],
            )
            for place, kind in enumerate(MISUSES)
        ]
        draw_shares(
            view,
            [(h.seat, f"{h.queries:,} queries") for h in rows],
            misuses,
            "Misuses for each query",
            "care_misuses",
            "Messages against the tag protocol",
            unit="messages",
            whole=False,
        )
        st.caption("A message may break the protocol in several ways. Only the failures among them lower robustness.")
    else:
        st.markdown("**Messages against the tag protocol**")
        st.caption("No message broke the protocol.")
    formats = {"To the staff": "%.3f", "Asked again": "%.3f", "Turns": "%.2f", "Words a turn": "%.2f"}
    columns = {name: st.column_config.NumberColumn(format=form) for name, form in formats.items()}
    occurring = [kind for kind in MISUSES if any(h.misuses[kind] for h in rows)]
    lines = (
        {
            "Model": names[h.seat],
            "Turns": h.turns,
            "Words a turn": h.words_per_turn,
            "To the staff": h.to_staff,
            "Asked again": h.repeated,
            **{MISUSE[kind]: h.misuses[kind] for kind in occurring},
            **{f"Ended: {END_SHORT[reason].lower()}": h.endings.get(reason, 0) for reason in ENDING},
            "Conversations": h.conversations,
            "Queries": h.queries,
            "Cases": h.items,
        }
        for h in rows
    )
    draw_table(pd.DataFrame(lines), "care-habits", columns)
    st.caption("Turns and words are means over cases. Conversations that a provider broke off are left out.")


def draw_cases(view: View) -> None:
    """Ask for a model, list its cases, and draw a conversation of the chosen case."""
    table = items(view)
    held = [key for key in view.names if (table["seat"] == key).any()]
    model = choose("Model", held, "care_model", names=view.names)
    mine = table[table["seat"] == model]
    mine = mine.set_index(mine["case_key"].astype(str)).drop(columns="case_key")
    mine = mine.loc[sorted(mine.index, key=natural)]
    own = pd.DataFrame(
        {
            "Case": [case_name(key) for key in mine.index],
            "Data set": mine["dataset"].astype(object).map(dataset_name),
            "Specialty": mine["specialty"].astype(object),
            "After the conversation": mine["conv"],
            "Whole question": mine["static"],
            "Empathy": mine["empathy"],
            "Failed": mine["failed"],
            "Turns": mine["turns"],
            "Words a turn": mine["words_per_turn"],
            "Trials": mine["trials"],
        }
    )
    st.caption(f"{len(own):,} rows. Choose one to read its conversation.")
    columns: Mapping[str, Any] = dict.fromkeys(("Turns", "Words a turn"), st.column_config.NumberColumn(format="%.1f"))
    ids = [str(key) for key in own.index]
    chosen = choose_case(own, "care-cases", "care_case", columns, ids=ids, download="Download as CSV")
    talks = case_conversations(runs_behind(care_conditions(), model), chosen) if chosen else []
    if talks:
        note = f"**{plain(view.names[model])}**"
        draw_conversation(choose_trial(talks, "care_trial").trial_id, "care", draw_answers_of, note=note)


_SECTIONS = {
    "Profile": draw_profile,
    "Static and conversation": draw_scatter,
    "Failures": draw_failures,
    "Empathy": draw_empathy,
    "Habits": draw_habits,
    "Cases": draw_cases,
}


def draw_care() -> None:
    """Draw the page, or the published figures and what to do where nothing is stored."""
    offered = [question for question in RULES if not stored_trials(question).empty]
    if not offered:
        care = publisher("care")
        say_how_to_begin(
            f"These are the **published** figures; no conversation of {care.title} is stored yet.",
            release=False,
            instead="Run a doctor on the library, with the reference patient and staff no key is needed: "
            f"`python -m core run --protocol {care.name} --doctor reference/bayes`.",
        )
        draw_published()
        return
    question = offered[0]
    if len(offered) > 1:
        question = choose(
            "Question",
            offered,
            "care_questions",
            names=QUESTION,
            shape="segments",
            help="With choices an answer has to name exactly one of them; without, the grader judges it.",
        )
    # conditions say which cases they are on, and figures of several data sets stand beside one another
    view = ask_view(offers_in(stored_trials(question), [""]), "datasets", "models", "specialties")
    view = replace(view, questions=(question,))
    table = trials(view)
    blank = int((table["conv"] == "empty").sum() + (table["static"] == "empty").sum())
    if blank:
        left_out = st.toggle(
            f"What if the {counted(blank, 'blank answer')} were left out?",
            key="care_without_blank",
            bind="query-params",
            help="The provider reports a normal end and no words. Such an answer is not correct, and after a "
            "conversation it is an invalid answer, which lowers robustness.",
        )
        view = replace(view, without_blank=left_out)
    if table.empty:
        st.info("No conversation fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    draw_sections(_SECTIONS, "care_tab", view)
