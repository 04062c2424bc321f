"""What doctors never ask: topics × models, with intervals; and what patients invented, withheld and gave away."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go
import streamlit as st

from core.agents.ledger_models import Mark
from core.figures.heat import Cell, heat
from core.measures.base import Row
from core.measures.ledger.kept import FAULTS_SECTION, TOPICS_SECTION
from core.store.queries.fact_judgements import Judge
from core.store.selection import Selection
from pages.kit.case.facts import ask_judge, judge_words, measured_words, people_words
from pages.kit.controls import choose
from pages.kit.look import plain
from pages.kit.section import draw_result, draw_section, section_result, words_of
from pages.kit.view import in_words

MARK: dict[Mark, str] = {"never_elicited": "Never elicited", "asked": "Asked", "volunteered": "Volunteered"}
_MEANING: dict[Mark, str] = {
    "never_elicited": "Never told in the conversation, neither asked for nor by itself.",
    "asked": "Told because the doctor’s question before it asked for it.",
    "volunteered": "Told by the patient without being asked.",
}
_EMPTY = (
    "No marked conversation fits these filters. Mark the conversations above, or remove a filter; where there is none "
    "at all, start a campaign with a multi-turn arm."
)


def draw_topics(selection: Selection) -> None:
    """Draw what became of the facts by topic, and what the patients made up."""
    judge = ask_judge()
    mark = choose("Facts that were", list(MARK), "failures_facts", names=MARK, shape="segments")
    words = f"{in_words(selection)}. {_MEANING[mark]} {measured_words()} {TOPICS_SECTION.caption}"
    section = replace(TOPICS_SECTION, title=f"Share of facts: {MARK[mark].lower()}", caption=words)
    shown = draw_section(
        section,
        selection,
        options={"mark": mark},
        charts={"topics": topics_chart},
        name=f"facts_{mark}",
        empty=_EMPTY,
        titled=False,
    )
    if shown is None:
        return
    st.caption(plain(f"{_MEANING[mark]} {measured_words()} {TOPICS_SECTION.caption}"))
    _draw_faults(selection, judge)


def topics_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return the share of facts of each topic that became one thing, such as never elicited, by model."""
    with_facts = {row["model"] for row in rows}
    models = [model for model in names if model in with_facts]
    topics = list(dict.fromkeys(row["topic"] for row in rows))
    cells = [[Cell(None, "") for _ in models] for _ in topics]
    for row in rows:
        words = (
            f"{row['topic'].capitalize()}, {names[row['model']]}<br>{row.estimate:.1%} ({row.low:.1%} – {row.high:.1%})"
            f"<br>{row.n:,} cases, {row['n_facts']:,} facts"
        )
        cells[topics.index(row["topic"])][models.index(row["model"])] = Cell(row.estimate, f"{row.estimate:.0%}", words)
    columns = [names[model].replace(" ", "<br>", 1) for model in models]
    return heat(cells, columns, [topic.capitalize() for topic in topics], dark=dark)


def _draw_faults(selection: Selection, judge: Judge | None) -> None:
    options = {**FAULTS_SECTION.options, "judge": "|".join(judge) if judge else None}
    result = section_result(FAULTS_SECTION, selection, options)
    if not result.rows:
        return
    st.subheader(FAULTS_SECTION.title, anchor=False)
    own = replace(result, notes=tuple(note for note in result.notes if note.kind == "excluded"))
    section = replace(FAULTS_SECTION, caption=f"{in_words(selection)}. {FAULTS_SECTION.caption}")
    draw_result(section, own, words_of(result, selection), name="faults", titled=False)
    st.caption(FAULTS_SECTION.caption)
    if judge is not None:
        st.caption(f"Judged by {judge_words(judge)}, with a quotation for each. {people_words(judge)}")
