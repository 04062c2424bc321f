"""Facts that doctors never ask for, as a model judged, by topic and model; facts that patients invented or withheld."""

from dataclasses import replace

import streamlit as st

from core.jobs.judge import Judging
from core.measures.ledger import FAULTS_SECTION, TOPICS_SECTION, ItemMark, judge_key, read_conversations
from core.measures.registry import sections
from core.store.queries.judged_facts import FORM
from core.store.selection import Selection
from core.text.topics import SHOWN
from pages.kit.cached import read
from pages.kit.case.facts import ask_judge, judge_words, people_words
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.jobs import draw_judging
from pages.kit.section import draw_result, draw_section, section_result, words_of
from pages.kit.view import FilterRow, ask_selection, offered

MARK: dict[ItemMark, str] = {"never_elicited": "Never came up", "asked": "Asked", "volunteered": "Told unasked"}
_MEANING: dict[ItemMark, str] = {
    "never_elicited": "Not mentioned in the conversation, asked or unasked.",
    "asked": "Told in reply to a question of the doctor.",
    "volunteered": "Told by the patient unasked.",
}


def draw_topics() -> None:
    """Draw the facts by topic and the patients’ faults, and the form to have conversations judged.

    Before a model has judged a conversation, draw the topics that patients told, by their words.
    """
    row = FilterRow()
    selection = ask_selection(offered(), "models", "datasets", "specialties", row=row)
    with row.popover():
        judge = ask_judge()
    if judge is None:
        _draw_told(selection)
    else:
        with row.own:
            mark = choose("Facts that were", list(MARK), "failures_facts", names=MARK, width=224)
        help_ = f"{_MEANING[mark]} {TOPICS_SECTION.help}"
        section = replace(TOPICS_SECTION, title=f"Share of facts: {MARK[mark].lower()}", help=help_)
        options = {"judge": judge_key(judge)}
        if draw_section(section, selection, options={**options, "mark": mark}, name=f"facts_{mark}", titled=False):
            draw_section(FAULTS_SECTION, selection, options=options, name="faults")
            st.caption(f"Judged by {judge_words(judge)}, with a quotation for each. {people_words(judge)}")
    with st.expander("Have a model judge these conversations", icon=":material/gavel:"):
        limit = st.number_input(
            "Max conversations",
            1,
            None,
            500,
            key="failures_topics_limit",
            width=224,
            help="A random sample that is always the same; a larger one extends it.",
        )
        draw_judging(Judging(FORM, conversations=selection, limit=int(limit)), "failures_topics_facts")


def _draw_told(selection: Selection) -> None:
    counts = read(read_conversations, selection, None)
    conversations = int(counts["whole"].sum()) if len(counts) else 0
    if not conversations:
        draw_empty(TOPICS_SECTION.metric.empty, *TOPICS_SECTION.metric.starts)
        return
    told = next(section for section in sections("failures") if section.estimate == "told")
    result = section_result(told, selection)
    rows = tuple(row for row in result.figures if row["topic"] not in SHOWN)  # what a patient can tell
    names = words_of(result, selection)
    if rows:
        draw_result(told, replace(result, rows=rows), names, name="topics_told", selection=selection)
    st.info(
        f"Not judged: which facts were never asked for in these {conversations:,} conversations. Only a model can "
        "judge it, under **Have a model judge these conversations**.",
        icon=":material/gavel:",
    )
