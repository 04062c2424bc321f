"""The same campaign from the page's form and from the command line is the same: the second start is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core import paths
from core.cli.app import main
from core.errors import AnamnesisError
from core.frameworks import base
from core.jobs.begun import find_header
from core.jobs.progress import is_running
from core.journal import RunHeader
from pages.kit.seats import OTHER
from pages.runs import form
from tests.core.jobs.workshop import environment, wait_until
from tests.support.campaigns import run_ids, stop_all
from tests.support.fake_provider import FakeProvider
from tests.support.pages import button, trouble, words
from tests.support.replies import Reply

START = "Start the campaign"
SEATS = ("patient", "grader")
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


@pytest.fixture
def doctor(fake_provider_thread: FakeProvider) -> FakeProvider:
    """A doctor who takes three seconds for an answer, so that its run is still going when a test looks."""
    fake_provider_thread.script = lambda body: Reply("**Final Diagnosis:** Gout", delay_s=3)
    return fake_provider_thread


def filled_in(app: AppTest, provider: FakeProvider) -> AppTest:
    """Fill the form in: a doctor that is a model, next to rules; four cases, one trial each."""
    app.selectbox(key="runs_doctor").set_value(OTHER).run()
    app.text_input(key="runs_doctor_other").set_value("openai/doctor").run()
    app.text_input(key="runs_base_url").set_value(provider.base_url).run()
    for role in SEATS:
        app.selectbox(key=f"runs_{role}").select_index(1).run()  # the first kind of rules, below the default
    return app.number_input(key="runs_pilot_limit_library").set_value(4).run()


def arguments(provider: FakeProvider, header: RunHeader) -> list[str]:
    seats = [part for role in SEATS for part in (f"--{role}", getattr(header, role))]
    arms = ",".join(":".join(arm) for arm in header.arms)
    return ["run", "--doctor", "openai/doctor", *seats, "--base-url", provider.base_url, "--sample", "4",
            "--trials", "1", "--arms", arms]  # fmt: skip


@pytest.mark.slow
def test_a_command_is_refused_while_the_page_has_the_same_campaign_running(
    open_page: Open, doctor: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    app = filled_in(open_page("runs"), doctor)
    button(app, START).click().run()
    assert trouble(app) == []
    (run_id,) = run_ids()
    wait_until(lambda: is_running(run_id))
    assert main(arguments(doctor, find_header(run_id))) == 1
    assert run_id in capsys.readouterr().err
    assert run_ids() == [run_id]


@pytest.mark.slow
def test_the_page_is_refused_while_a_command_has_the_same_campaign_running(
    open_page: Open, doctor: FakeProvider, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = filled_in(open_page("runs"), doctor)
    # no fork: a child of a process that has run a page takes the page for its main module
    command = subprocess.Popen(
        [sys.executable, "-m", "core", *arguments(doctor, of_page(monkeypatch, app))],
        cwd=paths.ROOT,
        env=environment(database),
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(doctor.requests) > 0)
    (run_id,) = run_ids()
    button(app, START).click().run()
    assert any(run_id in sentence.replace("\\", "") for sentence in trouble(app))
    assert run_ids() == [run_id]
    command.kill()
    command.wait(20)
