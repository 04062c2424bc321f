"""The Case debugger without a browser: cases, the matrix, a cell's views, edits, packs, links and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.library import library
from core.debugger.run import BenchRun, start_bench
from core.frameworks.base import Arm, Campaign, framework
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.branches import tree
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider, running
from tests.support.pages import button, has_button, run_until, trouble, words

Open = Callable[..., AppTest]
RUN, BRANCH = "Run the case", "Branch from here"
CASE = next(case for case in library() if case.case_key == "library/cardiology-1")
ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("vignette", "frq"), ("multi_turn", "frq"))
MODEL = "openai/mine"


def bench(doctor: str = "reference/bayes", base_url: str | None = None, arms: tuple[Arm, ...] = ARMS) -> BenchRun:
    """Run one case in ``arms``, two trials each, without the page; return the finished run."""
    campaign = Campaign(
        beside_rules(doctor),
        (CASE,),
        "library:cardiology-1",
        arms,
        trials=2,
        settings=CraftMdSettings(base_url=base_url),
    )
    run = start_bench(campaign)
    run.join(60)
    assert not run.running
    assert run.error is None
    return run


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running(lambda body: "**Final Diagnosis:** Stable angina") as served:
        yield served


def matrix(app: AppTest) -> dict[tuple[str, str], list[str]]:
    """The matrix as (shown, asked) → its cells and the number of correct ones."""
    frame = app.dataframe[0].value
    return {(row.iloc[0], row.iloc[1]): list(row.iloc[2:]) for _, row in frame.iterrows()}


def code(app: AppTest) -> list[str]:
    return [element.value for element in app.code]


def edit(app: AppTest, start: str, text: str) -> AppTest:
    (box,) = [area for area in app.text_area if area.label.startswith(start)]
    return box.set_value(text).run()


@pytest.mark.slow
def test_a_first_visitor_runs_the_arms_of_the_paper_once_and_can_choose_others(open_page: Open) -> None:
    app = open_page("debugger")
    assert trouble(app) == []
    assert not button(app, RUN).disabled
    assert "8 questions × 1 trial. No model is called" in words(app)
    assert not app.dataframe
    app.pills(key="debug_formats_craftmd").set_value(["vignette", "multi_turn"])
    app.pills(key="debug_types_craftmd").set_value(["mcq", "frq"]).run()
    app.number_input(key="debug_trials").set_value(2)
    button(app, RUN).click().run()
    run_until(app, lambda a: not has_button(a, "Stop"))
    assert trouble(app) == []
    questions = ("Multiple choice", "Free response")
    assert set(matrix(app)) == {(f, q) for f in ("Vignette", "Multi-turn") for q in questions}
    assert matrix(app)["Vignette", "Free response"] == ["✓ Correct", "✓ Correct", "2 of 2"]
    assert "run" in app.query_params
    button(app, "Another case").click().run()
    assert "run" not in app.query_params
    assert app.number_input(key="debug_trials").value == 2  # what was chosen is still there
    app.pills(key="debug_types_craftmd").set_value([]).run()
    assert button(app, RUN).disabled
    assert "Choose at least one format" in words(app)


def test_a_pasted_vignette_is_recognised_and_its_parts_can_be_corrected(open_page: Open) -> None:
    app = open_page("debugger")
    app.segmented_control(key="debug_source").set_value("paste").run()
    assert button(app, RUN).disabled
    text = "A 31-year-old man has had chest pain for two days. What is the diagnosis?\nA. Pericarditis\nB. Angina"
    app.text_area(key="debug_paste").set_value(text).run()
    (answer,) = [box for box in app.text_input if box.label == "Right answer"]
    assert answer.value == ""
    assert "There is no answer" in words(app)
    assert button(app, RUN).disabled
    answer.set_value("Gout").run()
    assert "none of the options" in words(app)
    assert button(app, RUN).disabled
    (answer,) = [box for box in app.text_input if box.label == "Right answer"]
    answer.set_value("A").run()
    assert not button(app, RUN).disabled
    (title,) = [box for box in app.text_input if box.label == "Title"]
    assert title.placeholder == "A 31-year-old man has had chest pain for two days"
    (question,) = [box for box in app.text_input if box.label == "Question"]
    assert question.value == "What is the diagnosis?"
    assert "**Age and sex**" in words(app)


@pytest.mark.slow
def test_a_cell_shows_every_message_and_the_raw_reply(open_page: Open, provider: FakeProvider) -> None:
    run = bench(MODEL, provider.base_url, (("vignette", "frq"),))
    sent = provider.bodies[0]["messages"]
    app = open_page("debugger", run=run.run_id, cell="2:vignette:frq")
    assert trouble(app) == []
    assert [s.value for s in app.header][1] == "Vignette · Free response · trial 2"
    blocks = code(app)
    assert blocks[0] == sent[0]["content"]
    assert "\n\n".join(blocks[1:3]) == sent[1]["content"]  # two prompts that went out as one message
    labels = [expander.label for expander in app.expander]
    assert r"System · Instructions · prompts\/craftmd\/answer\_system\.md" in labels
    assert "11 tokens in, 7 out" in words(app)
    app.segmented_control(key="debug_view").set_value("back").run()
    assert code(app) == ["**Final Diagnosis:** Stable angina"]
    app.segmented_control(key="debug_view").set_value("grading").run()
    assert "Read as: Stable angina" in words(app)
    assert ":red-badge[:material/cancel: Incorrect]" in words(app)


@pytest.mark.slow
def test_conversation_facts_belief_and_why_of_a_trial(open_page: Open) -> None:
    run = bench()
    app = open_page("debugger", run=run.run_id, cell="1:multi_turn:frq", view="conversation")
    assert len(app.chat_message) > 3
    assert has_button(app, BRANCH)
    app.segmented_control(key="debug_view").set_value("facts").run()
    assert CASE.profile
    shown = " ".join(str(table.value.to_dict("list")) for table in app.dataframe)
    assert [fact.value for fact in CASE.profile.facts if fact.value not in shown] == []
    assert "Not judged" in words(app), "no model was asked, and no rule marks"
    app.segmented_control(key="debug_view").set_value("belief").run()
    assert "The right diagnosis led for the first time after message" in words(app)
    assert len(app.get("plotly_chart")) == 1
    app.segmented_control(key="debug_view").set_value("why").run()
    assert "no answer here is wrong" in words(app)
    assert trouble(app) == []
    # every step of the conversation can be looked at
    app = open_page("debugger", run=run.run_id, cell="1:multi_turn:frq", step="ask:2", view="back")
    step = app.selectbox(key="debug_step")
    assert step.value == "ask:2"
    texts = [event.text for event in run.snapshot()[0] if event.kind == "utterance"]
    assert code(app) == [texts[2]]
    step.set_value("reply:1").run()
    assert code(app) == [texts[1]]
    assert app.query_params["step"] in ("reply:1", ["reply:1"])


def branches_of(run: BenchRun) -> list[str]:
    """Return the stored branches of the first trial of a run."""
    fold(Store())
    with Store().read() as cursor:
        family = tree(cursor, run.trials[0].trial_id)
    return [node.trial_id for node in family.nodes[1:]] if family else []


def test_an_edited_request_reaches_the_wire_and_is_compared_with_the_original(
    open_page: Open, provider: FakeProvider
) -> None:
    run = bench(MODEL, provider.base_url, (("vignette", "frq"),))
    app = open_page("debugger", run=run.run_id, cell="1:vignette:frq")
    provider.script = lambda body: "**Final Diagnosis:** Acute pericarditis"
    text = "You are a cardiologist.\n\n  Mind the <b>ECG</b>, {{ please }}."
    app = edit(app, "System", text)
    assert "1 message is changed." in words(app)
    calls = len(provider.bodies)
    button(app, BRANCH).click().run()
    assert trouble(app) == []
    run_until(app, lambda a: len(branches_of(run)) == 1)
    assert provider.bodies[calls]["messages"][0] == {"role": "system", "content": text}
    assert provider.bodies[calls]["messages"][1:] == provider.bodies[0]["messages"][1:]
    compared = open_page("branches", trial=branches_of(run)[0])
    assert trouble(compared) == []
    drawn = "".join(element.proto.body for element in compared.get("html"))
    assert "ECG" in drawn
    assert "&lt;" in drawn
    assert "<b>" not in drawn
    assert list(compared.dataframe[0].value["Vignette · Free response"]) == ["✗ Incorrect", "✓ Correct"]


@pytest.mark.slow
def test_an_edit_is_run_in_every_arm_beside_the_run_before_and_sessions_are_listed_by_name(open_page: Open) -> None:
    run = bench()
    app = open_page("debugger", run=run.run_id)
    button(app, "Ask every question again").click().run()
    assert "Nothing is edited yet" in words(app)
    (box,) = [area for area in app.text_area if area.label == "Vignette"]
    box.set_value("A 30-year-old woman has had an itchy rash on both hands for two days.").run()
    assert "3 questions × 2 trials with the same seeds. No model is called" in words(app)
    button(app, "Ask every question again").click().run()
    run_until(app, lambda a: not has_button(a, "Stop"))
    assert trouble(app) == []
    assert "**Before and after the edit**" in words(app)
    table = app.dataframe[0].value
    assert list(table["Question"]) == ["Multiple choice", "Free response", "Free response"]
    assert list(table["Correct before"]) == ["2 of 2"] * 3
    assert table["Correct after"][1] == "0 of 2"
    assert table["Changed verdicts"][1].startswith("Trial 1: ✓ Correct → ")

    (name,) = [box for box in app.text_input if box.label == "Name"]
    name.set_value("Without the heart").run()
    button(app, "Save").click().run()
    assert "Without the heart" in [element.value for element in app.header]
    button(app, "Another case").click().run()
    listed = app.dataframe[0].value
    assert list(listed["Name"].fillna("")) == ["Without the heart", ""]
    assert list(listed["Case"]) == ["Cardiology · cardiology-1 · edited", "Cardiology 1 · 31-year-old male"]
    assert list(listed["Players"]) == ["rules, no model"] * 2


@pytest.mark.parametrize("address", [{"run": "no-such-run"}, {"trial": "0123456789abcdef0123"}])
def test_an_address_of_nothing_says_so_and_offers_a_new_run(open_page: Open, address: dict[str, Any]) -> None:
    app = open_page("debugger", **address)
    assert "is not stored here" in words(app)
    assert not button(app, RUN).disabled
    assert trouble(app) == []


def test_an_answer_by_rule_in_another_framework_promises_no_messages(open_page: Open) -> None:
    campaign = Campaign(
        CastNames("reference/bayes"),
        (CASE,),
        "library:cardiology-1",
        (("vignette", "mcq"),),
        trials=1,
        protocol="automedic",
        prompts="automedic",
        settings=framework("automedic").settings(),
    )
    run = start_bench(campaign)
    run.join(60)
    assert run.error is None
    app = open_page("debugger", trial=run.trials[0].trial_id, step="answer:vignette:mcq")
    assert trouble(app) == []
    assert "no model was sent anything" in words(app)
    assert "the dialogue before it is shown" not in words(app).lower()
    assert "The request of this step is not stored" not in words(app)
