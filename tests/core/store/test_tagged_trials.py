"""AutoMedic's trials in the store: a search finds their text, and measures of a doctor and a patient leave them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import Failed
from core.frameworks.consultation.measures.history_taking import HISTORY
from core.frameworks.consultation.measures.summary import read_doctors
from core.jobs.judge import Judging
from core.measures.belief import BELIEFS
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import wrong_answers
from core.store.queries.judged_facts import judged_sums
from core.store.queries.scores import unmeasured
from core.store.queries.trials import conversation_ids, conversations
from core.store.queries.utterances import first_matches
from core.store.selection import Selection
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of
from tests.support.tagged import MISUSED, RUN, STAFF_SAYS, UNTAGGED, store_tagged

OF_AUTOMEDIC = Selection(runs=[RUN])


def store_three(store: Store) -> None:
    """One conversation of CRAFT-MD, ended by the cap, and two of AutoMedic."""
    conversation = [
        Utterance(turn=0, role="doctor", text="Hello, what brings the patient in?"),
        Utterance(turn=1, role="patient", text="An itch."),
        Ended(reason="turn_cap", doctor_turns=0),
        Finished(at=2.0),
    ]
    header = a_header("run", [a_case(1)], trials=1)
    write_journal(store.journals, "run", header, a_trial(conversation, trial_id="run/1/0"))
    store_tagged(store)


@pytest.fixture
def three_conversations(tmp_path: Path) -> Store:
    return copy_of(store_three, tmp_path)


def matches(store: Store, **filters: object) -> set[str]:
    with store.read() as cursor:
        return set(conversation_ids(cursor, Selection(**filters)))


def test_words_are_found_by_speaker_and_a_tag_is_no_word(three_conversations: Store) -> None:
    assert matches(three_conversations, text="heart auscultation") == {MISUSED}
    assert matches(three_conversations, text="auscultation", speaker="staff") == {MISUSED}
    assert matches(three_conversations, text="auscultation", speaker="patient") == set()
    assert matches(three_conversations, text="patient", speaker="doctor") == {"run/1/0", MISUSED}, (
        "a message of the doctor contains “Patient:”"
    )
    assert matches(three_conversations, text="clinical") == set()
    assert matches(three_conversations, text="<patient>") == set()
    assert matches(three_conversations, text="brings") == {"run/1/0", UNTAGGED}
    with three_conversations.read() as cursor:
        assert first_matches(cursor, [MISUSED], "auscultation", "staff") == {MISUSED: STAFF_SAYS}
        messages = first_matches(cursor, [MISUSED], "patient")
    assert messages[MISUSED].endswith("Patient: For two days, doctor.")


def test_a_listed_conversation_names_its_protocol(three_conversations: Store) -> None:
    with three_conversations.read() as cursor:
        listed = {conversation.trial_id: conversation.protocol for conversation in conversations(cursor)}
    assert listed == {"run/1/0": "craftmd", MISUSED: "automedic", UNTAGGED: "automedic"}


def test_history_taking_leaves_them_out(three_conversations: Store) -> None:
    assert set(read_doctors(three_conversations)["case_key"]) <= {"ours/1"}
    with three_conversations.read() as cursor:
        assert unmeasured(cursor, HISTORY, OF_AUTOMEDIC) == []


def test_facts_causes_and_belief_leave_them_out_even_if_their_run_is_selected(three_conversations: Store) -> None:
    with three_conversations.read() as cursor:
        assert judged_sums(cursor, None, OF_AUTOMEDIC).empty
        assert wrong_answers(cursor, OF_AUTOMEDIC, "mcq_strict") == []
        assert unmeasured(cursor, BELIEFS, OF_AUTOMEDIC) == []
    job = Judging("facts", ("openai/j",))
    assert [item.subject for item in job.plan(three_conversations, load_registry()).todo] == ["talk:run/1/0"]


def test_a_rating_that_failed_is_no_failure_of_the_trial(store: Store) -> None:
    conversation = [
        Utterance(turn=0, role="doctor", text="<patient>How are you?</patient>"),
        Utterance(turn=1, role="patient", text="Well."),
        Ended(reason="turn_cap", doctor_turns=1),
        Failed(where="rating", failure="server", message="The provider failed."),
        Finished(at=2.0),
    ]
    header = a_header("run", [a_case(1)], trials=1, protocol="automedic")
    write_journal(store.journals, "run", header, a_trial(conversation, trial_id="run/1/0"))
    fold(store)
    with store.read() as cursor:
        (conversation,) = conversations(cursor, Selection(runs=["run"]))
        failures = cursor.execute("SELECT failure FROM trials").fetchall()
    assert conversation.end_reason == "turn_cap"
    assert failures == [(None,)]
