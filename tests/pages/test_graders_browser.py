"""The Graders page in a real browser: from the matrix to an answer on which two differ. Needs Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.store.database import Store
from tests.core.measures.graders.graded import three_graders
from tests.support.dashboard import NARROW, Dashboard, scrolls_sideways, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    three_graders(Store(dashboard.database))
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("judges")


def test_from_the_matrix_to_an_answer_and_a_link_reopens_it(page: Page, dashboard: Dashboard) -> None:
    expect(page.get_by_text("differ on 2 of 5 answers to 3 cases.")).to_be_visible()
    page.get_by_role("button", name="Read the differences").click()
    expect(page.get_by_text("answers on which the verdicts differ")).to_be_visible()
    settle(page)
    page.get_by_test_id("stDataFrame").last.click(position={"x": 16, "y": 55})
    expect(page.get_by_text("What brings you in?")).to_be_visible()
    settle(page)
    link = page.url
    assert "graders_answer=t001" in link
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    page.goto(link)
    settle(page)
    expect(page.get_by_text("What brings you in?")).to_be_visible()
    assert not scrolls_sideways(page)
