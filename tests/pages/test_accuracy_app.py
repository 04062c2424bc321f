"""The Accuracy page without a browser: published figures first, then our own with stars, cases and transcripts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.measures.comparison import TESTS
from core.store.database import Store
from core.store.fold import fold
from pages.accuracy.published import SHOWN
from pages.kit.names import natural, unique_names
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, invalid, write_journal
from tests.support.pages import button, has_button, trouble, words
from tests.support.stores import copy_of

LEADERBOARD = SHOWN["leaderboard"]
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


def compared(app: AppTest) -> Any:
    """The table's rows that have a difference from the vignettes."""
    rows = frame(app, "Adjusted p")
    return rows[rows["Δ"].notna()]


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


def test_figures_can_be_restricted_to_what_is_asked_for(answered_cases: Path, open_page: Open) -> None:
    """The published figures cover all questions, so they are not shown next to a part of them."""
    alike = open_page("accuracy")
    assert "asks_for" not in {m.key for m in alike.multiselect}, "all questions ask for one thing"
    treated = a_case(9, case_key="craftmd/case_9", question="What is the best treatment?")
    events = [answered("vignette", "mcq"), graded("incorrect", "vignette", "mcq")]
    line = a_trial(events, trial_id="run-t/9/0", run_id="run-t", case_key="craftmd/case_9")
    header = a_header("run-t", [treated], doctor="openai/a", arms=ARMS, case_set="craftmd", patient="patient of run-a")
    write_journal(Store().journals, "run-t", header, line)
    fold(Store())
    everything = open_page("accuracy", source=BOTH)
    assert trouble(everything) == []
    assert any("published" in name for name in traces(everything))
    table = frame(everything, "From")
    assert float(table[(table["Model"] == "a") | (table["Model"] == "openai/a")]["Accuracy"].iloc[0]) < 1

    app = open_page("accuracy", asks_for="Diagnosis", source=BOTH)
    assert trouble(app) == []
    assert not any("published" in name for name in traces(app))
    assert "Only cases whose question asks for: diagnosis. Published figures cover all questions" in words(app)
    assert set(frame(app, "Accuracy")["Cases"]) == {CASES}
    assert app.query_params["asks_for"] in ("Diagnosis", ["Diagnosis"])

    app.multiselect(key="asks_for").set_value(["treatment"]).run()
    assert trouble(app) == []
    assert set(frame(app, "Accuracy")["Cases"]) == {1}


def test_an_empty_database_shows_the_published_figures_and_what_to_do(open_page: Open) -> None:
    app = open_page("accuracy")
    assert trouble(app) == []
    assert "These are the **published** figures." in words(app)
    assert "python -m core import craftmd PATH" in words(app)
    assert set(traces(app)) == {
        f"{name} (published)" for name in ("GPT-4", "GPT-3.5", "Mistral v1 7B", "Mistral v2 7B", "LLaMA-2 7B")
    }
    gpt_4 = traces(app)["GPT-4 (published)"]
    assert gpt_4["y"] == [0.82, 0.627, 0.52, 0.669]
    assert gpt_4["marker"]["pattern"]["shape"] == "/"
    # table 4 prints the intervals of table 1: none is drawn
    assert "error_y" not in charts(app)[1]["data"][0]
    table = frame(app, "From")
    first = {re.match(r"published, supplementary table (\d+)", source)[1] for source in table["From"]}  # type: ignore[index]
    assert first == {"1", "4", "22"}


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


