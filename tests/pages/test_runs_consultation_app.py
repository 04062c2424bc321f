"""Campaigns of the Consultation protocol on the Runs page, and their conversations on the pages that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from core.cli.app import main
from core.datasets.select import select
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.consultation import ARMS
from core.jobs.begun import find_header
from core.jobs.plan import header_of
from core.jobs.run import begin
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.trials import conversations
from core.store.selection import Selection
from core.text.case_items import itemized
from tests.support.campaigns import await_end, full, metrics, run_ids, stop_all
from tests.support.pages import button, has_button, run_until, trouble, words

START = "Start the campaign"
DOCTOR = "runs_doctor"
ORACLE = "reference/oracle-reversed"
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


def asked_for(app: AppTest) -> set[str]:
    """Return the keys of the seats and numbers that the form asks for."""
    return {str(widget.key) for widget in (*app.selectbox, *app.number_input)}


@pytest.fixture
def form(open_page: Open) -> AppTest:
    app = open_page("runs", runs_protocol="Consultation")
    app.number_input(key="runs_limit_library").set_value(2)
    return app.number_input(key="runs_trials").set_value(1).run()


def answer_freely(app: AppTest) -> AppTest:
    tasks = next(group for group in app.get("button_group") if group.key == "runs_types_consultation")
    return tasks.set_value(["mcq", "frq"]).run()


@pytest.mark.slow
def test_the_form_asks_for_what_the_protocol_needs_and_no_more(form: AppTest) -> None:
    assert trouble(form) == []
    doctor = form.selectbox(key=DOCTOR)
    assert doctor.options[:6] == [
        "Reference doctor (rules, no model)",
        "Oracle, direct order: asks for every item",
        "Oracle, random order: asks for every item",
        "Oracle, reversed order: asks for every item",
        "Upper bound: no doctor, the whole case",
        "Lower bound: no doctor, only the opening",
    ]
    assert {"runs_patient", "runs_solver", "runs_max_questions"} <= asked_for(form)
    assert not {"runs_grader", "runs_summariser", "runs_cap", "runs_temperament"} & asked_for(form)
    assert metrics(form)["Answers"] == "2"
    answer_freely(form)
    assert "runs_grader" in asked_for(form)
    assert metrics(form)["Answers"] == "4"
    form.selectbox(key=DOCTOR).set_value("reference/upper-bound").run()
    assert not {"runs_patient", "runs_max_questions"} & asked_for(form), "a bound asks no questions"
    assert trouble(form) == []


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


@pytest.mark.slow
def test_a_solver_without_a_name_is_asked_for(form: AppTest) -> None:
    form.selectbox(key="runs_solver").set_value("another model…").run()
    assert "Name the solver's model first." in words(form).replace("\\", "")
    assert not has_button(form, START) or button(form, START).disabled
    assert trouble(form) == []


@pytest.mark.slow
def test_a_campaign_is_the_command_lines_and_shown_as_what_it_is(
    form: AppTest, open_page: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    form.selectbox(key=DOCTOR).set_value(ORACLE)
    answer_freely(form)
    assert "runs_max_questions" not in asked_for(form), "no cap binds the oracle"
    button(form, START).click().run(timeout=120)
    await_end(2)
    run_until(form, lambda a: "Complete: 2 of 2 trials" in words(a))
    assert trouble(form) == []
    (run_id,) = run_ids()
    text = words(form)
    assert "**Solver** Reference solver" in text.replace("\\", "")
    assert "**Limit** none: it asks for every item" in text
    (listed, accuracy) = [frame.value for frame in form.dataframe]
    assert list(accuracy["Question"]) == ["Multiple choice", "Free response"]
    assert [list(accuracy[column]) for column in ("Cases", "Trials", "Excluded")] == [[2, 2], [2, 2], [0, 0]]
    assert list(listed["Framework"]) == ["Consultation"]
    with Store().read() as cursor:
        played = conversations(cursor, Selection(runs=[run_id]))
    assert [conversation.end_reason for conversation in played] == ["no_question"] * 2
    items = [len(itemized(case).items) for case in select("library", sample=2)]
    assert sorted(conversation.doctor_turns or 0 for conversation in played) == sorted(n + 1 for n in items)
    _the_history_page_opens_on_this_doctor(form, open_page)
    _the_conversation_is_said_to_be_what_it_was(run_id, open_page)
    command = f"run --protocol consultation --doctor {ORACLE} --cap 3 --arms all --trials 1 --sample 2 --fresh"
    assert main(command.split()) == 0
    capsys.readouterr()
    assert len({find_header(run).fingerprint for run in run_ids()}) == 1
    assert len(run_ids()) == 2


def _the_history_page_opens_on_this_doctor(app: AppTest, open_page: Open) -> None:
    (link,) = [link for link in app.get("page_link") if link.proto.page == "quality"]
    query = dict(parse_qsl(link.proto.query_string))
    assert query == {"datasets": "Library", "cases": "library", "models": ORACLE}
    history = open_page("history", **query)
    assert trouble(history) == []
    assert [m.value for m in history.multiselect if m.key == "models"] == [[ORACLE]]


def _the_conversation_is_said_to_be_what_it_was(run_id: str, open_page: Open) -> None:
    with Store().read() as cursor:
        (first, _) = conversations(cursor, Selection(runs=[run_id]))
    (case,) = (case for case in select("library", sample=2) if case.case_key == first.case_key)
    spoke = len(itemized(case).items) + 1
    ended = (
        "The conversation ended because the doctor’s message had no question; the doctor spoke "
        f"{spoke} times after the opening message."
    )
    for page in ("live", "conversations"):
        app = open_page(page, trial=first.trial_id)
        assert trouble(app) == []
        assert ended in words(app)
        assert "greeting" not in words(app)
        assert app.chat_message[0].name == "user", "the patient opens"
        if page == "live":
            assert "The solver answers; it saw only this dialogue and the task." in words(app)


@pytest.mark.slow
def test_an_interrupted_campaign_is_resumed(open_page: Open, database: Path) -> None:
    campaign = Campaign(
        CastNames("reference/lower-bound"),
        tuple(select("library", 2)),
        arms=ARMS[:1],
        trials=1,
        prompts="consultation",
        protocol="consultation",
    )
    header = header_of(campaign, load_registry())
    begin(header)
    app = open_page("runs", run=header.run_id)
    assert "Stopped: 0 of 2 trials" in words(app)
    button(app, "Resume").click().run(timeout=120)
    await_end(2)
    run_until(app, lambda a: "Complete: 2 of 2 trials" in words(a))
    assert trouble(app) == []
    assert "**Conversation** none" in words(app)
