"""Two consultations side by side on the Live page: who is who, the address, playing again, and taking away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.errors import UsageError
from core.events import CallRecord, Finished
from core.frameworks.base import framework
from core.live import start as live_start
from core.live.session import Session
from core.store.database import Store
from core.store.fold import fold
from pages.kit import sessions as live_sessions
from pages.kit.watched import cost_of, use_in_words
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, write_journal
from tests.support.fake_provider import running
from tests.support.pages import button, has_button, run_until, trouble, words

Open = Callable[..., AppTest]


def store_one(name: str, number: int = 1, **header: Any) -> None:
    store = Store()
    values = {"cases": [a_case(number)], "trials": 1, "source": "live", **header}
    trial = a_trial(a_stream(name), trial_id=name, run_id=f"of-{name}", case_key=f"ours/{number}")
    write_journal(store.journals, f"of-{name}", a_header(f"of-{name}", **values), trial)
    fold(store)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], bytes]]:
    """Name of each offered file → the function that makes it."""
    makers: dict[str, Callable[[], bytes]] = {}
    real = st.download_button

    def download(label: str, data: Callable[[], bytes], file_name: str, *more: Any, **settings: Any) -> bool:
        makers[file_name] = data
        return real(label, data, file_name, *more, **settings)

    monkeypatch.setattr(st, "download_button", download)
    return makers


def heads(app: AppTest) -> list[str]:
    return [head.value for head in app.header if head.value not in ("Differential", "Diagnosis")][:2]


def trials_in_url(app: AppTest) -> tuple[str, str]:
    first, second = (app.query_params[name] for name in ("trial", "beside"))
    return (first[0] if isinstance(first, list) else first, second[0] if isinstance(second, list) else second)


def at_once(app: AppTest) -> AppTest:
    (speed,) = app.get("button_group")
    speed.set_value("At once").run()
    return run_until(app, lambda a: has_button(a, "New consultation"))


@pytest.mark.slow
def test_a_stored_pair_is_named_by_what_sets_its_sides_apart(database: Path, open_page: Open) -> None:
    store_one("a")
    store_one("b", doctor="openai/b")
    store_one("c", settings={"persona": "anxious,A"})
    app = open_page("live", trial="a", beside="b")
    assert trouble(app) == []
    assert heads(app) == [r"openai\/a", r"openai\/b"]
    assert heads(open_page("live", trial="a", beside="c")) == [
        r"Patient\: plain",
        r"Patient\: anxious, basic language \(A\)",
    ]


@pytest.mark.slow
def test_playing_a_pair_again_keeps_its_address_and_what_can_be_taken_away(
    database: Path, open_page: Open, offered: dict[str, Callable[[], bytes]]
) -> None:
    store_one("a")
    store_one("b", doctor="openai/b")
    app = button(open_page("live", trial="a", beside="b"), "Play again").click().run()
    assert has_button(app, "Pause")
    assert heads(app) == [r"openai\/a", r"openai\/b"]
    assert trials_in_url(at_once(app)) == ("a", "b")
    assert trouble(app) == []
    assert b"A lump on my NECK." in offered["anamnesis-a-beside-b.md"]()
    assert len(app.chat_message) == 2 * 3


@pytest.mark.slow
def test_two_doctors_meet_the_patient_of_one_consultation(open_page: Open) -> None:
    """Rules on the left, a model on the right: the patient stays that of the consultation with the left doctor."""
    with running(lambda body: "**Final Diagnosis:** Gout") as provider:
        app = open_page("live")
        patient = app.selectbox(key="live_patient").options[0]
        app = open_page("live", live_mode="Two doctors")
        app.selectbox(key="live_doctor_right").set_value("another model…").run()
        app.text_input(key="live_doctor_right_other").set_value("openai/mine")
        app.text_input(key="live_base_url").set_value(provider.base_url).run()
        assert app.selectbox(key="live_patient").options[0] == patient
        button(app, "Start both consultations").click().run()
        sessions = [live_sessions._sessions()[key].session for key in trials_in_url(app)]
        for session in sessions:
            session.stop()
            session.join(30)
    assert trouble(app) == []
    assert [(s.meta["doctor"], s.meta["patient"]) for s in sessions] == [
        ("reference/bayes", "reference/profile"),
        ("openai/mine", "reference/profile"),
    ]


@pytest.mark.slow
def test_a_stopped_pair_can_be_taken_away_although_it_is_not_stored(
    open_page: Open, offered: dict[str, Callable[[], bytes]]
) -> None:
    app = open_page("live", live_mode="Two patients")
    button(app, "Start both consultations").click().run()
    run_until(app, lambda a: len(a.chat_message) >= 4)
    button(app, "Stop").click().run()
    run_until(app, lambda a: has_button(a, "New consultation"))
    assert trouble(app) == []
    (text,) = [make().decode() for name, make in offered.items() if name.endswith(".md")]
    assert text.count("what symptoms bring you in") >= 1
    assert "It was still running" in text


def test_nothing_stands_beside_itself_and_what_is_not_stored_is_said(database: Path, open_page: Open) -> None:
    store_one("a")
    app = open_page("live", trial="a", beside="a")
    assert trouble(app) == []
    assert len(app.chat_message) == 3
    app = open_page("live", trial="a", beside="unknown")
    assert [info.value for info in app.info] == ["The second consultation is not stored here."]
    assert len(app.chat_message) == 3


@pytest.mark.slow
def test_two_cases_beside_each_other_are_said_not_to_compare(database: Path, open_page: Open) -> None:
    store_one("a")
    store_one("b", 2)
    app = open_page("live", trial="a", beside="b")
    assert "different cases" in words(app)
    assert [e.label for e in app.expander].count("The case as the patient knows it") == 2


def test_where_the_second_cannot_start_the_first_does_not_go_on_unseen(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Session] = []
    real = live_start.start_consultation

    def only_once(*args: Any, **more: Any) -> Session:
        if started:
            raise UsageError("The second one cannot start.")
        started.append(real(*args, **more))
        return started[0]

    monkeypatch.setattr(live_start, "start_consultation", only_once)
    app = open_page("live", live_mode="Two doctors")
    button(app, "Start both consultations").click().run()
    assert [error.value for error in app.error] == [r"The second one cannot start\."]
    started[0].join(20)
    assert not any(isinstance(event, Finished) for event in started[0].snapshot())
    assert live_sessions._sessions() == {}
    assert "trial" not in app.query_params


@pytest.mark.slow
def test_a_consultation_under_way_leads_to_its_fork_and_a_stopped_one_is_taken_away_and_left(
    open_page: Open, offered: dict[str, Callable[[], bytes]]
) -> None:
    app = open_page("live")
    app.selectbox(key="live_case").set_value("library/cardiology-2").run()
    button(app, "Start the consultation").click().run()
    (watched,) = live_sessions._sessions().values()
    while watched.session.running and watched.session.messages < 2:  # without redrawing the page
        watched.session.join(0.05)
    assert len(app.run().chat_message) >= 2
    assert "Branch from here" in [link.proto.label for link in app.get("page_link")]
    assert not offered
    button(app, "Stop").click().run()
    run_until(app, lambda a: has_button(a, "New consultation"))
    assert "Branch from here" not in [link.proto.label for link in app.get("page_link")]
    (text,) = [make().decode() for name, make in offered.items() if name.endswith(".md")]
    assert "what symptoms bring you in" in text
    assert len(app.chat_message) >= 1
    assert trouble(app) == []
    button(app, "New consultation").click().run()
    assert has_button(app, "Start the consultation")
    assert not app.dataframe
    assert app.selectbox(key="live_case").value == "library/cardiology-2"


def test_cost_is_what_is_known_and_says_when_it_is_not_all() -> None:
    call = CallRecord(call_id="c", role="doctor", purpose="dialogue", model="m", cost_usd=1.5)
    unpriced = call.model_copy(update={"cost_usd": None})
    failed = call.model_copy(update={"cost_usd": None, "error": "HTTP 500"})
    assert cost_of([]) == "$0.00"
    assert cost_of([call, failed]) == "$1.50"
    assert cost_of([failed]) == "$0.00"  # what failed was not charged
    assert cost_of([unpriced]) == "unknown"
    assert cost_of([call, unpriced]) == "$1.50+"


def test_a_model_without_stored_calls_did_not_cost_nothing() -> None:
    imported = Session(key="a", title="a", finished_at=1.0, meta={"doctor": "openai/a"})
    rules = Session(key="b", title="b", finished_at=1.0, meta={"doctor": "reference/bayes"})
    assert use_in_words(imported, framework("craftmd"), []) == ("–", "unknown")
    assert use_in_words(rules, framework("craftmd"), []) == ("0", "$0.00")


def test_a_persona_is_offered_only_to_a_patient_that_plays_it(database: Path, open_page: Open) -> None:
    for page, place, doctor, mode in (
        ("live", "live_right", "live_doctor", {"live_mode": "Two patients"}),
        ("debugger", "debug", "debug_doctor", {}),
    ):
        app = open_page(page, **mode)
        offered = [select.key for select in app.selectbox]
        assert f"{place}_temperament" not in offered, page
        patient = doctor.replace("doctor", "patient")
        model = next(name for name in app.selectbox(key=patient).options if name.startswith("openai/"))
        app.selectbox(key=patient).set_value(model).run()
        assert app.selectbox(key=f"{place}_temperament").value == "plain", page