def test_bars_by_specialty_share_their_axes_and_can_be_dots(open_page: Open) -> None:
    app = open_page("accuracy", acc_split="Specialty", formats="Vignette", models="GPT-4")
    (bars, *_) = charts(app)
    assert {trace["type"] for trace in bars["data"]} == {"bar"}
    assert [trace["showlegend"] for trace in bars["data"]] == [True, *[False] * 11]
    assert all("error_y" in trace for trace in bars["data"])
    dots = open_page("accuracy", acc_split="Specialty", formats="Vignette", models="GPT-4", acc_marks="Dots")
    (figure, *_) = charts(dots)
    assert {trace["type"] for trace in figure["data"]} == {"scatter"}
    assert len(figure["layout"]["yaxis"]["ticktext"]) == 12, "a row for each specialty"
    assert [title["text"] for title in figure["layout"]["annotations"]] == ["Vignette"]


@pytest.mark.usefixtures("answered_cases")
def test_vignettes_stand_beside_conversations(open_page: Open) -> None:
    app = open_page("accuracy", acc_tab="Static and conversational")
    assert trouble(app) == []
    (figure,) = charts(app)
    static, talked = (next(t for t in figure["data"] if t["name"] == name) for name in ("Vignette", "Multi-turn"))
    assert dict(zip(static["x"], static["y"], strict=True)) == {"GPT-4": 1.0, "openai/a": 1.0}
    assert dict(zip(talked["x"], talked["y"], strict=True)) == {"GPT-4": 0.125, "openai/a": 0.125}
    assert talked["error_y"]["array"][0] > 0
    assert set(compared(app)["Format"]) == {"Multi-turn"}
    assert set(frame(app, "Accuracy")["Format"]) == {"Vignette", "Multi-turn"}


def test_the_leaderboard_is_published_and_complete(open_page: Open) -> None:
    app = open_page("accuracy", acc_tab="Published", acc_published=LEADERBOARD)
    assert trouble(app) == []
    table = frame(app, "Rank")
    assert len(table) == 24 * 4, "a line for each model, question and format"
    assert set(table["From"]) == {"published, public leaderboard, 2,004 cases"}
    assert len(charts(app)) == 2


@pytest.mark.parametrize(("publication", "count"), [("paper", 64), ("text", 60), ("preprint", 25)])
def test_published_figures_are_shown_on_an_empty_database(publication: str, count: int, open_page: Open) -> None:
    app = open_page("accuracy", acc_tab="Published", acc_published=SHOWN[publication])  # type: ignore[index]
    assert trouble(app) == []
    table = frame(app, "Δ to published")
    assert len(table) == count
    assert table["Accuracy"].notna().all()
    assert all(source.startswith("published, ") for source in table["From"])


@pytest.mark.parametrize(("publication", "column", "count"), [("tests", "p here", 144), ("experts", "Value here", 61)])
def test_printed_tests_and_experts_say_why_a_value_is_missing(
    publication: str, column: str, count: int, open_page: Open
) -> None:
    app = open_page("accuracy", acc_tab="Published", acc_published=SHOWN[publication])  # type: ignore[index]
    assert trouble(app) == []
    table = frame(app, "State")
    assert len(table) == count
    assert table["Published"].notna().all()
    assert table[column].isna().all()
    assert table["State"].notna().all()


def test_the_old_address_of_reproduce_leads_to_published_figures(open_page: Open) -> None:
    app = open_page("reproduce")
    assert trouble(app) == []
    assert len(frame(app, "Δ to published")) == 64


@pytest.mark.usefixtures("answered_cases")
def test_own_models_stand_in_the_leaderboard(open_page: Open) -> None:
    app = open_page("accuracy", acc_tab="Published", acc_published=LEADERBOARD)
    assert trouble(app) == []
    table = frame(app, "Rank")
    own = table[table["From"] == "this database"]
    of_a = own[own["Model"] == "openai/a"].set_index("Format")
    assert of_a["Accuracy"].to_dict() == {"Vignette": 1.0, "Multi-turn": 0.125}
    assert set(of_a["Cases"]) == {8}
    assert own["Rank"].isna().all()
    figure = charts(app)[0]
    axis = figure["layout"]["yaxis"]
    row = axis["tickvals"][axis["ticktext"].index("openai/a")]
    near = [x for t in figure["data"] for x, y in zip(t["x"], t["y"], strict=True) if x and abs(y - row) < 0.5]
    assert sorted(set(near)) == [0.125, 1.0]


