"""Two experts judge ten conversations by a rubric in a browser by keyboard; the figures outlive the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from core.judging.rubric import rubric_of
from core.measures import agreement, calibration
from core.measures.base import MetricRequest
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.review_records import parse_item, planned
from tests.support.dashboard import Dashboard, settle
from tests.support.judged_rubric import COUGH, FEVER, RUBRIC, store_judged

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import press_key, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ITEMS = 10
PAIN = {"id": "pain", "criterion": "The doctor asks about pain", "points": 2, "axis": "data gathering"}
ASKED = {"fever": set(FEVER), "cough": set(COUGH), "pain": set(range(8, 11))}
"""Criterion → the numbers of the conversations in which it is met."""


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("trust?trust=Experts")


def ready(page: Page, step: int) -> None:
    """Wait until the item is drawn whole: a key that is pressed before is dropped."""
    expect(page.get_by_text(f"Item {step} of {ITEMS}", exact=True)).to_be_visible()
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_timeout(150)


def figures(store: Store) -> list[str]:
    parts = ("figures", "audit", "plan")
    listed = [row for part in parts for row in calibration.report.rows(MetricRequest(store), "rubric:demo", part=part)]
    return [*map(repr, listed), *map(repr, status(store))]


def status(store: Store, **options: Any) -> list[Any]:
    return list(agreement.report.rows(MetricRequest(store), "rubric:demo", part="status", by="axis", **options))


def test_two_experts_judge_ten_conversations_and_the_status_of_the_judge_follows(
    page: Page, dashboard: Dashboard
) -> None:
    store = Store(dashboard.database)
    rubric = {**RUBRIC, "all": [*RUBRIC["all"], PAIN]}
    with ThreadPoolExecutor(1) as thread:  # this thread has the event loop of the browser
        thread.submit(store_judged, store, rubric).result()
    form = rubric_of(dict(rubric), "here")
    plan = planned(kind=form.name, form=form, number=ITEMS, annotators="Ada, Ben", shared=1.0, runs=("run",))
    review = plan_review(store, "Criteria", plan)
    for expert in ("Ada", "Ben"):
        page.goto(f"{dashboard.address}/trust?trust=Experts&review={review.review_id}&annotator={expert}")
        settle(page)
        for step, item in enumerate(state_of(store, review.review_id).items_for(expert), start=1):
            ready(page, step)
            if step == ITEMS // 2:
                page.reload()
                settle(page)
                ready(page, step)
                expect(page.get_by_text(f"{step - 1} of {ITEMS} answered")).to_be_visible()
            assert not re.search(r"secret-one", page.content())
            number = int(parse_item(item.item).trial_id.rpartition("/")[2])
            shown = [page.get_by_text(question.wording, exact=True) for question in form.questions]
            expect(shown[0]).to_be_visible()
            for question, after in zip(
                form.questions, [*shown[1:], page.get_by_text(f"{step} of {ITEMS} answered")], strict=True
            ):
                press_key(page, "a" if number in ASKED[question.id] else "b", after)
                page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
            if step < ITEMS:
                press_key(page, "j", page.get_by_text(f"Item {step + 1} of {ITEMS}", exact=True))
    assert state_of(store, review.review_id).missing == 0
    unblind(store, review.review_id, "Ada")

    by_axis = {row["axis"]: row for row in status(store)}
    # the judge overlooks one cough of thirty criteria
    assert by_axis["all"].estimate == pytest.approx(29 / 30)
    assert by_axis["all"]["status"] == "not calibrated"
    (enough, *_) = status(store, least_items=30)
    assert enough["status"] == "calibrated"
    page.goto(f"{dashboard.address}/trust?trust=Rubric+judges&rubric=demo")
    settle(page)
    expect(page.get_by_role("heading", name="Judges against people")).to_be_visible()

    page.goto("about:blank")
    before = figures(store)
    store.path.unlink()
    fold(store)
    assert figures(store) == before
