"""A severe note is shown with its figure everywhere: in the output of a command, its CSV and picture, and on pages.

A row is a situation, the pattern of its note, and the reports and pages with its figures. Steps:
``tests/support/careless.py``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import streamlit as st

from tests.pages.conftest import _awaited_at_rest, _scanned_once  # noqa: F401 (pages are looked at here, too)
from tests.support.careless import Page, Step, done, look, outside, perform
from tests.test_careless_user import BY_RULE, CAST, CHOICES, FREE, HISTORIES, IMPORT, SPOKEN, STAGED, SUMMED_UP, ids


@dataclass(frozen=True)
class Noted:
    """A situation, the pattern of its note, and the places that must show it."""

    name: str
    does: tuple[Step, ...]
    note: str
    reports: tuple[str, ...]
    pages: tuple[Page, ...]


PAIR = "monitor --versions openai/gout-a,openai/gout-b"
ACCURACY, COMPARE, ENDINGS = Page("accuracy"), Page("compare"), Page("endings")
HISTORY, FAILURES = Page("history"), Page("failures")
CARE = Page("care")
FIRST_LANE = "different graders"
"""The situation that runs with every change; the others differ only in the note, which its own tests cover."""

NOTED = (
    Noted(
        "different patients",
        (
            IMPORT,
            f"{SPOKEN} --doctor openai/gout-a {CAST}",
            f"{SPOKEN} --doctor openai/gout-b {CAST.replace('patient-a', 'patient-b')}",
        ),
        "Different patients: .*openai/patient-a.*openai/patient-b",
        ("accuracy", PAIR, "history", "endings"),
        (ACCURACY, COMPARE, ENDINGS, HISTORY, FAILURES),
    ),
    Noted(
        "different graders",
        (
            IMPORT,
            f"{FREE} --doctor openai/gout-a --grader openai/strict",
            f"{FREE} --doctor openai/gout-b --grader openai/lenient",
        ),
        "Different graders: .*openai/strict.*openai/lenient|Different graders: .*openai/lenient.*openai/strict",
        ("accuracy", PAIR),
        (ACCURACY, COMPARE),
    ),
    Noted(
        "different summarisers",
        (
            IMPORT,
            f"{SUMMED_UP} --doctor openai/gout-a {CAST}",
            f"{SUMMED_UP} --doctor openai/gout-b {CAST.replace('openai/summary', 'openai/other-summary')}",
        ),
        "Different summarisers: .*summary",
        ("accuracy", PAIR),
        (ACCURACY, COMPARE),
    ),
    Noted(
        "different solvers",
        (
            f"{HISTORIES} --doctor openai/gout-a --patient reference --solver openai/gout --grader reference",
            f"{HISTORIES} --doctor openai/gout-b --patient reference --solver openai/bunion --grader reference",
        ),
        "Different solvers: .*openai/",
        ("accuracy", "history"),
        (ACCURACY, COMPARE, HISTORY),
    ),
    Noted(
        "different staff",
        (
            f"{STAGED} --doctor openai/gout-a --staff reference {BY_RULE}",
            f"{STAGED} --doctor openai/gout-b --staff openai/nurse {BY_RULE}",
        ),
        "Different staff: .*openai/nurse",
        ("accuracy", "care"),
        (ACCURACY, CARE),
    ),
    Noted(
        "an unfinished run",
        (
            IMPORT,
            f"-{CHOICES} --limit 20 --trials 2 --doctor openai/gout-costly --budget-usd 0.2 --concurrency 1",
            f"{CHOICES} --limit 20 --trials 2 --doctor openai/bunion",
        ),
        r"Unfinished: .*gout-costly 1[0-4] of 40 planned trials",
        ("accuracy", "monitor --versions openai/gout-costly,openai/bunion", "repeatability"),
        (ACCURACY, COMPARE),
    ),
    Noted(
        "different cases",
        (
            IMPORT,
            f"{CHOICES.replace('toes', f'toes:{ids(0, 9)}')} --trials 1 --doctor openai/gout-a",
            f"{CHOICES.replace('toes', f'toes:{ids(5, 14)}')} --trials 1 --doctor openai/gout-b",
        ),
        "Different cases of .*toes.*5 cases are shared",
        ("accuracy", PAIR),
        (ACCURACY, COMPARE),
    ),
    Noted(
        "several served models",
        (IMPORT, f"{CHOICES} --limit 10 --trials 1 --doctor openai/drifts"),
        "several served models behind the doctor: drifts-ju(ne|ly), drifts-ju(ne|ly)",
        ("accuracy", "repeatability"),
        (ACCURACY, FAILURES),
    ),
    Noted(
        "duplicate cases",
        ("import cases {files}/doubled.jsonl", f"{CHOICES.replace('toes', 'doubled')} --trials 1 --doctor openai/gout"),
        "Of the 13 cases of doubled: 6 cases with the vignette of another",
        ("accuracy", "repeatability"),
        (ACCURACY, FAILURES),
    ),
    Noted(
        "a doctor that grades itself",
        (IMPORT, f"{FREE} --doctor openai/both --grader openai/both"),
        "openai/both grades its own answers",
        ("accuracy", "repeatability"),
        (ACCURACY, FAILURES),
    ),
    Noted(
        "questions of several kinds next to published figures",
        (
            "import cases {files}/mixed.jsonl --name craftmd",
            f"{CHOICES.replace('toes', 'craftmd')} --trials 1 --doctor openai/gout",
        ),
        "6 diagnosis, 4 treatment",
        (),  # no report sets published figures next to one's own
        (Page("accuracy", {"source": ["Mine", "Published"]}),),
    ),
    Noted(
        "rules for choices that are far apart",
        (IMPORT, f"{CHOICES} --limit 10 --trials 1 --doctor openai/lists"),
        r"rules for choices differ by \.?0?\.500",
        ("accuracy",),
        (ACCURACY,),
    ),
)


@pytest.mark.parametrize(
    "situation", [pytest.param(row, id=row.name, marks=[pytest.mark.slow] * (row.name != FIRST_LANE)) for row in NOTED]
)
def test_the_note_is_shown_wherever_the_figure_is_shown(situation: Noted, tmp_path: Path) -> None:
    with outside(tmp_path):
        store = done(situation.does, tmp_path)
        for report in situation.reports:
            status, text = perform(f"report {report}")
            assert status == 0, text
            assert re.search(situation.note, text), f"{report}:\n{text}"
            rows, figure = tmp_path / "rows.csv", tmp_path / "figure.html"
            how = f"--format csv --out {rows} --figure {figure}"
            status, text = perform(f"report {report} {how}")
            written = ["\n".join(row["notes"] for row in csv.DictReader(io.StringIO(rows.read_text(encoding="utf-8"))))]
            if status == 0:  # rows of several quantities have no figure
                written.append((tmp_path / "figure.html.txt").read_text(encoding="utf-8"))
            for content in written:
                assert re.search(situation.note, content), f"{report} {how}"
            rows.unlink()
            figure.unlink(missing_ok=True)
    for page in situation.pages:
        with files_offered() as offered:
            seen = look(page, store)
        assert re.search(situation.note, seen.text), f"{page.name}:\n{seen.text}"
        files = [made().decode() for made in offered]
        assert files or page == FAILURES, "only Failures offers no file before causes are looked for"
        assert not files or any(re.search(situation.note, file) for file in files), page.name


@contextmanager
def files_offered() -> Iterator[list[Callable[[], bytes]]]:
    """Yield a list that collects the functions which make the CSV files of pages."""
    offered: list[Callable[[], bytes]] = []
    button = st.download_button

    def offer(label: str, data: Any, file_name: str, *arguments: Any, **more: Any) -> Any:
        if str(file_name).endswith(".csv") and callable(data):
            offered.append(data)
        return button(label, data, file_name, *arguments, **more)

    with mock.patch.object(st, "download_button", offer):
        yield offered
