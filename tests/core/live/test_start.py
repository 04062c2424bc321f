"""Watched consultations of the reference cast, from start to the stored trial and back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.case import Case
from core.datasets.library import demonstration, library
from core.datasets.select import cases_of
from core.errors import AnamnesisError, UsageError
from core.events import PASSING, Assessed, Ended, Finished, Graded, Started, Utterance
from core.frameworks.base import Campaign, framework
from core.frameworks.casting import CastNames
from core.frameworks.conversation import END_HERE, GO_ON
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.speech import END_RULE
from core.journal import journal_path, read_header, spoken_in
from core.live import session as live_session
from core.live.session import Session
from core.live.start import all_unfinished, load_trial, one_case, resume_consultation, start_consultation, start_replay
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import running
from tests.support.replies import Reply

CAST = CastNames("reference/bayes")


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))


@pytest.fixture(scope="module")
def case() -> Case:
    return cases_of("library")[0]


def begin(case: Case, names: CastNames = CAST) -> Session:
    arms = (("multi_turn", "frq"), ("vignette", "mcq"))
    session = start_consultation(one_case(Campaign(names=names, cases=(case,), arms=arms), case))
    session.speed = 1000.0
    return session


@pytest.mark.slow
def test_a_finished_consultation_is_stored_and_loads_as_the_same_events(case: Case) -> None:
    session = begin(case)
    session.join(60)
    assert session.error is None
    events = session.snapshot()
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert {event.verdict for event in events if isinstance(event, Graded)} <= {"correct", "incorrect"}
    assert not any(isinstance(event, PASSING) for event in events)

    loaded = load_trial(session.key)
    assert loaded is not None
    stored_case, stored, _ = loaded
    assert stored_case == case
    assert stored == events

    again = start_replay(case, stored, session.key)
    again.speed = 1000.0
    again.join(60)
    assert again.snapshot() == events
    assert again.key != session.key


def test_a_stopped_consultation_is_not_stored(case: Case) -> None:
    session = begin(case)
    session.pause()
    session.stop()
    session.join(30)
    assert not session.running
    assert load_trial(session.key) is None


def test_a_model_that_is_stopped_within_a_reply_is_asked_nothing_more_and_leaves_nothing_open(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with running(lambda body: Reply("How long have you had this? " * 40, piece_delay_s=0.01)) as provider:
        settings = CraftMdSettings(base_url=provider.base_url)
        campaign = Campaign(
            names=beside_rules("openai/mine"), cases=(case,), arms=(("multi_turn", "frq"),), settings=settings
        )
        session = start_consultation(one_case(campaign, case))
        while session.draft is None or len(session.draft.text) < 20:
            session.join(0.01)
        session.pause()  # the session stops between two pieces of the reply
        session.join(0.1)
        session.stop()
        session.join(30)
        requests = len(provider.bodies)
    assert (session.running, session.error, requests) == (False, None, 1)
    assert session.replies is not None
    assert not session.replies.in_flight
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.slow
def test_the_same_seed_gives_the_same_conversation_in_another_run(case: Case) -> None:
    first, second = begin(case), begin(case)
    first.join(60)
    second.join(60)
    assert first.key != second.key
    texts = [[event.text for event in s.snapshot() if isinstance(event, Utterance)] for s in (first, second)]
    assert texts[0] == texts[1]
    assert load_trial(first.key) is not None
    assert load_trial(second.key) is not None


@pytest.mark.slow
def test_the_demonstration_cases_play_as_described() -> None:
    """Each takes five to twelve questions; four are solved by talking, and the last one only on paper."""
    by_key = {case.case_key: case for case in library()}
    cases = [by_key[key] for key in demonstration()]
    assert len({case.specialty for case in cases}) == len(cases) == 5
    verdicts = []
    for case in cases:
        session = begin(case)
        session.join(60)
        events = session.snapshot()
        assert 5 <= framework().speech.questions(events) <= 12
        verdicts.append({event.format: event.verdict for event in events if isinstance(event, Graded)})
        description = demonstration()[case.case_key].lower()
        assert not [name for name in (case.answer, *case.synonyms) if name.lower() in description]
    assert {verdict["vignette"] for verdict in verdicts} == {"correct"}
    assert [verdict["multi_turn"] for verdict in verdicts] == [*["correct"] * 4, "incorrect"]


@pytest.mark.slow
def test_people_in_both_seats_have_a_consultation_that_is_stored(case: Case) -> None:
    session = begin(case, CastNames("human", "human"))
    lines = {"patient": iter(["My chest hurts.", "Yes."]), "doctor": iter(["Is it worse lying down?"])}
    while session.running:
        waiting = session.waiting
        if waiting is not None:
            # the doctor ends the conversation at once, then answers whatever is asked
            words = next(lines[waiting.role], f"Final Diagnosis: {case.answer}")
            session.say(waiting.role, words)
        session.join(0.05)
    assert session.error is None
    assert [turn.text for turn in session.dialogue][1:4] == ["My chest hurts.", "Is it worse lying down?", "Yes."]
    loaded = load_trial(session.key)
    assert loaded is not None
    assert loaded[1] == session.snapshot()


def answer_as_doctor(session: Session, *lines: str) -> None:
    """Play the doctor with these lines, the decisions included; afterwards answer with Final Diagnosis."""
    remaining = iter(lines)
    while session.running:
        if (waiting := session.waiting) is not None:
            session.say(waiting.role, next(remaining, "Final Diagnosis: none"), waiting.prompt)
        session.join(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["craftmd", "consultation"])
def test_a_person_without_a_question_mark_is_asked_and_the_rule_is_stored(case: Case, protocol: str) -> None:
    arms = (("multi_turn", "mcq"),)
    campaign = Campaign(names=CastNames("human"), cases=(case,), arms=arms, protocol=protocol)
    session = start_consultation(one_case(campaign, case))
    session.speed = 1000.0
    answer_as_doctor(session, "Tell me more about the pain.", GO_ON, "Thank you.", END_HERE)
    assert session.error is None
    events = session.snapshot()
    number = next(e.turn for e in events if isinstance(e, Utterance) and e.text == "Tell me more about the pain.")
    assert [e for e in events if isinstance(e, Assessed)] == [
        Assessed(name=END_RULE, turn=number, values=("no_question",))
    ]
    assert [e.reason for e in events if isinstance(e, Ended)] == ["no_question"]
    assert session.dialogue[number + 1].role == "patient", "the patient answered the message"
    assert session.dialogue[-1].text == "Thank you."
    loaded = load_trial(session.key)
    assert loaded is not None
    assert loaded[1] == events


def test_the_cap_counts_the_messages_of_a_person_who_goes_on(case: Case) -> None:
    settings = framework("craftmd").settings(max_messages=4)  # the doctor's prompt, greeting, reply, one message
    campaign = Campaign(names=CastNames("human"), cases=(case,), arms=(("multi_turn", "mcq"),), settings=settings)
    session = start_consultation(one_case(campaign, case))
    session.speed = 1000.0
    answer_as_doctor(session, "Tell me more.", GO_ON)
    assert [e.reason for e in session.snapshot() if isinstance(e, Ended)] == ["turn_cap"]
    assert len(session.dialogue) == 3


def test_a_seat_that_a_person_left_open_is_closed_and_can_be_resumed(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_session, "LEFT_OPEN_S", 0.2)
    session = begin(case, CastNames("human"))
    session.join(30)
    assert not session.running
    assert session.error is not None
    assert "nobody answered" in session.error
    assert load_trial(session.key) is None
    fold(Store())
    assert session.key in [trial for _, trial in all_unfinished()]


def test_messages_of_people_are_reused_when_a_stopped_consultation_is_resumed(case: Case) -> None:
    def with_messages(session: Session, messages: int) -> Session:
        deadline = time.monotonic() + 60
        while session.waiting is None or len(session.dialogue) < messages:
            assert time.monotonic() < deadline
            session.join(0.02)
        return session

    session = begin(case, CastNames("reference/bayes", "human"))
    session.say("patient", "My chest hurts.")
    with_messages(session, 3)
    header = read_header(journal_path(session.meta["header"].run_id))  # as another process reads it after a kill
    assert spoken_in(journal_path(header.run_id), session.key) == [("patient", "My chest hurts.")]
    session.stop()
    session.join(30)
    again = resume_consultation(header)
    again.speed = 1000.0
    assert with_messages(again, 3).dialogue == session.dialogue
    assert (again.key, again.spoken) == (session.key, [("patient", "My chest hurts.")])
    again.say("patient", "It began yesterday.")
    with_messages(again, 5).stop()
    again.join(30)
    both = [("patient", "My chest hurts."), ("patient", "It began yesterday.")]
    assert spoken_in(journal_path(header.run_id), session.key) == both, "a repeated message is not stored twice"
    fold(Store())
    assert session.key in [trial for _, trial in all_unfinished()]


def test_a_message_that_cannot_be_stored_is_not_sent(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise AnamnesisError("The journal cannot be written: make room.")

    session = begin(case, CastNames("reference/bayes", "human"))
    assert session.replies is not None
    monkeypatch.setattr(session.replies.journal, "append", full)
    session.say("patient", "My chest hurts.")
    session.join(30)
    assert session.error is not None
    assert "make room" in session.error
    assert session.unsent == "My chest hurts."
    assert "My chest hurts." not in [turn.text for turn in session.dialogue]


def test_a_model_without_its_key_does_not_start(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        begin(case, CastNames("openai/gpt-4o"))


def test_a_missing_trial_is_none() -> None:
    assert load_trial("0" * 20) is None


def test_a_stored_trial_has_the_case_and_cast_of_its_run() -> None:
    store = Store()
    original = a_case(1, vignette="As it was then.")
    write_journal(store.journals, "run", a_header(cases=[original], settings={"persona": "terse"}), a_trial())
    later = a_header("later", cases=[a_case(1, vignette="It was rewritten since.")], created_at=200.0)
    fold(store)
    write_journal(store.journals, "later", later)
    fold(store)
    loaded = load_trial("run/1/0")
    assert loaded is not None
    stored_case, _, trial = loaded
    assert stored_case == original
    assert (trial.run.doctor, trial.run.settings) == ("openai/a", {"persona": "terse"})
