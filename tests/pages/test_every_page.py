"""Every page of the menu opens, on an empty database and on a filled one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.kit.navigation import PAGES, PARTS
from tests.support.pages import filled_study, tabs_of, trouble
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
TITLES = {name: title for members in PAGES.values() for name, title in members.items()} | {"home": "Anamnesis"}
WITH_PUBLISHED_FIGURES = {"home", "accuracy"}
"""Pages that show figures of publications before anything is stored."""


def faults_of(app: AppTest, page: str) -> list[str]:
    """Return what is wrong with a page that has just been opened."""
    wrong_title = [f"its titles are {titles}"] if (titles := [t.value for t in app.title]) != [TITLES[page]] else []
    return [f"{page}: {fault}" for fault in (*trouble(app), *wrong_title, *commands_in(app))]


def commands_in(app: AppTest) -> list[str]:
    """Return the sentences on what is missing that ask the reader to type a command; they have links instead."""
    return [info.value for info in app.info if "python -m core" in info.value or "`" in info.value]


def test_every_page_opens_on_a_filled_study(database: Path, open_page: Open) -> None:
    copy_of(filled_study, database.parent)
    assert [fault for page in TITLES for fault in faults_of(open_page(page), page)] == []


def test_every_page_opens_on_an_empty_database(open_page: Open) -> None:
    opened = {page: open_page(page) for page in TITLES}
    assert [fault for page, app in opened.items() for fault in faults_of(app, page)] == []
    assert {page for page, app in opened.items() if app.get("plotly_chart")} >= WITH_PUBLISHED_FIGURES
    # what is missing is made on another page
    assert {page for page, app in opened.items() if app.info and not app.get("page_link")} <= {"runs"}


def test_addresses_of_former_tabs_and_pages_lead_to_where_they_went(open_page: Open) -> None:
    former = {
        ("accuracy", "acc_tab", "Published leaderboard"): ("Accuracy", "acc_tab", "Published"),
        ("quality", "measure", "Power"): ("Accuracy", "acc_tab", "Repeatability, power, cost"),
        ("quality", "measure", "Unsaid in summaries"): ("Quality", "quality_part", "Other measures"),
    }
    led = {}
    for (page, key, value), (_, tab, _) in former.items():
        app = open_page(page, **{key: value})
        led[page, key, value] = (app.title[0].value, tab, app.session_state[tab])
    assert led == former


@pytest.mark.slow
@pytest.mark.parametrize("filled", [False, True])
def test_every_part_and_tab_of_every_page_opens(filled: bool, database: Path, open_page: Open) -> None:
    if filled:
        copy_of(filled_study, database.parent)
    faults = []
    for page in (*TITLES, *PARTS):
        app = open_page(page)
        faults += [f"{page}: {fault}" for fault in (*trouble(app), *commands_in(app))]
        shown = {box.key: box.options for box in app.selectbox if box.label in ("Show", "Measure")}
        for key, titles in (tabs_of(app) | shown).items():
            for title in titles[1:]:
                opened = open_page(page, **{key: title})
                faults += [f"{page}, {title}: {fault}" for fault in (*trouble(opened), *commands_in(opened))]
    assert faults == []
