"""Texts that try to be more than text, in a real browser: on no page do they run, call home, or break what is shown."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from core.export.document import document_of
from core.export.page import to_html
from core.figures.picture import picture_of
from core.figures.report import figure_of
from core.measures.accuracy import report
from core.measures.base import MetricRequest
from pages.kit.navigation import PAGES
from tests.support.dashboard import NARROW, WIDE, Dashboard, Eyes, scrolls_sideways, settle, shared
from tests.support.hostile import CASES, HIT, HOST, RUNS, TEXTS, hostile
from tests.support.stores import copy_of

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser

from tests.support.browsing import visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PARTS: tuple[tuple[str, dict[str, str]], ...] = (
    *((name if name != "home" else "", {}) for group in PAGES.values() for name in group),
    ("conversations", {"trial": "run-0-0"}),
    ("conversations", {"conversations_part": "Branches", "trial": "run-0-1"}),
    ("debugger", {"trial": "run-0-2"}),
    ("live", {"trial": "run-1-0"}),
    ("accuracy", {"acc_tab": "Endings and what-if"}),
    ("accuracy", {"acc_split": "Specialty"}),
    ("compare", {"cmp_part": "Versions"}),
    ("cases", {"dataset": "ours"}),
    ("quality", {"quality_part": "CARE"}),
    ("trust", {"trust": "Experts"}),
    ("runs", {"run": "run-0"}),
)
"""Each page as it opens, and with what it can hold open."""
QUICK = (("conversations", {"trial": "run-0-0"}), ("accuracy", {}))
_FOUND = f"""() => [
    ...(window.{HIT} === undefined ? [] : ['a script ran']),
    ...[...document.querySelectorAll('a')].map(one => one.href)
        .filter(to => !to.startsWith(location.origin) && !to.startsWith('file:'))
        .filter(to => (to.includes('{HOST}') || /^(javascript|vbscript|data):/i.test(to))),
    ...[...document.querySelectorAll(
        '[src*="{HOST}"], [onerror], [onload], [ontoggle], object, embed, base, form[action]'
    )].map(one => one.outerHTML.slice(0, 200)),
    ...[...document.querySelectorAll('[data-testid="stException"]')].map(one => one.innerText.slice(0, 300)),
]"""


def visit_all(browser: Browser, served: Dashboard, parts: Sequence[tuple[str, dict[str, str]]]) -> None:
    """Open pages, wide and narrow: nothing runs, leads or loads from abroad, fails or is too wide."""
    wrong: list[str] = []
    shown_pages = 0
    with visiting(browser, served) as visitors:
        page = visitors.open("")
        for name, query in parts:
            page.goto(f"{served.address}/{name}?{urlencode(query)}")
            settle(page)
            faults = page.evaluate(_FOUND)
            shown_pages += HOST in page.inner_text("body")
            for width, height in (NARROW, WIDE):
                page.set_viewport_size({"width": width, "height": height})
                for _ in range(20):  # a resized page takes its time
                    page.wait_for_timeout(100)
                    if not scrolls_sideways(page):
                        break
                else:
                    faults.append(f"scrolls sideways at {width}")
            wrong += [f"{name} {query}: {fault}" for fault in faults]
        assert wrong == []
    assert shown_pages, "the texts are there to be seen"


def test_no_text_is_more_than_text_where_most_is_shown(browser: Browser, tmp_path: Path) -> None:
    copy_of(hostile, tmp_path)
    visit_all(browser, shared.dashboard(tmp_path), QUICK)


@pytest.mark.parametrize("first", range(0, len(TEXTS), 80))
def test_no_text_is_more_than_text_on_any_page_or_in_any_document(browser: Browser, tmp_path: Path, first: int) -> None:
    """Each time other texts are the names of models, data sets, specialties and runs."""
    store = copy_of(functools.partial(hostile, texts=TEXTS[first:] + TEXTS[:first]), tmp_path)
    visit_all(browser, shared.dashboard(tmp_path), PARTS)
    documents = [(to_html(document_of([f"run-{n % RUNS}-{n}"], store, with_cases=True)), ".html") for n in range(CASES)]
    drawing = figure_of(list(report.rows(MetricRequest(store))), "Accuracy")
    documents += [(picture_of(drawing, form), form) for form in (".html", ".svg")]
    eyes, context = Eyes("file:"), browser.new_context()
    eyes.watch(context)
    page = context.new_page()
    for number, (content, form) in enumerate(documents):
        path = tmp_path / f"document{number}{form}"
        path.write_bytes(content)
        page.goto(path.as_uri())
        assert page.evaluate(_FOUND) == [], path.name
    context.close()
    assert (eyes.console, eyes.abroad) == ([], [])
