"""The Endings part of Accuracy without a browser: filters and rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import (
    Ended,
    Finished,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    write_journal,
)
from tests.support.pages import trouble
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
ARMS = [("multi_turn", "frq"), ("multi_turn", "mcq")]


def _trial(run: str, case: str, number: int, reason: str, turns: int):
    """Return a trial with both answers right by the loose rule, and none right by the strict one."""
    last = "**Final Diagnosis:** Eczema" if reason == "final_diagnosis" else "Does it itch?"
    choice = (answered("multi_turn", "mcq"), graded("correct", "multi_turn", "mcq"))
    strict = graded("multiple", "multi_turn", "mcq", rule="mcq_strict")
    stream = [
        Utterance(turn=0, role="doctor", text=last),
        Ended(reason=reason, doctor_turns=turns),
        answered(),
        graded("correct"),
        *choice,
        strict,
        Finished(),
    ]
    trial_id = f"{run}/{case}/{number}"
    return a_trial(stream, trial_id=trial_id, run_id=run, case_key=case, trial=number)


def store_endings(store: Store) -> None:
    """Two models on two cases: one always concludes, the other reaches the cap in one of two trials."""
    cases = [a_case(1), a_case(2, specialty="Cardiology")]
    for run, doctor, second in (("a", "openai/a", "final_diagnosis"), ("b", "openai/b", "turn_cap")):
        lines = [
            _trial(run, f"ours/{case}", number, reason, 2 if reason == "final_diagnosis" else 14)
            for case in (1, 2)
            for number, reason in enumerate(("final_diagnosis", second))
        ]
        header = a_header(run, cases, doctor=doctor, arms=ARMS, settings={"max_messages": 20 if run == "a" else 30})
        write_journal(store.journals, run, header, *lines)
    others = [a_case(9, case_key="theirs/9", dataset="theirs")]
    other = a_header("c", others, doctor="openai/a", arms=ARMS, case_set="theirs")
    write_journal(store.journals, "c", other, _trial("c", "theirs/9", 0, "no_question", 1))
    fold(store)


@pytest.fixture
def filled(database: Path) -> Store:
    return copy_of(store_endings, database.parent)


def endings_of(app: AppTest):
    return next(frame.value for frame in app.dataframe if "Mean turns" in frame.value.columns)


@pytest.mark.slow
def test_filters_and_rules_stand_in_the_address(filled: Store, open_page: Open) -> None:
    app = open_page(
        "endings",
        models="openai/b",
        specialties="Cardiology",
        endings_rules="At the cap: not correct",
        endings_arms="Multi-turn · Free response",
    )
    assert trouble(app) == []
    assert list(endings_of(app)["Conversations"]) == [2]
    table = next(frame.value for frame in app.dataframe if "Rule" in frame.value.columns)
    assert dict(zip(table["Rule"], table["Accuracy"], strict=True)) == {
        "Standard rule": 1.0,
        "Message limit: not correct": 0.5,
    }


@pytest.mark.slow
def test_filters_that_leave_nothing_say_so(filled: Store, open_page: Open) -> None:
    app = open_page("endings", cases="theirs", models="openai/b")
    assert trouble(app) == []  # the model has nothing on these cases: the filter is forgotten
    app = open_page("endings")
    app.multiselect(key="endings_rules").set_value([]).run()
    assert not any("Rule" in frame.value.columns for frame in app.dataframe)
    assert trouble(app) == []
