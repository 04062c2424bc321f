"""The part Rubrics: scores by rubric, what must and must not happen, single criteria, and judging."""

from dataclasses import replace

import streamlit as st

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.judging.form import RUBRIC
from core.judging.rubric import name_of
from core.judging.words_rule import RULE_JUDGE
from core.measures.rubrics.reading import read_rubric_outcomes
from core.measures.rubrics.report import CRITERIA, FIGURES
from core.measures.rubrics.scores import PANEL
from core.reviews.rubrics import rubric_entries
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.case.verdicts import BY_RULE
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.jobs import draw_judging
from pages.kit.navigation import link
from pages.kit.page import draw_sections as draw_tabs
from pages.kit.section import draw_section
from pages.kit.stored import conditions
from pages.kit.view import ask_selection, offered

_KEY = "rubric"


def draw_rubrics() -> None:
    if not conditions():
        draw_empty("No conversation is stored yet.", CAMPAIGN, RELEASE, icon="rule")
        return
    rubrics = {name: entry.form.title for name, entry in read(rubric_entries).items()}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        last = read(read_rubric_outcomes, Selection()).rubric
        default = name_of(last) if last else None
        name = choose("Rubric", list(rubrics), _KEY, names=rubrics, default=default, width=360)
        link("cases", "Import or download", "rule", rubrics="open")
    selection = ask_selection(offered(), "models", "datasets", "specialties")
    judges = list(read(read_rubric_outcomes, selection, name).available)
    judge = None
    if len(judges) > 1:
        judge = choose("Judge", [*judges, PANEL], "rubric_judge", names={PANEL: "Majority of all judges"}, width=360)
    draw_tabs(_TABS, "rubric_tab", selection, name, judge)


def _draw_figures(selection: Selection, rubric: str, judge: str | None) -> None:
    for section in FIGURES:
        options = {"rubric": rubric, "judge": judge, **section.options}
        key = section.title.lower().replace(" ", "_")
        if draw_section(section, selection, options=options, name=f"rubric_{key}") is None:
            return


def _draw_criteria(selection: Selection, rubric: str, judge: str | None) -> None:
    options = {"rubric": rubric, "judge": judge}
    draw_section(CRITERIA, selection, options=options, name="rubric_criteria", titled=False)


def _draw_judging(selection: Selection, rubric: str, _judge: str | None) -> None:
    """Draw the form that starts judging the selected conversations, or the progress of the job."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        repeat = st.number_input(
            "Repeats", 1, 10, 1, key="rubric_repeat", width=180, help="More than 1 measures the judge’s consistency."
        )
        limit = st.number_input(
            "Conversations", 1, None, None, key="rubric_limit", width=180, placeholder="All", help="A random sample."
        )
    conversations = selection.of_conversations
    job = Judging(f"{RUBRIC}{rubric}", (RULE_JUDGE,), conversations, limit=limit, repeat=int(repeat))

    def make(model: str, address: str | None) -> Judging:
        return replace(job, by=(model,), base_url=address)

    draw_judging(Judging, make, "rubric", job.instance, (RULE_JUDGE, BY_RULE))


_TABS = {"Figures": _draw_figures, "Criteria": _draw_criteria, "Judging": _draw_judging}
