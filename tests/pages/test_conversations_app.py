"""The page Conversations without a browser: find, read, go on, and come back by the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.measures.base import Counted, Side
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from pages.conversations.page import excerpt
from pages.kit.behind import behind_row
from tests.core.store.builders import (
    Ended,
    Finished,
    Summarised,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    grades,
    invalid,
    write_journal,
)
from tests.support.pages import button, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
CASES = 30
ARMS = [("vignette", "mcq"), ("multi_turn", "frq")]


def _trial(case: int, number: int):
    right = (case + number) % 2 == 0
    reply = "It ITCHES, <b>doctor</b>." if case == 7 else "A rash."
    stream = [
        Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
        Utterance(turn=1, role="patient", text=reply),
        Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema"),
        Ended(reason="final_diagnosis", doctor_turns=1),
        Summarised(text="A person with a rash."),
        answered("vignette", "mcq", response="Eczema or psoriasis"),
        graded("correct", "vignette", "mcq", extracted=None),
        graded("multiple", "vignette", "mcq", rule="mcq_strict", extracted="Eczema, Psoriasis"),
        *([answered(), graded("correct" if right else "incorrect")] if case != 8 else [invalid("refused")]),
        Finished(),
    ]
    return a_trial(stream, trial_id=f"run/{case}/{number}", case_key=f"ours/case_{case}", trial=number)


def store_sixty(store: Store) -> None:
    cases = [
        a_case(n, case_key=f"ours/case_{n}", specialty="Cardiology" if n == 3 else "Dermatology") for n in range(CASES)
    ]
    lines = [_trial(case, number) for case in range(CASES) for number in range(2)]
    write_journal(store.journals, "run", a_header(cases=cases, arms=ARMS), *lines)
    fold(store)


@pytest.fixture
def filled(database: Path) -> Store:
    return copy_of(store_sixty, database.parent)


def listed(app: AppTest) -> list[tuple[str, int]]:
    table = app.dataframe[0].value
    return list(zip(table["Case"], table["Trial"], strict=True))


@pytest.mark.slow
def test_fifty_are_listed_at_a_time_with_their_number(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", conversations_part="Conversations")
    assert trouble(app) == []
    assert "**60** of 60 conversations" in words(app)
    assert listed(app)[:3] == [("case 0", 1), ("case 0", 2), ("case 1", 1)]
    assert len(listed(app)) == 50
    second = open_page("conversations", conversations_page="2")
    assert listed(second)[0] == ("case 25", 1)
    assert len(listed(second)) == 10
    for nonsense in ("-1", "²"):
        assert trouble(open_page("conversations", conversations_page=nonsense)) == []


def test_the_page_begins_with_the_cases_and_leaves_the_conversations_for_them(filled: Store, open_page: Open) -> None:
    """Of two trials of a case one is right, which counts as right; those of case 8 were refused."""
    app = open_page("conversations", conversations_case="case_7")
    assert listed(app) == [("case 7", 1), ("case 7", 2)]
    app.segmented_control(key="conversations_shown").set_value("Cases").run()
    assert (trouble(app), len(app.dataframe[0].value)) == ([], CASES)
    assert "conversations_case" not in app.query_params
    app.segmented_control(key="matrix").set_value("all_right").run()
    right = app.dataframe[0].value
    assert (len(right), set(right["Of"]), "case 8" in set(right.index)) == (CASES - 1, {1}, False)


def test_filters_stand_in_the_address_and_go_together(filled: Store, open_page: Open) -> None:
    filtered = open_page("conversations", conversations_words="itches", conversations_by="Patient")
    assert listed(filtered) == [("case 7", 1), ("case 7", 2)]
    assert set(filtered.dataframe[0].value["Said"]) == {"It ITCHES, <b>doctor</b>."}
    right = open_page("conversations", conversations_case="case_7", conversations_verdicts="Correct")
    assert listed(right) == [("case 7", 2)]
    refused = open_page("conversations", conversations_verdicts="Refused, excluded")
    assert listed(refused) == [("case 8", 1), ("case 8", 2)]


def test_choices_are_filtered_by_the_chosen_rule(filled: Store, open_page: Open) -> None:
    filters = {"conversations_arm": "Vignette · Multiple choice", "conversations_verdicts": "Correct"}
    strict = open_page("conversations", **filters, conversations_rule="Strict")
    assert "**0** of 60" in words(strict)
    strict.button(key="clear_filters_page").click().run()
    assert (trouble(strict), "**60** of 60" in words(strict)) == ([], True)
    differ = open_page("conversations", conversations_arm=filters["conversations_arm"], conversations_rule="Differ")
    assert "**60** of 60" in words(differ)


def test_the_conversations_behind_a_row_are_listed_in_parts_until_all_are_shown_again(
    filled: Store, open_page: Open
) -> None:
    """Of 60 free responses 58 count, of which 29 are right; those to case 8 were refused."""
    row = behind_row(Selection(), Counted((Side("openai/a", ("multi_turn", "frq")),)))
    app = open_page("conversations", **row)
    assert trouble(app) == []
    assert "**58** of 60 conversations" in words(app)
    assert "29 cases" in words(app)
    wrong = open_page("conversations", **row, row_part="wrong", conversations_case="case_7")
    assert listed(wrong) == [("case 7", 1)]
    excluded = open_page("conversations", **row, row_part="excluded")
    assert listed(excluded) == [("case 8", 1), ("case 8", 2)]
    button(excluded, "Show all conversations").click().run()
    assert "**60** of 60 conversations" in words(excluded)
    assert not {"row", "row_part"} & set(excluded.query_params)
    damaged = open_page("conversations", row="{")
    assert len(damaged.warning) == 1
    assert "**60** of 60 conversations" in words(damaged)


def test_an_address_of_a_former_version_opens_the_list_with_its_filters(filled: Store, open_page: Open) -> None:
    app = open_page("transcripts", transcripts_case="case_7", transcripts_verdicts="Correct")
    assert trouble(app) == []
    assert listed(app) == [("case 7", 2)]


def test_another_filter_begins_at_the_first_page(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", conversations_page="2")
    app.text_input(key="conversations_words").set_value("rash").run()
    assert "conversations_page" not in app.query_params
    assert listed(app)[0] == ("case 0", 1)


@pytest.mark.slow
def test_a_conversation_is_read_with_answers_rules_and_the_other_trials(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", trial="run/7/1", conversations_words="itches")
    assert trouble(app) == []
    text = words(app)
    assert [m.name for m in app.chat_message] == ["assistant", "user", "assistant"]
    assert "It :orange-background[ITCHES], \\<b\\>doctor" in text
    assert "2 of 2 found" in text
    assert "ended by: final diagnosis, 1 doctor turn" in text
    assert ":gray[contains the choice] :green-badge[:material/check_circle: Correct]" in text
    assert ":gray[strict rule] :orange-badge[:material/stacks: Several diagnoses]" in text
    assert "Read as: Eczema, Psoriasis" in text
    assert "A person with a rash\\." in text
    trials = app.dataframe[0].value
    assert list(trials["Trial"]) == [1, 2]
    assert list(trials["Multi-turn · Free response"]) == ["✗ Incorrect", "✓ Correct"]
    assert [link.proto.label for link in app.get("page_link")] == ["Watch it again", "Debug it", "Branch from here"]


@pytest.mark.slow
def test_a_new_grade_is_what_is_shown(filled: Store, open_page: Open) -> None:
    write_journal(filled.journals, "run", grades("run/0/0", graded("multiple", at=99.0, extracted="two things")))
    app = open_page("conversations", trial="run/0/0")
    assert "Read as: two things" in words(app)
    assert app.dataframe[0].value["Multi-turn · Free response"].iloc[0] == "✗ Several diagnoses"


@pytest.mark.slow
def test_previous_and_next_go_through_what_was_found(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", trial="run/3/0", conversations_specialties="Cardiology", message="3")
    assert button(app, "Previous").disabled
    assert (button(app, "Previous").proto.shortcut, button(app, "Next").proto.shortcut) == ("k", "j")
    button(app, "Next").click().run()
    assert app.query_params["trial"] in ("run/3/1", ["run/3/1"])
    assert "message" not in app.query_params
    assert "2 of 2 found" in words(app)
    assert button(app, "Next").disabled
    button(app, "Previous").click().run()
    assert "1 of 2 found" in words(app)


def test_back_to_the_list_is_back_to_its_page(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", trial="run/26/0")
    button(app, "Back to the list").click().run()
    assert "trial" not in app.query_params
    assert ("case 26", 1) in listed(app)


def test_a_conversation_outside_the_filter_is_still_read(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", trial="run/4/0", conversations_specialties="Cardiology")
    assert "Not in the list" in words(app)
    assert "trial 1" in words(app)
    assert button(app, "Next").disabled


def test_an_address_of_no_trial_says_so(filled: Store, open_page: Open) -> None:
    app = open_page("conversations", trial="no-such-trial")
    assert trouble(app) == []
    assert "not stored here" in words(app)


def test_an_excerpt_is_cut_around_the_words() -> None:
    text = "a" * 100 + "ITCH" + "b" * 100
    assert excerpt(text, "itch") == f"…{'a' * 60}ITCH{'b' * 60}…"
    assert excerpt("It itches.", "ITCH") == "It itches."
    assert excerpt("nothing", "(") == "nothing"