@pytest.mark.usefixtures("answered_cases")
def test_our_figures_with_their_pairs_replace_published_ones_where_they_cover_them(open_page: Open) -> None:
    app = open_page("accuracy", source=BOTH)
    assert trouble(app) == []
    by_name = traces(app)
    # gpt_4 has our vignette and multi-turn; its other formats stay published
    assert by_name["GPT-4"]["x"] == ["Vignette", "Multi-turn"]
    assert by_name["GPT-4"]["y"] == [1.0, 0.125]
    assert by_name["GPT-4 (published)"]["x"] == ["Single-turn", "Summarized"]
    assert by_name["openai/a"]["y"] == [1.0, 0.125]
    assert "openai/a (published)" not in by_name
    assert re.search(r"Excluded.*: openai\W+a\W+1 refused", words(app))
    assert any("patient" in e.label for e in app.expander if e.label.startswith("What else differs"))
    settings = frame(app, "openai/a")
    assert dict(zip(settings["Setting"], settings["openai/a"], strict=True))["Patient"] == "patient of run-a"
    table = compared(app)
    assert list(table["Model"]) == ["GPT-4", "openai/a"]
    assert list(table["Format"]) == ["Multi-turn", "Multi-turn"]
    assert list(table["Δ"]) == [-0.875, -0.875]
    assert "Holm–Bonferroni over the 2 pairs shown" in words(app)
    starred = [trace for trace in charts(app)[0]["data"] if trace.get("text")]
    assert [trace["text"] for trace in starred] == [["", stars] for stars in table["Stars"]]
    app.multiselect(key="models").set_value(["openai/a"]).run()
    alone = compared(app)
    assert list(alone["Adjusted p"]) == list(alone["p"])
    assert "over the 1 pairs shown" in words(app).replace("1 pair ", "1 pairs ")


@pytest.mark.usefixtures("answered_cases")
def test_a_bar_leads_to_its_cases_and_a_case_to_its_trials(open_page: Open) -> None:
    address = {"acc_bar_model": "openai/a", "acc_bar_format": "Multi-turn", "acc_case": "craftmd/case_1"}
    app = open_page("accuracy", **address)
    assert trouble(app) == []
    cases = frame(app, "Counted")
    assert list(cases["Case"]) == [f"CRAFT-MD case {n}" for n in range(CASES)]
    assert list(cases["Score"]) == [1.0, *[0.0] * 7]
    assert list(cases["Excluded"]) == [0, 1, *[0] * 6]
    links = [link.proto.label for link in app.get("page_link")]
    assert links[-2:] == ["Trial 1", "Trial 2"]
    assert "Refused, excluded" in words(app)
    wrong = open_page("accuracy", **address, acc_outcome="Never right")
    assert len(frame(wrong, "Counted")) == 7
    assert not has_button(wrong, "Close")
    opened = open_page("accuracy", **address, behind="yes")  # as a click on the bar leaves the address
    assert list(frame(opened, "Counted")["Case"]) == list(cases["Case"])
    button(opened, "Close").click().run()
    assert "behind" not in opened.query_params
    assert not has_button(opened, "Close")


@pytest.mark.usefixtures("answered_cases")
def test_the_address_keeps_split_interval_and_correction(open_page: Open) -> None:
    app = open_page("accuracy", acc_split="Specialty", correction="Benjamini–Hochberg", interval="Normal theory (t)")
    assert trouble(app) == []
    assert "Benjamini–Hochberg over the 4 pairs shown" in words(app)
    own = frame(app, "Accuracy")
    assert set(own["Group"]) == {"Dermatology", "Neurology"}
    # four cases of which one is right: 0.25 ± t(3) · 0.5 / √4 reaches below zero, as only the normal theory does
    low = own[(own["Group"] == "Dermatology") & (own["Format"] == "Multi-turn") & (own["Model"] == "openai/a")]["Low"]
    assert list(low) == [pytest.approx(0.25 - 3.182446 * 0.25, abs=5e-4)]


