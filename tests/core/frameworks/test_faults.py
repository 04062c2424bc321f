"""A provider's faults: the answers are excluded by name, never counted as wrong, and retries are bounded."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.events import COUNTED, Answered, Ended, Event, Failed, Finished, Graded
from core.frameworks.craftmd import PAPER_ARMS
from tests.core.frameworks.stage import (
    QUICK,
    ROLES,
    Actors,
    Rules,
    calls,
    conversation,
    ended,
    is_answer,
    is_extraction,
    messages_of,
    of,
    play,
    role_of,
    sent_to,
    verdicts,
)
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, content_filtered, failing, rate_limited

ARMS = Rules(
    arms=(
        ("vignette", "frq"),
        ("vignette", "mcq"),
        ("multi_turn", "frq"),
        ("single_turn", "frq"),
        ("summarized", "frq"),
    )
)
ATTEMPTS = QUICK.attempts
AFTER_RATE_LIMIT = 11
"""Requests of a call after rate limits: there are five times as many retries as after other faults."""
BROKEN_STREAM: dict[str, Any] = {"message": "the server is overloaded", "code": "busy"}

FAULTS: dict[str, tuple[Reply, int, str]] = {
    # name: (the provider's reply, requests of one call, verdict of the answer)
    "429": (rate_limited(), AFTER_RATE_LIMIT, "provider_error"),
    "429 with Retry-After": (rate_limited("0.01"), AFTER_RATE_LIMIT, "provider_error"),
    "429 with a long Retry-After": (rate_limited("3600"), 1, "provider_error"),
    "500": (failing(500), ATTEMPTS, "provider_error"),
    "503 with a page": (Reply(status=503, error="<html>Bad gateway</html>"), ATTEMPTS, "provider_error"),
    "400": (failing(400), 1, "provider_error"),
    "404": (failing(404), 1, "provider_error"),
    "cut off": (Reply("one two three", cut_after=2), ATTEMPTS, "provider_error"),
    "ends too early": (Reply("one two three", end_after=2), ATTEMPTS, "provider_error"),
    "malformed": (Reply("one two three", garbage_after=1), ATTEMPTS, "provider_error"),
    "error in the stream": (Reply("one two", error_after=1, error=BROKEN_STREAM), ATTEMPTS, "provider_error"),
    "empty": (Reply("", finish_reason="error"), 2, "provider_error"),
    "empty at the token limit": (Reply("", finish_reason="length"), 2, "provider_error"),
    "filtered request": (content_filtered(), 1, "refused"),
    "filtered reply": (Reply("I have", finish_reason="content_filter"), 1, "refused"),
    "refusal": (Reply("", refusal="I will not."), 1, "refused"),
}

KINDS = ("429 with Retry-After", "400", "500", "empty", "refusal")
"""One fault of each kind: many retries, none, the usual number, one; and a refusal by the provider."""

SLOW = {
    "no text for long": Reply(delay_s=30),
    "stands still": Reply("one two three", stall_after=1),
    "too slow as a whole": Reply("a " * 400, piece_delay_s=0.05),
}


def from_role(role: str, reply: Reply) -> Callable[[dict[str, Any]], Reply | None]:
    return lambda body: reply if role_of(body) == role else None


def check_end(events: list[Event], rules: Rules) -> None:
    """Assert that the trial is complete: every arm has one answer, with verdicts or with a reason."""
    assert isinstance(events[-1], Finished)
    answered = of(events, Answered)
    assert [(a.format, a.question_type) for a in answered] == list(rules.arms)
    for answer in answered:
        graded = [g for g in of(events, Graded) if (g.format, g.question_type) == (answer.format, answer.question_type)]
        assert (answer.response is None) == (answer.status == "invalid") == (answer.reason is not None)
        assert bool(graded) == (answer.status == "answered")
        assert answer.status == "answered" or answer.detail


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_doctor_that_always_fails(fake_provider: FakeProvider, fault: str) -> None:
    reply, requests, verdict = FAULTS[fault]
    fake_provider.script = Actors(fault=from_role("doctor", reply))
    events = await play(fake_provider, ARMS)
    check_end(events, ARMS)
    assert verdicts(events) == {f"{f}:{q}": [verdict] for f, q in ARMS.arms}
    assert messages_of(events)[1:] == [("patient", "This is reply 1.")]
    assert (ended(events).reason, ended(events).doctor_turns) == ("refusal" if verdict == "refused" else "error", 0)
    # calls: the conversation, two answers on the vignette, one on the first reply; none for the other arms
    assert len(sent_to(fake_provider, "doctor")) == (1 + 2 + 1) * requests
    assert len(fake_provider.bodies) == 4 * requests + 1
    assert [(c.role, c.attempts) for c in calls(events) if c.error] == [("doctor", requests)] * 4


@pytest.mark.parametrize("fault", KINDS)
async def test_a_patient_that_always_fails(fake_provider: FakeProvider, fault: str) -> None:
    reply, requests, verdict = FAULTS[fault]
    fake_provider.script = Actors(fault=from_role("patient", reply))
    events = await play(fake_provider, ARMS)
    check_end(events, ARMS)
    assert verdicts(events) == {
        "vignette:frq": ["correct"],
        "vignette:mcq": ["correct", "correct"],
        "multi_turn:frq": [verdict],
        "single_turn:frq": [verdict],
        "summarized:frq": [verdict],
    }
    assert len(sent_to(fake_provider, "patient")) == requests
    assert (len(sent_to(fake_provider, "doctor")), len(sent_to(fake_provider, "summariser"))) == (2, 0)
    assert ended(events).reason == ("refusal" if verdict == "refused" else "error")
    assert [f.where for f in of(events, Failed)] == ["conversation"]


@pytest.mark.parametrize("fault", KINDS)
async def test_a_grader_that_always_fails(fake_provider: FakeProvider, fault: str) -> None:
    reply, requests, _ = FAULTS[fault]
    fake_provider.script = Actors(fault=from_role("grader", reply))
    events = await play(fake_provider, ARMS)
    check_end(events, ARMS)
    assert verdicts(events) == {
        "vignette:frq": ["provider_error"],
        "vignette:mcq": ["correct", "correct"],
        "multi_turn:frq": ["provider_error"],
        "single_turn:frq": ["provider_error"],
        "summarized:frq": ["provider_error"],
    }
    assert all(a.response for a in of(events, Answered))  # the answers are stored and can be graded again
    assert len(sent_to(fake_provider, "grader")) == 4 * requests


@pytest.mark.parametrize("fault", KINDS)
async def test_a_summariser_that_always_fails(fake_provider: FakeProvider, fault: str) -> None:
    reply, requests, verdict = FAULTS[fault]
    fake_provider.script = Actors(fault=from_role("summariser", reply))
    events = await play(fake_provider, ARMS)
    check_end(events, ARMS)
    assert verdicts(events) == {
        "vignette:frq": ["correct"],
        "vignette:mcq": ["correct", "correct"],
        "multi_turn:frq": ["correct"],
        "single_turn:frq": ["correct"],
        "summarized:frq": [verdict],
    }
    assert len(sent_to(fake_provider, "summariser")) == requests
    assert [f.where for f in of(events, Failed)] == ["summariser"]


FIRST_LANE = [("doctor", "stands still"), ("patient", "no text for long"), ("grader", "too slow as a whole")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "fault"),
    [
        pytest.param(*pair, marks=() if pair in FIRST_LANE else pytest.mark.slow)
        for pair in itertools.product(ROLES, SLOW)
    ],
)
async def test_a_slow_reply_is_given_up(fake_provider: FakeProvider, role: str, fault: str, tmp_path: Path) -> None:
    impatient = tmp_path / "models.local.toml"
    times = "{ call_s = 0.6, first_piece_s = 0.4, stall_s = 0.3 }"
    impatient.write_text(f'[models."openai/{role}"]\ntimeouts = {times}\n')
    fake_provider.script = Actors(questions=[], fault=from_role(role, SLOW[fault]))
    rules = Rules(arms=(("summarized", "frq"),))
    events = await play(fake_provider, rules, models=[impatient])
    check_end(events, rules)
    assert verdicts(events) == {"summarized:frq": ["provider_error"]}
    assert len(sent_to(fake_provider, role)) == ATTEMPTS
    assert [(c.role, c.attempts) for c in calls(events) if c.error] == [(role, ATTEMPTS)]
    assert "seconds" in of(events, Failed)[0].message


@pytest.mark.parametrize("fault", ["500", "filtered request", "empty"])
async def test_a_grader_that_fails_in_the_second_step(fake_provider: FakeProvider, fault: str) -> None:
    reply, requests, _ = FAULTS[fault]
    fake_provider.script = Actors(
        fault=lambda body: reply if role_of(body) == "grader" and not is_extraction(body) else None
    )
    rules = Rules(arms=(("vignette", "frq"), ("vignette", "frq_top3")))
    events = await play(fake_provider, rules)
    check_end(events, rules)
    assert verdicts(events) == {"vignette:frq": ["provider_error"], "vignette:frq_top3": ["provider_error"]}
    assert len(sent_to(fake_provider, "grader")) == 1 + requests + requests


@pytest.mark.parametrize(("fault", "verdict"), [("500", "provider_error"), ("refusal", "refused")])
@pytest.mark.parametrize("role", ["doctor", "patient"])
async def test_a_conversation_that_breaks_off_later_keeps_its_first_turn(
    fake_provider: FakeProvider, role: str, fault: str, verdict: str
) -> None:
    """The role's third message fails: arms on the conversation are lost, the arm on the first turn is not."""

    def third(body: dict[str, Any]) -> Reply | None:
        messages_so_far = sum(m["role"] == "assistant" for m in body["messages"]) - (role == "doctor")
        return FAULTS[fault][0] if role_of(body) == role and not is_answer(body) and messages_so_far == 2 else None

    fake_provider.script = Actors(questions=["One?", "Two?", "Three?", "Four?"], fault=third)
    events = await play(fake_provider, ARMS)
    check_end(events, ARMS)
    assert verdicts(events) == {
        "vignette:frq": ["correct"],
        "vignette:mcq": ["correct", "correct"],
        "multi_turn:frq": [verdict],
        "single_turn:frq": ["correct"],
        "summarized:frq": [verdict],
    }
    lines = ["This is reply 1.", "One?", "This is reply 2.", "Two?", "This is reply 3."]
    assert [text for _, text in messages_of(events)[1:]] == (lines if role == "doctor" else lines[:-1])
    assert ended(events).doctor_turns == 2
    assert len(sent_to(fake_provider, "summariser")) == 0


