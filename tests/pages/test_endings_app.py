"""The Endings page without a browser: reasons, turns, and accuracy under other rules."""

from __future__ import annotations

import json
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
from tests.support.pages import trouble, words
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


def what_if(app: AppTest, model: str, arm: str, rule: str):
    table = next(frame.value for frame in app.dataframe if "Rule" in frame.value.columns)
    (row,) = table[(table["Model"] == model) & (table["Arm"] == arm) & (table["Rule"] == rule)].to_dict("records")
    return row


def endings_of(app: AppTest):
    return next(frame.value for frame in app.dataframe if "Mean turns" in frame.value.columns)


def charts(app: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def test_an_empty_database_says_what_to_do(open_page: Open) -> None:
    app = open_page("endings")
    assert trouble(app) == []
    assert "import craftmd" in words(app)
    assert not app.get("plotly_chart")


def test_reasons_are_shares_of_a_models_conversations(filled: Store, open_page: Open) -> None:
    app = open_page("endings")
    assert trouble(app) == []
    bars = {bar["name"]: bar for bar in charts(app)[0]["data"]}
    assert set(bars) == {"Final diagnosis", "Cap reached"}, "other cases are not mixed in"
    assert bars["Cap reached"]["x"] == [0.0, 0.5]
    assert "Cap reached: 2 conversations (50.0%)" in bars["Cap reached"]["customdata"][1][0]
    table = endings_of(app)
    assert list(table["Model"]) == ["openai/a", "openai/b"]
    assert list(table["Conversations"]) == [4, 4]
    assert list(table["No final diagnosis"]) == [0.0, 0.5]
    assert list(table["Mean turns"]) == [2.0, 8.0]
    assert [e.label for e in app.expander if "differs" in e.label] == [
        "What else differs between these models: cap of the conversation"
    ]


def test_turns_are_drawn_for_each_model(filled: Store, open_page: Open) -> None:
    drawn = next(c["data"] for c in charts(open_page("endings")) if any("mean" in t["name"] for t in c["data"]))
    curves = {curve["name"]: curve for curve in drawn}
    assert set(curves) == {"openai/a, mean 2.0", "openai/b, mean 8.0"}
    assert curves["openai/b, mean 8.0"]["y"] == [0.5 if n in (2, 14) else 0.0 for n in range(15)]


def test_other_rules_stand_beside_the_standard_one(filled: Store, open_page: Open) -> None:
    app = open_page("endings")
    free = "Multi-turn · Free response"
    lost = what_if(app, "openai/b", free, "Without diagnosis: not correct")
    assert (lost["Standard"], lost["Accuracy"], lost["Change"]) == (1.0, 0.5, -0.5)
    assert (lost["Concerned"], lost["Changed"], lost["Answers"], lost["Cases"]) == (2, 2, 4, 2)
    left_out = what_if(app, "openai/b", free, "At the cap: excluded")
    assert (left_out["Accuracy"], left_out["Excluded"], left_out["Answers"]) == (1.0, 2, 2)
    untouched = what_if(app, "openai/a", free, "At the cap: excluded")
    assert (untouched["Change"], untouched["Concerned"]) == (0.0, 0)
    strict = what_if(app, "openai/a", "Multi-turn · Multiple choice", "Strict multiple choice")
    assert (strict["Accuracy"], strict["Changed"]) == (0.0, 4)
    assert "**At the cap: excluded.** Conversations that reached the cap of messages are excluded." in words(app)


def test_dots_of_the_what_if_carry_intervals(filled: Store, open_page: Open) -> None:
    chart = next(c for c in charts(open_page("endings")) if "Standard rule" in c["layout"]["yaxis"].get("ticktext", []))
    dots = {trace["name"]: trace for trace in chart["data"]}
    assert set(dots) == {"openai/a", "openai/b"}
    assert all(len(t["error_x"]["array"]) == len(t["x"]) for t in dots.values())
    lowest, highest = chart["layout"]["yaxis"]["range"][::-1]
    assert all(lowest < y < highest for t in dots.values() for y in t["y"])


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
        "At the cap: not correct": 0.5,
    }


def test_other_cases_are_looked_at_by_themselves(filled: Store, open_page: Open) -> None:
    app = open_page("endings", cases="theirs")
    assert trouble(app) == []
    assert list(endings_of(app)["Conversations"]) == [1]
    assert [bar["name"] for bar in charts(app)[0]["data"]] == ["No question"]


def test_filters_that_leave_nothing_say_so(filled: Store, open_page: Open) -> None:
    app = open_page("endings", cases="theirs", models="openai/b")
    assert trouble(app) == []  # the model has nothing on these cases: the filter is forgotten
    app = open_page("endings")
    app.multiselect(key="endings_rules").set_value([]).run()
    assert "Choose at least one rule and one arm." in words(app)
    assert trouble(app) == []
