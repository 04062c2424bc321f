"""The Graders page in a real browser: from an answer on which two differ to its conversation. Needs Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from core.store.database import Store
from tests.core.measures.graders.graded import three_graders
from tests.support.dashboard import Dashboard, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    three_graders(Store(dashboard.database))
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("trust")


def test_from_a_difference_to_its_conversation(page: Page) -> None:
    page.get_by_role("combobox", name=re.compile("Show")).click()
    page.get_by_role("option", name="Differences", exact=True).click()
    settle(page)
    page.get_by_test_id("stDataFrame").first.click(position={"x": 16, "y": 55})
    expect(page.get_by_text("What brings you in?")).to_be_visible()
    assert "trial=t001" in page.url
