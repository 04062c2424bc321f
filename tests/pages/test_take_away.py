"""The menu that takes conversations away, in a page of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from pages.cases.cases import cases_table, public_entries
from pages.cases.sets import CaseEntry
from tests.core.export.conversations import fill, read_back
from tests.core.store.builders import a_case
from tests.support.pages import trouble, words
from tests.support.stores import copy_of

LABELS = ["Web page (HTML)", "Text (Markdown)", "Data (JSON)", "Picture (PNG)"]


def stored_page() -> None:
    import streamlit as st

    from pages.kit.export_menu import draw_export_menu

    draw_export_menu(st.session_state.get("ids", ["run/1/0"]), "here")


def running_page() -> None:
    from pages.kit.export_menu import draw_export_menu_unstored
    from tests.core.store.builders import a_case, a_stream

    draw_export_menu_unstored([(a_case(), a_stream()[:4], None)], "live")


@pytest.fixture
def filled(database: Path) -> Store:
    return copy_of(fill, database.parent)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], bytes]]:
    """What each button would make when it is pressed, by the name of its file."""
    makers: dict[str, Callable[[], bytes]] = {}
    real = st.download_button

    def button(label: str, data: Callable[[], bytes], file_name: str, *more: Any, **settings: Any) -> bool:
        makers[file_name] = data
        return real(label, data, file_name, *more, **settings)

    monkeypatch.setattr(st, "download_button", button)
    return makers


def buttons(app: AppTest) -> list[Any]:
    return [element.proto for element in app.get("download_button")]


def test_four_forms_are_offered_and_none_is_made_before_it_is_asked_for(
    filled: Store, offered: dict[str, Callable[[], bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pages.kit.export_menu.document_of", lambda ids: pytest.fail("made too early"))
    app = AppTest.from_function(stored_page).run()
    assert trouble(app) == []
    assert [button.label for button in buttons(app)] == LABELS
    assert list(offered) == [f"anamnesis-run-1-0.{form}" for form in ("html", "md", "json", "png")]


def test_what_is_made_is_the_conversation(filled: Store, offered: dict[str, Callable[[], bytes]]) -> None:
    app = AppTest.from_function(stored_page)
    app.session_state["ids"] = ["run/1/0", "run/1/1"]
    assert trouble(app.run()) == []
    name = "anamnesis-run-1-0-beside-run-1-1"
    assert b"A lump on my NECK." in offered[f"{name}.html"]()
    assert b"It began on Monday." in offered[f"{name}.md"]()
    assert [conversation.trial_id for conversation in read_back(offered[f"{name}.json"]()).conversations] == [
        "run/1/0",
        "run/1/1",
    ]


def test_a_running_conversation_is_taken_with_what_has_happened(
    database: Path, offered: dict[str, Callable[[], bytes]]
) -> None:
    assert trouble(AppTest.from_function(running_page).run()) == []
    text = offered["anamnesis-run-1-0.md"]().decode()
    assert "A lump on my NECK." in text
    assert "It was still running" in text


def test_without_a_browser_the_picture_is_greyed_with_its_reason(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    app = AppTest.from_function(stored_page).run()
    assert [button.disabled for button in buttons(app)] == [False, False, False, True]
    assert "install Chrome or Chromium" in words(app)


def test_why_a_file_could_not_be_made_is_shown_until_it_can(
    filled: Store, offered: dict[str, Callable[[], bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = AppTest.from_function(stored_page)
    app.session_state["ids"] = ["run/9/9"]
    app.run()
    with pytest.raises(Exception, match="no conversation 'run/9/9'"):
        offered["anamnesis-run-9-9.html"]()
    assert "no conversation 'run/9/9'" in words(app.run()).replace("\\", "")
    app.session_state["ids"] = ["run/1/0"]
    assert "no conversation" not in words(app.run())


def test_the_table_of_cases_has_texts_only_of_cases_with_an_open_licence_or_on_demand() -> None:
    cases = [a_case(n, vignette=f"A man with token {n}.", licence=licence) for n, licence in enumerate(("MIT", ""))]
    entries = [CaseEntry(case, case.content_hash, (), None) for case in cases]
    for with_cases, inside in ((False, {"0"}), (True, {"0", "1"})):
        table = cases_table(public_entries(entries, with_cases=with_cases), full=True)
        assert {number for number in "01" if f"token {number}" in table.to_csv()} == inside
        assert len(table) == 2
