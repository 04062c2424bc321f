"""What a viewer, or somebody whose role was taken away, sets going by buttons that the page does not offer them.

A browser cannot press a button that is disabled or not drawn; a program that speaks the page's protocol can.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from core import access
from core.models import keys
from core.store.database import Store
from pages.kit.navigation import PAGES
from tests.core.test_access import FILE, RUNNER, VIEWER

Open = Callable[..., AppTest]
NAMES = [name for members in PAGES.values() for name in members]
PLACES: tuple[tuple[str, dict[str, str]], ...] = (
    *((name, {}) for name in NAMES),
    ("runs", {"run": "run0"}),
    ("conversations", {"trial": "t01"}),
    ("conversations", {"conversations_part": "Branches", "trial": "t01", "fork": "yes"}),
    ("debugger", {"trial": "t01"}),
    ("debugger", {"run": "bench-rita"}),
    ("live", {"trial": "t01"}),
    ("live", {"trial": "of-rita"}),
    ("cases", {"import": "yes"}),
    ("cases", {"dataset": "library"}),
    ("cases", {"case": "library/neurology-1"}),
    ("models", {"model": "openai/gpt-4o"}),
    ("quality", {"quality_part": "CARE"}),
    ("compare", {"cmp_part": "Versions"}),
    ("accuracy", {"acc_tab": "Endings and what-if"}),
    ("trust", {"trust": "Experts", "section": "Plan a review"}),
    ("trust", {"trust": "Experts", "section": "Results"}),
    ("trust", {"trust": "Experts", "section": "Import and export"}),
    ("trust", {"trust": "Experts", "review": "?", "annotator": "Ben"}),
    ("trust", {"section": "Grade again"}),
)
FIRST = ("runs", {"run": "run0"})
"""The place of the first lane: it starts, renames and deletes."""
ROLE = f'"{RUNNER}" = "run"'
HARMLESS = {"Sign out"}


def _id(place: tuple[str, dict[str, str]]) -> str:
    return " ".join([place[0], *place[1].values()])


def stored(database: Path) -> list[Any]:
    """Return what a viewer must not change: files, rows, keys, and what runs in threads and child processes.

    Left out are what a page makes of the rows in order to draw them (Parquet files), and replays.
    """
    passing = ("access.toml", database.name, f"{database.name}.wal")
    files = [
        (str(path), path.read_bytes())
        for path in sorted(database.parent.rglob("*"))
        if path.is_file() and path.name not in passing and path.suffix not in (".lock", ".parquet")
    ]
    names = "runs trials variants profiles case_lists reviews judgements unblindings scores run_labels grades"
    with access.acting(access.HERE), Store().read() as cursor:
        rows = [cursor.execute(f"SELECT count(*) FROM {name}").fetchall() for name in names.split()]
    working = sum(
        thread.name.startswith(("job", "session")) and not thread.name.startswith("session replay")
        for thread in threading.enumerate()
    )
    return [files, rows, dict(keys._keys), working, len(psutil.Process().children())]


def at_rest(database: Path) -> list[Any]:
    """Return what is stored once threads have ended: of an earlier test, or the count on Home, which needs no right."""
    for _ in range(100):
        if (content := stored(database))[3] == 0:
            return content
        time.sleep(0.1)
    return stored(database)


@pytest.fixture
def review(open_as: Open) -> str:
    with access.acting(access.HERE), Store().read() as cursor:
        return str(cursor.execute("SELECT review_id FROM reviews").fetchall()[0][0])


@pytest.fixture
def roles(database: Path) -> Callable[[str], object]:
    """Write the file of roles with this in place of the line of who may run."""
    return lambda line: database.with_name("access.toml").write_text(FILE.replace(ROLE, line))


def pressed_in_turn(open_page: Callable[[], AppTest]) -> Iterator[tuple[AppTest, Any]]:
    """Yield a page with a button of it, for every button; the page is opened again for each."""
    count = len(open_page().button)
    for number in range(count):
        app = open_page()
        button = app.button[number]
        if button.label not in HARMLESS:
            button.proto.disabled = False  # the browser's own check, which a forged message leaves out
            yield app, button


@pytest.mark.slow  # test_viewer_websocket sends the same to a real server
@pytest.mark.parametrize("place", PLACES, ids=_id)
def test_a_viewer_who_forges_every_button_of_a_page_sets_nothing_going(
    place: tuple[str, dict[str, str]], open_as: Open, review: str, database: Path
) -> None:
    page, query = place[0], {name: review if value == "?" else value for name, value in place[1].items()}
    before = at_rest(database)
    for app, button in pressed_in_turn(lambda: open_as(VIEWER, page, **query)):
        button.click().run()
        assert [error.message for error in app.exception] == [], button.label
        assert at_rest(database) == before, button.label


@pytest.mark.parametrize("role", [pytest.param("look", marks=pytest.mark.slow), None])
@pytest.mark.parametrize(
    "place", [pytest.param(place, id=_id(place), marks=() if place == FIRST else pytest.mark.slow) for place in PLACES]
)
def test_buttons_that_were_drawn_before_a_role_was_taken_away_do_nothing(
    place: tuple[str, dict[str, str]],
    role: str | None,
    open_as: Open,
    review: str,
    database: Path,
    roles: Callable[[str], object],
) -> None:
    page, query = place[0], {name: review if value == "?" else value for name, value in place[1].items()}

    def open_as_runner() -> AppTest:
        roles(ROLE)
        return open_as(RUNNER, page, **query)

    before = at_rest(database)
    for app, button in pressed_in_turn(open_as_runner):
        roles(f'"{RUNNER}" = "{role}"' if role else "")
        button.click().run()
        assert [error.message for error in app.exception] == [], button.label
        assert at_rest(database) == before, button.label