@pytest.mark.parametrize("fault", ["429 with Retry-After", "500", "cut off", "malformed"])
async def test_a_fault_that_heals_leaves_no_trace_but_the_attempts(fake_provider: FakeProvider, fault: str) -> None:
    """Every call of every role fails twice and then succeeds: the events have only the good reply."""
    counts: dict[str, int] = {}

    def twice(body: dict[str, Any]) -> Reply | None:
        key = str(body["messages"])
        counts[key] = counts.get(key, 0) + 1
        return FAULTS[fault][0] if counts[key] <= 2 else None

    rules = Rules(arms=(("summarized", "frq"),))
    fake_provider.script = Actors(questions=[])
    without_fault = await play(fake_provider, rules)
    assert {c.role for c in calls(without_fault)} == set(ROLES)
    fake_provider.script = Actors(questions=[], fault=twice)
    events = await play(fake_provider, rules)
    assert verdicts(events) == {"summarized:frq": ["correct"]}
    assert messages_of(events) == messages_of(without_fault)
    assert [c.response for c in calls(events)] == [c.response for c in calls(without_fault)]
    assert [c.request for c in calls(events)] == [c.request for c in calls(without_fault)]
    assert [c.attempts for c in calls(events)] == [3] * len(calls(without_fault))
    assert [e.kind for e in events if e.kind != "token"] == [e.kind for e in without_fault if e.kind != "token"]


