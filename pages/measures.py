"""More measures: all metrics without a page, including those of extensions, drawn from their declarations."""

from dataclasses import replace

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import Filter, Section
from core.measures.registry import sections
from core.store.selection import Selection, case_sets_played
from pages.kit.cached import ask
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.names import dataset_name
from pages.kit.page import show
from pages.kit.section import draw_section
from pages.kit.stored import conditions
from pages.kit.view import FilterRow, SelectionPart, ask_selection, offered, union


def draw_measures() -> None:
    by_title = {section.title: section for section in sections("measures")}
    usual = "Repeatability" if "Repeatability" in by_title else None
    title = choose("Measure", list(by_title), "measure", default=usual, width=320)
    section = by_title[title]
    if not conditions():
        draw_empty("Nothing is stored yet.", CAMPAIGN, RELEASE, icon="straighten")
        return
    draw_section(section, _ask_selection(section), titled=False)


def _ask_selection(section: Section) -> Selection:
    """Ask for the selection of a section, with the controls of its metric's filters."""
    filters = section.metric.filters
    row = FilterRow()
    sets: tuple[str, ...] = ()
    if "cases" in filters:
        with row.cases:
            sets = choose_several("Cases", list(ask(case_sets_played)), "measure_cases", names=dataset_name)
    models = tuple(condition.name for condition in conditions(sets[0] if len(sets) == 1 else None))
    offer = replace(union(offer for name, offer in offered().items() if not sets or name in sets), models=models)
    parts = (_PART[name] for name in filters if name in _PART)
    return ask_selection({"": offer}, *parts, base=Selection(case_sets=sets or None), row=row)


_PART: dict[Filter, SelectionPart] = {
    "models": "models",
    "source": "source",
    "formats": "formats",
    "questions": "questions",
    "datasets": "datasets",
    "specialties": "specialties",
    "asks_for": "asks_for",
    "mcq_rule": "rule",
    "pool": "pooled",
}
"""Filter of a metric → part of a selection."""


if __name__ == "__main__":
    show("More measures", draw_measures, "Measures without a separate page, and those of your extensions.")
