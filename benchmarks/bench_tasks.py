"""How many clicks and seconds a visitor needs for twelve tasks, from Home to the answer, in headless Chromium.

Serves the sample study. Each task is one function, which clicks and returns what the visitor looks for. Every click
counts, also one on an option of an open list; typing and scrolling do not. The seconds run from the first click until
the answer is visible, each page opened for the first time. A person also reads, so compare versions, not people.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import ROOT, SMOKE, table

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

sys.path.insert(0, str(ROOT))
from core.datasets.library import library
from core.datasets.published import printed_sets
from core.store.database import Store
from core.store.display_names import dataset_name
from core.store.sample import add_sample
from tests.support.dashboard import WIDE, Dashboard, serving, settle, shared

ROW = 35
"""Height in pixels of a row of a table, and of its header."""
_DRAWN = '[data-testid="stApp"][data-test-script-state="notRunning"]'


class Visit:
    """One task: counts the clicks on a page, and measures from the first of them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0
        self.began = 0.0

    def click(self, target: Locator, **options: Any) -> None:
        """Click as soon as the target is there and the page is drawn."""
        target.first.wait_for()
        self.page.wait_for_selector(_DRAWN)
        self.began = self.began or time.perf_counter()
        self.clicks += 1
        target.first.click(**options)

    def menu(self, title: str) -> None:
        self.click(self.page.get_by_test_id("stSidebarNavLink").filter(has_text=title))

    def tab(self, title: str) -> None:
        self.click(self.page.get_by_role("tab", name=title))

    def button(self, name: str) -> None:
        self.click(self.page.get_by_test_id("stMain").get_by_role("button", name=re.compile(rf"\b{name}\b")))

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list: two clicks."""
        self.click(self.page.get_by_role("combobox", name=re.compile(label)))
        self.click(self.page.get_by_role("option", name=option))

    def row(self, name: str, number: int = 0) -> None:
        """Click a row (from 0) of the table with this key; a table reacts a moment after it is drawn."""
        rows = self.page.locator(f"[class*='st-key-{name}_rows']").get_by_test_id("stDataFrame")
        rows.wait_for()
        settle(self.page)
        self.click(rows, position={"x": 150, "y": ROW + ROW // 2 + ROW * number})

    def figure(self, name: str, words: str = "") -> Locator:
        """Return the figure with this key, once it has these words."""
        return self.page.locator(f"[class*='st-key-{name}'] .js-plotly-plot").filter(has_text=words)

    @property
    def messages(self) -> Locator:
        return self.page.get_by_test_id("stChatMessage")


def watch_a_consultation(visit: Visit) -> Locator:
    visit.click(visit.page.locator(".st-key-home_watch button"))
    return visit.messages.nth(1)


def watch_another(visit: Visit) -> Locator:
    """Begin where the first consultation, which plays on Home, has ended."""
    page = visit.page
    page.get_by_role("link", name=re.compile("^Open with facts")).click()
    page.get_by_role("radio", name="At once", exact=True).click()
    page.get_by_role("button", name=re.compile("New consultation")).wait_for()
    page.get_by_test_id("stSidebarNavLink").first.click()
    settle(page)
    complaint = visit.messages.nth(1).inner_text()
    visit.click(page.locator(".st-key-home_watch button"))
    page.wait_for_function(
        "said => { const chat = document.querySelectorAll('[data-testid=stChatMessage]'); "
        "return chat.length > 1 && chat[1].innerText.trim() && chat[1].innerText != said }",
        arg=complaint,
    )
    return visit.messages.nth(1)


def be_the_doctor(visit: Visit) -> Locator:
    visit.menu("Live consultation")
    visit.choose("Doctor", "A human (you)")
    visit.button("Start the consultation")
    return visit.page.get_by_test_id("stChatInputTextArea")


def debug_a_pasted_case(visit: Visit) -> Locator:
    case = library()[0]
    choices = "\n".join(f"{letter}. {choice}" for letter, choice in case.letters.items())
    visit.menu("Case debugger")
    visit.click(visit.page.get_by_role("radio", name="Paste a vignette"))
    box = visit.page.get_by_role("textbox", name=re.compile("^Vignette"))
    box.fill(f"{case.vignette} {case.question}\n{choices}\nAnswer: {case.answer}")
    box.press("Control+Enter")
    visit.page.get_by_text("Edit its parts").wait_for()
    visit.button("Run the case")
    return visit.page.get_by_role("button", name=re.compile("Download the matrix"))


def who_lost_most(visit: Visit) -> Locator:
    visit.menu("Accuracy")
    visit.tab("Static and conversational")
    return visit.figure("losses")


def in_which_specialty(visit: Visit) -> Locator:
    visit.choose("Losses", "Specialty")
    return visit.figure("losses", "Neurology")


def three_conversations_behind_it(visit: Visit) -> Locator:
    """Begin at the losses of all specialties together: a row of one specialty may have a single conversation."""
    visit.page.goto(f"{visit.page.url.partition('?')[0]}?acc_tab=Static+and+conversational")
    visit.row("losses")
    visit.page.wait_for_url(re.compile("row="))
    visit.row("conversations")
    for _ in range(2):
        visit.page.wait_for_url(re.compile("trial="))
        visit.messages.first.wait_for()
        address = visit.page.url
        visit.button("Next")
        visit.page.wait_for_function("before => location.href != before", arg=address)
    return visit.messages.nth(1)


def first_to_second_mistral(visit: Visit) -> Locator:
    visit.menu("Compare")
    visit.tab("Versions")
    visit.choose("Cases", dataset_name(printed_sets()[0]))
    return visit.figure("monitoring_accuracy", "Mistral v2")


def where_graders_contradict_themselves(visit: Visit) -> Locator:
    visit.menu("Trust")
    visit.choose("Show", "Contradictions")
    return visit.figure("graders_flips")


def cases_that_every_model_failed(visit: Visit) -> Locator:
    rows = visit.page.locator("[class*='st-key-case_matrix_rows']")
    visit.menu("Conversations")
    rows.wait_for()
    before = rows.get_attribute("class")
    visit.click(
        visit.page.get_by_test_id("stMain")
        .get_by_role("radio", name="All wrong")
        .or_(visit.page.get_by_test_id("stMain").get_by_role("button", name="All wrong"))
    )
    visit.page.wait_for_function(
        "before => [...document.querySelectorAll('[class*=st-key-case_matrix_rows]')]"
        ".every(rows => rows.className != before)",
        arg=before,
    )
    return rows


def report_of_a_run(visit: Visit) -> Locator:
    visit.menu("Runs")
    visit.click(visit.page.get_by_test_id("stMain").get_by_role("link", name=re.compile(r"\bReport$")))
    visit.button("Make the report")
    return visit.page.get_by_test_id("stMetric")


def own_first_result_next_to_published_ones(visit: Visit) -> Locator:
    visit.menu("Accuracy")
    visit.tab("Published")
    return visit.figure("published", "Reference")


Task = Callable[[Visit], "Locator"]
TASKS: tuple[Task, ...] = (
    watch_a_consultation,
    watch_another,
    be_the_doctor,
    debug_a_pasted_case,
    who_lost_most,
    in_which_specialty,
    three_conversations_behind_it,
    first_to_second_mistral,
    where_graders_contradict_themselves,
    cases_that_every_model_failed,
    report_of_a_run,
    own_first_result_next_to_published_ones,
)
CONTINUED = (watch_another, in_which_specialty, three_conversations_behind_it)
"""Tasks that go on where the task before ended; the others begin on Home."""


def measured(task: Task, page: Page, dashboard: Dashboard) -> tuple[str, ...]:
    """Do a task; return its line of the table, which says so if the answer does not appear."""
    from playwright.sync_api import TimeoutError

    if task not in CONTINUED:
        page.goto(dashboard.address)
        settle(page)
    visit = Visit(page)
    try:
        task(visit).first.wait_for()
        seconds = f"{time.perf_counter() - visit.began:.1f}"
    except TimeoutError as error:
        print(f"{task.__name__}: {error}", file=sys.stderr)
        seconds = "no answer"
    begins = "there" if task in CONTINUED else "Home"
    return task.__name__.replace("_", " ").capitalize(), begins, str(visit.clicks), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each answer")
    pictures = parser.parse_args().pictures
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANAMNESIS_DB"] = str(Path(folder) / "anamnesis.duckdb")
        add_sample(Store())
        load = os.getloadavg()[0]
        with serving(Path(folder)) as dashboard:
            page = shared.browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]})
            rows = []
            for task in TASKS[:1] if SMOKE else TASKS:
                if task is own_first_result_next_to_published_ones:
                    dashboard.core("run", "--doctor", "reference/bayes", "--cases", "library:Neurology").wait()
                rows.append(measured(task, page, dashboard))
                if pictures:
                    pictures.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=pictures / f"{task.__name__}.png")
        shared.close()
    heads = ("", "begins", "clicks", "seconds")
    table(f"Tasks of a visitor at {WIDE[0]} × {WIDE[1]}; load {load:.1f} on {os.cpu_count()} cores", heads, rows)


if __name__ == "__main__":
    main()
