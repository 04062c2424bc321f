"""The CARE page without a browser: parts counted by hand, failures down to the message, ratings, habits, filters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core import paths
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, a_consultation, automedic
from tests.core.store.builders import a_case, write_journal
from tests.support.pages import trouble, visit, words

Open = Callable[..., AppTest]
CLEAN = ["<patient>One two three four?</patient>"] * 4 + ["</end>"]
"""Four queries of four words."""
THEIRS = [a_case(8, dataset="theirs", specialty="Cardiology")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Doctor a has six items with failures of each kind and one that broke off, doctor b two right ones and a third
    on another data set that is wrong on the whole question. Shared: read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(tmp_path_factory.mktemp("care") / "anamnesis.duckdb"))
        store = Store()
        prompts = {"prompt_hash": load_pack("automedic").hash}
        write_journal(store.journals, "run", automedic(doctor="openai/a", **prompts), *SIX, BROKEN)
        header = automedic("b", [1, 2], doctor="openai/b", **prompts)
        header = header.model_copy(update={"cases": [*header.cases, *THEIRS]})
        trials = [a_consultation(n, CLEAN, rating=5, run_id="b") for n in (1, 2)]
        trials.append(a_consultation(8, CLEAN, static="incorrect", rating=4, run_id="b"))
        write_journal(store.journals, "b", header, *trials)
        assert not fold(store).damaged
        yield store


@pytest.fixture
def open_care(stored: Store, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("ANAMNESIS_DB", str(stored.path))

    def open_(**query: str) -> AppTest:
        app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        return visit(app, "care").run()

    return open_


def table(app: AppTest, column: str) -> pd.DataFrame:
    """Return the first table that has ``column``, indexed by its own first column."""
    rows = next(frame.value for frame in app.dataframe if column in frame.value.columns)
    return rows.set_index(rows.columns[0])


def figures_of(app: AppTest, model: str) -> dict[str, float]:
    """Return figure → value of a model, of all tables with a row for each figure."""
    long = [frame.value for frame in app.dataframe if "Figure" in frame.value.columns]
    rows = pd.concat([own.rename(columns={"Accuracy": "Value"}) for own in long])
    rows = rows[rows["Model"] == model]
    return dict(zip(rows["Figure"], rows["Value"], strict=True))


def drawn(app: AppTest) -> list[dict]:
    return [json.loads(element.proto.spec) for element in app.get("plotly_chart")]


def charts(app: AppTest) -> dict[str, dict]:
    return {chart["layout"]["xaxis"]["title"]["text"]: chart for chart in drawn(app) if "xaxis" in chart["layout"]}


def text(app: AppTest) -> str:
    return words(app).replace("\\", "")


def test_an_empty_database_shows_the_published_figures_and_says_what_to_do(open_page: Open) -> None:
    app = open_page("care")
    assert trouble(app) == []
    assert "--protocol automedic" in words(app)
    rows = table(app, "Robustness")
    # table 3 of the paper
    assert rows.loc["Claude Sonnet 4", "Accuracy"] == pytest.approx(0.4699)
    assert rows.loc["LLaMA-3 70B", "Robustness"] == 1
    assert set(rows["From"]) == {"published, table 3"}
    assert len(charts(app)) == 4
    radar = json.loads(app.get("plotly_chart")[4].proto.spec)
    assert [line["name"] for line in radar["data"]] == ["Claude Sonnet 4 (published)", "LLaMA-3 70B (published)"]


def test_the_parts_stand_with_both_accuracies_and_what_is_excluded(open_care: Open) -> None:
    app = open_care()
    assert trouble(app) == []
    a = table(app, "Robustness").loc["openai/a"]
    # worked out in tests/core/frameworks/automedic/measures/test_profile.py
    assert (a["After the conversation"], a["Whole question"], a["Penalty"]) == pytest.approx((3 / 6, 4 / 6, 0.75))
    assert (a["Accuracy"], a["Efficiency and strategy"]) == pytest.approx((0.375, (20 + 125 / 9 + 10) / 6))
    assert (a["Empathy"], a["Robustness"]) == pytest.approx((0.6, 1 / 3))
    assert (a["Cases"], a["With both answers"], a["Trials"], a["Excluded"], a["Not rated"]) == (
        7,
        6,
        7,
        "1 provider error",
        1,
    )
    b = table(app, "Robustness").loc["openai/b"]
    # three of three against two of three: nothing was lost
    assert (b["Accuracy"], b["Penalty"], b["Whole question"]) == pytest.approx((1, 1, 2 / 3))
    assert "Excluded, and not counted as wrong: openai/a: 1 provider error." in text(app)
    assert "formula of the accuracy part is not known to us" in words(app)
    assert "openai/a 7 of 8, openai/b 3 of 8; 2 cases are shared by all" in text(app)


def test_published_figures_are_marked_and_can_be_left_out(open_care: Open) -> None:
    app = open_care()
    rows = table(app, "Robustness")
    assert list(rows["From"]) == ["this database"] * 2 + ["published, table 3"] * 2
    assert rows.loc["Claude Sonnet 4", "Trials"] == 15
    assert pd.isna(rows.loc["Claude Sonnet 4", "Cases"])
    # with intervals, of which none is published
    bounds = table(app, "Low")
    empathy = bounds[bounds["Figure"] == "Empathy"]
    assert empathy.loc["openai/b", "Low"] < empathy.loc["openai/b", "Value"] == pytest.approx(14 / 15)
    assert empathy.loc["Claude Sonnet 4", "Value"] == pytest.approx(0.852)
    assert pd.isna(empathy.loc["Claude Sonnet 4", "Low"])
    assert {"After the conversation, all cases", "Whole question"} <= set(figures_of(app, "openai/a"))
    app.toggle(key="care_published").set_value(False).run()
    assert list(table(app, "Robustness").index) == ["openai/a", "openai/b"]


def test_by_data_set_and_normalised(open_care: Open) -> None:
    app = open_care(care_how="By data set")
    assert trouble(app) == []
    rows = table(app, "Robustness")
    assert list(rows["Data set"])[:3] == ["ours", "ours", "theirs"]
    panels = next(chart for chart in drawn(app) if len(chart["layout"].get("annotations", ())) == 4)
    titles = [note["text"] for note in panels["layout"]["annotations"]]
    assert titles == ["Accuracy", "Efficiency and strategy", "Empathy", "Robustness"], "all parts are one figure"
    assert panels["layout"]["yaxis"]["ticktext"] == ["MedQA / MedBullets", "ours", "theirs"]
    empathy = [trace for trace in panels["data"] if trace["xaxis"] == "x3" and trace["name"] == "openai/b"]
    assert sorted(x for trace in empathy for x in trace["x"]) == pytest.approx([0.8, 1])
    app.segmented_control(key="care_how").set_value("normalised").run()
    assert trouble(app) == []
    normalised = table(app, "Normalised")
    accuracy = normalised[normalised["Figure"] == "Accuracy"]
    # lowest and highest on "ours"; "theirs" has one model, so no scale
    assert list(accuracy["Normalised"]) == [0, 1]
    assert list(accuracy["Data sets"]) == [1, 1]
    assert accuracy["theirs"].isna().all()
    app.multiselect(key="models").set_value(["openai/b"]).run()
    assert "Normalising needs two models" in words(app)


def test_a_doctor_on_two_data_sets_is_one_series(database: Path, open_page: Open) -> None:
    """Its runs on the two data sets are two conditions, which differ in nothing else."""
    store = Store(database)
    prompts = {"prompt_hash": load_pack("automedic").hash}
    write_journal(store.journals, "run", automedic(cases=[1], **prompts), a_consultation(1, CLEAN, rating=5))
    header = automedic("t", [], case_set="theirs", **prompts).model_copy(update={"cases": THEIRS})
    write_journal(store.journals, "t", header, a_consultation(8, CLEAN, rating=4, run_id="t"))
    fold(store)
    app = open_page("care", care_how="By data set", care_published="false")
    assert trouble(app) == []
    assert len(table(app, "Robustness")) == 2
    panels = next(chart for chart in drawn(app) if len(chart["layout"].get("annotations", ())) == 4)
    assert len({trace["marker"]["color"] for trace in panels["data"]}) == 1


def test_filters_stand_in_the_address(open_care: Open) -> None:
    app = open_care(specialties="Cardiology", care_published="false")
    assert list(table(app, "Robustness").index) == ["openai/b"]
    app.multiselect(key="specialties").set_value([])
    app.multiselect(key="datasets").set_value(["ours"]).run()
    assert list(table(app, "Robustness")["Cases"]) == [7, 2]
    app.multiselect(key="datasets").set_value(["theirs"])
    app.multiselect(key="models").set_value(["openai/a"]).run()
    assert "remove one" in words(app)


def test_free_responses_are_figures_of_their_own(database: Path, open_page: Open) -> None:
    store = Store(database)
    arms = [("vignette", "frq"), ("multi_turn", "frq")]
    trial = a_consultation(1, CLEAN, conv="no_diagnosis", rating=2, run_id="f", question_type="frq")
    write_journal(store.journals, "f", automedic("f", [1], doctor="openai/f", arms=arms), trial)
    write_journal(store.journals, "run", automedic(), SIX[0])
    app = open_page("care", care_questions="Free response", care_published="false")
    assert trouble(app) == []
    rows = table(app, "Robustness")
    assert list(rows.index) == ["openai/f"]
    assert (rows.loc["openai/f", "Accuracy"], rows.loc["openai/f", "Robustness"]) == (0, 0)


def test_the_scatter_has_a_mark_for_each_model_and_data_set(open_care: Open) -> None:
    app = open_care(care_tab="Static and conversation")
    assert trouble(app) == []
    traces = {trace["name"]: trace for trace in charts(app)["Static accuracy: the whole question at once"]["data"]}
    assert (traces["openai/a"]["x"], traces["openai/a"]["y"]) == (pytest.approx([4 / 6]), pytest.approx([3 / 6]))
    assert sorted(zip(traces["openai/b"]["x"], traces["openai/b"]["y"], strict=True)) == [(0, 1), (1, 1)]
    fits = table(app, "Slope")
    assert fits.loc["All models", "Marks"] == 3
    assert "r = 0.7547" in text(app)
    app.segmented_control(key="care_line").set_value("group").run()
    assert trouble(app) == []
    assert list(table(app, "Slope").index) == ["All models", "openai"]
    app.segmented_control(key="care_line").set_value("dataset").run()
    assert trouble(app) == []
    assert list(table(app, "Slope").index) == ["All data sets", "ours", "theirs"]
    assert list(table(app, "Slope")["Marks"]) == [3, 2, 1]
    panels = next(chart for chart in drawn(app) if len(chart["layout"].get("annotations", ())) == 2)
    marks = {(trace["name"], trace["xaxis"]): trace["x"] for trace in panels["data"] if trace.get("mode") == "markers"}
    assert marks == {("openai/a", "x"): pytest.approx([4 / 6]), ("openai/b", "x"): [1], ("openai/b", "x2"): [0]}


def test_failures_are_counted_by_kind_and_cause(open_care: Open) -> None:
    app = open_care(care_tab="Failures")
    assert trouble(app) == []
    bars = {trace["name"]: trace for trace in charts(app)["Failures as share of conversations"]["data"]}
    # doctor a: 6 conversations count
    assert bars["Role-breaking"]["x"] == pytest.approx([2 / 6, 0])
    assert {name for name in bars if name.startswith("Abrupt")} == {
        "Abrupt end: no tag",
        "Abrupt end: end tag next to a query",
        "Abrupt end: ended early",
    }
    listed = table(app, "Quote")
    assert list(listed.index) == [f"ours/{n}" for n in (3, 4, 5, 5, 6, 6)]
    app.multiselect(key="care_causes").set_value(["early_end"]).run()
    assert list(table(app, "Quote").index) == ["ours/6"]
    counts = table(app, "Failed in any way").loc["openai/a"]
    assert (counts["Failed in any way"], counts["Trials that count"], counts["Excluded"]) == (4, 6, "1 provider error")
    app.multiselect(key="models").set_value(["openai/b"]).run()
    assert "No conversation here failed" in words(app)


def test_a_failure_opens_its_conversation_at_the_message_that_shows_it(open_care: Open) -> None:
    app = open_care(care_tab="Failures", care_failure="run/5/0|role_breaking", care_causes="Speaks for others")
    assert trouble(app) == []
    assert list(table(app, "Quote").index) == ["ours/3", "ours/5"]
    assert "Message 1, with the failure" in words(app)
    assert "Patient: On my neck, it itches." in text(app)
    texts = [element.value.replace("\\", "") for element in app.markdown]
    assert any(value.endswith("When?") for value in texts)
    assert not any("<patient>When?" in value for value in texts), "of a part of a conversation too, tags are not shown"
    assert "Role-breaking" in words(app)
    app = open_care(care_tab="Failures", care_failure="run/6/0|invalid_answer")
    assert trouble(app) == []
    assert "A or B" in words(app), "the answer that names several options"
    assert "Several diagnoses" in words(app)


def test_a_conversation_that_does_not_count_is_no_success(database: Path, open_page: Open) -> None:
    judged = a_consultation(2, CLEAN, rating=3, static="refused")
    unjudged = judged.model_copy(update={"events": [event for event in judged.events if event.kind != "graded"]})
    write_journal(Store(database).journals, "run", automedic(), BROKEN, unjudged)
    assert "No conversation here counts" in words(open_page("care", care_tab="Failures"))
    app = open_page("care")
    assert trouble(app) == []
    assert "Excluded, and not counted as wrong: openai/a: 1 provider error, 1 ungraded." in text(app)
    assert "Answers to the whole question. Excluded, and not counted as wrong: openai/a: 1 refused." in text(app)


def test_a_pack_that_changed_or_went_is_said(database: Path, open_page: Open) -> None:
    store = Store(database)
    for run, pack, hash_ in (("old", "automedic", "0ld"), ("gone", "nowhere", "g0ne")):
        header = automedic(run, [1], doctor="openai/a", prompt_pack=pack, prompt_hash=hash_)
        write_journal(store.journals, run, header, a_consultation(1, CLEAN, rating=1, run_id=run))
    app = open_page("care", care_tab="Empathy")
    assert trouble(app) == []
    assert "The pack has changed since some of these ratings" in words(app)
    assert "The prompt of the pack nowhere cannot be shown" in words(app)
    # conversations under other prompts are not pooled
    assert {"openai/a · prompts automedic", "openai/a · prompts nowhere"} <= set(
        table(app, "The rater’s words")["Model"]
    )


def test_habits_of_conversation(open_care: Open) -> None:
    app = open_care(care_tab="Habits")
    assert trouble(app) == []
    a = table(app, "Repeated").loc["openai/a"]
    # turns 4, 5, 5, 1, 2, 0; words a turn 20/4, 36/5, 9/5, 10, 8/2, those outside the tags too; 2 of 17 to the staff
    assert (a["Turns"], a["Words per turn"], a["To the clinical staff"]) == pytest.approx((17 / 6, 28 / 5, 2 / 17))
    assert (a["Conversations"], a["Queries"]) == (6, 17)
    ended = table(app, "Ending").loc["openai/a"].set_index("Ending")["Count"].to_dict()
    assert (ended["the doctor closed it"], ended["the cap was reached"]) == (4, 1)
    b = table(app, "Repeated").loc["openai/b"]
    # each conversation asks the same four times
    assert b["Repeated"] == pytest.approx(9 / 12)
    misuses = table(app, "Misuse").loc["openai/a"].set_index("Misuse")["Count"]
    assert (misuses["Speaks for others"], misuses["Words outside the tags"], misuses["Tag inside a tag"]) == (2, 2, 0)


def test_the_composite_is_unweighted_without_a_review_of_pairs(open_care: Open) -> None:
    app = open_care(care_tab="Composite")
    assert trouble(app) == []
    rows = table(app, "Weights")
    assert set(rows["Weights"]) == {"Equal weights"}


def test_the_printed_studies_are_shown_without_a_review(open_care: Open) -> None:
    app = open_care(care_tab="Studies by experts")
    assert trouble(app) == []
    assert [len(frame.value) for frame in app.dataframe] == [2, 3, 8, 8]


def test_a_case_opens_its_conversation(open_care: Open) -> None:
    app = open_care(care_tab="Cases", care_model="openai/a", care_case="ours/4")
    assert trouble(app) == []
    listed = table(app, "Specialty")
    assert list(listed.index) == [f"ours/{n}" for n in range(1, 8)]
    assert (listed.loc["ours/4", "After the conversation"], listed.loc["ours/4", "Whole question"]) == (1, 0)
    assert "It is eczema." in text(app)
    assert "no tag to pass on; 1 query was passed on" in words(app)


def test_ratings_are_shown_with_the_raters_words_and_the_wording_that_was_asked(open_care: Open) -> None:
    app = open_care(care_tab="Empathy", care_rating="run/2/0")
    assert trouble(app) == []
    bars = {trace["name"]: trace for trace in charts(app)["Share of conversations"]["data"]}
    # doctor a: 5, 4, 3, 2, none, 1; doctor b: 5, 5, 4
    assert bars["Rating 5"]["x"] == pytest.approx([1 / 6, 2 / 3])
    assert bars["No rating read"]["x"] == pytest.approx([1 / 6, 0])
    listed = table(app, "The rater’s words")
    assert len(listed) == 9
    assert listed["The rater’s words"].iloc[0] == "I would give 1."
    prompt = load_pack("automedic").prompts["empathy"].source.strip()
    assert [block.value for block in app.code] == [prompt]
    assert "has changed" not in words(app)
    # the rating in the address is opened
    assert "Empathy: 4 of 5" in words(app)
    assert "“I would give 4.”" in text(app)
    assert any("One two three four five six seven eight?" in element.value for element in app.markdown)
    app.multiselect(key="care_ratings_given").set_value(["4"]).run()
    assert list(table(app, "The rater’s words").index) == [4, 4]


def test_blank_answers_fail_and_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_page: Open
) -> None:
    store = Store()
    lines = [a_consultation(1, CLEAN, rating=5), a_consultation(2, CLEAN, conv="empty", rating=5)]
    write_journal(store.journals, "run", automedic(prompt_hash=load_pack("automedic").hash), *lines)
    fold(store)
    app = open_page("care")
    assert table(app, "Robustness")["Robustness"].tolist()[0] == 0.5
    app.toggle(key="care_without_blank").set_value(True).run()
    row = table(app, "Robustness").iloc[0]
    assert (row["Robustness"], row["After the conversation"], row["Excluded"]) == (1, 1, "1 blank answer")
    assert "Excluded, and not counted as wrong: openai/a: 1 empty." in text(app)
    assert not trouble(app)


def test_both_rules_for_a_clean_early_end_are_offered_and_named(database: Path, open_page: Open) -> None:
    store = Store(database)
    clean = a_consultation(1, [*CLEAN[:2], "</end>"], rating=5)
    next_to_words = a_consultation(2, [*CLEAN[:2], "It is eczema. </end>"], rating=5)
    write_journal(store.journals, "run", automedic(prompt_hash=load_pack("automedic").hash), clean, next_to_words)
    fold(store)
    app = open_page("care", care_published="false")
    assert table(app, "Robustness")["Robustness"].tolist() == [0]
    assert "Every early end counts as abrupt" in text(app)
    app.selectbox(key="care_early_end").set_value("allowed").run()
    assert trouble(app) == []
    assert table(app, "Robustness")["Robustness"].tolist() == [0.5]
    assert "Clean early ends do not count as abrupt" in text(app)


def test_the_rules_for_choices_are_named_and_their_distance_told(open_care: Open) -> None:
    app = open_care()
    assert "the strict rule" in text(app)
    assert "0.500 in Multi-turn · Multiple choice" in text(app)