@pytest.mark.usefixtures("answered_cases")
def test_the_boxes_of_the_drill_down_name_what_is_shown(open_page: Open) -> None:
    """Choices of a link or a click that the filters then take away give way to one that is on show."""
    app = open_page(
        "accuracy", source=BOTH, acc_bar_model="GPT-4", acc_bar_format="Summarized", acc_bar_question="Free response"
    )
    boxes = ("acc_bar_model", "acc_bar_format", "acc_bar_question")
    assert [app.selectbox(key=key).value for key in boxes] == ["gpt_4", "summarized", "frq"]
    assert "without cases" in words(app)
    app.multiselect(key="models").set_value(["openai/a"]).run()
    assert trouble(app) == []
    assert [app.selectbox(key=key).value for key in boxes] == ["openai/a", "vignette", "mcq"]
    assert app.selectbox(key="acc_bar_model").options == ["openai/a"]
    assert len(frame(app, "Counted")) == CASES
    app.selectbox(key="acc_bar_format").set_value("multi_turn").run()
    app.multiselect(key="formats").set_value(["vignette"]).run()
    assert app.selectbox(key="acc_bar_format").value == "vignette"
    assert set(frame(app, "Accuracy")["Format"]) == {"Vignette"}


@pytest.mark.usefixtures("answered_cases")
def test_own_runs_come_first_and_published_figures_are_added_by_the_source(open_page: Open) -> None:
    app = open_page("accuracy")
    assert trouble(app) == []
    assert [name for name in traces(app) if "stars" not in name] == ["GPT-4", "openai/a"]
    assert "Filters" in [popover.proto.popover.label for popover in app.get("popover")]
    assert "source" not in app.query_params
    assert set(frame(app, "Accuracy")["Model"]) == {"GPT-4", "openai/a"}

    published = open_page("accuracy", source="Published")
    assert set(frame(published, "From")["Model"]) == {
        "GPT-4",
        "GPT-3.5",
        "Mistral v1 7B",
        "Mistral v2 7B",
        "LLaMA-2 7B",
    }
    assert "Filters · 1" in [popover.proto.popover.label for popover in published.get("popover")]

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
    assert "No figure matches" in words(app)
    assert not charts(app)


def test_two_models_of_one_label_keep_apart() -> None:
    names = unique_names(["gpt_4", "openai/gpt-4-1106-preview", "openai/x"])
    assert names["openai/x"] == "openai/x"
    assert names["gpt_4"] == "GPT-4 (gpt_4)"
    assert names["openai/gpt-4-1106-preview"] == "GPT-4 (openai/gpt-4-1106-preview)"


def test_cases_are_sorted_as_people_count() -> None:
    assert sorted(["a/10", "a/9", "a/b", "a/1"], key=natural) == ["a/1", "a/9", "a/10", "a/b"]


def test_differences_between_arms_are_one_family_under_the_chosen_test(answered_cases: Path, open_page: Open) -> None:
    app = open_page("accuracy", acc_tab="Differences between arms", acc_test=TESTS["unpaired_bootstrap"])
    assert trouble(app) == []
    rows = frame(app, "Adjusted p")
    assert set(rows["First"]) == {"Vignette"}
    assert set(rows["Second"]) == {"Multi-turn"}
    assert list(rows["Cases"]) == [CASES, CASES]
    assert list(rows["Δ"]) == [-0.875, -0.875]
    assert TESTS["unpaired_bootstrap"] in words(app).replace("\\", "")
    assert charts(app)
    other = open_page("accuracy", acc_tab="Differences between arms", acc_against="Question types")
    assert trouble(other) == []
    assert "No model has answers in two such arms" in words(other)
