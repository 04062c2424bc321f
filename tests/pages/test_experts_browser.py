"""A blinded review in a real browser: two annotators, a reload in the middle, ties for a third, names at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from core.reviews.state import state_of
from core.store.database import Store
from tests.core.measures.experts.reviews import MODELS, a_review, store_conversations
from tests.support.dashboard import Dashboard, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import press_key, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def blinded(page: Page) -> None:
    """The page tells nothing of the models: neither in its content nor in its address."""
    assert not re.search(r"secret|talk:|run0|run1", page.content() + page.url)


def at_item(page: Page, place: str) -> None:
    """Wait until the item is drawn whole: a key that is pressed before belongs to no item and is dropped."""
    expect(page.get_by_text(place, exact=True)).to_be_visible()
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_timeout(150)


def answer(page: Page, answers: dict[int, str], count: int, done: int = 0) -> None:
    """Press y or n for the item in the address, then j, and so on; every page on the way is blinded."""
    for step in range(done, done + count):
        at_item(page, f"Item {step + 1} of 6")
        blinded(page)
        number = int(re.search(r"item=(\d+)", page.url)[1])  # type: ignore[index]
        press_key(page, answers.get(number, "y"), page.get_by_text(f"{step + 1} of 6 answered"))
        if step < 5:
            press_key(page, "j", page.get_by_text(f"Item {step + 2} of 6", exact=True))


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("trust?trust=Experts")


def test_two_annotators_a_reload_and_a_third_who_breaks_the_ties(page: Page, dashboard: Dashboard) -> None:
    store = store_conversations(Store(dashboard.database))
    planned = a_review(store, "Round one", kind="answers", shared=1)  # six free responses that Ada and Ben both judge

    def open_as(name: str) -> None:
        page.goto(f"{dashboard.address}/trust?trust=Experts&review={planned.review_id}&annotator={name}")
        settle(page)
        page.wait_for_url(re.compile("item="))

    open_as("Ada")
    answer(page, {}, 3)
    at_item(page, "Item 4 of 6")
    link = page.url
    page.reload()
    settle(page)
    assert page.url == link
    expect(page.get_by_text("3 of 6 answered")).to_be_visible()
    answer(page, {}, 3, done=3)

    open_as("Ben")
    answer(page, {2: "n", 5: "n"}, 6)
    assert len(state_of(store, "Round one").open_ties()) == 2

    open_as("Cyd")
    expect(page.get_by_text("2 ties to settle")).to_be_visible()
    assert "item=2" in page.url
    blinded(page)
    press_key(page, "n", page.get_by_text("1 of 2 answered"))
    press_key(page, "u", page.get_by_text("Item 2 of 2", exact=True))
    page.wait_for_url(re.compile("item=5"))
    at_item(page, "Item 2 of 2")
    press_key(page, "y", page.get_by_text("2 of 2 answered"))
    state = state_of(store, "Round one")
    assert state.missing == 0
    assert [state.value(state.by_number[n].item, "Cyd", "equivalent") for n in (2, 5)] == ["no", "yes"]

    page.goto(f"{dashboard.address}/trust?trust=Experts&section=Results")
    settle(page)
    blinded(page)
    page.get_by_label("Your name").fill("Ada")
    page.get_by_role("button", name="Unblind the review").click()
    expect(page.get_by_text("Unblinded by Ada when all items were answered")).to_be_visible()
    expect(page.get_by_text(MODELS[0]).first).to_be_visible()
