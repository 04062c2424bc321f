"""The Compare page without a browser: arms with their differences, outcomes, flipped cases, both transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.events import Ended, Utterance, Verdict
from core.measures.base import MetricRequest
from core.measures.behind import trials_behind
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from pages.compare.data import ComparedArm, arms_of, comparison, counted_in
from pages.kit.subjects import Subject
from tests.core.store.builders import a_case, a_header, a_trial, answered, as_released, graded, write_journal
from tests.pages.test_accuracy_app import frame
from tests.support.pages import button, help_texts, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
ARMS = [("vignette", "mcq"), ("multi_turn", "frq")]


def store_run(run: str, model: str, right: set[int], **changes: object) -> None:
    """Store six cases, two trials each; in ``multi_turn:frq`` those in ``right`` are right, all vignettes are."""
    store = Store()
    cases = [a_case(n, specialty="Neurology" if n > 4 else "Dermatology") for n in range(1, 7)]
    lines = []
    for n in range(1, 7):
        for t in range(2):
            verdict: Verdict = "correct" if n in right else "incorrect"
            events = [
                Utterance(turn=0, role="doctor", text="What brings you in?"),
                Utterance(turn=1, role="patient", text=f"It is case {n} of {run}."),
                Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema"),
                Ended(reason="final_diagnosis", doctor_turns=1),
                answered("vignette", "mcq"),
                graded("correct", "vignette", "mcq"),
                answered(response=f"Answer of {run}"),
                graded(verdict),
            ]
            lines.append(a_trial(events, trial_id=f"{run}/{n}/{t}", run_id=run, case_key=f"ours/{n}", trial=t))
    header = a_header(run, cases, doctor=model, arms=ARMS, **changes)
    write_journal(store.journals, run, header, *lines)
    fold(store)


def store_two_models(store: Store) -> None:
    store_run("first", "openai/a", {1, 2})
    store_run("second", "openai/b", {2, 3, 4, 5}, prompt_hash="other", settings={"max_messages": 10}, created_at=200.0)


@pytest.fixture
def two_models(database: Path) -> Path:
    copy_of(store_two_models, database.parent)
    return database


@pytest.mark.usefixtures("two_models")
def test_a_side_has_only_the_cases_of_the_selection() -> None:
    subject, arm = Subject("openai/b"), ("multi_turn", "frq")
    chosen = Selection(case_sets=("ours",), specialties=("Neurology",))
    assert {key: case.score for key, case in arms_of(subject, chosen)[arm].items()} == {"ours/5": 1.0, "ours/6": 0.0}
    assert len(arms_of(subject, Selection(case_sets=("ours",)))[arm]) == 6
    assert arms_of(subject, Selection(case_sets=("theirs",))) == {}


@pytest.mark.usefixtures("two_models")
def test_a_row_of_two_models_opens_the_conversations_of_both() -> None:
    selection = Selection(case_sets=("ours",), specialties=("Dermatology",))
    first, second = (ComparedArm(Subject(model), ("multi_turn", "frq")) for model in ("openai/a", "openai/b"))
    sides = first, second
    named, counts = counted_in(sides, selection)
    trials = trials_behind(MetricRequest(Store(), named), counts)
    result = comparison(*sides, selection, "smoothed")
    # of cases 1 to 4, a is right on 1 and 2, b on 2, 3 and 4, each in two trials
    assert (result.improved, result.regressed, result.equal) == (2, 1, 1)
    assert sorted(trials["became_wrong"]) == ["first/1/0", "first/1/1", "second/1/0", "second/1/1"]
    assert {part: len(trials[part]) for part in ("counted", "improved", "regressed", "equal")} == {
        "counted": 16, "improved": 8, "regressed": 4, "equal": 4,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("two_models")
def test_two_models_are_compared_in_every_arm_in_one_and_case_by_case(open_page: Open) -> None:
    app = open_page("compare", cmp_arm="Multi-turn · Free response", cmp_case="ours/3")
    assert trouble(app) == []
    table = frame(app, "Adjusted p")
    assert list(table["Answer"]) == ["Vignette · Multiple choice", "Multi-turn · Free response"]
    assert list(table["openai/a"]) == [1.0, 0.333]
    assert list(table["openai/b"]) == [1.0, 0.667]
    assert list(table["Difference"]) == [0.0, 0.333]
    assert list(table["Improved"]) == [0, 3]
    assert list(table["Regressed"]) == [0, 1]
    assert list(table["Equal"]) == [6, 2]
    (chart,) = app.get("plotly_chart")
    assert all("error_x" in trace for trace in json.loads(chart.proto.spec)["data"] if trace.get("x"))
    # one arm: outcomes, McNemar's test and what else differs
    outcomes = app.table[0].value
    assert outcomes.to_numpy().tolist() == [[1, 1, 2], [3, 1, 4], [4, 2, 6]]
    # two-sided binomial test of 1 in 4: 2 · (1 + 4) / 2**4
    assert "p = 0.6250, not corrected" in help_texts(app)
    assert "**4** of 6 cases flipped: 3 became right, 1 became wrong" in words(app)
    settings = frame(app, "Setting").set_index("Setting")
    different = settings[settings["openai/a"] != settings["openai/b"]]
    assert list(different.index) == ["Prompts", "Limit of messages", "Runs"]
    assert "grader" not in settings_that_differ(app)
    # its flipped cases, one of them side by side
    assert list(frame(app, "Change")["Case"]) == ["ours/1", "ours/3", "ours/4", "ours/5"]
    texts = [m.markdown[0].value for m in app.chat_message]
    assert "It is case 3 of first" in "\n".join(texts)
    assert "It is case 3 of second" in "\n".join(texts)
    assert "Answer of first" in words(app)
    assert "Answer of second" in words(app)


def settings_that_differ(app: AppTest) -> str:
    """Return the names of the settings that the fold of the two sides lists, the only ones that stand first in it."""
    (label,) = [fold.label for fold in app.expander if "the two sides" in fold.label]
    return label.partition(": ")[2]


def sides(app: AppTest) -> list[str]:
    return [app.selectbox(key=key).value.model for key in ("cmp_first", "cmp_second")]


@pytest.mark.usefixtures("two_models")
def test_swapping_turns_the_difference_round_and_its_address_leads_to_the_same(open_page: Open) -> None:
    app = open_page("compare")
    assert sides(app) == ["openai/a", "openai/b"]
    button(app, "Swap").click().run()
    assert trouble(app) == []
    assert sides(app) == ["openai/b", "openai/a"]
    assert list(frame(app, "Adjusted p")["Difference"]) == [0.0, -0.333]
    linked = open_page("compare", **app.query_params)
    assert sides(linked) == ["openai/b", "openai/a"]
    assert list(frame(linked, "Adjusted p")["Difference"]) == [0.0, -0.333]


@pytest.mark.slow
def test_the_sides_that_an_address_leaves_out(open_page: Open, database: Path) -> None:
    """The newest run of one's own comes second, after its newest counterpart, which is comparable in all but model."""
    for number, model in enumerate(("mistral_v2_7b", "mistral_v1_7b", "openai/x")):
        store_run(f"run-{number}", model, {number}, created_at=100.0 * (number + 1))
    assert sides(open_page("compare")) == ["mistral_v1_7b", "openai/x"]
    assert sides(open_page("compare", cmp_first="Mistral v2 7B")) == ["mistral_v2_7b", "openai/x"]
    same = open_page("compare", cmp_second="Mistral v1 7B")
    assert "Choose two different sides." in words(same)


