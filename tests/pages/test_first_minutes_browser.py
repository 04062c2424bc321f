"""The first ten minutes of a newcomer, by clicks, on an empty database. Needs Chromium."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from core.store.database import Store
from core.store.queries.trials import conversations
from core.store.selection import Selection
from tests.support.dashboard import WIDE, Dashboard, choose_speed, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import expect

from tests.support.browsing import visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser
CASES = 3
ROW = 35
"""Height in pixels of a row of a table, and of its header."""
CELL = (150, ROW + ROW // 2)
"""Pixels from the corner of a table to a cell of its first row."""


def test_the_first_minutes_of_a_newcomer(browser: Browser, dashboard: Dashboard) -> None:
    """``visiting`` asserts at the end that neither the browser's console nor the server's log has an error."""
    with visiting(browser, dashboard) as visitors:
        page = visitors.open("", WIDE)
        watch_two_consultations(page)
        be_the_doctor(page)
        run_on_cases(page)
        read_the_result(page, Store(dashboard.database))
        assert page.get_by_test_id("stException").count() == 0
        assert page.get_by_test_id("stAlertContentError").count() == 0


def watch_two_consultations(page: Page) -> None:
    """Watch a consultation to its end on Home, then another, which plays in the same place."""
    keyed(page, "home_watch").click()
    expect(messages(page).nth(1)).to_be_visible()
    page.get_by_role("link", name=re.compile("^Open with facts")).click()
    page.wait_for_url(re.compile("/live.*trial="))
    finish(page)
    first = messages(page).all_inner_texts()
    assert len(first) > 4
    open_page(page, "Home")
    expect(messages(page)).to_have_count(len(first))
    assert messages(page).all_inner_texts() == first
    keyed(page, "home_watch").click()
    expect(messages(page)).not_to_have_count(len(first))
    expect(messages(page).nth(1)).to_be_visible()
    expect(messages(page).nth(1)).not_to_have_text(first[1])


def be_the_doctor(page: Page) -> None:
    """Ask the patient one question and get a reply."""
    open_page(page, "Live consultation")
    page.get_by_role("combobox", name=re.compile("Doctor")).click()
    page.get_by_role("option", name="A human (you)").click()
    settle(page)
    page.get_by_role("button", name=re.compile("Start the consultation")).click()
    box = page.get_by_test_id("stChatInputTextArea")
    expect(box).to_be_visible()
    choose_speed(page, "At once")
    expect(messages(page)).to_have_count(2)  # greeting, complaint
    box.fill("Since when do you have it?")
    box.press("Enter")
    expect(messages(page)).to_have_count(4)
    expect(messages(page).nth(2)).to_contain_text("Since when do you have it?")
    expect(messages(page).nth(3)).to_contain_text(re.compile(r"\w{2,}"))
    page.get_by_role("button", name=re.compile(r"\bStop$")).click()
    expect(page.get_by_role("button", name=re.compile("New consultation"))).to_be_visible()


def run_on_cases(page: Page) -> None:
    """Run the reference cast on a few cases, one trial each, and wait until the run is complete."""
    open_page(page, "Runs")
    for label, number in (("Number of cases", CASES), ("Trials of each case", 1)):
        field = page.get_by_label(label, exact=True)
        field.fill(str(number))
        field.press("Enter")
        settle(page)
    keyed(page, "runs_start").click()
    page.wait_for_url(re.compile("run="))
    expect(page.get_by_text(f"Complete: {CASES} of {CASES} trials")).to_be_visible()


def read_the_result(page: Page, store: Store) -> None:
    """Open the run's result, click its row and then a conversation's row, and read this conversation."""
    (run_id,) = parse_qs(urlsplit(page.url).query)["run"]
    page.get_by_test_id("stMain").get_by_role("link", name=re.compile(r"\bAccuracy$")).click()
    page.wait_for_url(re.compile("/accuracy"))
    settle(page)
    page.get_by_test_id("stExpander").filter(has=page.locator("[class*='st-key-accuracy_rows']")).locator(
        "summary"
    ).click()
    click_row(page, "accuracy", 0)
    page.wait_for_url(re.compile("/conversations.*row="))
    settle(page)
    click_row(page, "conversations", CASES - 1)
    page.wait_for_url(re.compile("/conversations.*trial="))
    settle(page)
    (trial_id,) = parse_qs(urlsplit(page.url).query)["trial"]
    with store.read() as cursor:
        of_run = [conversation.trial_id for conversation in conversations(cursor, Selection(runs=[run_id]))]
    assert len(of_run) == CASES
    assert trial_id in of_run
    assert messages(page).count() > 2


def click_row(page: Page, name: str, row: int) -> None:
    """Click the first cell of a row (from 0) of the table with this key."""
    table = page.locator(f"[class*='st-key-{name}_rows']").get_by_test_id("stDataFrame")
    table.click(position={"x": CELL[0], "y": CELL[1] + ROW * row})


def keyed(page: Page, key: str) -> Locator:
    return page.locator(f".st-key-{key} button")


def messages(page: Page) -> Locator:
    return page.get_by_test_id("stChatMessage")


def open_page(page: Page, title: str) -> None:
    page.get_by_test_id("stSidebarNavLink").filter(has_text=title).click()
    settle(page)


def finish(page: Page) -> None:
    """Let a consultation end at once."""
    choose_speed(page, "At once")
    expect(page.get_by_role("button", name=re.compile("New consultation"))).to_be_visible()
    settle(page)