@pytest.mark.parametrize("role", ["doctor", *(pytest.param(role, marks=pytest.mark.slow) for role in ROLES[1:])])
async def test_every_fault_at_once_ends_in_bounded_requests(fake_provider: FakeProvider, role: str) -> None:
    """The provider answers each request with another fault: a call makes at most ``ATTEMPTS`` requests."""
    mixed = [reply for reply, _, _ in FAULTS.values()]
    turn = iter(range(10_000))

    def fault(body: dict[str, Any]) -> Reply | None:
        return mixed[next(turn) % len(mixed)] if role_of(body) == role else None

    fake_provider.script = Actors(fault=fault)
    rules = Rules(arms=PAPER_ARMS)
    for _ in range(3):
        events = await play(fake_provider, rules)
        check_end(events, rules)
        failed = [c for c in calls(events) if c.error]
        assert all(1 <= c.attempts <= ATTEMPTS for c in failed)
        excluded = [v for arm in verdicts(events).values() for v in arm if v not in COUNTED]
        assert set(excluded) <= {"refused", "provider_error"}
        assert "incorrect" not in [v for arm in verdicts(events).values() for v in arm]
    assert len(sent_to(fake_provider, role)) <= 3 * ATTEMPTS * (1 + len(PAPER_ARMS) * 2)


