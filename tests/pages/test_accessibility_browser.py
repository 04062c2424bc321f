"""Accessibility of every page by axe-core: wide, narrow, light, dark, zoomed to 200 %, and with everything unfolded."""

from __future__ import annotations

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
    "wide, light": Setting(),
    "wide, dark": Setting(theme="dark"),
    "narrow, light": Setting(NARROW),
    "narrow, dark": Setting(NARROW, "dark"),
    "zoomed": Setting(ZOOMED),
    "unfolded": Setting(unfolded=True),
}


def violations(page: Page) -> list[str]:
    """Return what axe-core finds, without the elements in ``STREAMLIT``."""
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for rule in Axe().run(page).response["violations"]
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


def unfold(page: Page) -> None:
    """Open every expander once, since one may close another, then the first menu."""
    opened: set[str] = set()
    while closed := [
        summary
        for summary in page.locator('[data-testid="stExpander"] details:not([open]) > summary').all()
        if summary.inner_text() not in opened
    ]:
        opened.add(closed[0].inner_text())
        closed[0].click()
        drawn(page)
    menus = page.get_by_test_id("stMain").get_by_test_id("stPopover").locator("button")
    if menus.count():
        menus.first.click()
        expect(page.get_by_test_id("stPopoverBody")).to_be_visible(timeout=PATIENCE_S * 1000)
        drawn(page)


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
    of_trial = [f"{path}?trial={played.trial_id}" for path in ("live", "conversations", "debugger")]
    with visiting(browser, shared.dashboard(tmp_path)) as visitors:
        page = visitors.open("", setting.size, setting.theme)
        page.set_default_timeout(PATIENCE_S * 1000)
        failed = {}
        for path in (*NAMES, *of_trial):
            page.goto(f"{visitors.dashboard.address}/{path}")
            drawn(page)
            if setting.unfolded:
                unfold(page)
            failed[path] = violations(page)
        assert {path: found for path, found in failed.items() if found} == {}
