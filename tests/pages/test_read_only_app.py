"""Pages on a database that nothing can be written to: all is shown, and what would be written is refused in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.kit.navigation import PAGES
from tests.support.pages import button, trouble
from tests.support.places import mounted_read_only
from tests.support.stores import NAME, campaign, copy_of

OFTEN = ("accuracy",)


@pytest.fixture(autouse=True)
def _read_only(
    database: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    copy_of(campaign, tmp_path)
    place = tmp_path_factory.mktemp("mounted")
    with mounted_read_only(tmp_path, place):
        monkeypatch.setenv("ANAMNESIS_DB", str(place / NAME))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow)
        for members in PAGES.values()
        for name in members
    ],
)
def test_a_page_shows_what_is_there(page: str, open_page: Callable[..., AppTest]) -> None:
    app = open_page(page)
    assert [error.value for error in app.exception] == []
    assert trouble(app) == []


@pytest.mark.slow
def test_a_run_is_deleted_in_vain_and_one_is_told_why(open_page: Callable[..., AppTest]) -> None:
    app = open_page("runs", run="run-a")
    button(app, "Delete for good").click().run()
    (told,) = trouble(app)
    assert "ANAMNESIS\\_DB" in told
