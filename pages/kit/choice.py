"""One of several sections, drawn from its declaration alone: its options as controls, and the filters of its metric."""

from collections.abc import Sequence
from dataclasses import replace

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import Filter, Section
from core.store.selection import Selection, case_sets_played
from pages.kit.cached import ask
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.names import dataset_name
from pages.kit.section import draw_section
from pages.kit.stored import conditions
from pages.kit.view import FilterRow, SelectionPart, ask_selection, offered, union

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


def draw_chosen(sections: Sequence[Section]) -> None:
    """Ask for one of the sections by its title and draw it; the URL parameter ``measure`` has the title."""
    if not conditions():
        draw_empty("Nothing is stored yet.", CAMPAIGN, RELEASE, icon="straighten")
        return
    row = FilterRow()
    by_title = {section.title: section for section in sections}
    with row.own:
        section = by_title[choose("Measure", list(by_title), "measure", width=176)]
    selection = _ask_selection(section, row)
    draw_section(section, selection, titled=False, controls=row.own if len(section.controls) == 1 else row.popover())


def _ask_selection(section: Section, row: FilterRow) -> Selection:
    filters = section.metric.filters
    sets: tuple[str, ...] = ()
    if "cases" in filters:
        with row.cases:
            sets = choose_several("Cases", list(ask(case_sets_played)), "measure_cases", names=dataset_name)
    models = tuple(condition.name for condition in conditions(sets[0] if len(sets) == 1 else None))
    offer = replace(union(offer for name, offer in offered().items() if not sets or name in sets), models=models)
    parts = (_PART[name] for name in filters if name in _PART)
    return ask_selection({"": offer}, *parts, base=Selection(case_sets=sets or None), row=row)
