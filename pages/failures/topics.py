"""Facts that doctors never ask for, as a model judged, by topic and model; facts that patients invented or withheld."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go
import streamlit as st

from core.figures.heat import HeatCell, heat
from core.measures.base import Row
from core.measures.ledger import FAULTS_SECTION, TOPICS_SECTION, ItemMark
from core.store.queries.fact_judgements import Judge
from core.store.selection import Selection
from pages.kit.case.facts import ask_judge, draw_form, judge_words, people_words
from pages.kit.controls import choose
from pages.kit.look import plain
from pages.kit.section import draw_result, draw_section, section_result, words_of
from pages.kit.view import in_words

MARK: dict[ItemMark, str] = {"never_elicited": "Never elicited", "asked": "Asked", "volunteered": "Volunteered"}
_MEANING: dict[ItemMark, str] = {
    "never_elicited": "Not mentioned in the conversation, asked or unasked.",
    "asked": "Told in reply to a question of the doctor.",
    "volunteered": "Told by the patient unasked.",
}


def draw_topics(selection: Selection) -> None:
    """Draw the facts by topic and the patients’ faults, and the form to have conversations judged."""
    judge = ask_judge()
    mark = choose("Facts that were", list(MARK), "failures_facts", names=MARK, shape="segments")
    words = f"{in_words(selection)}. {_MEANING[mark]} {TOPICS_SECTION.caption}"
    section = replace(TOPICS_SECTION, title=f"Share of facts: {MARK[mark].lower()}", caption=words)
    options = {"judge": "|".join(judge) if judge else None}
    result = draw_section(
        section,
        selection,
        options={**options, "mark": mark},
        charts={"topics": topics_chart},
        name=f"facts_{mark}",
        titled=False,
    )
    if result is not None:
        st.caption(plain(f"{_MEANING[mark]} {TOPICS_SECTION.caption}"))
        _draw_faults(selection, options, judge)
    with st.expander("Have a model judge these conversations", icon=":material/gavel:"):
        draw_form("failures_topics", talks=selection, all_=True)


def topics_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return the share of each topic’s facts with one mark, such as never elicited, by model."""
    with_facts = {row["model"] for row in rows}
    models = [model for model in names if model in with_facts]
    topics = list(dict.fromkeys(row["topic"] for row in rows))
    cells = [[HeatCell(None, "") for _ in models] for _ in topics]
    for row in rows:
        words = (
            f"{row['topic'].capitalize()}, {names[row['model']]}<br>{row.estimate:.1%} ({row.low:.1%} – {row.high:.1%})"
            f"<br>{row.n:,} cases, {row['n_facts']:,} facts"
        )
        cells[topics.index(row["topic"])][models.index(row["model"])] = HeatCell(
            row.estimate, f"{row.estimate:.0%}", words
        )
    columns = [names[model].replace(" ", "<br>", 1) for model in models]
    return heat(cells, columns, [topic.capitalize() for topic in topics], dark=dark)


def _draw_faults(selection: Selection, options: Mapping[str, str | None], judge: Judge | None) -> None:
    result = section_result(FAULTS_SECTION, selection, {**FAULTS_SECTION.options, **options})
    st.header(FAULTS_SECTION.title, anchor=False)
    section = replace(FAULTS_SECTION, caption=f"{in_words(selection)}. {FAULTS_SECTION.caption}")
    draw_result(section, replace(result, notes=()), words_of(result, selection), name="faults", titled=False)
    st.caption(FAULTS_SECTION.caption)
    if judge is not None:
        st.caption(f"Judged by {judge_words(judge)}, with a quotation for each. {people_words(judge)}")
