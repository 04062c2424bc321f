"""Accessibility of every tab by axe-core: narrow, zoomed to 200 %, light, dark, and with all that opens opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.store.queries.trials import conversations
from core.store.sample import add_sample
from core.store.selection import Selection
from pages.kit.navigation import PAGES
from tests.support.dashboard import NARROW, WIDE, settle, shared
from tests.support.stores import copy_of

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NAMES = ["" if name == "home" else name for group in PAGES.values() for name in group]
ZOOMED = (720, 450)
"""A window of 1440 × 900 at 200 %."""
STREAMLIT = {
    ("list", '[data-testid="stSidebarNavItems"]'): "the groups of the navigation are <div> in its <ul>",
    ("listitem", '[data-testid="stSidebarNavItems"] li'): "the same",
    ("presentation-role-conflict", '[data-testid="stFileUploaderDropzone"]'): "its area is a presentation with a name",
    ("empty-table-header", '[data-testid="stDataFrame"] canvas th[aria-colindex="1"]'): "the column that selects rows",
}
"""Rule and selector of elements that only Streamlit can change → why they fail."""


@dataclass(frozen=True)
class Setting:
    size: tuple[int, int] = WIDE
    theme: str = "light"
    unfolded: bool = False


SETTINGS = {
    "unfolded, light": Setting(unfolded=True),
    "unfolded, dark": Setting(theme="dark", unfolded=True),
    "narrow, light": Setting(NARROW),
    "narrow, dark": Setting(NARROW, "dark"),
    "zoomed": Setting(ZOOMED),
}


def violations(page: Page, where: str | None = None) -> list[str]:
    """Return what axe-core finds in the page or in the elements of a selector, without those in ``STREAMLIT``."""
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for rule in Axe().run(page, where).response["violations"]
        for node in rule["nodes"]
        if not any(
            rule["id"] == known and page.locator(str(node["target"][0])).first.evaluate(_MATCHES, selector)
            for known, selector in STREAMLIT
        )
    ]


_MATCHES = "(element, selector) => element.matches(selector)"


def drawn(page: Page) -> None:
    """Wait until the page and the widgets that load by themselves are drawn, and nothing changes any more."""
    settle(page, PATIENCE_S)
    page.wait_for_function(_UNCHANGED, polling=300)


def parts(page: Page) -> Iterator[str]:
    """Open every tab of the page, and yield its title; one empty title for a page without tabs."""
    tabs = page.locator('[data-testid="stMain"] [role="tab"], .st-key-conversations_shown [role="radio"]')
    for number in range(tabs.count()):
        tabs.nth(number).click()
        drawn(page)
        yield tabs.nth(number).inner_text()
    if not tabs.count():
        yield ""


def unfolded(page: Page) -> Iterator[str]:
    """Open every expander once, since one may close another, then every menu; yield the selector of what it changed."""
    opened: set[str] = set()
    while closed := [
        summary
        for summary in page.locator('[data-testid="stExpander"] details:not([open]) > summary:visible').all()
        if summary.inner_text() not in opened
    ]:
        opened.add(closed[0].inner_text())
        closed[0].click()
        drawn(page)
        yield '[data-testid="stMain"]'  # the first section of a page has no frame while it is open
    menus = page.get_by_test_id("stMain").locator('[data-testid="stPopover"] button:enabled:visible')
    for number in range(menus.count()):
        menus.nth(number).click()
        expect(page.get_by_test_id("stPopoverBody")).to_be_visible(timeout=PATIENCE_S * 1000)
        drawn(page)
        yield '[data-testid="stPopoverBody"]'
        page.keyboard.press("Escape")


PATIENCE_S = 600.0
"""Limit of each wait: only a page that hangs reaches it, however loaded the machine is."""
_UNCHANGED = """() => {
    const page = document.querySelector('[data-testid="stApp"]');
    const running = page.dataset.testScriptState !== "notRunning" || page.querySelector('[data-testid="stSkeleton"]');
    const size = page.getElementsByTagName("*").length, now = performance.now();
    if (running || window.sizeBefore !== size) [window.sizeBefore, window.unchangedSince] = [size, now];
    return now - window.unchangedSince > 800;
}"""


@pytest.mark.timeout(0)  # each wait has its limit
@pytest.mark.parametrize("name", SETTINGS)
def test_no_page_has_a_barrier(browser: Browser, tmp_path: Path, name: str) -> None:
    setting = SETTINGS[name]
    store = copy_of(add_sample, tmp_path)
    with store.read() as cursor:
        (played,) = conversations(cursor, Selection(frameworks=["craftmd"]), limit=1)
    opened = [f"{path}?trial={played.trial_id}" for path in ("live", "conversations", "debugger")]
    opened += ["cases?dataset=library", "cases?dataset=library&case=library/cardiology-1"]
    with visiting(browser, shared.dashboard(tmp_path)) as visitors:
        page = visitors.open("", setting.size, setting.theme)
        page.set_default_timeout(PATIENCE_S * 1000)
        failed = {}
        for path in (*NAMES, *opened):
            page.goto(f"{visitors.dashboard.address}/{path}")
            drawn(page)
            for part in parts(page):
                found = violations(page)
                for where in unfolded(page) if setting.unfolded else ():
                    found += violations(page, where)
                failed[path, part] = found
        assert {place: found for place, found in failed.items() if found} == {}
