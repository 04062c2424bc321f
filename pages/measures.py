"""More measures: every metric that has no page of its own, drawn from its declaration, those of extensions too."""

from typing import Any

import streamlit as st

from core.measures.base import Section
from core.measures.registry import sections
from core.questions import ASKS_FOR as KINDS
from core.store.selection import Selection, case_sets_played
from pages.kit.cached import ask
from pages.kit.controls import choose, choose_several
from pages.kit.look import ASKS_FOR, RULE
from pages.kit.names import dataset_name, unique_names
from pages.kit.page import say_how_to_begin, show
from pages.kit.section import draw_section
from pages.kit.stored import conditions
from pages.kit.view import RULES

_WIDTH = 224


def draw_measures() -> None:
    """Ask for a measure and for what it is of, and draw its section."""
    found = {section.title: section for section in sections("measures")}
    usual = "Repeatability" if "Repeatability" in found else None
    title = choose("Measure", list(found), "measure", default=usual, width=320)
    section = found[title]
    if not conditions():
        say_how_to_begin("Nothing is stored yet.", icon="straighten")
        return
    draw_section(section, _ask_selection(section), titled=False)


def _ask_selection(section: Section) -> Selection:
    """Ask for what a metric's filters offer; all of them reach the queries of the metric."""
    filters, chosen = section.metric.filters, dict[str, Any]()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if "cases" in filters:
            chosen["case_sets"] = choose_several(
                "Cases", list(ask(case_sets_played)), "measure_cases", names=dataset_name, width=_WIDTH
            )
        if "models" in filters:
            names = unique_names(condition.name for condition in conditions())
            chosen["conditions"] = choose_several("Models", list(names), "measure_models", names=names, width=_WIDTH)
        if "asks_for" in filters:
            chosen["asks_for"] = choose_several("Asks for", KINDS, "asks_for", names=ASKS_FOR, width=_WIDTH)
        if "mcq_rule" in filters:
            chosen["mcq_rule"] = choose("Right choice", RULES, "rule", names=RULE, width=_WIDTH)
        if "pool" in filters:
            chosen["pooled"] = st.toggle("Pool conditions", key="pooled", bind="query-params")
    return Selection(**{name: value for name, value in chosen.items() if value})


if __name__ == "__main__":
    show("More measures", draw_measures, "Measures without a page of their own, and those of your extensions.")
