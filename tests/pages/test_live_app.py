"""The Live page without a browser: a first visit, a whole consultation, seats, addresses, missing keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core import paths
from core.datasets.library import demonstration
from core.datasets.select import cases_of
from core.events import Assessed, Called, CallRecord, Utterance
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.conversation import END_HERE, GO_ON
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.speech import END_RULE
from core.live.session import Session
from core.live.start import one_case, start_consultation
from core.models.fetch import OFFERS
from pages.kit import sessions as live_sessions
from pages.kit.sessions import WatchedSession
from pages.kit.watched import pending_calls
from tests.core.store.builders import a_stream
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import running
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.replies import Reply, rate_limited

START = "Start the consultation"
Open = Callable[..., AppTest]


def start(app: AppTest) -> AppTest:
    return button(app, START).click().run()


def at_once(app: AppTest) -> AppTest:
    (speed,) = app.get("button_group")
    return speed.set_value("At once").run()


def finish(app: AppTest) -> AppTest:
    return run_until(app, lambda a: has_button(a, "New consultation"))


def test_a_first_visitor_finds_a_chosen_case_and_one_enabled_start_button(open_page: Open) -> None:
    app = open_page("live")
    assert trouble(app) == []
    assert [title.value for title in app.title] == ["Live consultation"]
    assert app.selectbox(key="live_case").value == "library/cardiology-1"
    assert app.selectbox(key="live_doctor").value == "reference/bayes"
    assert [b.key for b in app.button] == [
        None,
        *(f"live_{key}" for key in demonstration()),
        *(f"get_{name}" for name in OFFERS),
    ]
    assert not button(app, START).disabled
    assert not app.warning
    assert not app.dataframe  # nothing was watched before, so no empty list


def test_the_address_without_a_path_is_home_and_that_of_a_trial_leads_to_live(database: Path) -> None:
    app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60).run()
    assert [title.value for title in app.title] == ["Anamnesis"]
    app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
    app.query_params["trial"] = "of-an-earlier-version"
    assert [title.value for title in app.run().title] == ["Live consultation"]
    assert "This consultation is not stored here" in words(app)


@pytest.mark.slow
def test_a_case_to_begin_with_is_played_by_one_click(open_page: Open) -> None:
    app = open_page("live")
    app.button(key="live_library/pediatrics-3").click().run()
    assert trouble(app) == []
    assert has_button(app, "Stop")
    assert r"Pediatrics and Neonatology 3 · 3\-year\-old male" in words(app)
    button(app, "Stop").click().run()
    finish(app)
    button(app, "New consultation").click().run()
    assert has_button(app, START), "the one click starts once"
    assert app.selectbox(key="live_case").value == "library/pediatrics-3"


def test_start_runs_to_the_verdict_and_is_listed_afterwards(open_page: Open) -> None:
    app = start(open_page("live"))
    assert has_button(app, "Pause")
    assert has_button(app, "Stop")
    assert not has_button(app, START)
    finish(at_once(app))
    assert trouble(app) == []
    text = words(app)
    assert "**Final Diagnosis:**" in text
    assert "The conversation ended because the doctor gave a final diagnosis" in text
    assert ":green-badge[:material/check_circle: Correct]" in text
    assert [m.label for m in app.metric] == ["Questions", "Tokens", "Cost", "Time"]
    assert [m.value for m in app.metric][1:3] == ["0", "$0.00"]
    assert "facts that the patient can tell" in text
    roles = [message.name for message in app.chat_message]
    assert roles[:2] == ["assistant", "user"]

    trial = app.query_params["trial"]
    button(app, "New consultation").click().run()
    assert has_button(app, START)
    assert "trial" not in app.query_params
    (watched,) = [frame.value for frame in app.dataframe]
    assert list(watched["Case"]) == ["Cardiology 1"]
    assert "Correct" in watched["Multi-turn · Free response"].iloc[0]

    again = open_page("live", trial=trial[0] if isinstance(trial, list) else trial)
    assert "**Final Diagnosis:**" in words(again)
    assert has_button(again, "Play again")


@pytest.mark.slow
def test_pause_and_go_on(open_page: Open) -> None:
    app = start(open_page("live"))
    button(app, "Pause").click().run()
    assert has_button(app, "Go on")
    count = len(app.run().chat_message)
    for _ in range(2):  # the first may only finish the current message
        button(app, "Step").click().run()
    run_until(app, lambda a: len(a.chat_message) > count)
    button(app, "Go on").click().run()
    finish(at_once(app))
    assert trouble(app) == []


@pytest.mark.slow
def test_a_human_patient_sees_the_case_and_answers_and_sits_there_the_next_time(open_page: Open) -> None:
    app = open_page("live")
    app.selectbox(key="live_patient").set_value("human").run()
    app = start(app)
    run_until(app, lambda a: len(a.chat_input) == 1)
    assert app.chat_input[0].placeholder == "Answer the doctor"
    assert [e.label for e in app.expander if e.proto.expanded] == ["The case as the patient knows it"]
    app.chat_input[0].set_value("It <b>hurts</b> here.").run()
    run_until(app, lambda a: r"It \<b\>hurts\<\/b\> here\." in words(a))
    button(app, "Stop").click().run()
    finish(app)
    button(app, "New consultation").click().run()
    assert app.selectbox(key="live_patient").value == "human"


@pytest.mark.slow
def test_the_box_of_a_human_stays_while_the_doctor_speaks(open_page: Open) -> None:
    app = open_page("live")
    app.selectbox(key="live_patient").set_value("human").run()
    app = start(app)
    run_until(app, lambda a: len(a.chat_input) == 1)
    button(app, "Pause").click().run()
    app.chat_input[0].set_value("It hurts here.").run()
    run_until(app, lambda a: "It hurts here" in words(a))  # from here on the doctor is to speak, and is paused
    for _ in range(3):
        app.run()
        assert [box.placeholder for box in app.chat_input] == ["Answer the doctor"]
    button(app, "Stop").click().run()
    finish(app)
    assert not app.chat_input


@pytest.mark.slow
def test_a_human_doctor_does_not_see_the_case(open_page: Open) -> None:
    app = open_page("live")
    app.selectbox(key="live_doctor").set_value("human").run()
    instructions = app.info[0].value
    assert "write Final Diagnosis" in instructions, "how the conversation ends"
    assert instructions.count("\n- ") == 1, "a person is asked once"
    assert "from the conversation, with one of the choices" in instructions
    app.pills(key="live_person_arms_craftmd").set_value(
        [("vignette", "frq"), ("multi_turn", "mcq"), ("multi_turn", "frq")]
    ).run()
    app = start(app)
    run_until(app, lambda a: len(a.chat_input) == 1)
    assert "Facts and case are shown after the consultation." in words(app)
    assert not app.expander
    assert "Facts uncovered" not in words(app)
    app.chat_input[0].set_value("Final Diagnosis: Acute pericarditis").run()
    questions: list[str] = []
    for _ in range(3):
        run_until(app, lambda a: question(a) not in ("", *questions))
        questions.append(question(app))
        assert "Correct" not in words(app)  # no verdict before the last answer
        if has_button(app, "Acute pericarditis"):
            assert has_button(app, "Pulmonary embolism")
            button(app, "Acute pericarditis").click().run()
        else:
            app.chat_input[0].set_value("Acute pericarditis").run()
    begun = [question_text.partition("\\:")[0].replace("\\", "") for question_text in questions]
    assert begun == ["Multi-turn · Free response", "Multi-turn · Multiple choice", "Vignette · Free response"]
    finish(app)
    assert words(app).count(":green-badge[:material/check_circle: Correct]") >= 3
    assert "Facts uncovered" in words(app)


@pytest.mark.slow
def test_a_person_without_a_question_mark_decides_whether_to_end(open_page: Open) -> None:
    app = open_page("live")
    app.selectbox(key="live_doctor").set_value("human").run()
    app = start(app)
    run_until(app, lambda a: len(a.chat_input) == 1)
    app.chat_input[0].set_value("Tell me more about the pain.").run()
    run_until(app, lambda a: has_button(a, GO_ON) and has_button(a, END_HERE))
    button(app, GO_ON).click().run()
    run_until(app, lambda a: len(a.chat_message) == 4)  # greeting, complaint, message, answer
    assert not has_button(app, GO_ON)
    app.chat_input[0].set_value("I see.").run()
    run_until(app, lambda a: has_button(a, GO_ON))
    app.chat_input[0].set_value("Since when do you have it?").run()  # goes on, and asks after the next reply
    run_until(app, lambda a: len(a.chat_message) == 8)
    app.chat_input[0].set_value("Thank you.").run()
    run_until(app, lambda a: has_button(a, END_HERE))
    button(app, END_HERE).click().run()
    run_until(app, lambda a: question(a) != "")
    button(app, "Acute pericarditis").click().run()
    finish(app)
    assert trouble(app) == []
    (watched,) = live_sessions._sessions().values()
    assert [e.turn for e in watched.session.snapshot() if isinstance(e, Assessed) and e.name == END_RULE] == [2, 4]
    assert words(app).count("Right answer: **Acute pericarditis**") == 1
    assert any("A person" in caption.value and "Reference patient" in caption.value for caption in app.caption)


def question(app: AppTest) -> str:
    """Return what a human doctor is asked after the conversation, or nothing."""
    asking = [box.placeholder for box in app.chat_input] in (["Your answer"], ["Or answer in your own words"])
    return str(app.info[0].value) if asking else ""


def test_an_address_of_no_consultation_says_so(open_page: Open) -> None:
    app = open_page("live", trial="0123456789abcdef0123")
    assert [info.value for info in app.info] == ["This consultation is not stored here; start a new one."]
    assert not button(app, START).disabled
    assert trouble(app) == []


def test_the_address_names_the_case(open_page: Open) -> None:
    app = open_page("live", case="library/cardiology-2")
    assert app.selectbox(key="live_case").value == "library/cardiology-2"
    app.selectbox(key="live_case").set_value("library/neurology-1").run()
    assert app.query_params["case"] in ("library/neurology-1", ["library/neurology-1"])


def test_a_case_that_is_not_there_is_passed_over(open_page: Open) -> None:
    app = open_page("live", case="library/no-such-case", live_dataset="nowhere")
    assert app.selectbox(key="live_case").value == "library/cardiology-1"
    assert trouble(app) == []


def test_a_key_that_is_missing_and_a_model_that_is_not_known_disable_the_start(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("live")
    app.selectbox(key="live_doctor").set_value("openai/gpt-4o").run()
    assert button(app, START).disabled
    (warning,) = app.warning
    assert r"OPENAI\_API\_KEY" in warning.value
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    app.run()
    assert not button(app, START).disabled
    assert "sk-not-a-real-key" not in words(app)
    app.selectbox(key="live_doctor").set_value("another model…").run()
    assert button(app, START).disabled
    app.text_input(key="live_doctor_other").set_value("unknown/model").run()
    assert button(app, START).disabled
    assert trouble(app) == []
    app.text_input(key="live_doctor_other").set_value("openai/mine").run()
    app.text_input(key="live_base_url").set_value("http://127.0.0.1:9/v1").run()
    assert not button(app, START).disabled


@pytest.mark.slow
def test_a_model_in_the_doctors_seat_meets_itself_as_the_patient(open_page: Open) -> None:
    prompts: list[str] = []

    def speak(body: dict[str, Any]) -> str:
        prompts.append(str(body["messages"][0]["content"]))
        return "Since Monday." if "described below" in prompts[-1] else "**Final Diagnosis:** Gout"

    with running(speak) as provider:
        app = open_page("live")
        assert app.selectbox(key="live_patient").options[0] == "Default: Reference patient (rules, no model)"
        app.selectbox(key="live_doctor").set_value("another model…").run()
        app.text_input(key="live_doctor_other").set_value("openai/mine")
        app.text_input(key="live_base_url").set_value(provider.base_url).run()
        assert app.selectbox(key="live_patient").options[0] == "Default: openai/mine (the doctor’s own model)"
        button(app, START).click().run()
        run_until(app, lambda a: has_button(a, "New consultation"))
    assert trouble(app) == []
    assert sum("described below" in prompt for prompt in prompts) == 1
    assert "Since Monday" in app.chat_message[1].markdown[0].value
    assert sum(prompt.startswith("Below is what a doctor wrote") for prompt in prompts) > 0


def test_a_retry_names_the_role_and_the_reason() -> None:
    replies = iter([rate_limited(retry_after="60")])
    with running(lambda body: next(replies, "**Final Diagnosis:** Gout")) as provider:
        case = cases_of("library")[0]
        settings = CraftMdSettings(base_url=provider.base_url)
        campaign = Campaign(beside_rules("openai/mine"), (case,), arms=(("multi_turn", "mcq"),), settings=settings)
        session = start_consultation(one_case(campaign, case))
        while "try" not in pending_calls(session):
            session.join(0.05)
            assert session.running
        text = pending_calls(session)
        session.stop()
        session.join(30)
    assert re.fullmatch(
        r"Doctor \(openai/mine\) waits: asked again in \d+ s… \d+ s, second try after the provider answered HTTP 429 "
        r"\(slow down\)",
        text,
    )


def test_a_session_that_broke_says_why_in_plain_text(open_page: Open) -> None:
    app = open_page("live")
    app.query_params["trial"] = "broken"
    broken = Session(
        key="broken", title="a case", finished_at=2.0, started_at=1.0, error="The [server](http://x.y) fell."
    )
    evil = Utterance(turn=1, role="patient", text="![x](http://evil.example/x.png) <script>alert(1)</script>")
    call = CallRecord(call_id="c", role="doctor", purpose="dialogue", model="m", prompt_tokens=1200, cost_usd=0.0012)
    broken.events = [*a_stream(), evil, Called(call=call)]

    live_sessions._sessions()["broken"] = WatchedSession(broken, None, "broken")
    app.run()
    assert not app.exception
    text = words(app)
    assert "http://" not in text
    assert r"\<script\>" in text
    assert r"\!\[x\]" in text
    assert r"The \[server\]" in text
    assert "Grader (Multi-turn · Free response): too slow" in text
    assert [m.value for m in app.metric][2].startswith("$0.25")


@pytest.mark.slow
def test_messages_that_a_person_wrote_before_an_interruption_are_shown(open_page: Open) -> None:
    case = cases_of("library")[0]
    campaign = Campaign(CastNames("reference/bayes", "human"), (case,), arms=(("multi_turn", "mcq"),))
    session = start_consultation(one_case(campaign, case))
    session.say("patient", "My chest hurts since Monday.")
    while len(session.dialogue) < 3:
        session.join(0.05)
    session.stop()
    session.join(30)
    app = open_page("live", trial=session.key)
    assert trouble(app) == []
    assert "My chest hurts since Monday" in words(app)

    def entered_again(page: AppTest) -> bool:
        resumed = live_sessions.watched(session.key)
        return resumed is not None and resumed.session is not session and resumed.session.dialogue == session.dialogue

    run_until(button(app, "Resume").click().run(), entered_again)
    assert trouble(app) == []
    again = live_sessions.watched(session.key)
    assert again is not None
    again.session.stop()
    again.session.join(30)


@pytest.mark.slow
def test_an_interrupted_consultation_is_resumed_with_its_paid_replies(open_page: Open) -> None:
    """The server forgets it, as when it is started again: it is taken up from its journal by its address."""
    replies = iter(["Where does it hurt?", "Since when?"])
    with running(lambda body: next(replies, None) or Reply("…", delay_s=60.0)) as provider:
        case = cases_of("library")[0]
        campaign = Campaign(
            beside_rules("openai/mine"),
            (case,),
            arms=(("multi_turn", "mcq"),),
            settings=CraftMdSettings(base_url=provider.base_url),
        )
        session = start_consultation(one_case(campaign, case))
        while len(provider.requests) < 3:
            session.join(0.05)
        session.stop()
        session.join(30)
        provider.script = lambda body: "**Final Diagnosis:** Gout"
        app = open_page("live", trial=session.key)
        assert trouble(app) == []
        assert "This consultation was interrupted." in words(app)
        finish(button(app, "Resume").click().run())
        assert trouble(app) == []
        assert "2 replies were reused, and not paid for again." in words(app)
        assert "cannot be reused" not in words(app)
        assert len(provider.requests) == 3 + 2
        stopped = start_consultation(one_case(campaign, case))
        stopped.stop()
        stopped.join(30)
        in_flight = len(provider.requests) - (3 + 2)
        live_sessions.remember(stopped, case)
        app = open_page("live", trial=stopped.key)
        finish(button(app, "Resume").click().run())
        reused = "1 reply was reused" in words(app)  # the reply in flight may have come before the stop
        assert len(provider.requests) == 3 + 2 + in_flight + 2 - reused
