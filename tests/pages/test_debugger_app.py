"""The Case debugger without a browser: cases, the matrix, a cell's views, edits, packs, links and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.datasets.library import library
from core.debugger.run import BenchRun, start_bench
from core.frameworks.base import Arm, Campaign, framework, title_of
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.branches import tree
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider, running
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.replies import Reply

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
def test_a_missing_key_is_named_and_the_seats_beside_a_model_are_its_own_and_counted(open_page: Open) -> None:
    app = open_page("debugger")
    app.selectbox(key="debug_doctor").set_value("openai/gpt-4o").run()
    assert button(app, RUN).disabled
    assert any(r"OPENAI\_API\_KEY" in warning.value for warning in app.warning)
    app.selectbox(key="debug_doctor").set_value("another model…").run()
    app.text_input(key="debug_doctor_other").set_value("openai/mine")
    app.text_input(key="debug_base_url").set_value("http://127.0.0.1:9/v1").run()
    for role in ("patient", "grader", "summariser"):
        assert app.selectbox(key=f"debug_{role}").options[0] == "Default: openai/mine (the doctor’s own model)"
    # 7 questions, 7 replies, a summary and 8 answers, of which the grader reads 4 in 2 steps
    assert f"8 questions × 1 trial. About {7 + 7 + 1 + 8 + 4 * 2} calls" in words(app)
    app.segmented_control(key="debug_size").set_value("all").run()
    # 7 questions and 24 answers, 7 replies, 6 free responses, 6 of many choices and the closing diagnosis in 2 steps,
    # 6 of three in 3, a summary
    text = words(app).replace("\\", "")
    assert f"About {7 + 24 + 7 + 13 * 2 + 6 * 3 + 1} calls" in text
    assert "openai/mine grades itself" in text
    app.selectbox(key="debug_patient").set_value("reference/profile").run()
    assert "rules play the patient" in words(app)


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
def test_an_edited_prompt_becomes_a_pack_that_can_be_chosen(open_page: Open) -> None:
    run = bench(arms=(("vignette", "frq"),))
    app = open_page("debugger", run=run.run_id)
    assert "Edit a template first." in words(app)
    app.text_input(key="debug_pack_own_name").set_value("../evil").run()
    button(app, "Save the copy").click().run()
    (refused,) = trouble(app)
    assert "is no name for prompts" in refused
    app = edit(app, "System", "Only this once.")
    assert "Edit a template first." in words(app)  # a message that is edited by itself changes no pack
    template = "You are an AI doctor specialised in {{ specialty }}. Think of the heart."
    app = edit(app, r"Template prompts\/craftmd\/answer\_system\.md", template)
    (message,) = [area for area in app.text_area if area.label.startswith("System")]
    assert message.value == "You are an AI doctor specialised in Cardiology. Think of the heart."
    assert "1 message is changed." in words(app)
    assert r"with changes in answer\_system\.md" in words(app)
    app.text_input(key="debug_pack_save_name").set_value("heart").run()
    button(app, "Save the prompts").click().run()
    assert trouble(app) == []
    prompt = load_pack("heart").render("answer_system", specialty="Neurology")
    assert prompt == "You are an AI doctor specialised in Neurology. Think of the heart."
    button(app, "Another case").click().run()
    assert app.selectbox(key="debug_pack").options == ["craftmd", "heart"]

    app = open_page("debugger", run=run.run_id)
    app = edit(app, r"Template prompts\/craftmd\/answer\_system\.md", "Think {{ of_the_heart.")
    assert any(r"answer\_system\.md is no valid Jinja2" in warning.value for warning in app.warning)


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


@pytest.mark.slow
def test_a_link_opens_a_stored_run_and_a_single_trial(open_page: Open) -> None:
    run = bench()
    before = open_page("debugger", run=run.run_id, cell="2:multi_turn:frq")
    st.cache_resource.clear()  # as after a restart
    stored = open_page("debugger", run=run.run_id, cell="2:multi_turn:frq")
    assert matrix(stored) == matrix(before)
    assert stored.selectbox(key="debug_cell").value == "2:multi_turn:frq"
    single = open_page("debugger", trial=run.trials[1].trial_id)
    assert {arm: cells[0] for arm, cells in matrix(single).items()} == {a: c[1] for a, c in matrix(before).items()}
    assert trouble(single) == []


@pytest.mark.slow
def test_a_cell_is_chosen_by_controls_and_address_and_one_that_is_not_there_gives_way(open_page: Open) -> None:
    run = bench()
    for cell in ("9:vignette:mcq", "nonsense"):
        app = open_page("debugger", run=run.run_id, cell=cell, step="no:step", view="nothing", rule="none")
        assert trouble(app) == []
        assert "· trial 1" in words(app)
    app = open_page("debugger", run=run.run_id, cell="1:vignette:mcq")
    app.selectbox(key="debug_cell").set_value("2:vignette:mcq").run()
    assert app.query_params["cell"] in ("2:vignette:mcq", ["2:vignette:mcq"])
    assert "Vignette · Multiple choice · trial 2" in words(app)
    app.selectbox(key="debug_cell").set_value("2:multi_turn:frq").run()
    assert "Multi-turn · Free response · trial 2" in words(app)


@pytest.mark.parametrize("address", [{"run": "no-such-run"}, {"trial": "0123456789abcdef0123"}])
def test_an_address_of_nothing_says_so_and_offers_a_new_run(open_page: Open, address: dict[str, Any]) -> None:
    app = open_page("debugger", **address)
    assert "is not stored here" in words(app)
    assert not button(app, RUN).disabled
    assert trouble(app) == []


@pytest.mark.slow
def test_a_run_can_be_stopped(open_page: Open, provider: FakeProvider) -> None:
    provider.script = lambda body: Reply("Since when?", delay_s=30)
    app = open_page("debugger")
    app.selectbox(key="debug_doctor").set_value("another model…").run()
    app.text_input(key="debug_doctor_other").set_value(MODEL).run()
    app.text_input(key="debug_base_url").set_value(provider.base_url).run()
    app.segmented_control(key="debug_size").set_value("all").run()
    button(app, RUN).click().run()
    assert "0 of 25 answers · 0 of 1 trials" in words(app)
    button(app, "Stop").click().run()
    run_until(app, lambda a: not has_button(a, "Stop"))
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


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["consultation", "automedic"])
def test_a_trial_of_another_framework_is_shown_edited_and_sent_again(
    open_page: Open, provider: FakeProvider, protocol: str
) -> None:
    """Every seat is one model, which says the same thing whatever it is asked."""
    provider.script = lambda body: "<patient>Where does it hurt?</patient>"
    names = CastNames(MODEL, MODEL, MODEL, **({"solver": MODEL} if protocol == "consultation" else {"staff": MODEL}))
    cap = {"max_questions": 2} if protocol == "consultation" else {"max_turns": 2}
    settings = framework(protocol).settings(base_url=provider.base_url, **cap)
    campaign = Campaign(
        names,
        (CASE,),
        "library:cardiology-1",
        (("multi_turn", "frq"),),
        trials=1,
        protocol=protocol,
        prompts=protocol,
        settings=settings,
    )
    run = start_bench(campaign)
    run.join(60)
    assert run.error is None
    step = "reply:2" if protocol == "consultation" else "reply:1"
    app = open_page("debugger", trial=run.trials[0].trial_id, step=step)
    assert trouble(app) == []
    assert title_of(protocol) in words(app)
    labels = [expander.label for expander in app.expander]
    assert rf"System · Instructions · prompts\/{protocol}\/patient\.md" in labels
    assert ("Facts" in app.segmented_control(key="debug_view").options) == (protocol == "consultation")

    edit(app, "System · Instructions", "Say nothing at all.")
    before = len(provider.bodies)
    button(app, BRANCH).click().run()
    run_until(app, lambda a: len(branches_of(run)) == 1)
    assert provider.bodies[before]["messages"][0] == {"role": "system", "content": "Say nothing at all."}
    assert trouble(app) == []


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_by_a_button(open_page: Open, provider: FakeProvider) -> None:
    answered_at_once = iter(range(3))
    plain = provider.script
    provider.script = lambda body: plain(body) if next(answered_at_once, None) is not None else Reply("…", delay_s=60.0)  # type: ignore[operator]
    campaign = Campaign(
        beside_rules(MODEL),
        (CASE,),
        "library:cardiology-1",
        (("vignette", "mcq"), ("vignette", "frq")),
        trials=2,
        settings=CraftMdSettings(base_url=provider.base_url),
    )
    run = start_bench(campaign)
    while len(provider.requests) < 4:
        run.join(0.05)
    run.stop()
    run.join(30)
    provider.script = plain
    app = open_page("debugger", run=run.run_id)
    assert trouble(app) == []
    button(app, "Resume: 1 trial is missing").click().run()
    run_until(app, lambda a: not has_button(a, "Stop"))
    assert trouble(app) == []
    assert len(provider.requests) == 5
    assert "1 reply was reused, and not paid for again." in words(app)
    assert not [b.label for b in app.button if b.label.startswith("Go on")]
