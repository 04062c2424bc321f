"""Reasoning models in every seat of every framework: their reasoning is stored and passed to no other role."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from core.events import Answered, Assessed, Called, Ended, Event, Graded, Probed, Summarised, Token, Utterance
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.settings import FrameworkSettings
from core.live.session import Session
from core.live.start import one_case, start_consultation
from core.models.spec import THINKING_TOKENS
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.calls import calls_of
from core.store.queries.trials import trial_events
from tests.core.jobs.test_automedic_campaign import with_profiles
from tests.core.jobs.workshop import begun, go, plan, small_cases, trial_lines
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, Script, rating
from tests.support.thinking_aloud import SECRET, THOUGHT, WAYS, aloud

SPOKEN = (Utterance, Ended, Summarised, Answered, Graded, Assessed, Probed)
BELIEF = '{"diagnoses": [{"diagnosis": "Gout", "probability": 0.7}, {"diagnosis": "Cellulitis", "probability": 0.2}]}'


def script(body: dict[str, Any]) -> str:
    """Replies for every seat of the three frameworks; one answer in three is wrong, so that verdicts differ."""
    text, model = str(body["messages"]), body["model"]
    last = str(body["messages"][-1]["content"])
    replies = sum(m["role"] == "assistant" for m in body["messages"])
    if "This note comes from the examiner" in last:
        return BELIEF
    if "How much empathy" in last:
        return rating("What is it?", 4)
    if "write only its name" in text:
        return "Gout" if "Gout" in text else "Cellulitis"
    if "Do diagnosis 1 and diagnosis 2" in text:
        return "Yes" if "2: Gout" in text else "No"
    if model == "solver" or "A. Gout" in last:
        return "A. Gout"
    if model == "summariser":
        return "A man has a hot, swollen big toe."
    if model == "patient":
        return "My big toe is hot and hurts."
    if model == "staff":
        return "Uric acid: 9.1 mg/dL."
    if "<patient>" in text:
        after = ("<patient>What is it?</patient>", "<clinical>Uric acid?</clinical>", "</end>")
        return after[replies] if "Answer this question" not in text else "Gout"
    if "most likely" in last or "three" in last:
        return "1. Cellulitis\n2. Gout\n3. Bunion" if "three" in last else "**Final Diagnosis:** Cellulitis"
    if "at most" in str(body["messages"][0]["content"]):
        return "Since when does it hurt?" if replies == 0 else "Thank you, that is all."
    return "Since when does it hurt?" if replies < 3 else "**Final Diagnosis:** Gout"


SEATS = CastNames("openai/doctor", "openai/patient", "openai/grader", "openai/summariser")
MORE = {"craftmd": {}, "consultation": {"solver": "openai/solver"}, "automedic": {"staff": "openai/staff"}}
FREE = (("multi_turn", "mcq"), ("multi_turn", "frq"))


ALONE = ("a closing tag alone",)
"""A model that does this once is expected to do it always, so that it is not mixed with others."""
MIXED = tuple(way for way in WAYS if way not in ALONE)


def in_turns(ways: Sequence[str]) -> Script:
    """Return a script in which each model alternates between ways to reason."""
    calls = Counter[str]()

    def thinking(body: dict[str, Any]) -> Reply | str:
        calls[body["model"]] += 1
        script_of_way = aloud(script, ways[calls[body["model"]] % len(ways)])
        assert callable(script_of_way)
        return script_of_way(body)

    return thinking


def campaign(protocol: str, base_url: str, seed: int = 0) -> Campaign:
    settings = {
        "craftmd": CraftMdSettings(base_url=base_url, probe=True),
        "consultation": FrameworkSettings(base_url=base_url),
        "automedic": FrameworkSettings(base_url=base_url),
    }[protocol]
    arms = {
        "craftmd": (*FREE, ("multi_turn", "frq_top3"), ("vignette", "mcq"), ("summarized", "frq")),
        "consultation": FREE,
        "automedic": (("vignette", "mcq"), ("vignette", "frq"), *FREE),
    }[protocol]
    cases = with_profiles(2) if protocol == "automedic" else small_cases(2)
    planned = plan(names=SEATS.but(**MORE[protocol]), protocol=protocol, prompts=protocol, arms=arms, settings=settings)
    return replace(planned, cases=cases, seed=seed)  # two runs within one second must differ


def without_ids(events: list[Event]) -> list[dict[str, Any]]:
    """The messages, answers and verdicts of a trial, without ids and times."""
    dropped = {"at", "call_id", "call_ids"}
    dumped = [e.model_dump(mode="json") for e in events if isinstance(e, SPOKEN)]
    return [{name: value for name, value in fields.items() if name not in dropped} for fields in dumped]


def played(provider: FakeProvider, protocol: str, ways: Sequence[str]) -> tuple[list[list[Event]], list[Any]]:
    """Return the events of each trial of a run, and the messages sent to the provider."""
    provider.requests.clear()
    provider.script = in_turns(ways) if ways else script
    outcome = go(begun(campaign(protocol, provider.base_url, len(ways))))
    assert outcome.stopped is None
    lines = sorted(trial_lines(outcome.header.run_id), key=lambda line: line.case_key)
    return [list(line.events) for line in lines], [b["messages"] for b in provider.bodies]


@pytest.mark.parametrize("protocol", ["craftmd", "consultation", "automedic"])
def test_reasoning_is_stored_and_passed_to_no_other_role(fake_provider_thread: FakeProvider, protocol: str) -> None:
    silent, sent = played(fake_provider_thread, protocol, ())
    before = [without_ids(events) for events in silent]
    calls = sum(isinstance(event, Called) for events in silent for event in events)
    seats = {event.call.role for events in silent for event in events if isinstance(event, Called)}
    assert (
        seats
        == {
            "craftmd": {"doctor", "patient", "grader", "summariser"},
            "consultation": {"doctor", "patient", "solver", "grader"},
            "automedic": {"doctor", "patient", "staff", "grader"},
        }[protocol]
    )
    verdicts = {e["verdict"] for trial in before for e in trial if e["kind"] == "graded"}
    assert verdicts >= {"correct"}
    assert not [e for trial in before for e in trial if e["kind"] == "answered" and e["status"] == "invalid"]
    for way in (ALONE, MIXED):
        thinking, sent_to_thinkers = played(fake_provider_thread, protocol, way)
        assert [without_ids(events) for events in thinking] == before, way
        assert sent_to_thinkers == sent, way
        assert SECRET not in json.dumps(sent_to_thinkers)
        records = [event.call for events in thinking for event in events if isinstance(event, Called)]
        assert len(records) == calls
        for record in records:
            assert SECRET in (record.reasoning or ""), way
            assert SECRET not in (record.response or ""), way
            assert SECRET not in json.dumps(record.request), way
            assert (record.completion_tokens, record.reasoning_tokens) == (70, 60)
        store = Store()
        fold(store)
        with store.read() as cursor:
            for events in thinking:
                trial_id = next(e.trial_id for e in events if e.kind == "started")
                stored = calls_of(cursor, trial_id)
                assert all(THOUGHT.split()[-1] in (call.reasoning or "") for call in stored)
                assert {call.reasoning_tokens for call in stored} == {60}
                assert trial_events(cursor, trial_id) == events
            for table, column in [
                ("utterances", "text"),
                ("answers", "response"),
                ("trials", "summary"),
                ("trials", "events"),
                ("grades", "extracted"),
                ("ratings", "words"),
            ]:
                sql = f"SELECT count(*) FROM {table} WHERE contains({column}, '{SECRET}')"
                assert cursor.execute(sql).fetchall() == [(0,)], f"{table}.{column}"


@pytest.mark.slow
@pytest.mark.parametrize("ways", [ALONE, MIXED])
def test_a_live_consultation_streams_reasoning_apart_from_speech(
    fake_provider_thread: FakeProvider, ways: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamed speech contains no reasoning unless it is restarted: a closing tag alone comes too late once."""
    heard = {"speech": "", "thought": ""}
    take = Session._take

    async def listening(self: Session, event: Event) -> None:
        if isinstance(event, Token):
            heard["speech"] = "" if event.restart else heard["speech"]
            heard["thought" if event.thought else "speech"] += event.text
        await take(self, event)

    monkeypatch.setattr(Session, "_take", listening)
    fake_provider_thread.script = in_turns(ways)
    watched = campaign("craftmd", fake_provider_thread.base_url)
    session = start_consultation(one_case(watched, watched.cases[0]))
    session.join(60)
    assert session.error is None
    assert SECRET in heard["thought"]
    assert SECRET not in heard["speech"]
    events = session.snapshot()
    assert [e.text for e in events if isinstance(e, Utterance)][-1] == "**Final Diagnosis:** Gout"
    assert SECRET not in json.dumps(without_ids(events))
    assert SECRET not in json.dumps([body["messages"] for body in fake_provider_thread.bodies])


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["craftmd", "consultation", "automedic"])
def test_answers_without_tokens_left_after_reasoning_are_excluded(
    fake_provider_thread: FakeProvider, protocol: str
) -> None:
    def short_of_tokens(body: dict[str, Any]) -> Reply | str:
        if body["model"] not in ("doctor", "solver") or "A. Gout" not in str(body["messages"][-1]["content"]):
            return script(body)
        return Reply(f"<think>{THOUGHT}", finish_reason="length", usage=(11, 40), thought=40)

    fake_provider_thread.script = short_of_tokens
    outcome = go(begun(campaign(protocol, fake_provider_thread.base_url)))
    for line in trial_lines(outcome.header.run_id):
        choices = [e for e in line.events if isinstance(e, Answered) and e.question_type == "mcq"]
        assert choices
        for answer in choices:
            assert (answer.status, answer.reason, answer.response) == ("invalid", "provider_error", None)
            assert "ran out of tokens while thinking" in answer.detail
        failed = [e.call for e in line.events if isinstance(e, Called) and e.call.error]
        assert len(failed) == len(choices)
        for call in failed:
            assert call.error is not None
            assert call.error.startswith("thinking: ")
            assert (call.reasoning, call.response) == (THOUGHT, None)
            assert call.completion_tokens == 40 * call.attempts, "each request was charged"
            assert call.attempts in (1, 2), "a retry allows more tokens until the model is known to reason"
            assert call.request["max_tokens"] > THINKING_TOKENS
    assert outcome.verdicts["provider_error"] == 2 * len(choices)
