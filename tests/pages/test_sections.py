"""What a section of a page shows is what its metric says: the rows, the notes, and a table line for each row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import AnamnesisError
from core.measures.base import MetricRequest, Result, Row, Section
from core.measures.notes import result_of
from core.measures.registry import modules, sections
from core.store.database import Store
from core.store.queries.runs import runs
from core.store.selection import Selection
from pages.kit.section import section_result, table_of, words_of
from tests.support.pages import filled_study
from tests.support.stores import copy_of

RUBRIC = {"rubric": "demo"}
LEAST_WITH_ROWS = 60
"""So many sections, of nearly a hundred, have rows in the filled study; the others need files or a judge."""


def declared() -> Iterator[Section]:
    pages = {section.page for module in modules() for section in getattr(module, "SECTIONS", ())}
    for page in sorted(pages | {"measures"}):
        yield from sections(page)


def options_of(section: Section) -> dict[str, Any]:
    needs_rubric = any(option.name == "rubric" for option in section.metric.options())
    return {**(RUBRIC if needs_rubric else {}), **section.options}


def of_metric(section: Section, selection: Selection) -> Result | str:
    """Return the result of a section's metric as its command computes it, or the sentence that refuses it."""
    try:
        return result_of(section.metric, MetricRequest(Store(), selection), options_of(section))
    except AnamnesisError as error:
        return str(error)


def of_page(section: Section, selection: Selection) -> Result | str:
    try:
        return section_result(section, selection, options_of(section))
    except AnamnesisError as error:
        return str(error)


def faults_of(section: Section, shown: Result, expected: Result, selection: Selection) -> list[str]:
    faults = []
    if shown.rows != expected.rows:
        faults.append("the rows are others")
    if [(note.kind, note.severity) for note in shown.notes] != [(note.kind, note.severity) for note in expected.notes]:
        faults.append("the notes are others")
    table = table_of(shown, words_of(shown, selection), section)
    if len(table) != len(expected.rows):
        faults.append(f"{len(table)} lines for {len(expected.rows)} rows")
    numbers = {
        value
        for row in expected.rows
        for name, value in (row.cells(plain=True) if isinstance(row, Row) else row).items()
        if isinstance(value, float) and name in (section.columns or (name,)) and not name.startswith("p")
    }
    in_table = {value for column in table for value in table[column] if isinstance(value, float)}
    if missing := {value for value in numbers - in_table if value == value}:
        faults.append(f"not in the table: {sorted(missing)[:3]}")
    return faults


def test_a_section_shows_the_rows_and_notes_of_its_metric(database: Path) -> None:
    store = copy_of(filled_study, database.parent)
    with store.read() as cursor:
        by_rules = [run.run_id for run in runs(cursor) if run.doctor.startswith("reference/") and run.source == "local"]
    selection = Selection(runs=[*by_rules, "run0", "run1", "run", "urgent"])
    faults, with_rows = [], 0
    for section in declared():
        shown, expected = of_page(section, selection), of_metric(section, selection)
        name = f"{section.page}, {section.title}"
        if isinstance(shown, str) or isinstance(expected, str):
            faults += [f"{name}: {shown} / {expected}"] * (shown != expected)
            continue
        with_rows += bool(expected.rows)
        faults += [f"{name}: {fault}" for fault in faults_of(section, shown, expected, selection)]
    assert faults == []
    assert with_rows >= LEAST_WITH_ROWS
