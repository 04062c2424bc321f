"""One page of a served dashboard in headless Chromium, watched from its opening to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect, sync_playwright

from tests.support.dashboard import CHROMIUM, FLAGS, WIDE, Dashboard, Eyes, settle

SOON = 45_000
"""Milliseconds in which what is expected has to come, also on a busy machine."""


@contextmanager
def watched(dashboard: Dashboard, path: str) -> Iterator[Page]:
    """Open a page; at the end neither the browser nor the server may have complained, nor asked for anything abroad."""
    eyes = Eyes(dashboard.address)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
        context.set_default_timeout(SOON)
        expect.set_options(timeout=SOON)
        eyes.watch(context)
        page = context.new_page()
        page.goto(f"{dashboard.address}{path}")
        settle(page)
        yield page
        browser.close()
    assert eyes.console == []
    assert eyes.abroad == []
    assert dashboard.trouble == []