@pytest.mark.slow
def test_the_published_versions_are_compared_while_no_run_of_ones_own_is_comparable(
    open_page: Open, database: Path
) -> None:
    for number, model in enumerate(("mistral_v2_7b", "mistral_v1_7b", "gpt_4")):
        store_run(f"run-{number}", model, {number}, created_at=100.0 * (number + 1))
        as_released(Store(database), f"run-{number}")
    assert sides(open_page("compare")) == ["mistral_v1_7b", "mistral_v2_7b"]
    store_run("own", "openai/x", {1}, prompt_hash="other", created_at=400.0)
    assert sides(open_page("compare")) == ["mistral_v1_7b", "mistral_v2_7b"]


@pytest.mark.slow
def test_two_frameworks_are_never_paired_by_default(open_page: Open, database: Path) -> None:
    store_run("run-0", "openai/a", {1}, created_at=100.0)
    store_run("run-1", "openai/b", {2}, created_at=200.0, protocol="consultation")
    app = open_page("compare")
    assert trouble(app) == []
    assert [app.selectbox(key="cmp_first").value.model, app.selectbox(key="cmp_second").value] == ["openai/a", None]
    assert not app.dataframe
    app.selectbox(key="cmp_second").select("openai/b").run()
    assert sides(app) == ["openai/a", "openai/b"]
    assert trouble(app) == []


@pytest.mark.slow
def test_runs_of_one_model_can_be_compared(open_page: Open, database: Path) -> None:
    store_run("old", "openai/a", {1, 2})
    store_run("new", "openai/a", {1, 2, 3}, seed=21, created_at=200.0)
    app = open_page("compare", cmp_first="openai/a · run old", cmp_second="openai/a · run new")
    assert trouble(app) == []
    table = frame(app, "Adjusted p")
    assert list(table["openai/a · run old"]) == [1.0, 0.333]
    assert list(table["openai/a · run new"]) == [1.0, 0.5]
    assert settings_that_differ(app) == "seed"


@pytest.mark.slow
def test_the_sides_offered_are_own_models_until_another_source_is_chosen(open_page: Open, database: Path) -> None:
    store = Store(database)
    store_two_models(store)
    for number, model in enumerate(("openai/released-a", "openai/released-b")):
        store_run(f"r-{number}", model, {1})
        as_released(store, f"r-{number}")
    app = open_page("compare")
    assert trouble(app) == []
    offered = set(app.selectbox(key="cmp_first").options)
    assert offered == {"openai/a", "openai/b"}
    app = open_page("compare", source="Published")
    assert trouble(app) == []
    assert {app.selectbox(key=key).value.model for key in ("cmp_first", "cmp_second")} <= {
        "openai/released-a",
        "openai/released-b",
    }
    app = open_page("compare", cmp_first="openai/released-a", cmp_second="openai/a")
    assert trouble(app) == []
    sides = [app.selectbox(key=key).value.model for key in ("cmp_first", "cmp_second")]
    assert sides == ["openai/released-a", "openai/a"], "a link shows both sides whatever their source"
