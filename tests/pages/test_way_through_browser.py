"""The way through in a real browser: from the first page to a model's verdict, a consultation found again, a stage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browsing import Visitors, visiting
from tests.support.dashboard import NARROW, WIDE, Dashboard, scrolls_sideways, settle
from tests.support.fake_provider import running

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
STAGE = (1920, 1080)
SMALL_TYPE = """() => {
    const small = [], walker = document.createTreeWalker(document.querySelector(".st-key-stage"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode, around = text.parentElement;
        const size = parseFloat(getComputedStyle(around).fontSize);
        if (text.textContent.trim() && around.getBoundingClientRect().width && size < 24)
            small.push(`${size}: ${text.textContent}`);
    }
    return small;
}"""


@pytest.fixture
def visitors(browser: Browser, dashboard: Dashboard) -> Iterator[Visitors]:
    with visiting(browser, dashboard) as opened:
        yield opened


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile(rf"\b{name}\b")).first.click()


def type_in(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Tab")
    settle(page)


def add(page: Page, address: str, key: str, model: str) -> None:
    type_in(page, "Server address", address)
    type_in(page, "API key", key)
    type_in(page, "Model id", model)
    press(page, "Test and save")
    expect(page.get_by_role("heading", name=f"server/{model}")).to_be_visible()


def a_question_then_a_diagnosis(body: dict[str, Any]) -> str:
    return "Where does it hurt?" if len(body["messages"]) < 5 else "**Final Diagnosis:** Gout"


def test_from_the_first_page_to_an_own_models_verdict_in_six_clicks(visitors: Visitors) -> None:
    """And what was watched stays: on a telephone, in the dark, and in the list of what can be watched again."""
    with running(lambda body: "**Final Diagnosis:** Acute pericarditis") as provider:
        page = visitors.open("")
        page.get_by_role("link", name="Models", exact=True).click()  # 1
        settle(page)
        add(page, provider.base_url, "a-key-of-mine", "first-own")  # 2
        page.get_by_role("link", name="Watch it consult").click()  # 3
        settle(page)
        press(page, "Start the consultation")  # 4
        expect(page.get_by_text("Diagnosis", exact=True).first).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("New consultation"))).to_have_count(1)
        settle(page)
        expect(page.get_by_text("The conversation ended because")).to_be_visible()
        expect(page.get_by_text("Vignette · Free response")).to_be_visible()
        expect(page.locator("[class*=stMarkdownBadge]").filter(has_text="Correct").first).to_be_visible()
        assert {request.key for request in provider.requests} == {"a-key-of-mine"}
    for width, height, theme in ((*WIDE, "light"), (*NARROW, "dark")):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        settle(page)
        assert not scrolls_sideways(page), theme
    press(page, "New consultation")
    expect(page.get_by_text("Recent consultations")).to_be_visible()
    assert "trial=" not in page.url
    assert not scrolls_sideways(page)
    for trouble in ("stException", "stAlertContentError"):
        assert page.get_by_test_id(trouble).count() == 0


def test_two_seats_on_two_servers_are_each_called_by_their_own_seat_with_their_own_key(visitors: Visitors) -> None:
    with running(a_question_then_a_diagnosis) as doctors, running(lambda body: "My toe hurts.") as patients:
        page = visitors.open("models")
        add(page, doctors.base_url, "key-of-the-doctor", "two-doctor")
        add(page, patients.base_url, "key-of-the-patient", "two-patient")
        page.goto(f"{visitors.dashboard.address}/live?doctor=server/two-doctor&patient=server/two-patient")
        settle(page)
        tested = len(doctors.requests), len(patients.requests)
        press(page, "Start the consultation")
        expect(page.get_by_role("button", name=re.compile("New consultation"))).to_have_count(1)
        assert {request.key for request in doctors.requests} == {"key-of-the-doctor"}
        assert {request.key for request in patients.requests} == {"key-of-the-patient"}
        assert {body["model"] for body in doctors.bodies[tested[0] :]} == {"two-doctor"}
        assert {body["model"] for body in patients.bodies[tested[1] :]} == {"two-patient"}


def test_a_running_consultation_is_found_again_and_put_on_a_stage(visitors: Visitors) -> None:
    page = visitors.open("live")
    press(page, "Start the consultation")
    press(page, "Pause")
    expect(page.get_by_role("button", name=re.compile("Go on"))).to_be_visible()
    trial = re.search(r"trial=(\w+)", page.url)
    assert trial
    page.get_by_test_id("stSidebarNavLink").filter(has_text="Cases").click()
    settle(page)
    page.get_by_role("link", name=re.compile("Consultation on ")).click()
    page.wait_for_url(re.compile(f"trial={trial[1]}"))
    settle(page)
    page.set_viewport_size({"width": STAGE[0], "height": STAGE[1]})
    page.get_by_text("Presentation").first.click()
    stage = page.locator(".st-key-stage")
    expect(stage).to_be_visible()
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    stage.get_by_text("At once").click()
    press(page, "Go on")
    expect(page.get_by_role("button", name=re.compile("New consultation"))).to_have_count(1)
    expect(stage.get_by_text("Right answer")).to_have_count(1)
    assert page.evaluate(SMALL_TYPE) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
