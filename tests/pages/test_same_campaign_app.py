"""The same campaign from the page's form and from the command line is the same: the second start is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.cli.app import main
from core.errors import AnamnesisError
from core.frameworks import base
from core.journal import RunHeader
from pages.runs import form
from tests.support.campaigns import stop_all
from tests.support.pages import button, trouble, words

START = "Start the campaign"
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    stop_all()


def of_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> RunHeader:
    """Return the header with which the command ``run`` begins, without beginning it."""
    headers: list[RunHeader] = []

    def begin(header: RunHeader, **_: Any) -> None:
        headers.append(header)
        raise AnamnesisError("begun")

    with monkeypatch.context() as patch:
        patch.setattr("core.cli.run.begin", begin)
        assert main(["run", *arguments]) == 1
    return headers[0]


def of_page(monkeypatch: pytest.MonkeyPatch, app: AppTest) -> RunHeader:
    """Return the header with which the form's button begins, without beginning it."""
    headers: list[RunHeader] = []

    def start(header: RunHeader, *_: Any) -> None:
        headers.append(header)
        raise AnamnesisError("begun")

    with monkeypatch.context() as patch:
        patch.setattr(form, "start", start)
        button(app, START).click().run()
    assert headers, trouble(app) or words(app)
    return headers[0]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", list(base.frameworks()))
def test_page_and_command_mean_the_same_campaign(
    protocol: str, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework_ = base.frameworks()[protocol]
    app = open_page("runs", runs_protocol=framework_.title)
    app.number_input(key="runs_limit_library").set_value(3)
    app.number_input(key="runs_trials").set_value(2).run()
    page = of_page(monkeypatch, app)
    same = (f"--{base.tested_seat(framework_).role}", page.doctor, "--protocol", protocol, "--sample", "3")
    command = of_command(monkeypatch, *same, "--trials", "2")
    differing = [name for name, value in page if value != getattr(command, name)]
    assert set(differing) <= {"run_id", "created_at"}
    assert page.fingerprint == command.fingerprint
    other = of_command(monkeypatch, *same, "--trials", "3")
    assert other.fingerprint != page.fingerprint
