"""AutoMedic on the pages that show consultations: read, found, watched, planned, and refused where it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.select import select
from core.store.database import Store
from core.store.queries.profiles import add_profiles
from core.text.profiles import Generated
from tests.support.campaigns import metrics, stop_all
from tests.support.pages import button, has_button, trouble, words
from tests.support.stores import copy_of
from tests.support.tagged import MISUSED, RUN, STAFF_SAYS, UNTAGGED, store_tagged

START = "Start the consultation"
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


@pytest.fixture
def stored(database: Path) -> Store:
    return copy_of(store_tagged, database.parent)


def unsuitable(number: int) -> None:
    """Save for the first cases of the library that they cannot become a patient."""
    word = Generated(suitable=False, reason="image_dependent", note="It asks about a picture.", made_by="test")
    with Store().write() as connection:
        add_profiles(connection, [(case, word) for case in select("library", number)])


def links(app: AppTest) -> set[str]:
    return {link.proto.label for link in app.get("page_link")}


# Reading


@pytest.mark.parametrize("page", ["conversations", pytest.param("live", marks=pytest.mark.slow)])
def test_a_conversation_is_read_with_addressees_staff_misuses_and_rating(
    page: str, stored: Store, open_page: Open
) -> None:
    app = open_page(page, trial=MISUSED)
    assert trouble(app) == []
    text = words(app)
    assert text.count(" to the patient]") == 2
    assert text.count(" to the clinical staff]") == 1
    assert text.count(" ends the consultation]") == 1
    assert " · Clinical staff]]  \nHeart auscultation" in text
    assert "it speaks for the patient or the clinical staff" in text
    assert r"“Patient\: For two days, doctor\.”" in text
    assert r"As it was written: \<patient\>Any fever?\<\/patient\>" in text
    assert "The conversation ended because the doctor wrote the end tag; 3 queries were passed on." in text
    assert r"Empathy 4 of 5, rated by openai\/p as the patient: You asked \*kindly\*\." in text
    assert "The doctor answers twice" in text
    assert ":orange-badge[:material/stacks: Several diagnoses]" in text
    assert [m.name for m in app.chat_message].count("user") == 2, "the staff stands on the doctor's side"
    assert "Branch from here" in links(app)
    assert "The vignette (no role has read it)" in [e.label for e in app.expander]


def test_a_message_without_a_tag_went_to_nobody(stored: Store, open_page: Open) -> None:
    app = open_page("conversations", trial=UNTAGGED)
    assert trouble(app) == []
    text = words(app)
    assert "to nobody]  \nWhat brings you in today?" in text
    assert "it has no query in a tag" in text
    assert r"Empathy not rated by openai\/p as the patient: The doctor asked the patient nothing\." in text


def test_a_closer_look_is_care_and_nothing_that_knows_two_only(stored: Store, open_page: Open) -> None:
    app = open_page("conversations", trial=MISUSED, read_closer="Facts")
    assert trouble(app) == []
    assert "CARE of all models" in links(app)
    assert [group.options for group in app.get("button_group") if group.key == "read_closer"] == [["Rubric"]]


def test_words_of_the_staff_are_found_and_shown_without_tags(stored: Store, open_page: Open) -> None:
    app = open_page("conversations", conversations_words="auscultation", conversations_by="Staff")
    assert trouble(app) == []
    (table,) = [frame.value for frame in app.dataframe]
    assert list(table["Said"]) == ["Heart auscultation: a scratchy sound along the left sternal border."]
    opened = open_page("conversations", conversations_words="better or worse", trial=MISUSED)
    assert "What makes it :orange-background[better or worse]?" in words(opened)


def test_the_debugger_shows_its_steps_and_says_what_cannot_be_run_again(stored: Store, open_page: Open) -> None:
    app = open_page("debugger", run=RUN, cell="1:multi_turn:mcq", step="reply:3", view="back")
    assert trouble(app) == []
    assert [element.value for element in app.code] == [STAFF_SAYS]
    assert app.selectbox(key="debug_step").value == "reply:3"
    assert "No model played this step" in words(app)
    assert not [area for area in app.text_area if area.label.startswith(("System", "User"))]


def test_it_branches_from_any_message(stored: Store, open_page: Open) -> None:
    app = open_page("branches", trial=MISUSED, fork="yes")
    assert trouble(app) == []
    assert has_button(app, "Branch from here")
    turns = app.selectbox(key=f"branches_form_{MISUSED}_turn").options
    assert [turn.partition(":")[0].partition(" · ")[2] for turn in turns][:2] == ["Doctor", "Patient"]
    assert "<patient>" not in turns[0]


# Watching


def test_a_case_that_cannot_become_a_patient_says_why(open_page: Open) -> None:
    unsuitable(1)
    app = open_page("live", live_protocol="AutoMedic")
    assert trouble(app) == []
    assert button(app, START).disabled
    (warning,) = [w.value for w in app.warning]
    assert "This case cannot become a patient: picture not described" in warning.replace("\\", "")
    assert "It asks about a picture" in warning


# Runs


def test_the_form_counts_the_cases_that_can_be_played(open_page: Open) -> None:
    unsuitable(2)
    app = open_page("runs", runs_protocol="AutoMedic")
    assert trouble(app) == []
    assert "2 of 60 cases are left out because they cannot become a patient: 2 image dependent." in words(app)
    assert metrics(app)["Trials"] == "290"
    assert metrics(app)["Answers"] == "580"
    keys = {str(widget.key) for widget in (*app.selectbox, *app.number_input)}
    assert {"runs_doctor", "runs_patient", "runs_staff", "runs_max_turns"} <= keys
    assert not {"runs_grader", "runs_cap", "runs_solver", "runs_temperament"} & keys
    app.number_input(key="runs_limit_library").set_value(2).run()
    part = next(group for group in app.get("button_group") if group.key == "runs_part")
    part.set_value("limit").run()
    assert "No case can become a patient" in words(app)
    assert not has_button(app, "Start the campaign")


@pytest.mark.slow
def test_the_answers_of_a_run_are_counted_by_the_strict_rule(stored: Store, open_page: Open) -> None:
    app = open_page("runs", run=RUN)
    assert trouble(app) == []
    table = app.dataframe[1].value
    assert dict(zip(table["Format"], table["Accuracy"], strict=True)) == {"Vignette": 1.0, "Multi-turn": 0.0}