async def test_a_doctor_that_declines_has_given_no_diagnosis(fake_provider: FakeProvider) -> None:
    """A refusal in words is an answer that counts as incorrect, also if the grader misquotes it."""
    fake_provider.script = Actors(
        conclusion="I am sorry, I cannot give medical advice.",
        answer="I am sorry, I cannot give medical advice.",
        extract="Refused: I am not allowed to.",
    )
    rules = Rules(arms=(("multi_turn", "frq"), ("multi_turn", "mcq")))
    events = await play(fake_provider, rules)
    assert verdicts(events) == {
        "multi_turn:frq": ["refused_in_words"],
        "multi_turn:mcq": ["incorrect", "refused_in_words"],
    }
    assert ended(events).reason == "no_question"


async def test_a_reply_cut_short_by_its_token_limit_counts_by_its_complete_lines(fake_provider: FakeProvider) -> None:
    expected = {
        "**Final Diagnosis:** Allergic contact dermatitis.\nThe rash and": ["correct", "correct"],
        "**Final Diagnosis:** Allergic contact dermatitis and": ["cut"],
    }
    for text, of_rules in expected.items():
        fake_provider.script = Actors(answer=Reply(text, finish_reason="length"))
        events = await play(fake_provider, Rules(arms=(("vignette", "mcq"),)))
        assert verdicts(events) == {"vignette:mcq": of_rules}, text
        assert [c.finish_reason for c in calls(events)] == ["length"]


async def test_a_failure_has_one_plain_sentence(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(fault=from_role("doctor", failing(500, "boom\nTraceback")))
    events = await play(fake_provider, ARMS)
    (failed,) = of(events, Failed)
    assert failed.failure == "server"
    assert failed.message == (
        "The model openai/doctor gave no reply after 3 requests: the provider answered HTTP 500 (boom Traceback); "
        "the fault is the provider's: try again later."
    )
    assert ended(events).detail == failed.message
    assert [c.error for c in calls(events) if c.role == "doctor"] == [f"server: {failed.message}"] * 4


async def test_an_empty_reply_does_not_restart_the_conversation(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(fault=from_role("patient", Reply("")))
    rules = Rules(arms=(("multi_turn", "frq"),))
    events = await play(fake_provider, rules)
    assert [e.reason for e in of(events, Ended)] == ["error"]
    assert len(fake_provider.bodies) == 2  # the call and one retry
    assert conversation(fake_provider) == []


@pytest.mark.parametrize(
    "reply",
    [Reply(""), Reply(" \n "), Reply("", deltas=[{"reasoning_content": "Gout."}])],
    ids=["empty", "white space", "reasoning only"],
)
async def test_a_blank_answer_that_ended_normally_is_the_doctors_own(fake_provider: FakeProvider, reply: Reply) -> None:
    fake_provider.script = Actors(fault=lambda body: reply if role_of(body) == "doctor" and is_answer(body) else None)
    rules = Rules(arms=(("vignette", "frq"), ("vignette", "mcq")))
    events = await play(fake_provider, rules)
    check_end(events, rules)
    assert verdicts(events) == {"vignette:frq": ["empty"], "vignette:mcq": ["empty"]}


@pytest.mark.parametrize("role", ["patient", "summariser", "grader"])
async def test_a_blank_reply_of_another_role_is_a_failure_and_no_answer(fake_provider: FakeProvider, role: str) -> None:
    fake_provider.script = Actors(fault=from_role(role, Reply("")))
    rules = Rules(arms=(("summarized", "frq"),))
    events = await play(fake_provider, rules)
    assert verdicts(events) == {"summarized:frq": ["provider_error"]}
