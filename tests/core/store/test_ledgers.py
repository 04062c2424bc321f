"""The table of summaries: which conversations lack one, and sums by model, case and topic."""

from __future__ import annotations

import orjson
import pytest

from core.store.database import Store
from core.store.fold import fold
from core.store.queries.facts import StoredLedger, add_ledgers, summaries, talk_sums, topic_sums, unmarked
from core.store.selection import Selection
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal


@pytest.fixture
def filled(store: Store) -> Store:
    """A campaign with three conversations about one case, of which one broke off, and a live one."""
    for run, source, reasons in (
        ("a", "local", ("final_diagnosis", "turn_cap", "error")), ("live", "live", ("no_question",)),
    ):  # fmt: skip
        lines = [
            a_trial([Utterance(turn=0, role="doctor", text="Hi?"), Ended(reason=reason, doctor_turns=1), Finished()],
                    trial_id=f"{run}/{n}", run_id=run, trial=n)
            for n, reason in enumerate(reasons)
        ]  # fmt: skip
        write_journal(store.journals, run, a_header(run, [a_case()], source=source), *lines)
    fold(store)
    return store


def summary(never: int, *, leaked: tuple[int, ...] = ()) -> str:
    topic = {"topic": "onset", "facts": 3, "asked": 3 - never, "volunteered": 0, "never_elicited": never}
    facts = {"never": never, "unasked": never, "leaked": leaked, "coverage": 0.5, "turns": 4}
    return orjson.dumps({"topics": [topic], "facts": facts}).decode()


def keep(store: Store, version: str, *found: tuple[str, str]) -> int:
    with store.read() as cursor:
        hashes = {u.trial_id: u.facts_hash for u in unmarked(cursor, version)}
    with store.write() as connection:
        return add_ledgers(connection, [StoredLedger(trial, hashes[trial], text, 1.0) for trial, text in found])


def test_campaigns_count_unless_runs_are_named(filled: Store) -> None:
    with filled.read() as cursor:
        assert [u.trial_id for u in unmarked(cursor, "1")] == ["a/0", "a/1", "a/2"]
        assert [u.trial_id for u in unmarked(cursor, "1", Selection(runs=["live"]))] == ["live/0"]
        assert len(unmarked(cursor, "1", Selection(formats=["vignette"]))) == 3, "a conversation belongs to no arm"
        assert unmarked(cursor, "1", Selection(specialties=["Cardiology"])) == []


def test_one_summary_is_kept_for_a_conversation_and_version(filled: Store) -> None:
    with filled.read() as cursor:
        (first, *_) = unmarked(cursor, "1")
    row = StoredLedger(first.trial_id, first.facts_hash, summary(1), 1.0)
    with filled.write() as connection:
        assert add_ledgers(connection, [row]) == 1
        assert add_ledgers(connection, [row]) == 0
        assert add_ledgers(connection, []) == 0
    with filled.read() as cursor:
        assert [u.trial_id for u in unmarked(cursor, "1")] == ["a/1", "a/2"]
        assert len(unmarked(cursor, "2")) == 3
        assert [trial for trial, _ in summaries(cursor, "1")] == ["a/0"]


def test_sums_leave_out_what_broke_off(filled: Store) -> None:
    keep(filled, "1", ("a/0", summary(1, leaked=(3,))), ("a/2", summary(3, leaked=(3, 5))))
    with filled.read() as cursor:
        (talk,) = talk_sums(cursor, "1").to_dict("records")
        (topic,) = topic_sums(cursor, "1").to_dict("records")
    assert (talk["marked"], talk["missing"], talk["broken"], talk["unmarked"]) == (1, 1, 1, 1)
    assert talk["with_leaked"] == 1
    assert (topic["topic"], topic["facts"], topic["asked"], topic["never_elicited"]) == ("onset", 3, 2, 1)
    assert (topic["model"], topic["dataset"], topic["specialty"]) == ("openai/a", "ours", "Dermatology")
