"""The CARE page in a real browser: from a bar to the message that shows a failure. Needs Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.store.database import Store
from core.store.fold import fold
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, automedic
from tests.core.store.builders import write_journal
from tests.support.dashboard import NARROW, Dashboard, scrolls_sideways, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    store = Store(dashboard.database)
    write_journal(store.journals, "run", automedic(), *SIX, BROKEN)
    fold(store)
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("quality?quality_part=CARE&care_tab=Failures")


def test_a_bar_leads_to_the_message_and_a_link_reopens_it(page: Page, dashboard: Dashboard) -> None:
    expect(page.get_by_text("6 rows.")).to_be_visible()
    # the first trace is role-breaking
    bar = page.locator(".js-plotly-plot .bars .point path").first.bounding_box()
    assert bar is not None
    page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    expect(page.get_by_text("2 rows.")).to_be_visible()
    assert "care_failures_cause=Speaks" in page.url
    page.locator("[class*='st-key-care_failures_list']").get_by_test_id("stDataFrame").click(
        position={"x": 16, "y": 55}
    )
    expect(page.get_by_text("to look at")).to_be_visible()
    settle(page)
    link = page.url
    assert "care_failures=" in link
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    page.goto(link)
    settle(page)
    expect(page.get_by_text("to look at")).to_be_visible()
    expect(page.get_by_text("2 rows.")).to_be_visible()
    assert not scrolls_sideways(page)
