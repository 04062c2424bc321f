"""The dashboard in a real browser: what a visitor sees, types, reloads and shares. Needs Chromium."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.dashboard import (
    NARROW,
    SOON,
    WIDE,
    Dashboard,
    choose_speed,
    scrolls_sideways,
    serving,
    settle,
    shared,
)

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browsing import press_key, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LONG = 150_000


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Dashboard:
    return shared.dashboard(tmp_path_factory.mktemp("dashboard"))


@pytest.fixture(scope="module")
def finished(dashboard: Dashboard) -> str:
    """The link of a finished consultation, on a dashboard that also holds a complete run."""
    run = dashboard.core("run", "--doctor", "reference", "--cases", "library:Neurology", "--trials", "1")
    with visiting(shared.browser, dashboard) as visitors:
        page = visitors.open("live")
        begin(page)
        hurry(page)
        over(page)
        link = page.url
    assert run.wait(60) == 0
    return link


@pytest.fixture
def visit(browser: Browser, dashboard: Dashboard) -> Iterator[Callable[..., Page]]:
    with visiting(browser, dashboard) as visitors:
        yield visitors.open


def press(page: Page, name: str) -> None:
    button(page, name).click()


def button(page: Page, name: str) -> Locator:
    return page.get_by_test_id("stMain").get_by_role("button", name=re.compile(rf"\b{name}\b"))


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=re.compile(label)).click()
    page.get_by_role("option", name=option).click()
    settle(page)


def messages(page: Page) -> Locator:
    return page.get_by_test_id("stChatMessage")


def begin(page: Page) -> None:
    press(page, "Start the consultation")
    expect(button(page, "Pause")).to_be_visible()


def hurry(page: Page) -> None:
    choose_speed(page, "At once")


def over(page: Page) -> None:
    expect(button(page, "New consultation")).to_be_visible(timeout=LONG)
    settle(page)


def settled_chat(*pages: Page) -> list[str]:
    """Wait until the chat stands still for a few redraws, on all pages alike; return it."""
    before: list[list[str]] = []
    deadline = time.monotonic() + SOON / 1000
    while (now := [messages(page).all_inner_texts() for page in pages]) != before or any(
        chat != now[0] for chat in now
    ):
        assert time.monotonic() < deadline, now
        before = now
        pages[0].wait_for_timeout(1200)
    return now[0]


def no_trouble(page: Page) -> None:
    assert page.get_by_test_id("stException").count() == 0
    assert page.locator('[data-testid="stAlertContentError"]').count() == 0


def test_a_visitor_watches_a_consultation_to_the_verdict(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served, visiting(browser, served) as visitors:
        page = visitors.open("live")
        begin(page)
        expect(messages(page).first).to_contain_text("Hello, what symptoms bring you in today?")
        hurry(page)
        over(page)
        expect(page.get_by_text("Final Diagnosis:").first).to_be_visible()
        expect(page.get_by_text("The conversation ended because")).to_be_visible()
        expect(page.get_by_text("Vignette · Free response")).to_be_visible()
        expect(page.get_by_text("Correct").first).to_be_visible()
        no_trouble(page)
        press(page, "New consultation")
        expect(page.get_by_text("Recent consultations")).to_be_visible()
        assert "trial=" not in page.url


def test_a_reload_and_a_second_visitor_meet_the_same_consultation(visit: Callable[..., Page]) -> None:
    page = visit("live")
    begin(page)
    expect(messages(page)).to_have_count(3)
    link = page.url
    assert "trial=" in link
    page.reload()
    settle(page)
    press(page, "Pause")  # a second browser may take longer to open than the consultation to end
    expect(button(page, "Go on")).to_be_visible()
    assert messages(page).count() >= 3

    other = visit(link, NARROW, "dark")
    expect(messages(other).first).to_contain_text("Hello, what symptoms bring you in today?")
    press(other, "Go on")
    expect(button(page, "Pause")).to_be_visible()
    press(other, "Pause")
    expect(button(page, "Go on")).to_be_visible()
    settled_chat(page, other)
    choose_speed(other, "4×")
    expect(other.get_by_role("radio", name="4×")).to_have_attribute("aria-checked", "true")
    page.wait_for_timeout(1000)  # redraws of the first visitor's page do not undo it
    page.reload()
    expect(page.get_by_role("radio", name="4×")).to_have_attribute("aria-checked", "true")
    hurry(page)
    press(page, "Go on")
    over(page)
    over(other)
    assert messages(page).all_inner_texts() == messages(other).all_inner_texts()
    no_trouble(page)
    no_trouble(other)


def test_pause_holds_and_step_goes_on_by_one_message(visit: Callable[..., Page]) -> None:
    page = visit("live")
    begin(page)
    expect(messages(page)).to_have_count(2)
    press_key(page, "p", button(page, "Go on"))
    settled_chat(page)
    page.keyboard.press("s")  # finishes the message that was being said, if one was
    settled_chat(page)
    expect(messages(page).filter(has_text="▌")).to_have_count(0)
    count = messages(page).count()
    press(page, "Step")
    expect(messages(page)).to_have_count(count + 1)
    assert len(settled_chat(page)) == count + 1
    press(page, "Stop")
    over(page)
    assert messages(page).count() == count + 1
    no_trouble(page)


def test_a_human_patient_types_in_peace_and_is_shown_as_written(visit: Callable[..., Page]) -> None:
    page = visit("live")
    choose(page, "Patient", "A human (you)")
    begin(page)
    hurry(page)
    box = page.get_by_test_id("stChatInputTextArea")
    expect(box).to_be_visible()
    box.click()
    words = "**It** hurts :material/home: <b>here</b> ![x](http://evil.example/x.png) www.evil.example a@evil.example"
    box.press_sequentially(words, delay=30)  # longer than several redraws
    expect(box).to_have_value(words)
    box.press("Enter")
    message = messages(page).filter(has_text="hurts")
    expect(message).to_be_visible()
    expect(message).not_to_contain_text("▌")  # until it is said to its end
    assert message.inner_text().replace("\u200b", "").strip().endswith(words)
    assert message.locator("a, img, b, strong").count() == 0
    expect(box).to_be_visible()
    expect(box).to_have_value("")
    press(page, "Stop")
    over(page)
    no_trouble(page)


def test_a_human_doctor_asks_diagnoses_and_is_graded(visit: Callable[..., Page]) -> None:
    page = visit("live")
    choose(page, "Doctor", "A human (you)")
    begin(page)
    hurry(page)
    box = page.get_by_test_id("stChatInputTextArea")
    expect(page.get_by_placeholder("Ask the patient one question")).to_be_visible()
    assert page.get_by_text("Facts uncovered").count() == 0
    box.fill("Is it worse when you lie down?")
    box.press("Enter")
    expect(messages(page)).to_have_count(4)  # greeting, complaint, question, reply
    expect(box).to_be_visible()
    box.fill("Final Diagnosis: Acute pericarditis")
    box.press("Enter")
    question = page.locator("[class*='st-key-asked_']")
    expect(question).to_contain_text("from the conversation, with one of the choices")
    expect(page.get_by_placeholder("Or answer in your own words")).to_be_visible()
    press(page, "Acute pericarditis")
    over(page)
    expect(page.get_by_text("Facts uncovered")).to_be_visible()
    expect(page.get_by_text("Multi-turn · Multiple choice")).to_be_visible()
    no_trouble(page)


def test_a_finished_consultation_plays_again_the_same(visit: Callable[..., Page], finished: str) -> None:
    page = visit(finished)
    over(page)
    texts = messages(page).all_inner_texts()
    press(page, "Play again")
    expect(button(page, "Pause")).to_be_visible()
    expect(messages(page)).not_to_have_count(len(texts))
    hurry(page)
    over(page)
    assert messages(page).all_inner_texts() == texts
    no_trouble(page)


def test_a_campaign_is_started_followed_stopped_and_resumed(visit: Callable[..., Page], finished: str) -> None:
    page = visit("runs")
    trials = page.get_by_label("Trials of each case")
    expect(trials).to_be_hidden()  # the form folds away once the page has seen that there are runs
    page.get_by_text("New campaign").click()
    expect(trials).to_be_visible()
    trials.fill("50")
    trials.press("Enter")
    expect(page.get_by_text("3,000").first).to_be_visible()
    press(page, "Start the campaign")
    expect(button(page, "Stop")).to_be_visible(timeout=LONG)
    progress = page.get_by_text(re.compile(r"^Running: [1-9][\d,]* of 3,000 trials"))
    expect(progress).to_be_visible(timeout=LONG)
    first = progress.inner_text()
    expect(progress).not_to_have_text(first, timeout=LONG)
    press(page, "Stop")
    expect(button(page, "Resume")).to_be_visible(timeout=LONG)
    stopped = page.get_by_text(re.compile(r"^Stopped: [\d,]+ of 3,000 trials"))
    expect(stopped).to_be_visible()
    count = _number(stopped)
    no_trouble(page)
    press(page, "Resume")
    expect(button(page, "Stop")).to_be_visible(timeout=LONG)
    page.wait_for_function(
        "before => +(/Running: ([\\d,]+) of/.exec(document.body.innerText) || [0, '0'])[1].replace(',', '') > before",
        arg=count,
        timeout=LONG,
    )
    no_trouble(page)
    press(page, "Stop")
    expect(button(page, "Resume")).to_be_visible(timeout=LONG)


def _number(progress: Locator) -> int:
    return int(re.findall(r"[\d,]+", progress.inner_text())[0].replace(",", ""))


def test_a_campaign_of_another_process_appears_and_moves_on_the_open_page(
    visit: Callable[..., Page], dashboard: Dashboard, finished: str
) -> None:
    page = visit("runs", NARROW)
    other = dashboard.core("run", "--doctor", "reference", "--cases", "library:Cardiology", "--trials", "2")
    try:
        expect(page.get_by_text(re.compile("Reference doctor on Library, Cardiology"))).to_be_visible(timeout=LONG)
        trouble = ", ".join(f"[data-testid={name}]" for name in ("stException", "stAlertContentError"))
        page.wait_for_function(
            "bad => document.querySelector(bad) || document.body.innerText.includes('Complete: 10 of 10 trials')",
            arg=trouble,
            timeout=LONG,
        )
        no_trouble(page)
        assert other.wait(30) == 0
    finally:
        other.kill()
    no_trouble(page)
    page.get_by_test_id("stDataFrame").first.click(position={"x": 17, "y": 35 + 35 + 17})  # the run before
    expect(page).to_have_url(re.compile(r"run="))
    expect(page.get_by_text("Reference doctor on Library, Cardiology")).to_have_count(0)
    before = page.get_by_role("heading", level=2).first.inner_text()
    page.wait_for_timeout(6000)  # a redraw later the choice still stands
    assert page.get_by_role("heading", level=2).first.inner_text() == before


@pytest.mark.parametrize(("size", "theme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_pages_fit_their_window(visit: Callable[..., Page], finished: str, size: tuple[int, int], theme: str) -> None:
    for name in ("live", "runs", finished):
        page = visit(name, size, theme)
        if name == "runs":
            expect(page.locator(".js-plotly-plot")).to_have_count(1)
        assert not scrolls_sideways(page), name
        no_trouble(page)
