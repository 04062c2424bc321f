"""Every framework on Runs, Live and Branches: a form with its options only, people in its seats, and its forks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, write_journal
from tests.support.campaigns import full, stop_all
from tests.support.pages import button, has_button, trouble, words

SHARED = {"runs_dataset", "runs_specialty", "runs_limit_library", "runs_trials", "runs_seed", "runs_concurrency",
          "runs_budget", "runs_pack", "runs_doctor", "runs_patient", "runs_protocol"}  # fmt: skip
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


def asked(app: AppTest) -> set[str]:
    widgets = (*app.selectbox, *app.number_input, *app.toggle, *app.get("button_group"))
    return {str(widget.key) for widget in widgets if str(widget.key).startswith("runs_")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "own"),
    [
        (
            "CRAFT-MD",
            {"runs_grader", "runs_summariser", "runs_max_messages", "runs_formats_craftmd", "runs_types_craftmd"},
        ),
        ("Consultation", {"runs_solver", "runs_max_questions", "runs_types_consultation"}),
        ("AutoMedic", {"runs_staff", "runs_max_turns", "runs_formats_automedic", "runs_types_automedic"}),
    ],
)
def test_the_form_shows_the_frameworks_own_options_and_no_others(title: str, own: set[str], open_page: Open) -> None:
    app = open_page("runs", runs_protocol=title)
    assert trouble(app) == []
    assert asked(app) == SHARED | own


def test_options_of_a_model_are_asked_beside_a_model_only(open_page: Open) -> None:
    app = open_page("runs", runs_protocol="Consultation")
    before = asked(app)
    full(app.selectbox(key="runs_doctor").set_value("openai/gpt-4o").run())
    of_a_model = {"runs_temperature", "runs_max_tokens", "runs_doctor_prompt", "runs_effort", "runs_size"}
    assert asked(app) - before == of_a_model
    assert trouble(app) == []


@pytest.mark.slow
def test_a_seat_and_arms_that_another_framework_lacks_do_not_follow_into_it(open_page: Open) -> None:
    app = open_page("runs", runs_protocol="Consultation")
    app.selectbox(key="runs_doctor").set_value("reference/oracle-random").run()
    protocol = next(group for group in app.get("button_group") if group.key == "runs_protocol")
    for title, doctor in (("automedic", "reference/bayes"), ("craftmd", "reference/bayes")):
        protocol = next(group for group in app.get("button_group") if group.key == "runs_protocol")
        protocol.set_value(title).run()
        assert trouble(app) == []
        assert app.selectbox(key="runs_doctor").value == doctor
        assert has_button(app, "Start the campaign")


def test_a_cap_that_cannot_be_is_said_in_the_words_of_the_form(open_page: Open) -> None:
    app = open_page("runs")
    app.number_input(key="runs_max_messages").set_value(2).run()
    assert "Limit of messages: it must be at least 4" in words(app).replace("\\", "")
    assert button(app, "Start the campaign").disabled


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["conversations", "runs", *(pytest.param(page, marks=pytest.mark.slow) for page in ("live", "branches"))]
)
def test_a_trial_of_a_framework_that_is_not_here_is_drawn_all_the_same(
    page: str, database: Path, open_page: Open
) -> None:
    store = Store(database)
    header = a_header("of-old", protocol="gone", cases=[a_case()], trials=1)
    write_journal(store.journals, "of-old", header, a_trial(a_stream("old"), trial_id="old", run_id="of-old"))
    fold(store)
    app = open_page(page, **({"run": "of-old"} if page == "runs" else {"trial": "old"}))
    assert trouble(app) == []
    if page in ("live", "conversations"):
        assert r"A lump on my NECK\." in words(app)
    if page in ("conversations", "runs"):
        assert "gone" in words(app)
