"""The Accuracy page without a browser: filters, own and published figures, cases and transcripts behind a bar."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from core.store.fold import fold
from pages.kit.names import natural, unique_names
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, invalid, write_journal
from tests.support.pages import has_button, help_texts, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
ARMS = [("vignette", "mcq"), ("multi_turn", "mcq")]
CASES = 8
BOTH = ["Mine", "Published"]


def charts(app: AppTest) -> list[dict[str, Any]]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def traces(app: AppTest) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in charts(app)[0]["data"] if trace.get("name")}


def frame(app: AppTest, column: str) -> Any:
    (table,) = [d.value for d in app.dataframe if column in d.value.columns]
    return table.round(3)


def store_answers(store: Store) -> None:
    """Eight cases, two trials: all vignettes right, in conversation case 0 alone; one answer of case 1 is refused."""
    for model, run in (("openai/a", "run-a"), ("gpt_4", "run-g")):
        cases = [
            a_case(
                n,
                case_key=f"craftmd/case_{n}",
                specialty="Neurology" if n % 2 else "Dermatology",
                dataset="MedQA_USMLE",
            )
            for n in range(CASES)
        ]
        lines = []
        for n in range(CASES):
            for t in range(2):
                refused = model == "openai/a" and (n, t) == (1, 1)
                events = [
                    answered("vignette", "mcq"),
                    graded("correct", "vignette", "mcq"),
                    *(
                        [invalid("refused", "multi_turn", "mcq")]
                        if refused
                        else [
                            answered("multi_turn", "mcq"),
                            graded("correct" if n == 0 else "incorrect", "multi_turn", "mcq"),
                        ]
                    ),
                ]
                trial_id = f"{run}/{n}/{t}"
                lines.append(a_trial(events, trial_id=trial_id, run_id=run, case_key=f"craftmd/case_{n}", trial=t))
        header = a_header(run, cases, doctor=model, arms=ARMS, case_set="craftmd", patient=f"patient of {run}")
        write_journal(store.journals, run, header, *lines)
    fold(store)


@pytest.fixture
def answered_cases(database: Path) -> Path:
    copy_of(store_answers, database.parent)
    return database


@pytest.mark.slow
def test_figures_can_be_restricted_to_what_is_asked_for(answered_cases: Path, open_page: Open) -> None:
    """The published figures cover all questions, so they are not shown next to a part of them."""
    treated = a_case(9, case_key="craftmd/case_9", question="What is the best treatment?")
    events = [answered("vignette", "mcq"), graded("incorrect", "vignette", "mcq")]
    line = a_trial(events, trial_id="run-t/9/0", run_id="run-t", case_key="craftmd/case_9")
    header = a_header("run-t", [treated], doctor="openai/a", arms=ARMS, case_set="craftmd", patient="patient of run-a")
    write_journal(Store().journals, "run-t", header, line)
    fold(Store())
    app = open_page("accuracy", asks_for="Diagnosis", source=BOTH)
    assert trouble(app) == []
    assert not any("published" in name for name in traces(app))
    assert "Only cases whose question asks for: diagnosis. Published figures cover all questions" in words(app)
    assert set(frame(app, "Accuracy")["Cases"]) == {CASES}
    assert app.query_params["asks_for"] in ("Diagnosis", ["Diagnosis"])

    app.multiselect(key="asks_for").set_value(["treatment"]).run()
    assert trouble(app) == []
    assert set(frame(app, "Accuracy")["Cases"]) == {1}


@pytest.mark.slow
def test_every_split_of_an_empty_database_has_an_answer(open_page: Open) -> None:
    panels = {}
    for split in ("Specialty", "Data set", "Dermatology by data set", "One likely diagnosis"):
        app = open_page("accuracy", acc_split=split)
        assert trouble(app) == []
        # a figure for each kind of question and width of window, in it a panel for each group of cases
        panels[split] = [len(chart["layout"]["annotations"]) for chart in charts(app)]
    assert panels == {
        "Specialty": [12] * 4,
        "Data set": [],
        "Dermatology by data set": [3] * 4,
        "One likely diagnosis": [3] * 4,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("answered_cases")
def test_the_address_keeps_split_interval_and_correction(open_page: Open) -> None:
    app = open_page("accuracy", acc_split="Specialty", correction="Benjamini–Hochberg", interval="Normal theory (t)")
    assert trouble(app) == []
    assert "Benjamini–Hochberg over the 4 pairs shown" in help_texts(app)
    own = frame(app, "Accuracy")
    assert set(own["Group"]) == {"Dermatology", "Neurology"}
    # four cases of which one is right: 0.25 ± t(3) · 0.5 / √4 reaches below zero, as only the normal theory does
    low = own[(own["Group"] == "Dermatology") & (own["Format"] == "Multi-turn") & (own["Model"] == "openai/a")]["Low"]
    assert list(low) == [pytest.approx(0.25 - 3.182446 * 0.25, abs=5e-4)]


@pytest.mark.usefixtures("answered_cases")
def test_own_runs_come_first_and_published_figures_are_added_by_the_source(open_page: Open) -> None:
    app = open_page("accuracy")
    assert trouble(app) == []
    assert [name for name in traces(app) if "stars" not in name] == ["GPT-4", "openai/a"]
    assert "Filters" in [popover.proto.popover.label for popover in app.get("popover")]
    assert "source" not in app.query_params
    assert set(frame(app, "Accuracy")["Model"]) == {"GPT-4", "openai/a"}

    together = open_page("accuracy", source=BOTH)
    models = list(dict.fromkeys(frame(together, "From")["Model"]))
    assert models[:2] == ["GPT-4", "openai/a"]
    assert len(models) == 6

    linked = open_page("accuracy", models="GPT-3.5")  # a link to a published figure opens it
    assert set(frame(linked, "From")["Model"]) == {"GPT-3.5"}
    assert linked.query_params["source"] in ("Published", ["Published"])


@pytest.mark.usefixtures("answered_cases")
def test_filters_that_leave_nothing_say_so(open_page: Open) -> None:
    app = open_page("accuracy", models="openai/a", formats="Summarized")
    assert trouble(app) == []
    assert has_button(app, "Clear the filters")
    assert not charts(app)


def test_two_models_of_one_label_keep_apart() -> None:
    names = unique_names(["gpt_4", "openai/gpt-4-1106-preview", "openai/x"])
    assert names["openai/x"] == "openai/x"
    assert names["gpt_4"] == "GPT-4 (gpt_4)"
    assert names["openai/gpt-4-1106-preview"] == "GPT-4 (openai/gpt-4-1106-preview)"


def test_cases_are_sorted_as_people_count() -> None:
    assert sorted(["a/10", "a/9", "a/b", "a/1"], key=natural) == ["a/1", "a/9", "a/10", "a/b"]
