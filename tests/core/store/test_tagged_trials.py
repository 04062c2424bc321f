"""AutoMedic's trials in the store: found by their words, and in no measure that knows a doctor and a patient only."""

from __future__ import annotations

import pytest

from core.events import Failed
from core.frameworks.consultation.measures.history_taking import HISTORY
from core.frameworks.consultation.measures.summary import read_doctors
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import wrong_answers
from core.store.queries.fact_judgements import Judge, judged_sums, talks_to_judge
from core.store.queries.probes import probed_conversations
from core.store.queries.scores import unmeasured
from core.store.queries.trials import conversation_ids, conversations
from core.store.queries.utterances import first_matches
from core.store.selection import Selection
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.tagged import MISUSED, RUN, STAFF_SAYS, UNTAGGED, store_tagged

NAMED = Selection(runs=[RUN])
JUDGE = Judge("openai/j", "p1")


@pytest.fixture
def held(store: Store) -> Store:
    """One conversation of CRAFT-MD, which was capped, and two of AutoMedic."""
    talk = [
        Utterance(turn=0, role="doctor", text="Hello, what brings the patient in?"),
        Utterance(turn=1, role="patient", text="An itch."),
        Ended(reason="turn_cap", doctor_turns=0),
        Finished(at=2.0),
    ]
    header = a_header("run", [a_case(1)], trials=1)
    write_journal(store.journals, "run", header, a_trial(talk, trial_id="run/1/0"))
    return store_tagged(store)


def found(store: Store, **wanted: object) -> set[str]:
    with store.read() as cursor:
        return set(conversation_ids(cursor, Selection(**wanted)))


def test_words_are_found_by_speaker_and_a_tag_is_no_word(held: Store) -> None:
    assert found(held, text="heart auscultation") == {MISUSED}
    assert found(held, text="auscultation", speaker="staff") == {MISUSED}
    assert found(held, text="auscultation", speaker="patient") == set()
    assert found(held, text="patient", speaker="doctor") == {"run/1/0", MISUSED}, "one writes “Patient:”"
    assert found(held, text="clinical") == set()
    assert found(held, text="<patient>") == set()
    assert found(held, text="brings") == {"run/1/0", UNTAGGED}
    with held.read() as cursor:
        assert first_matches(cursor, [MISUSED], "auscultation", "staff") == {MISUSED: STAFF_SAYS}
        said = first_matches(cursor, [MISUSED], "patient")
    assert said[MISUSED].endswith("Patient: For two days, doctor.")


def test_a_listed_conversation_names_its_protocol(held: Store) -> None:
    with held.read() as cursor:
        listed = {talk.trial_id: talk.protocol for talk in conversations(cursor)}
    assert listed == {"run/1/0": "craftmd", MISUSED: "automedic", UNTAGGED: "automedic"}


def test_history_taking_leaves_them_out(held: Store) -> None:
    assert set(read_doctors(held)["case_key"]) <= {"ours/1"}
    with held.read() as cursor:
        assert unmeasured(cursor, HISTORY, NAMED) == []


def test_facts_causes_and_belief_leave_them_out_where_their_run_is_named_too(held: Store) -> None:
    with held.read() as cursor:
        assert talks_to_judge(cursor, JUDGE, NAMED, which="all") == []
        assert judged_sums(cursor, None, NAMED).empty
        assert wrong_answers(cursor, NAMED, "mcq_strict") == []
        assert probed_conversations(cursor, NAMED) == []
        assert [talk.trial_id for talk in talks_to_judge(cursor, JUDGE, which="all")] == ["run/1/0"]


def test_a_rating_that_failed_is_no_failure_of_the_trial(store: Store) -> None:
    talk = [
        Utterance(turn=0, role="doctor", text="<patient>How are you?</patient>"),
        Utterance(turn=1, role="patient", text="Well."),
        Ended(reason="turn_cap", doctor_turns=1),
        Failed(where="rating", failure="server", message="The provider failed."),
        Finished(at=2.0),
    ]
    header = a_header("run", [a_case(1)], trials=1, protocol="automedic")
    write_journal(store.journals, "run", header, a_trial(talk, trial_id="run/1/0"))
    fold(store)
    with store.read() as cursor:
        (one,) = conversations(cursor, Selection(runs=["run"]))
        kept = cursor.execute("SELECT failure FROM trials").fetchall()
    assert one.end_reason == "turn_cap"
    assert kept == [(None,)]
