"""Rubrics: scores, what must and must not happen, single criteria, and judging."""

import streamlit as st

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.judging.form import RUBRIC
from core.judging.rules import RULE_JUDGE
from core.measures.rubrics.reading import PANEL, read_rubric_outcomes
from core.measures.rubrics.report import CRITERIA, FIGURES
from core.reviews.rubrics import rubric_entries
from core.store.queries.rubrics import last_rubric
from core.store.selection import Selection
from pages.kit.cached import ask, read
from pages.kit.case.verdicts import BY_RULE
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.jobs import draw_judging
from pages.kit.navigation import link
from pages.kit.section import draw_section
from pages.kit.stored import conditions
from pages.kit.view import FilterRow, ask_selection, offered

_SHOWN = {"Figures": FIGURES, "Criteria": (CRITERIA,), "Judging": ()}


def draw_rubrics() -> None:
    if not conditions():
        draw_empty("No conversation is stored yet.", CAMPAIGN, RELEASE, icon="rule")
        return
    row = FilterRow()
    rubrics = {name: entry.form.title for name, entry in read(rubric_entries).items()}
    last = ask(last_rubric)
    with row.own:
        name = choose("Rubric", list(rubrics), "rubric", names=rubrics, default=last, width=336)
        shown = choose("Show", list(_SHOWN), "rubric_tab", width=128)
    selection = ask_selection(offered(), "models", "datasets", "specialties", row=row)
    judges = list(read(read_rubric_outcomes, selection, name, None).available)
    judge = None
    with row.popover():
        if len(judges) > 1:
            judge = choose("Judge", [*judges, PANEL], "rubric_judge", names={PANEL: "Majority of all judges"})
        link("cases", "Import or download a rubric", "rule", rubrics="open")
    if shown == "Judging":
        _draw_judging(selection, name)
        return
    for number, section in enumerate(_SHOWN[shown]):
        options = {"rubric": name, "judge": judge, **section.options}
        key = f"rubric_{section.title.lower().replace(' ', '_')}"
        controls = None if number else row.popover()
        if draw_section(section, selection, options=options, name=key, titled=number > 0, controls=controls) is None:
            return


def _draw_judging(selection: Selection, rubric: str) -> None:
    """Draw the form that starts judging the selected conversations, or the progress of the job."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        repeat = st.number_input(
            "Repeats", 1, 10, 1, key="rubric_repeat", width=180, help="More than 1 measures the judge’s consistency."
        )
        limit = st.number_input(
            "Conversations", 1, None, None, key="rubric_limit", width=180, placeholder="All", help="A random sample."
        )
    conversations = selection.of_conversations
    job = Judging(f"{RUBRIC}{rubric}", conversations=conversations, limit=limit, repeat=int(repeat))
    draw_judging(job, "rubric", (RULE_JUDGE, BY_RULE))
