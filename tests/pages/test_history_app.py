"""The History taking page without a browser: measuring, filters, one case."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.asking.scene import Turn
from core.case import Case
from core.frameworks.consultation.measures.history_taking import HISTORY
from core.measures.measuring import measure_trials
from core.store.database import Store
from core.store.fold import fold
from tests.core.frameworks.consultation.measures.dialogues import COUGH, COUGH_ITEMS, HASTY, save_items
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
from tests.support.pages import run_until, trouble, words
from tests.support.stores import copy_of, count_unmeasured

Open = Callable[..., AppTest]
ARMS = [("multi_turn", "mcq")]
VIGNETTE = "A 40-year-old man comes to the clinic because of a cough for two weeks."
CASES = [
    a_case(n, vignette=VIGNETTE, profile=None, specialty=specialty)
    for n, specialty in ((1, "Dermatology"), (2, "Cardiology"))
]


def a_conversation(run: str, case: Case, turns: Sequence[Turn], *, right: bool):
    """Return a trial with a dialogue, if any, and an answer to the task, right or wrong by the paper's rule."""
    number = case.case_key.rpartition("/")[2]
    stream = [
        *(Utterance(turn=i, role=turn.role, text=turn.text) for i, turn in enumerate(turns)),
        *([Ended(reason="final_diagnosis", doctor_turns=1)] if turns else []),
        answered("multi_turn", "mcq"),
        graded("correct" if right else "incorrect", "multi_turn", "mcq"),
        graded("incorrect", "multi_turn", "mcq", rule="mcq_strict"),
        Finished(),
    ]
    return a_trial(stream, trial_id=f"{run}/{number}/0", run_id=run, case_key=case.case_key, trial=0)


def store_two_doctors(store: Store) -> None:
    """Doctor a asks one question of each patient and is right; doctor b asks nothing and is wrong."""
    for run, doctor, turns, right in (("a", "openai/a", COUGH, True), ("b", "openai/b", HASTY, False)):
        header = a_header(run, CASES, doctor=doctor, arms=ARMS, trials=1)
        write_journal(store.journals, run, header, *(a_conversation(run, case, turns, right=right) for case in CASES))
    fold(store)
    for case in CASES:
        save_items(store, case, COUGH_ITEMS, "openai/profiler")


@pytest.fixture
def stored(database: Path) -> Store:
    return copy_of(store_two_doctors, database.parent)


def store_measured(store: Store) -> None:
    store_two_doctors(store)
    measure_trials(store, [HISTORY])


@pytest.fixture
def filled(database: Path) -> Store:
    return copy_of(store_measured, database.parent)


def rows_of(app: AppTest, column: str) -> pd.DataFrame:
    """Return the first table that has ``column``, indexed by its own first column."""
    table = next(frame.value for frame in app.dataframe if column in frame.value.columns)
    return table.set_index(table.columns[0])


def chart(app: AppTest, axis: str) -> dict:
    """Return the traces of the first chart with this title at its x or y axis, by name."""
    charts = [json.loads(element.proto.spec) for element in app.get("plotly_chart")]
    chosen = next(
        c for c in charts if axis in [c["layout"][a].get("title", {}).get("text") for a in ("xaxis", "yaxis")]
    )
    return {trace.get("name"): trace for trace in chosen["data"]}


@pytest.mark.slow
@pytest.mark.usefixtures("measuring")
def test_conversations_count_as_not_measured_until_the_background_has_read_them(stored: Store, open_page: Open) -> None:
    app = open_page("history", history_tab="Figures")
    assert trouble(app) == []
    app = run_until(app, lambda _: not count_unmeasured(stored, HISTORY)).run()
    assert rows_of(app, "Doctor turns").loc["openai/a", "Doctor turns"] == 2


@pytest.mark.slow
def test_a_severe_note_stands_once_on_a_tab_whatever_its_figures(filled: Store, open_page: Open) -> None:
    header = a_header("c", CASES, doctor="openai/c", patient="openai/q", arms=ARMS, trials=1)
    write_journal(filled.journals, "c", header, *(a_conversation("c", case, COUGH, right=True) for case in CASES))
    fold(filled)
    measure_trials(filled, [HISTORY])
    for tab in ("Figures", "Course of the dialogue", "The patient"):
        app = open_page("history", history_tab=tab)
        assert trouble(app) == []
        assert words(app).replace("\\", "").count("Different patients:") == 1, tab
    app = open_page("history", history_tab="Comparison", history_first="openai/a", history_second="openai/b")
    assert "Different patients" not in words(app), "these two had the same one"


@pytest.mark.slow
def test_a_case_opens_its_conversation_measures_and_items(filled: Store, open_page: Open) -> None:
    app = open_page("history", history_tab="Cases", history_doctor="openai/a", history_case="ours/2")
    assert trouble(app) == []
    listed = rows_of(app, "Items")
    assert list(listed[listed["Doctor"] == "openai/a"].index) == ["ours/1", "ours/2"]
    assert rows_of(app, "Value").loc["Patient recall", "Value"] == 0.5
    items = rows_of(app, "In the case")
    assert list(items["In the case"]) == ["40 year old man", "cough for two weeks"]
    assert pd.isna(items.loc["age", "First told at, %"])
    assert items.loc["duration of cough", "First told at, %"] == 100
    assert "by openai/profiler" in words(app).replace("\\", "")
    assert "Correct" in words(app)
