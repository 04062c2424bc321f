"""What models think, on the pages without a browser: folded next to their words, and hidden from a person who plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.library import library
from core.debugger.run import start_bench
from core.events import Token, Waiting
from core.frameworks.base import Campaign
from core.frameworks.casting import REFERENCE, CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.live.session import Session
from core.store.database import Store
from pages.kit import sessions as live_sessions
from pages.kit.sessions import WatchedSession
from tests.core.store.builders import a_call, a_stream
from tests.support.fake_provider import FakeProvider, running
from tests.support.pages import trouble, words
from tests.support.thinking_aloud import SECRET, THOUGHT, aloud

Open = Callable[..., AppTest]
CASE = next(case for case in library() if case.case_key == "library/cardiology-1")
FOLD, GRADERS = "Reasoning", "Reasoning of the grader"


def script(body: dict[str, Any]) -> str:
    if body["model"] == "grader":
        return "Yes" if "Do diagnosis 1" in str(body["messages"]) else "Stable angina"
    if "single diagnosis" in str(body["messages"][-1]["content"]) or len(body["messages"]) > 2:
        return "**Final Diagnosis:** Stable angina"
    return "Does your chest hurt?"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running(aloud(script, "reasoning_content")) as served:
        yield served


@pytest.fixture
def trial(database: object, provider: FakeProvider) -> str:
    names = CastNames("openai/doctor", REFERENCE["patient"], "openai/grader")
    arms = (("multi_turn", "frq"),)
    campaign = Campaign(
        names, (CASE,), CASE.case_key, arms, trials=1, settings=CraftMdSettings(base_url=provider.base_url)
    )
    run = start_bench(campaign)
    run.join(60)
    assert run.error is None
    with Store().read() as cursor:
        (stored,) = [row for row in cursor.execute("SELECT trial_id FROM trials").fetchall()]
    return str(stored[0])


def folds(app: AppTest) -> list[str]:
    """Return the labels of the expanders that hold a thought; each is closed."""
    thoughts = [e for e in app.expander if any(SECRET in m.value for m in e.markdown)]
    assert not [e.label for e in thoughts if e.proto.expanded], "a thought is folded"
    return [e.label for e in thoughts]


def thoughts_outside(app: AppTest) -> list[str]:
    inside = [m.value for e in app.expander for m in e.markdown]
    return [m.value for m in app.markdown if SECRET in m.value and m.value not in inside]


@pytest.mark.slow
def test_a_transcript_shows_it_folded(open_page: Open, trial: str) -> None:
    app = open_page("conversations", trial=trial)
    assert trouble(app) == []
    assert sorted(set(folds(app))) == [FOLD, GRADERS]
    assert folds(app).count(FOLD) == 2, "the doctor's message and its answer; the greeting is no call"
    assert thoughts_outside(app) == []


def test_the_debugger_shows_it_folded_and_counts_it(open_page: Open, trial: str) -> None:
    app = open_page("debugger", trial=trial, view="back", step="answer:multi_turn:frq")
    assert trouble(app) == []
    assert folds(app) == [FOLD]
    assert thoughts_outside(app) == []
    assert not [element.value for element in app.code if SECRET in element.value]
    assert "70 out (60 of them reasoning)" in words(app)


def test_live_shows_it_folded_while_it_is_thought_and_afterwards(open_page: Open) -> None:
    app = open_page("live")
    app.query_params["trial"] = "thinks"
    session = Session(key="thinks", title="a case")
    session.events = [a_call("c1", reasoning=THOUGHT), *a_stream()[:2]]
    session.events[2] = session.events[2].model_copy(update={"call_id": "c1"})
    live_sessions._sessions()["thinks"] = WatchedSession(session, None, "thinks")
    app.run()
    assert folds(app) == [FOLD]

    def hear(*tokens: Token) -> None:
        async def all_of_them() -> None:
            for token in tokens:
                await session._take(token)

        asyncio.run(all_of_them())

    hear(Token(role="doctor", purpose="dialogue", text=THOUGHT, thought=True))
    app.run()
    assert folds(app) == [FOLD, "Thinking…"]
    hear(Token(role="doctor", purpose="dialogue", text="Any pain?"))
    app.run()
    assert folds(app) == [FOLD, FOLD]
    assert "Any pain? ▌" in words(app)
    assert thoughts_outside(app) == []
    session.meta["doctor"] = "human"
    session.waiting = Waiting(role="doctor")
    app.run()
    assert SECRET not in words(app), "a person who plays must find out alone"
    session.finished_at = 2.0
    app.run()
    assert FOLD in folds(app)


def test_an_effort_is_offered_for_models_alone(open_page: Open) -> None:
    app = open_page("runs")
    assert not [box for box in app.selectbox if box.label == "Reasoning effort"]
    app.selectbox(key="runs_doctor").set_value("openai/o3").run()
    (box,) = [box for box in app.selectbox if box.label == "Reasoning effort"]
    assert box.options == ["The model’s own", "none", "minimal", "low", "medium", "high"]
    assert trouble(app) == []
