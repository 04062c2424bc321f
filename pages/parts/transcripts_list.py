"""The found conversations as a table, fifty a page; a click on a row opens its conversation."""

import re
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from core.events import COUNTED
from core.frameworks.base import frameworks
from core.store.queries.conversations import Conversation
from core.store.selection import Selection
from pages.parts.endings_charts import REASON
from pages.parts.figure_controls import dataset_name, unique_names
from pages.parts.look import RULE_SHORT, VERDICT, arm
from pages.parts.transcripts_data import PAGE, every_conversation, found
from pages.parts.transcripts_find import PAGE_NAME

_SHOWN = ["vignette:mcq", "vignette:frq", "multi_turn:mcq", "multi_turn:frq"]
_DIGITS = 8
"""Digits of a page's number in an address from which on it is nonsense."""
_AROUND = 60
"""Characters shown on either side of words that were found."""


def draw_list(wanted: Selection, held: int) -> None:
    """Draw one page of what was found."""
    asked = st.query_params.get(PAGE_NAME, "1")
    page = max(1, int(asked)) if asked.isdecimal() and len(asked) < _DIGITS else 1
    shown = found(wanted, page - 1)
    if not shown.page and page > 1:  # an address of a longer list
        page, shown = 1, found(wanted, 0)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{shown.total:,}** of {held:,} conversations")
        _turn_pages(page, -(-shown.total // PAGE))
    if not shown.page:
        st.info("No conversation fits all of this: take a filter away.", icon=":material/filter_alt_off:")
        return
    key = f"transcripts_rows_{shown.page[0].trial_id}_{shown.page[-1].trial_id}_{shown.total}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(shown.page):
            st.query_params["trial"] = shown.page[rows[0]].trial_id

    st.dataframe(
        conversations_table(shown.page, wanted, shown.said), hide_index=True, key=key, on_select=choose,
        selection_mode="single-row", height=560 if len(shown.page) > 15 else "content",
        alt="Conversations that were found",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download all found as CSV", lambda: _csv(wanted), "conversations.csv", "text/csv",
            icon=":material/download:", on_click="ignore",
        )  # fmt: skip
        st.caption(f"Choose a row to read its conversation.{_rule_note(wanted)}")


def _turn_pages(page: int, pages: int) -> None:
    """Let another page be chosen; the address says which one is shown, so that other filters can begin anew."""
    key = f"transcripts_pages_{pages}_{page}"

    def turn() -> None:
        st.query_params[PAGE_NAME] = str(st.session_state[key])

    if pages > 1:
        st.pagination(pages, default=page, key=key, on_change=turn)


def conversations_table(
    talks: list[Conversation], wanted: Selection, said: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return conversations with what each came to: the chosen arm first; ``said`` adds where the words occur."""
    names = unique_names({talk.doctor for talk in talks})
    held = {name for talk in talks for name in talk.verdicts}
    arms = [name for name in dict.fromkeys([wanted.arm, *_SHOWN]) if name in held]
    return pd.DataFrame(
        [
            {
                "Model": names[talk.doctor],
                "Case": talk.case_key.partition("/")[2] or talk.case_key,
                "Trial": talk.trial + 1,
                **({"Said": excerpt(_said(talk, said), wanted.text or "")} if said else {}),
                "Right answer": talk.answer,
                **{arm_words(name): verdict_words(talk, name) for name in arms[:1]},
                "Turns": talk.doctor_turns,
                "Ended by": REASON[talk.end_reason] if talk.end_reason else "No conversation",
                **{arm_words(name): verdict_words(talk, name) for name in arms[1:]},
                "Specialty": talk.specialty,
                "Data set": dataset_name(talk.dataset),
            }
            for talk in talks
        ]
    )


def _said(talk: Conversation, said: Mapping[str, str]) -> str:
    """Return the message with the words in it, as it was spoken."""
    text = said.get(talk.trial_id, "")
    known = frameworks().get(talk.protocol)
    return known.spoken(known.tested.role, text) if known else text


def excerpt(text: str, words: str) -> str:
    """Return the part of a message around the words, cut at about sixty characters on either side."""
    place = re.search(re.escape(words), text, re.IGNORECASE)
    start, end = (max(0, place.start() - _AROUND), place.end() + _AROUND) if place else (0, 2 * _AROUND)
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def arm_words(name: str) -> str:
    """Return "format:question_type" in words."""
    format_, _, question_type = name.partition(":")
    return arm(format_, question_type)  # type: ignore[arg-type]


def verdict_words(talk: Conversation, name: str) -> str:
    """Return what the answer in an arm came to: ✓ is correct, ✗ counts as not correct, – does not count."""
    verdict = talk.verdicts.get(name)
    if verdict not in VERDICT:
        return "– Not graded" if verdict else ""
    mark = "✓" if verdict == "correct" else "✗" if verdict in COUNTED else "–"
    return f"{mark} {VERDICT[verdict][0].partition(',')[0]}"


def _csv(wanted: Selection) -> str:
    rows = [
        {**{k: v for k, v in vars(talk).items() if k != "verdicts"}, **talk.verdicts}
        for talk in every_conversation(wanted)
    ]
    return pd.DataFrame(rows).to_csv(index=False)


def _rule_note(wanted: Selection) -> str:
    return f" Multiple choice is judged by the {RULE_SHORT[wanted.mcq_rule]}."
