"""A way by clicks from an empty installation to a decision on own cases: clicks, fields and seconds of each step.

Serves an empty database, and two scripted models on one server of their own. A browser adds both on Models, imports an
Excel file with three faulty rows on Cases, asks for a study on Runs, starts it, and waits for the decision. A click is
a press of a button, a list or one of its entries; a field is a text that is typed or a file that is chosen. Seconds are
those of the machine, without the time in which a person reads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from common import ROOT, table

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

WIDE, NARROW = (1440, 900), (390, 844)


class Visit:
    """A page on which clicks and fields are counted; a picture of each step in both sizes and both themes."""

    def __init__(self, page: Page, address: str, pictures: Path | None) -> None:
        self.page, self.address, self.pictures = page, address, pictures
        self.clicks = self.fields = 0
        self.steps: list[tuple[str, str, str, str]] = []
        self._begun = time.monotonic()

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1
        self.settle()

    def press(self, button: str) -> None:
        self.click(self.page.get_by_role("button", name=button, exact=True))

    def open(self, page: str) -> None:
        """Open a page from the menu."""
        self.click(self.page.get_by_test_id("stSidebar").get_by_role("link", name=page, exact=True))

    def fill(self, label: str, text: str) -> None:
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Tab")
        self.fields += 1
        self.settle()

    def choose(self, label: str, option: str) -> None:
        self.click(self.page.get_by_role("combobox", name=label))
        self.click(self.page.get_by_role("option", name=option, exact=True))

    def settle(self) -> None:
        self.page.wait_for_timeout(200)
        self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=120_000)

    def step(self, name: str) -> None:
        """End a step; pictures are not part of its seconds."""
        seconds = time.monotonic() - self._begun
        self.steps.append((name, str(self.clicks), str(self.fields), f"{seconds:.1f}"))
        for width, height in (WIDE, NARROW) if self.pictures else ():
            for theme in ("light", "dark"):
                self.page.set_viewport_size({"width": width, "height": height})
                self.page.emulate_media(color_scheme=theme)
                self.page.wait_for_timeout(900)
                assert self.pictures is not None
                self.page.screenshot(path=self.pictures / f"{len(self.steps):02}-{name}-{width}-{theme}.png")
        self.page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        self.page.emulate_media(color_scheme="light")
        self.clicks = self.fields = 0
        self._begun = time.monotonic()


def walk(visit: Visit, server: str, file: Path) -> None:
    page = visit.page
    visit.open("Runs")
    visit.step("runs without a model")
    visit.open("Models")
    for model in ("new", "old"):
        visit.fill("Server address", server)
        visit.fill("Model id", model)
        visit.press("Test and save")
    visit.step("two models")
    visit.open("Runs")
    visit.step("the form of a study")
    visit.click(page.get_by_role("link", name="Import a file of cases"))
    page.locator('input[type="file"]').first.set_input_files(file)
    visit.fields += 1
    visit.click(page.get_by_text("Leave out 1 rejected row"))
    visit.step("a file with three faults")
    visit.click(page.get_by_role("button", name="Import 19 cases"))
    page.get_by_text("Imported 19 cases").first.wait_for()
    visit.step("imported")
    visit.open("Runs")
    visit.choose("Cases of the study", "ward")
    visit.choose("New doctor", "server/new")
    visit.choose("Present doctor", "server/old")
    visit.step("the form filled in")
    visit.press("What it takes")
    page.get_by_role("button", name="Start the study").wait_for()
    visit.step("what it takes")
    visit.press("Start the study")
    page.wait_for_timeout(3_000)
    visit.step("started")
    page.get_by_text("Better: server/new is better than server/old.").first.wait_for(timeout=180_000)
    visit.settle()
    visit.step("the decision")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="folder for four pictures of each step")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from playwright.sync_api import sync_playwright

    from core.browser import find_browser

    served, scripted, own = (
        import_module(f"tests.support.{name}") for name in ("dashboard", "fake_provider", "own_cases")
    )
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    doctors = own.Doctors({"new": range(15), "old": range(3)})
    with (
        tempfile.TemporaryDirectory() as folder,
        scripted.running(doctors.reply) as provider,
        served.serving(Path(folder)) as dashboard,
        sync_playwright() as playwright,
    ):
        own.workbook(Path(folder) / "ward.xlsx", own.GOOD, own.FAULTY)
        browser = playwright.chromium.launch(executable_path=find_browser(), args=served.FLAGS)
        page = browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]}, color_scheme="light")
        page.set_default_timeout(60_000)
        page.goto(dashboard.address)
        visit = Visit(page, dashboard.address, options.pictures)
        page.get_by_role("heading").first.wait_for()
        visit.settle()
        visit.step("home")
        try:
            walk(visit, provider.base_url, Path(folder) / "ward.xlsx")
        except Exception:
            visit.step("failed")
            raise
        finally:
            clicks, fields, seconds = (sum(float(row[column]) for row in visit.steps) for column in (1, 2, 3))
            total = ("in all", f"{clicks:.0f}", f"{fields:.0f}", f"{seconds:.1f}")
            table("From an empty installation to a decision", ("step", "clicks", "fields", "s"), [*visit.steps, total])
        browser.close()


if __name__ == "__main__":
    main()
