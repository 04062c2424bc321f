"""AutoMedic watched: from start to the stored trial and back, in step with another, with people and forks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from core.case import Case
from core.datasets.select import cases_of
from core.debugger.steps import steps_of_trial
from core.debugger.stored import load_record
from core.errors import UsageError
from core.events import Answered, Assessed, Ended, Finished, Graded, Token, Utterance
from core.frameworks.automedic import ARMS, AutoMedicSettings
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.live.branch import BranchPlan, start_branch, stored_origin
from core.live.session import Session
from core.live.start import load_trial, one_case, start_consultation, start_replay
from tests.support.tagged import MISUSED, misused_events, store_tagged


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))


@pytest.fixture(scope="module")
def case() -> Case:
    return cases_of("library")[0]


def begin(case: Case, partner: Session | None = None, turns: int = 20, **names: str) -> Session:
    campaign = Campaign(
        CastNames(**{"doctor": "reference/bayes", **names}),
        (case,),
        arms=ARMS[:2],
        prompts="automedic",
        protocol="automedic",
        settings=AutoMedicSettings(max_turns=turns),
    )
    session = start_consultation(one_case(campaign, case), partner=partner)
    session.speed = 1000.0
    return session


@pytest.mark.slow
def test_a_finished_consultation_is_stored_and_plays_again(case: Case) -> None:
    session = begin(case)
    session.join(60)
    assert session.error is None
    events = session.snapshot()
    assert isinstance(events[-1], Finished)
    assert {event.role for event in events if isinstance(event, Utterance)} == {"doctor", "patient", "staff"}
    assert sum(isinstance(event, Assessed) for event in events) == 1
    loaded = load_trial(session.key)
    assert loaded is not None
    assert loaded[:2] == (case, events)
    again = start_replay(case, events, session.key)
    again.speed = 1000.0
    again.join(60)
    assert again.snapshot() == events


def test_a_step_also_holds_after_the_rating() -> None:
    session = Session("s", "a case", paced=False)
    session.pause()

    async def source(_: Session):
        yield Token(role="patient", purpose="rate", text="4, she was kind.")
        for event in misused_events()[-8:]:
            yield event

    session.start(source)
    for kind in (Assessed, Answered, Graded):
        before = len(session.snapshot())
        session.step()
        while len(session.snapshot()) == before or session._steps:
            asyncio.run(asyncio.sleep(0.01))
        assert isinstance(session.snapshot()[-1], kind)
        assert session.draft is None
    session.stop()
    session.join(10)


@pytest.mark.slow
def test_two_doctors_keep_step_and_the_shorter_one_does_not_hold_the_other(case: Case) -> None:
    left = begin(case, turns=2)
    right = begin(case, partner=left)
    left.join(60)
    right.join(60)
    assert [left.error, right.error] == [None, None]
    ends = [next(e for e in session.snapshot() if isinstance(e, Ended)) for session in (left, right)]
    assert [end.reason for end in ends] == ["turn_cap", "end_tag"]
    assert left.messages == 4
    assert right.messages > 4


@pytest.mark.parametrize("seat", ["doctor", "patient", "staff"])
def test_a_human_can_sit_in_every_seat_of_the_conversation(case: Case, seat: str) -> None:
    session = begin(case, **{seat: "human"})
    while session.waiting is None and session.running:
        time.sleep(0.01)
    assert session.waiting is not None
    assert session.waiting.role == seat
    session.stop()
    session.join(60)
    assert session.error is None


def test_the_grader_is_no_seat_for_a_human(case: Case) -> None:
    with pytest.raises(UsageError, match="A person cannot play the grader"):
        begin(case, grader="human")


@pytest.mark.slow
def test_a_fork_keeps_the_messages_before_it_and_goes_on_with_patient_and_staff(case: Case) -> None:
    session = begin(case)
    session.join(60)
    dialogue = session.dialogue
    (branch,) = start_branch(BranchPlan(1, "My chest has hurt since Monday."), stored_origin(session.key))
    branch.speed = 1000.0
    branch.join(60)
    assert branch.error is None
    assert branch.dialogue[0] == dialogue[0]
    assert branch.dialogue[1].text == "My chest has hurt since Monday."
    assert {turn.role for turn in branch.dialogue} == {"doctor", "patient", "staff"}
    (end,) = [event for event in branch.snapshot() if isinstance(event, Ended)]
    assert end.doctor_turns == sum(turn.role != "doctor" for turn in branch.dialogue)


@pytest.mark.slow
def test_a_fork_at_a_doctors_message_puts_plain_words_into_a_tag(case: Case) -> None:
    session = begin(case)
    session.join(60)
    (branch,) = start_branch(BranchPlan(2, "staff: What is the temperature?"), stored_origin(session.key))
    branch.speed = 1000.0
    branch.join(60)
    assert branch.dialogue[2].text == "<clinical>What is the temperature?</clinical>"
    assert branch.dialogue[3].role == "staff"


def test_the_debugger_shows_every_message_of_it() -> None:
    store_tagged()
    record = load_record(MISUSED)
    assert record is not None
    messages = [event for event in record.events if isinstance(event, Utterance) and event.turn > 0]
    steps = [step for step in steps_of_trial(record) if step.kind in ("ask", "reply")]
    assert [(step.role, step.response) for step in steps] == [(event.role, event.text) for event in messages]
