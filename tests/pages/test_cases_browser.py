"""The page Cases from an upload to a case with its profile, in a real browser. Needs Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from core.datasets.library import library
from tests.support.dashboard import NARROW, Dashboard, scrolls_sideways, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import press_key, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FIRST_ROW = {"x": 120, "y": 52}  # a cell of it, not the box before it
"""Where the box lies that chooses the first row of a table, below its header."""


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("cases")


def test_an_upload_becomes_cases(page: Page, tmp_path: Path) -> None:
    records = [
        {
            "question": f"{c.vignette} {c.question}",
            "options": c.letters,
            "answer": c.answer,
            "answer_idx": next(letter for letter, choice in c.letters.items() if choice == c.answer),
            "meta_info": "step1",
        }
        for c in library()[:3]
    ]
    file = tmp_path / "mine.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, records)))

    page.get_by_text("Import cases").click()
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(file)
    page.get_by_role("button", name=re.compile("Import 3 cases")).click()
    expect(page).to_have_url(re.compile("dataset=mine"))
    expect(page.get_by_text("Imported 3 cases")).to_be_visible()

    cases = page.get_by_role("tabpanel", name="Cases")  # another tab may have a table too
    cases.get_by_test_id("stDataFrame").click(position=FIRST_ROW)
    expect(page).to_have_url(re.compile("case=mine"))
    expect(page.get_by_text("No profile")).to_be_visible()
    press_key(page, "j", page.get_by_text("2 of 3 found"))
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    settle(page)
    assert not scrolls_sideways(page)
    page.reload()
    settle(page)
    expect(page.get_by_text("2 of 3 found")).to_be_visible()
