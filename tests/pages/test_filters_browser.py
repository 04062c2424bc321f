"""Filters and drill-downs in a real browser: what a control names is what the page shows. Needs Chromium."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from core.events import Ended, Finished, Utterance
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import ARMS, a_case, a_header, a_trial, answered, graded, write_journal
from tests.pages.test_accessibility_browser import drawn
from tests.support.browsing import Visitors, visiting
from tests.support.dashboard import SOON, Dashboard, settle

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Locator, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(0)]  # each wait has its limit
MODELS = ("openai/a", "openai/b", "openai/c")
CONVERSATION = (
    Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
    Utterance(turn=1, role="patient", text="A lump on my neck, doctor."),
    Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema"),
    Ended(reason="final_diagnosis", doctor_turns=1),
)
PLACES = (("Dermatology", "first"), ("Neurology", "second"), ("Cardiology", "second"))
FILTERS = ("Models", "Data sets", "Specialties", "Formats", "Questions")
ROW = 35
"""Height in pixels of a row of a table, and of its header."""


def fill(store: Store) -> None:
    """Three models of which each was run on other specialties and in other arms, wrong where its number fits."""
    cases = [
        a_case(n, case_key=f"ours/case_{n}", specialty=PLACES[n % 3][0], dataset=PLACES[n % 3][1]) for n in range(9)
    ]
    for number, model in enumerate(MODELS):
        run = f"run-{number}"
        asked_cases = [case for n, case in enumerate(cases) if n % 3 <= number or n % 2]
        lines = []
        for case in asked_cases:
            n = int(case.case_key.rpartition("_")[2])
            right = "correct" if n % (number + 2) else "incorrect"
            events = [*CONVERSATION, answered("vignette", "mcq"), graded("correct", "vignette", "mcq")]
            events += [answered("multi_turn", "frq"), graded(right, "multi_turn", "frq"), Finished(at=2.0)]
            if number:
                events[-1:-1] = [answered("multi_turn", "mcq"), graded(right, "multi_turn", "mcq")]
            lines.append(a_trial(events, trial_id=f"{run}/{n}", run_id=run, case_key=case.case_key))
        write_journal(store.journals, run, a_header(run, asked_cases, doctor=model, arms=ARMS, case_set="ours"), *lines)
    fold(store)


@pytest.fixture
def visitors(browser: Browser, dashboard: Dashboard) -> Iterator[Visitors]:
    fill(Store(dashboard.database))
    with visiting(browser, dashboard) as opened:
        yield opened


def shown(page: Page) -> dict[str, list[str]]:
    """What the controls name, and what the page says and draws below them."""
    boxes = page.eval_on_selector_all(
        '[data-testid="stSelectbox"]',
        "all => all.map(one => one.querySelector('label').innerText + ': ' + one.querySelector('input').value)",
    )
    texts = page.get_by_test_id("stCaptionContainer").all_inner_texts()
    drawn = page.locator(".js-plotly-plot .legendtext").all_inner_texts()
    return {"boxes": boxes, "texts": texts, "drawn": drawn}


def same(page: Page, fresh: Page, after: str) -> None:
    """The page is what its address makes of it for somebody who comes by it."""
    settle(page)
    fresh.goto(page.url)
    settle(fresh)
    deadline = time.monotonic() + SOON / 1000
    while (here := shown(page)) != (there := shown(fresh)):
        if time.monotonic() > deadline:
            assert here == there, f"after {after} at {page.url}"
        time.sleep(0.2)


def table(page: Page, name: str) -> Locator:
    return page.locator(f"[class*='st-key-{name}_rows']").get_by_test_id("stDataFrame")


def click_row(page: Page, name: str, number: int) -> None:
    """Click a row of a table, counted from 0; -1 is its header."""
    table(page, name).click(position={"x": 150, "y": ROW * (number + 1) + ROW // 2})


def control(page: Page, label: str) -> Locator:
    """Return a control that is a list, or several of a name; the popover *Filters* is opened if it is not outside."""
    box = page.get_by_test_id("stSelectbox").or_(page.get_by_test_id("stMultiSelect"))
    labelled = box.filter(has=page.get_by_text(re.compile(rf"^{re.escape(label)}$")))
    menu, body = page.locator(".st-key-filters button").first, page.get_by_test_id("stPopoverBody")
    if not labelled.count() and menu.count() and not body.count():
        menu.click()
        expect(body).to_be_visible()
        settle(page)
    return labelled


def close_menus(page: Page) -> None:
    body = page.get_by_test_id("stPopoverBody")
    deadline = time.monotonic() + SOON / 1000
    while body.count():  # the first key closes the list of a control inside
        assert time.monotonic() < deadline, "The popover does not close."
        page.keyboard.press("Escape")
        page.wait_for_timeout(300)


def pick(page: Page, label: str, option: str) -> None:
    """Choose an option of a control."""
    control(page, label).last.locator("input").click()
    page.get_by_role("option", name=option, exact=True).click()
    page.keyboard.press("Escape")
    settle(page)
    close_menus(page)


def options(page: Page, label: str) -> list[str]:
    boxes = control(page, label)
    if not boxes.count():
        close_menus(page)
        return []
    offered, deadline = page.get_by_role("option"), time.monotonic() + SOON / 1000
    while not offered.count():  # a page that is redrawn at this moment closes it
        assert time.monotonic() < deadline, f"{label} does not open"
        settle(page)
        control(page, label).last.locator("input").click()
        page.wait_for_timeout(300)
    labels = page.get_by_role("option").all_inner_texts()
    close_menus(page)
    page.keyboard.press("Escape")
    return [option for option in labels if option != "Select all"]


@pytest.mark.parametrize(
    ("path", "boxes"),
    [
        ("accuracy", ("Cases", "Split by")),
        ("failures", ("Model", "Cause")),
        ("quality?history_tab=Comparison", ("Cases", "First model")),
    ],
)
def test_every_filter_under_every_open_drill_down(visitors: Visitors, path: str, boxes: tuple[str, ...]) -> None:
    page, fresh = visitors.open(path), visitors.open(path)
    for box in boxes:
        # another thread looks for the causes of wrong answers
        expect(page.get_by_test_id("stSelectbox").filter(has_text=re.compile(rf"^{box}")).last).to_be_visible()
        pick(page, box, options(page, box)[-1])
    same(page, fresh, "all boxes were chosen")
    for label in FILTERS:
        for option in options(page, label)[-1:]:
            pick(page, label, option)
            same(page, fresh, f"{label}: {option}")


def test_a_link_to_a_comparison_keeps_both_sides_and_the_sign(visitors: Visitors) -> None:
    page, fresh = visitors.open("compare"), visitors.open("compare")
    first, second = "Baseline", "Compared with it"
    pick(page, first, options(page, first)[-1])
    pick(page, second, options(page, second)[0])
    same(page, fresh, "both sides chosen")
    page.get_by_role("button", name="Swap").click()
    same(page, fresh, "they were swapped")


def test_a_figure_is_saved_light_with_its_title_and_what_it_rests_on(visitors: Visitors) -> None:
    page = visitors.open("accuracy", theme="dark")
    page.get_by_role("button", name="Save for print").first.click()
    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name="SVG").first.click()
    picture = download.value.path().read_text(encoding="utf-8")
    assert download.value.suggested_filename.endswith(".svg")
    assert "4-choice" in picture or "Multiple choice" in picture or "MCQ" in picture.upper()
    printed = " ".join(re.findall(r">([^<>]+)<", picture))  # a caption has several lines
    assert re.search(r"n = \d", printed), "the number of cases stands in the caption"
    assert "95" in picture
    assert "#0E1718" not in picture.upper(), "the ground is not the page's dark one"


def test_a_header_opens_nothing_and_a_row_opens_its_conversation(visitors: Visitors) -> None:
    for path, name in (("", "case_matrix"), ("?conversations_part=Conversations", "conversations")):
        page = visitors.open(f"conversations{path}")
        address = page.url
        click_row(page, name, -1)
        settle(page)
        assert page.url == address, name
    # the header sorted the list: the row on top is another one now
    listed = [row.all_text_contents() for row in table(page, name).locator("tr[aria-rowindex]").all()[1:]]
    cells = table(page, name).locator("tr[aria-rowindex='2'] td").all_text_contents()
    click_row(page, name, 0)
    page.wait_for_url(re.compile("trial="))
    settle(page)
    title = page.get_by_role("heading", level=2).first.inner_text()
    assert cells[1] in title, (cells, title, listed)


def test_back_and_forward_restore_each_view(visitors: Visitors) -> None:
    """Tab, split, comparison, chosen row and conversation are in the address; each act of the visitor is one entry."""
    page = visitors.open("accuracy")
    main = page.get_by_test_id("stMain")

    def view() -> tuple[str, list[str], dict[str, list[str]]]:
        drawn(page)
        selected = main.locator('[role="tab"][aria-selected="true"], [role="heading"]').all_inner_texts()
        return page.url, selected, shown(page)

    def open_tab(title: str) -> None:
        page.get_by_role("tab", name=title).click()

    def open_page(title: str) -> None:
        page.get_by_test_id("stSidebarNavLink").filter(has_text=title).click()

    def open_row_behind_figure() -> None:
        page.get_by_test_id("stExpander").filter(has=table(page, "accuracy")).locator("summary").click()
        click_row(page, "accuracy", 0)
        page.wait_for_url(re.compile("/conversations.*row="))

    acts: list[Callable[[], object]] = [
        lambda: pick(page, "Split by", "Specialty"),
        lambda: open_tab("Static and conversational"),
        lambda: pick(page, "Losses", "Specialty"),
        lambda: open_tab("Figures"),
        open_row_behind_figure,
        lambda: click_row(page, "conversations", 0),
        lambda: open_page("Compare"),
        lambda: pick(page, "Compared with it", MODELS[2]),
        lambda: click_row(page, "comparison", 2),
        lambda: click_row(page, "comparison_cases", 0),
        lambda: open_tab("Formats and questions"),
        lambda: pick(page, "Models", MODELS[0]),
        lambda: open_page("Quality"),
        lambda: pick(page, "Show", "Comparison"),
    ]
    views = [view()]
    for act in acts:
        act()
        views.append(view())
        assert views[-1][0] != views[-2][0]
    for move, expected in ((page.go_back, views[-2::-1]), (page.go_forward, views[1:])):
        for seen in expected:
            move()
            assert view() == seen
