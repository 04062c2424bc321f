"""Pages of a served dashboard in headless Chromium, watched from their opening to their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page, TimeoutError, expect

from tests.support.dashboard import SOON, WIDE, Dashboard, Eyes, settle


class Visitors:
    """Opens pages, each for a separate visitor, and remembers the messages of their browsers."""

    def __init__(self, browser: Browser, dashboard: Dashboard) -> None:
        self.browser = browser
        self.dashboard = dashboard
        self.eyes = Eyes(dashboard.address)

    def open(self, path: str, size: tuple[int, int] = WIDE, theme: str = "light") -> Page:
        """Open an address of the dashboard, whole or from its root on, and wait until it is drawn."""
        width, height = size
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        context.set_default_timeout(SOON)
        self.eyes.watch(context)
        page = context.new_page()
        page.goto(path if path.startswith("http") else f"{self.dashboard.address}/{path}")
        settle(page)
        return page


def press_key(page: Page, key: str, then: Locator) -> None:
    """Press a key and wait for what it brings; once more, as a person would, where a redraw swallowed it."""
    for _ in range(2):
        page.keyboard.press(key)
        try:
            then.wait_for(timeout=SOON / 3)
        except TimeoutError:
            continue
        return
    expect(then).to_be_visible()


@contextmanager
def visiting(browser: Browser, dashboard: Dashboard) -> Iterator[Visitors]:
    """Give a way to open pages; nothing may have been asked for abroad then, and neither side may have complained."""
    visitors = Visitors(browser, dashboard)
    before = len(dashboard.trouble)
    try:
        yield visitors
    finally:
        for context in browser.contexts:
            context.close()
    assert visitors.eyes.console == []
    assert visitors.eyes.abroad == []
    assert dashboard.trouble[before:] == []
