"""Campaigns of the Consultation protocol on the Runs page, and their conversations on the pages that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.campaigns import full, metrics, stop_all
from tests.support.pages import button, words

START = "Start the campaign"
DOCTOR = "runs_doctor"
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


@pytest.fixture
def form(open_page: Open) -> AppTest:
    app = open_page("runs", runs_protocol="Consultation")
    app.number_input(key="runs_limit_library").set_value(2)
    return app.number_input(key="runs_trials").set_value(1).run()


def test_the_estimate_counts_questions_replies_and_answers(form: AppTest) -> None:
    """A model asks 4 questions in each of 2 conversations, a model answers each task: 2 × 4 + 2 calls."""
    full(form.selectbox(key=DOCTOR).set_value("openai/gpt-4o").run())
    form.selectbox(key="runs_patient").set_value("reference/profile")
    form.number_input(key="runs_max_questions").set_value(4).run()
    assert form.selectbox(key="runs_solver").options[0] == "Default: openai/gpt-4o (the doctor’s own model)"
    assert metrics(form)["Model calls"] == "10"
    (calls,) = [metric.help for metric in form.metric if metric.label == "Model calls"]
    assert calls == "Estimated: doctor 8, solver 2."
    assert button(form, START).disabled
    assert "OPENAI_API_KEY" in words(form).replace("\\", "")
    assert [g for g in form.get("button_group") if g.key == "runs_doctor_prompt"], "long or short is asked of a model"
