"""What a section of a page shows is what its metric says: the rows, the notes, and a table line for each row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from core.errors import AnamnesisError
from core.jobs.ask_job import jobs
from core.measures.accuracy import report
from core.measures.base import Columns, Counted, MetricRequest, Result, Row, Section, Side
from core.measures.behind import Behind, read_address, trials_behind
from core.measures.case_matrix import MATRIX
from core.measures.compare import LOSSES
from core.measures.notes import result_of
from core.measures.registry import case_views, modules, qualities, sections
from core.store.database import Store
from core.store.queries.runs import runs
from core.store.queries.trials import trial_events
from core.store.selection import Selection
from pages.accuracy.page import FIGURES
from pages.compare.outcomes import DIFFERENCES
from pages.compare.versions import ACCURACY, BY_SPECIALTY, STEPS
from pages.kit.section import draw_result, section_result, table_of, words_of
from tests.support.behind import faults_of
from tests.support.pages import filled_study
from tests.support.stores import copy_of

RUBRIC = {"rubric": "demo"}
JARGON = re.compile(
    r"\b(arms?|seats?|substring|pool(ed)?|caps?|prompt packs?|(?<!question )marks?|hits?)\b", re.IGNORECASE
)
MOST_WORDS = 25
RESULTS = ("accuracy", "compare", "conversations", "failures", "trust", "")
"""Pages whose sections use the words of the field; "" are sections that pages declare, and measures without a page."""
LEAST_WITH_ROWS = 50
"""So many sections, of about a hundred, have rows in the filled study; the others need files or a judge."""


def declared() -> Iterator[Section]:
    pages = {section.page for module in modules() for section in getattr(module, "SECTIONS", ())}
    for page in sorted(pages | {""}):
        yield from sections(page)


def test_sections_speak_to_newcomers() -> None:
    """Captions are short, and labels and help use the words of the field."""
    faults = []
    for section in (*declared(), FIGURES, ACCURACY, BY_SPECIALTY, STEPS, DIFFERENCES):
        words = len(section.caption.split())
        faults += [f"{section.title}: {words} words of caption"] * (words > MOST_WORDS)
        help_ = section.help.removeprefix(section.metric.help)  # the help of a command speaks to its users
        texts = [section.title, section.caption, section.axis, section.compared, help_, section.metric.empty]
        for text in (*texts, *section.heads.values(), *section.words.values()):
            found = JARGON.findall(text) if section.page in RESULTS else []
            faults += [f"{section.page}, {section.title}: {found}"] * bool(found)
    assert faults == []


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


def differences(shown: Result, expected: Result) -> list[str]:
    # by their text, since a figure that does not exist may be NaN, which equals nothing
    notes, expected_notes = ([(note.kind, note.severity) for note in result.notes] for result in (shown, expected))
    faults = {
        "the rows are others": repr(shown.rows) != repr(expected.rows),
        "the notes are others": notes != expected_notes,
    }
    return [fault for fault, found in faults.items() if found]


def table_faults(section: Section, shown: Result, selection: Selection) -> list[str]:
    """Return what the table of a section leaves out: lines, and numbers of the columns that it declares."""
    table = table_of(shown, words_of(shown, selection), section)
    if len(table) != len(shown.rows) and not section.wide:
        return [f"{len(table)} lines for {len(shown.rows)} rows"]
    numbers = {
        value
        for row in shown.rows
        for name, value in (row.cells(plain=True) if isinstance(row, Row) else row).items()
        if isinstance(value, float) and name in (section.columns or (name,)) and not name.startswith("p")
    }
    in_table = {value for column in table for value in table[column] if isinstance(value, float)}
    missing = sorted(value for value in numbers - in_table if not math.isnan(value))
    return [f"not in the table: {missing[:3]}"] if missing else []


def opening_faults(section: Section, shown: Result, request: MetricRequest) -> list[str]:
    """Return how what opens from rows and cells of a section differs from what these count."""
    faults = [fault for row in shown.figures for fault in faults_of(row, request)]
    if any(row.counts for row in shown.figures):
        faults += [f"{dict(row.label)} opens nothing" for row in shown.figures if not (row.counts or row.source)]
    lines = [line for line in shown.rows if isinstance(line, Mapping)]
    with request.store.read() as cursor:
        faults += [
            f"{line['trial_id']} is not stored"
            for line in lines
            if "trial_id" in line and not trial_events(cursor, line["trial_id"])
        ]
    for line in lines if section.cell_behind else ():
        for column in line:
            if section.cell_behind and (cell := section.cell_behind(request.selection, line, column)):
                trials = trials_behind(replace(request, selection=cell[0], query=None), cell[1])
                if not math.isclose(len(trials["right"]) / max(1, len(trials["counted"])), line[column]):
                    faults.append(f"{line['case']}, {column}: {line[column]}, opens {len(trials['counted'])}")
    return faults


@pytest.mark.slow
def test_a_section_shows_the_rows_and_notes_of_its_metric(database: Path) -> None:
    """Each metric is computed once more, as its command does; each section's table is compared with its rows.

    Every row and cell that opens conversations opens as many as it counts.
    """
    store = copy_of(filled_study, database.parent)
    with store.read() as cursor:
        by_rules = [run.run_id for run in runs(cursor) if run.doctor == "reference/bayes" and run.protocol != "craftmd"]
    selection = Selection(runs=[*by_rules, "run0", "run1", "run", "urgent"])
    remembered = cache(lambda query, *args, **more: query(store, *args, **more))
    request = MetricRequest(store, selection, query=remembered)
    faults, with_rows, compared = [], 0, set[str]()
    for section in declared():
        name, shown = f"{section.page}, {section.title}", of_page(section, selection)
        if section.metric.name not in compared or isinstance(shown, str):
            expected = of_metric(section, selection)
            if isinstance(shown, str) or isinstance(expected, str):
                faults += [f"{name}: {shown} / {expected}"] * (shown != expected)
                continue
            compared.add(section.metric.name)
            faults += [f"{name}: {fault}" for fault in differences(shown, expected)]
        assert isinstance(shown, Result), name
        with_rows += bool(shown.rows)
        faults += [f"{name}: {fault}" for fault in table_faults(section, shown, selection)]
        faults += [f"{name}: {fault}" for fault in opening_faults(section, shown, request)]
    assert faults == []
    assert with_rows >= LEAST_WITH_ROWS


def test_a_wide_table_has_a_line_for_each_model_and_what_is_declared_fits_together() -> None:
    label = {"model": "a", "cases": "ours"}
    rows = (
        Row({**label, "measure": "recall"}, 0.5),
        Row({**label, "measure": "turns"}, 7),
        Row({**label, "cases": "all", "model": "b", "measure": "recall"}, None),
    )
    section = Section("Measures", report, wide="measure", columns=("model",), words={"recall": "Recall"})
    table = table_of(Result("Measures", rows), section.words, section)
    assert table.columns.tolist() == ["Model", "Recall", "turns"]
    assert table.iloc[0].tolist() == ["a", 0.5, 7]
    assert table.iloc[1].isna().tolist() == [False, True, True]
    faults = [
        f"{quality.title}, {view.title}, {name}: {option}"
        for quality in qualities()
        for view in quality.views
        for name, section in view.sections.items()
        for option in section.controls
        if option not in quality.controls or option not in {known.name for known in section.metric.options()}
    ]
    jobs_missing = [view.job for quality in qualities() for view in quality.views if view.job not in ("", *jobs())]
    jobs_missing += [job for view in case_views() for job in view.jobs if job not in jobs()]
    assert (faults, jobs_missing) == ([], [])


def test_a_line_or_cell_opens_what_it_counts_and_the_largest_loss_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, str]] = []
    clicks: list[Callable[[int], None] | None] = []
    monkeypatch.setattr("pages.kit.section.draw_table", lambda table, key, on_row: clicks.append(on_row))
    monkeypatch.setattr("pages.kit.section.lead_to", lambda page, **query: opened.append({"page": page, **query}))
    monkeypatch.setattr("pages.kit.section.st.caption", lambda words, help=None: None)
    section = Section("Right", report, kind="table")
    counts = Counted((Side("a", ("vignette", "mcq")),))
    figure, sourced, silent = Row({"model": "a"}, 0.5, counts=counts), Row({"model": "b"}, 0.5), {"model": "a"}
    trial = {"model": "a", "trial_id": "run/1/0"}
    selection = Selection(case_sets=("ours",))
    for rows in ((figure, sourced), (sourced, silent), (trial, silent)):
        draw_result(section, Result("Right", rows), {}, name="right", selection=selection)
    of_figures, of_silent, of_trials = clicks
    assert of_silent is None
    assert of_figures is not None
    assert of_trials is not None
    for number in (0, 1):
        of_figures(number)
        of_trials(number)
    lines = ({"case": "ours/1", "a": 0.5, "b": None, "format": "vignette", "question_type": "mcq"},)
    cells: list[Callable[[int, str], None]] = []
    monkeypatch.setattr("pages.kit.section.draw_table", lambda table, key, columns, on_cell: cells.append(on_cell))
    draw_result(MATRIX, Result("Cases", lines), {"a": "Model A"}, name="cases", selection=selection)
    for column in ("Case", "Model A", "B"):
        cells[0](0, column)
    tables: list[pd.DataFrame] = []
    monkeypatch.setattr("pages.kit.section.draw_table", lambda table, key, on_row: tables.append(table))
    sizes = tuple(Row({"model": str(n)}, n, columns=Columns("difference")) for n in (0.1, None, -0.3, -0.2))
    draw_result(replace(LOSSES, kind="table", columns=("model",)), Result("Losses", sizes), {}, name="losses")
    assert tables[0]["Model"].tolist() == ["-0.3", "-0.2", "0.1", "None"]
    behind, reading, cell = opened
    assert read_address(cell["row"]) == Behind(replace(selection, cases=("ours/1",)), counts)
    assert (behind["page"], read_address(behind["row"])) == ("conversations", Behind(selection, counts))
    assert reading == {"page": "conversations", "trial": "run/1/0"}
