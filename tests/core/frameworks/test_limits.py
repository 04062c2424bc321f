"""Every request of every seat has a token limit; an answer that is cut off too early is never wrong."""

from __future__ import annotations

import pytest

from core.events import COUNTED, Answered, Graded, Summarised
from core.frameworks.base import ALL_ARMS
from tests.core.frameworks import test_automedic_wire as automedic
from tests.core.frameworks import test_consultation_wire as consultation
from tests.core.frameworks.stage import CASE, Actors, Rules, calls, is_answer, of, play, role_of
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply


def limits(provider: FakeProvider) -> dict[str, set[int]]:
    """Return the token limits of the requests by seat; fails if a request has none."""
    return {
        body["model"]: {b["max_tokens"] for b in provider.bodies if b["model"] == body["model"]}
        for body in provider.bodies
    }


async def test_every_seat_of_craft_md_has_its_limit(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors()
    events = await play(fake_provider, Rules(arms=ALL_ARMS, many_choices=CASE.choices))
    assert limits(fake_provider) == {"doctor": {1_024}, "patient": {200}, "summariser": {800}, "grader": {100, 16}}
    assert [call.request["max_tokens"] for call in calls(events)] == [
        body["max_tokens"] for body in fake_provider.bodies
    ]


async def test_every_seat_of_consultation_has_its_limit(fake_provider: FakeProvider) -> None:
    fake_provider.script = consultation.acting()
    await consultation.play(fake_provider)
    assert limits(fake_provider) == {"doctor": {1_024}, "patient": {100}, "solver": {256}}


async def test_every_seat_of_automedic_has_its_limit(fake_provider: FakeProvider) -> None:
    fake_provider.script = automedic.acting(automedic.COMPLAINT, automedic.PULSE, "</end>")
    await automedic.play(fake_provider)
    assert limits(fake_provider) == {"doctor": {1_024}, "patient": {200, 600}, "staff": {400}}


RAMBLING = Reply("Let us first consider what could be behind an itchy rash", finish_reason="length")


@pytest.mark.parametrize("question_type", ["mcq", "frq", "frq_top3"])
async def test_a_reply_cut_off_before_its_answer_is_excluded_by_name(
    fake_provider: FakeProvider, question_type: str
) -> None:
    fake_provider.script = Actors(answer=RAMBLING, extract="None", judge="No")
    events = await play(fake_provider, Rules(arms=(("vignette", question_type),)))  # type: ignore[arg-type]
    (answer,) = of(events, Answered)
    assert (answer.status, answer.reason, answer.response) == ("invalid", "cut", None)
    assert not [grade for grade in of(events, Graded) if grade.verdict in COUNTED]
    assert answer.detail.startswith("cut: ")
    assert [call.finish_reason for call in calls(events) if call.role == "doctor"] == ["length"]


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
async def test_a_name_that_the_cut_may_have_shortened_is_no_answer(fake_provider: FakeProvider, reason: str) -> None:
    fake_provider.script = Actors(answer=Reply("**Final Diagnosis:** Allergic contact", finish_reason=reason))
    events = await play(fake_provider, Rules(arms=(("vignette", "frq"), ("vignette", "mcq"))))
    assert {(answer.reason, answer.response) for answer in of(events, Answered)} == {("cut", None)}


@pytest.mark.parametrize("reason", ["error", "tool_calls", "moon"])
async def test_a_reply_that_ended_with_a_fault_is_no_answer(fake_provider: FakeProvider, reason: str) -> None:
    fake_provider.script = Actors(answer=Reply("**Final Diagnosis:** Gout.", finish_reason=reason))
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq"),)))
    assert {(answer.reason, answer.response) for answer in of(events, Answered)} == {("provider_error", None)}


async def test_an_answer_before_the_cut_counts(fake_provider: FakeProvider) -> None:
    reply = Reply("**Final Diagnosis:** Allergic contact dermatitis. This is because", finish_reason="length")
    fake_provider.script = Actors(answer=reply)
    events = await play(fake_provider, Rules(arms=(("vignette", "frq"), ("vignette", "mcq"))))
    assert {grade.verdict for grade in of(events, Graded)} == {"correct"}
    assert all(answer.status == "answered" for answer in of(events, Answered))


async def test_answers_on_a_summary_that_was_cut_off_are_excluded_by_name(fake_provider: FakeProvider) -> None:
    cut = Reply("A 40-year-old man has had an itchy rash for two", finish_reason="length")
    fake_provider.script = Actors(fault=lambda body: cut if role_of(body) == "summariser" else None)
    rules = Rules(arms=(("summarized", "frq"), ("summarized", "mcq"), ("multi_turn", "mcq")))
    events = await play(fake_provider, rules)
    answers = {(answer.format, answer.question_type): answer for answer in of(events, Answered)}
    for question_type in ("frq", "mcq"):
        on_summary = answers["summarized", question_type]
        assert (on_summary.status, on_summary.reason) == ("invalid", "cut")
        assert "summary" in on_summary.detail
    assert answers["multi_turn", "mcq"].status == "answered"
    assert [summary.text for summary in of(events, Summarised)] == [cut.text], "the summary is stored"
    requests = [body for body in fake_provider.bodies if is_answer(body)]
    assert len(requests) == 1, "an incomplete summary makes no request for an answer"
