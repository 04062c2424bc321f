"""The Case debugger from a pasted vignette to two branches side by side, in a real browser. Needs Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from core.case import Case
from core.datasets.library import library
from tests.support.dashboard import NARROW, WIDE, Dashboard, choose_speed, scrolls_sideways, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browsing import visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LONG = 150_000
NEW_WORDS = "I fell off a ladder yesterday and broke my wrist."


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("debugger")


def as_plain_text(case: Case) -> str:
    choices = "\n".join(f"{letter}. {choice}" for letter, choice in case.letters.items())
    return f"{case.vignette} {case.question}\n{choices}\nAnswer: {case.answer}"


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(rf"\b{name}\b"))


def choose(page: Page, label: str, option: str) -> None:
    """Choose what begins with ``option``. A list that is open closes when the page below it moves: it is reopened."""
    box = page.get_by_role("combobox", name=label, exact=True)
    match = page.get_by_role("option", name=re.compile(f"^{re.escape(option)}"))
    for _ in range(10):
        box.scroll_into_view_if_needed()
        settle(page)
        box.fill(option)
        settle(page)
        if match.count():
            break
        box.press("Escape")
    match.first.click()
    settle(page)


def write(page: Page, label: str | re.Pattern[str], text: str) -> None:
    box = page.get_by_role("textbox", name=label).first
    box.fill(text)
    box.press("Control+Enter")
    settle(page)


def look_at(page: Page, view: str) -> None:
    page.get_by_role("radio", name=view, exact=True).click()
    settle(page)


def no_trouble(page: Page) -> None:
    assert page.get_by_test_id("stException").count() == 0
    assert page.locator('[data-testid="stAlertContentError"]').count() == 0


def test_from_a_pasted_vignette_to_two_branches(page: Page) -> None:
    case = next(case for case in library() if case.case_key == "library/cardiology-1")
    page.get_by_text("Paste a vignette", exact=True).click()
    write(page, "Vignette, or the whole question", as_plain_text(case))
    page.get_by_text("Edit its parts", exact=True).click()
    expect(page.get_by_role("textbox", name="Right answer")).to_have_value(case.answer)
    expect(page.get_by_role("textbox", name="Question", exact=True)).to_have_value(case.question)

    button(page, "Run the case").click()
    expect(button(page, "Download the matrix").first).to_be_visible(timeout=LONG)  # only there when the run is over
    settle(page)
    assert "run=" in page.url
    choose(page, "Answer", "Vignette · Free response")
    expect(page.get_by_role("heading", name="Vignette · Free response · trial 1")).to_be_visible()
    expect(page.get_by_text("prompts/craftmd/answer_system.md").first).to_be_visible()
    look_at(page, "Grading")
    expect(page.get_by_text("Read as:")).to_be_visible()

    page.get_by_text("Branch from this step", exact=True).click()
    write(page, re.compile("^System · Instructions"), "You are a doctor who never forgets the bones.")
    write(page, re.compile("^User · Case"), f"A patient's case:\nA 30-year-old man. {NEW_WORDS}")
    expect(page.get_by_text("2 messages are changed.")).to_be_visible()
    expect(button(page, "Branch from here")).to_be_disabled()  # rules read no request
    no_trouble(page)
    assert not scrolls_sideways(page)
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    settle(page)
    assert not scrolls_sideways(page)
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})

    page.reload()  # the address brings back run and cell
    settle(page)
    expect(page.get_by_role("heading", name="Vignette · Free response · trial 1")).to_be_visible()
    page.get_by_text("Branch from this step", exact=True).click()
    choose(page, "Branch from message", "4 · Patient")
    write(page, "What the patient says there", "No, I have no idea. It comes and goes.")
    button(page, "Branch from here").click()
    page.wait_for_url(re.compile("/conversations.*other="), timeout=LONG)
    choose_speed(page, "At once")
    heading = page.get_by_role("heading", name="Original and Branch 1")
    expect(heading).to_be_visible(timeout=LONG)
    settle(page)
    expect(page.get_by_text("The first 3 messages are the same")).to_be_visible()
    expect(page.get_by_text("It comes and goes.").first).to_be_visible()
    no_trouble(page)
