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
from tests.support.pages import button, has_button, run_until, trouble, words

START = "Start the consultation"
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


def query(app: AppTest, name: str) -> str:
    value = app.query_params[name]
    return value[0] if isinstance(value, list) else value


def finish(app: AppTest) -> AppTest:
    speed = next(group for group in app.get("button_group") if str(group.key).startswith("speed_"))
    speed.set_value("At once").run()
    return run_until(app, lambda a: has_button(a, "New consultation"))


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
def test_a_history_is_taken_live_and_forked(open_page: Open) -> None:
    app = open_page("live", live_protocol="Consultation")
    assert trouble(app) == []
    assert {"live_doctor", "live_patient", "live_solver"} <= {box.key for box in app.selectbox}
    button(app, START).click().run()
    finish(app)
    assert trouble(app) == []
    assert app.chat_message[0].name == "user", "the patient opens"
    assert "The solver answers; it saw only this dialogue and the task." in words(app)
    assert "Branch from here" in {link.proto.label for link in app.get("page_link")}
    trial = query(app, "trial")

    fork = open_page("branches", trial=trial, fork="yes")
    assert trouble(fork) == []
    place = f"branches_form_{trial}"
    assert fork.selectbox(key=f"{place}_solver").value == "reference/solver"
    assert fork.number_input(key=f"{place}_max_questions").value == 10
    fork.selectbox(key=f"{place}_turn").set_value(2).run()
    fork.text_area(key=f"{place}_text_2").set_value("It began three days ago.").run()
    button(fork, "Branch from here").click().run()
    assert trouble(fork) == []
    branch = query(fork, "trial")
    fork.segmented_control(key=f"speed_{branch}").set_value("At once").run()
    run_until(fork, lambda a: "Original and Branch 1" in words(a))
    assert trouble(fork) == []
    assert "message 3 edited" in words(fork)


@pytest.mark.slow
def test_a_person_is_the_doctor_who_asks_patient_and_staff(open_page: Open) -> None:
    """A query to either, then the end, then the answer: all without writing a tag."""
    app = open_page("live", live_protocol="AutoMedic")
    app.selectbox(key="live_doctor").set_value("human").run()
    button(app, START).click().run()
    for message, transcribed in (
        ("How long has it hurt?", "to the patient]  \nHow long has it hurt?"),
        ("staff: Any fever?", "to the clinical staff]  \nAny fever?"),
        ("done", "ends the consultation]"),
    ):
        run_until(app, lambda a: len(a.chat_input) == 1 and a.session_state is not None)
        assert "Facts and case are shown after the consultation." in words(app)
        app.chat_input[0].set_value(message).run()
        run_until(app, lambda a, transcribed=transcribed: transcribed in words(a))
    run_until(app, lambda a: [box.placeholder for box in a.chat_input] == ["Or answer in your own words"])
    button(app, "Acute pericarditis").click().run()
    run_until(app, lambda a: has_button(a, "New consultation"))
    assert words(app).count("· Multiple choice**") == 1, "a person is asked once"
    assert trouble(app) == []
    assert "2 queries were passed on" in words(app)


@pytest.mark.slow
def test_a_person_is_the_clinical_staff_with_the_results_before_its_eyes(open_page: Open) -> None:
    app = open_page("live", live_protocol="AutoMedic")
    app.selectbox(key="live_staff").set_value("human").run()
    button(app, START).click().run()
    speed = next(group for group in app.get("button_group") if str(group.key).startswith("speed_"))
    speed.set_value("At once").run()
    run_until(app, lambda a: len(a.chat_input) == 1 and bool(a.info))
    assert trouble(app) == []
    assert app.chat_input[0].placeholder == "Your answer"
    assert "\\- " in app.info[0].value, "the results that the staff holds"
    app.chat_input[0].set_value("The leucocytes are normal.").run()
    run_until(app, lambda a: r"Clinical staff]" in words(a) and r"The leucocytes are normal\." in words(a))
    button(app, "Stop").click().run()
    run_until(app, lambda a: has_button(a, "New consultation"))
    assert trouble(app) == []


@pytest.mark.slow
def test_two_patients_are_offered_where_a_patient_has_a_persona(open_page: Open) -> None:
    modes = {
        title: next(
            group.options
            for group in open_page("live", live_protocol=title).get("button_group")
            if group.key == "live_mode"
        )
        for title in ("CRAFT-MD", "AutoMedic")
    }
    assert [len(offered) for offered in modes.values()] == [3, 2]


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
