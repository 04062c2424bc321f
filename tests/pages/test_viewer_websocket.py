"""A program in place of a browser: a viewer, or a client without a login, sends what no page of theirs would send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from pages.kit.navigation import PAGES
from tests.core.test_access import FILE, RUNNER, VIEWER, shared
from tests.pages.test_viewer_acts import stored
from tests.support.stores import copy_of
from tests.support.tabs import serving_people, tab

NAMES = [name for members in PAGES.values() for name in members]
SOME = ("live", "models", "runs")


@pytest.fixture
def address(database: Path) -> Iterator[str]:
    copy_of(shared, database.parent)
    database.with_name("access.toml").write_text(FILE)
    with serving_people(database.parent) as home:
        yield home


def kept(database: Path) -> list[object]:
    """Return the files and rows that must not change, without the server's own log."""
    files, rows, *_ = stored(database)
    return [[(name, data) for name, data in files if not name.endswith("server.log")], rows]


def assert_nothing_begins(address: str, database: Path, pages: list[str]) -> None:
    """Take the ids of all widgets from the pages of who may run, and send them as a viewer and without a login."""
    ids: dict[str, list[str]] = {}
    with tab(address, RUNNER) as runner:
        for page in pages:
            widgets = runner.look(page, {"run": "run0"} if page == "runs" else {}).widgets
            ids[page] = [name for name, (kind, label) in widgets.items() if kind == "button" and label != "Sign out"]
    assert sum(map(len, ids.values())) > 2 * len(pages) / 3
    before = kept(database)
    everything = [identity for of_page in ids.values() for identity in of_page]
    for name in (VIEWER, None):
        for page in pages:
            with tab(address, name) as other:
                query = {"run": "run0"} if page == "runs" else {}
                own = [key for key, (kind, label) in other.look(page, query).widgets.items() if kind == "button"
                       and not label.startswith("Sign")]  # fmt: skip
                for pressed in ([widget] for widget in {*ids[page], *own}):
                    drawn = other.look(page, query, pressed)
                    assert drawn.exceptions == [], page
                drawn = other.look(page, query, everything)
                assert drawn.exceptions == [], page
                assert ("This server is for people who have signed in." in drawn.words) is (name is None)
    assert kept(database) == before


@pytest.mark.slow
def test_states_of_buttons_that_are_not_drawn_or_disabled_start_nothing(address: str, database: Path) -> None:
    assert_nothing_begins(address, database, list(SOME))


@pytest.mark.slow
def test_states_of_all_buttons_of_all_pages_start_nothing(address: str, database: Path) -> None:
    assert_nothing_begins(address, database, NAMES)


def test_the_script_of_a_page_is_not_reached_past_the_door(address: str) -> None:
    with tab(address, RUNNER) as runner:
        opened = [message.new_session for message in runner.look("runs").messages
                  if message.WhichOneof("type") == "new_session"]  # fmt: skip
        admins = [message for message in runner.look("runs").messages if message.WhichOneof("type") == "navigation"]
    hashes = {page.page_script_hash for session in opened for page in session.app_pages}
    hashes |= {page.page_script_hash for message in admins for page in message.navigation.app_pages}
    assert len(hashes) >= len(NAMES)
    with tab(address) as client:
        for script in sorted(hashes)[::4]:
            drawn = client.look("", page_script_hash=script)
            assert "This server is for people who have signed in." in drawn.words
            assert "run0" not in drawn.words


@pytest.mark.slow
def test_messages_for_developers_are_not_obeyed(address: str) -> None:
    with tab(address, RUNNER) as runner:
        buttons = runner.look("live").widgets
        start = next(name for name, (_, label) in buttons.items() if label == "Start the consultation")
        trial = runner.look("live", {}, [start]).query.partition("trial=")[2].partition("&")[0]
        assert trial
        with tab(address) as client:
            client.look("home")
            for kind in ("clear_cache", "load_git_info", "set_run_on_save", "debug_shutdown_runtime"):
                message = BackMsg()
                setattr(message, kind, True)
                client.send(message)
            message = BackMsg()
            message.backend_operation_request.request_id = "1"
            message.backend_operation_request.install_skills.SetInParent()
            client.send(message)
            answers = client.heard(1.0)
            kinds = {answer.WhichOneof("type") for answer in answers}
            assert not kinds & {"git_info_changed", "backend_operation_response"}
            assert not any(answer.session_status_changed.run_on_save for answer in answers)
        with tab(address, RUNNER) as again:
            labels = {label for _, label in again.look("live", {"trial": trial}).widgets.values()}
        assert {"Pause", "Stop"} <= labels, "the consultation is still known, and goes on"
        assert "Resume" not in labels, "else it would be begun, and paid for, a second time"
