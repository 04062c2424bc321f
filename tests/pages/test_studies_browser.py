"""Two experts finish each of the three studies in a browser by keyboard; the figures outlive the database."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from core.datasets.select import cases_of
from core.frameworks.automedic.measures.studies import report as studies_report
from core.measures.base import MetricRequest, Row
from core.measures.experts.ratings import report as ratings_report
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.profiles import add_profiles
from core.store.review_records import Review, planned
from core.text.profiles import own_profile
from tests.core.frameworks.automedic.measures.consultations import SIX, automedic, trials_of
from tests.support.dashboard import Dashboard, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import press_key, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ITEMS = 2
KEYS = {
    # expert → for each item a key for each question; a, b, d, e are the options in order, x is "cannot judge"
    "suitability": {"Ada": ("a", "b"), "Ben": ("a", "e")},
    "profile_quality": {"Ada": ("eed", "edx"), "Ben": ("eee", "dde")},
    "care_ratings": {"Ada": ("dbda", "abdd"), "Ben": ("dbbd", "abad")},
}
ANSWERS = {"a": "1", "b": "2", "d": "3", "e": "4", "x": "cannot judge"}


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    with visiting(browser, dashboard) as visitors:
        yield visitors.open("trust?trust=Experts")


def prepared(store: Store) -> dict[str, Review]:
    """Store what is judged and plan the studies; return form → review."""
    trials_of(store, automedic(), *SIX[:ITEMS])
    cases = [case for case in cases_of("library") if case.profile is not None][:ITEMS]
    with store.write() as connection:
        add_profiles(connection, [(case, profile) for case in cases if (profile := own_profile(case))])
    reviews = {}
    for kind in KEYS:
        case_set = {} if kind == "care_ratings" else {"case_set": "library"}
        plan = planned(kind=kind, number=ITEMS, annotators=("Ada", "Ben"), shared=1.0, seed=2, **case_set)
        reviews[kind] = plan_review(store, kind, plan)
    return reviews


def ready(page: Page, place: str) -> None:
    """Wait until the item is drawn whole: a key that is pressed before is dropped."""
    expect(page.get_by_text(place, exact=True)).to_be_visible()
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_timeout(150)


def fill_in(page: Page, dashboard: Dashboard, store: Store, review: Review, expert: str) -> None:
    """Answer all items of an expert by keyboard; the page is loaded again before the last one."""
    form = state_of(store, review.review_id).form
    page.goto(f"{dashboard.address}/trust?trust=Experts&review={review.review_id}&annotator={expert}")
    settle(page)
    for step, keys in enumerate(KEYS[form.name][expert], start=1):
        ready(page, f"Item {step} of {ITEMS}")
        if step == ITEMS:
            page.reload()
            settle(page)
            ready(page, f"Item {step} of {ITEMS}")
            expect(page.get_by_text(f"{step - 1} of {ITEMS} answered")).to_be_visible()
        assert not re.search(r"openai/a\b", page.content())
        for key, following in zip(keys, [*form.questions[1:], None], strict=True):
            then = f"{step} of {ITEMS} answered" if following is None else following.wording
            press_key(page, key, page.get_by_text(then))
            page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        if step < ITEMS:
            press_key(page, "j", page.get_by_text(f"Item {step + 1} of {ITEMS}", exact=True))


def figures(store: Store) -> dict[tuple[str, str], list[str]]:
    listed = {}
    for part in ("filter", "profiles", "agreement", "scores"):
        listed["care_studies", part] = list(map(repr, studies_report.rows(MetricRequest(store), part=part)))
    for kind in KEYS:
        for part in ("shares", "means", "agreement"):
            listed[kind, part] = list(map(repr, ratings_report.rows(MetricRequest(store), review=kind, part=part)))
    return listed


def test_two_experts_finish_the_three_studies_and_the_figures_outlive_the_database(
    page: Page, dashboard: Dashboard
) -> None:
    store = Store(dashboard.database)
    reviews = prepared(store)
    for review in reviews.values():
        for expert in ("Ada", "Ben"):
            fill_in(page, dashboard, store, review, expert)
    page.goto("about:blank")
    for kind, review in reviews.items():
        state = state_of(store, review.review_id)
        assert state.missing == 0
        for expert, keys in KEYS[kind].items():
            for item, pressed in zip(state.items_for(expert), keys, strict=True):
                answers = [state.value(item.item, expert, question.id) for question in state.form.questions]
                if kind != "suitability":
                    assert answers == [ANSWERS[key] for key in pressed]
        unblind(store, kind, "Ada")
    before = figures(store)
    own = [row for row in studies_report.rows(MetricRequest(store), part="agreement") if not row.source]
    percent = {row.label["about"]: row.estimate for row in own if row.label["figure"] == "percent agreement"}
    care = state_of(store, "care_ratings")
    empathy = [[int(care.value(item.item, name, "empathy") or 0) for name in ("Ada", "Ben")] for item in care.items]
    apart = [abs(first - second) for first, second in empathy]
    # on three points: the same 1, one apart 1 − 1/3, two apart 0
    assert percent["empathy"] == pytest.approx(sum({0: 1, 1: 2 / 3, 2: 0}[steps] for steps in apart) / ITEMS)
    assert all(isinstance(row, Row) and row.n == ITEMS for row in own)

    store.path.unlink()
    fold(store)
    assert figures(store) == before
