"""A watched consultation: paused, stepped, stopped, with messages of people, and with its errors."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest

from core.errors import AnamnesisError
from core.events import Ended, Event, Token, Utterance, Waiting
from core.live.session import Session, replay
from tests.core.store.builders import a_stream


class Conversation:
    """An endless stream of messages that counts the requests for events."""

    def __init__(self, *, pace_s: float = 0.005, most: int = 1000) -> None:
        self.pulled = 0
        self.closed = False
        self._pace_s, self._most = pace_s, most

    async def __call__(self, session: Session) -> AsyncIterator[Event]:
        try:
            for turn in range(self._most):
                self.pulled += 1
                await asyncio.sleep(self._pace_s)
                role = "doctor" if turn % 2 == 0 else "patient"
                yield Token(role=role, purpose="dialogue", text=f"Message {turn}")
                self.pulled += 1
                yield Utterance(turn=turn, role=role, text=f"Message {turn}")
        finally:
            self.closed = True


class Watched(Session):
    """A session that tells whether it waits for ``resume`` or ``step``."""

    holds = False

    async def _gate(self) -> None:
        self.holds = self.paused and not self._steps
        await super()._gate()
        self.holds = False


def a_session(**more: object) -> Watched:
    return Watched(key="s", title="a case", paced=False, **more)  # type: ignore[arg-type]


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


@pytest.fixture
def session(conversation: Conversation):
    session = a_session()
    session.start(conversation)
    yield session
    session.stop()
    session.join(30)
    assert not session.running


def paused(session: Watched) -> None:
    session.pause()
    until(lambda: session.holds)


def test_a_paused_session_asks_for_nothing(session: Watched, conversation: Conversation) -> None:
    until(lambda: len(session.events) >= 3)
    paused(session)
    pulled, count = conversation.pulled, len(session.events)
    session.join(0.1)
    assert (conversation.pulled, len(session.events)) == (pulled, count)
    assert session.paused
    assert session.running
    session.resume()
    until(lambda: len(session.events) > count + 2)
    assert not session.paused


@pytest.mark.parametrize("presses", [1, 3])
def test_a_step_is_one_message(session: Watched, presses: int) -> None:
    paused(session)
    count = len(session.dialogue)
    for _ in range(presses):
        session.step()
    until(lambda: len(session.dialogue) >= count + presses and session.holds)
    assert len(session.dialogue) == count + presses
    assert session.paused


def test_a_step_while_it_runs_holds_after_the_message() -> None:
    """The next message comes when the test says so, after the step was asked for."""
    go_on = threading.Event()

    async def source(session: Session) -> AsyncIterator[Event]:
        for turn in range(9):
            yield Utterance(turn=turn, role="doctor", text=f"Message {turn}")
            await asyncio.to_thread(go_on.wait, 60)

    session = a_session()
    session.start(source)
    until(lambda: session.events)
    session.step()
    go_on.set()
    until(lambda: session.holds)
    assert len(session.dialogue) == 2
    session.stop()
    session.join(30)


def test_stopping_keeps_what_was_said_and_closes_the_stream(session: Session, conversation: Conversation) -> None:
    until(lambda: len(session.events) >= 2)
    session.stop()
    session.join(30)
    assert not session.running
    assert session.finished_at is not None
    assert session.error is None
    assert session.draft is None
    assert len(session.events) >= 2
    assert conversation.closed


def test_a_paused_session_can_be_stopped(session: Watched) -> None:
    paused(session)
    session.stop()
    session.join(30)
    assert not session.running


def test_stopping_interrupts_a_model_that_does_not_answer() -> None:
    session, conversation = a_session(), Conversation(pace_s=3600)
    session.start(conversation)
    until(lambda: conversation.pulled)
    session.stop()
    session.join(30)
    assert not session.running
    assert conversation.closed


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (AnamnesisError("Set the key OPENAI_API_KEY."), "Set the key OPENAI_API_KEY."),
        (ValueError("no such turn"), "The consultation broke off: no such turn."),
        (KeyError(), "The consultation broke off: KeyError."),
    ],
)
def test_an_error_in_the_stream_ends_it_with_its_sentence(trouble: Exception, sentence: str) -> None:
    async def breaking(session: Session) -> AsyncIterator[Event]:
        yield Utterance(turn=0, role="doctor", text="Hello?")
        raise trouble

    session = a_session()
    session.start(breaking)
    session.join(30)
    assert not session.running
    assert session.error == sentence
    assert [turn.text for turn in session.dialogue] == ["Hello?"]


def test_an_error_while_storing_is_told_too() -> None:
    def refuse(session: Session) -> None:
        raise AnamnesisError("The disk is full.")

    session = a_session(on_finish=refuse)
    session.start(Conversation(most=1))
    session.join(30)
    assert session.error == "The disk is full."


def test_what_is_to_be_done_at_the_end_is_done_before_the_session_counts_as_over() -> None:
    seen: list[bool] = []
    session = a_session(on_finish=lambda session: seen.append(session.running))
    session.start(Conversation(most=1))
    session.join(30)
    assert seen == [True]
    assert not session.running


async def _interview(session: Session) -> AsyncIterator[Event]:
    for turn in (0, 1):
        yield Waiting(role="patient")
        text = await session.listen("patient")
        yield Utterance(turn=turn, role="patient", text=text)


def test_a_human_is_waited_for_and_heard() -> None:
    session = a_session()
    session.start(_interview)
    for turn, words in enumerate(("It hurts.", "Since Monday.")):
        until(lambda: session.waiting)
        session.say("patient", words)
        until(lambda turn=turn: len(session.dialogue) > turn)
    session.join(30)
    assert [turn.text for turn in session.dialogue] == ["It hurts.", "Since Monday."]
    assert session.waiting is None


def test_what_is_written_early_is_sent_when_its_turn_comes() -> None:
    session = a_session()
    session.say("patient", "Ahead of time.")
    session.start(_interview)
    until(lambda: session.dialogue)
    assert session.dialogue[0].text == "Ahead of time."
    until(lambda: session.waiting)
    session.say("patient", "In time.")
    session.join(30)
    assert [turn.text for turn in session.dialogue] == ["Ahead of time.", "In time."]


def test_what_was_written_to_another_question_is_given_back_and_not_sent() -> None:
    session = a_session()
    session.say("patient", "Psoriasis", "What is it?")
    session.start(_interview)
    until(lambda: session.unsent)
    assert session.unsent == "Psoriasis"
    assert session.waiting is not None
    session.say("doctor", "Not my seat.")
    assert session.unsent == "Not my seat."
    assert session.waiting is not None
    session.say("patient", "It hurts.")
    until(lambda: session.dialogue)
    assert session.unsent is None
    assert session.dialogue[0].text == "It hurts."
    session.stop()
    session.join(30)


def test_a_session_that_waits_for_a_human_can_be_stopped() -> None:
    session = a_session()
    session.start(_interview)
    until(lambda: session.waiting)
    session.stop()
    session.join(30)
    assert not session.running
    assert session.error is None
    assert session.waiting is None


def test_a_replay_gives_the_same_events_and_types_every_message() -> None:
    stored = a_stream()
    session = a_session()
    session.start(lambda _: replay(stored))
    session.join(30)
    assert session.snapshot() == stored
    assert session.error is None


async def _one_text(text: str, role: str = "doctor") -> AsyncIterator[Event]:
    yield Token(role=role, purpose="dialogue", text=text)  # type: ignore[arg-type]
    yield Utterance(turn=0, role=role, text=text)  # type: ignore[arg-type]


def test_text_that_comes_at_once_is_typed_word_by_word_at_the_chosen_speed() -> None:
    text = " ".join(f"word{n}" for n in range(14))
    session = Session(key="s", title="t", speed=2.0)
    seen: set[str] = set()
    started = time.monotonic()
    session.start(lambda _: _one_text(text))
    while session.running:
        if session.draft is not None:
            seen.add(session.draft.text)
        time.sleep(0.005)
    assert time.monotonic() - started > 0.4  # 14 words at 28 a second
    assert len(seen) > 5
    assert all(text.startswith(part) for part in seen)
    assert session.dialogue[0].text == text


def test_what_a_human_typed_is_not_typed_again() -> None:
    session = Session(key="s", title="t", speed=0.1, meta={"doctor": "human"})
    session.start(lambda _: _one_text(" ".join(["word"] * 200)))  # at 1.4 words a second it would take two minutes
    session.join(30)
    assert not session.running


def test_a_restart_takes_back_the_words_so_far() -> None:
    reached = []

    async def restarting(session: Session) -> AsyncIterator[Event]:
        yield Token(role="doctor", purpose="dialogue", text="Wrong")
        yield Token(role="doctor", purpose="dialogue", text="Right", restart=True)
        yield Ended(reason="no_question", doctor_turns=1)
        reached.append(session.draft.text if session.draft else None)

    session = a_session()
    session.start(restarting)
    session.join(30)
    assert reached == ["Right"]
