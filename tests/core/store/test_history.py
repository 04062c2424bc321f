"""Items and measures in the database: the newest items count, and what is measured against older ones is missing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from core.events import Ended, EndReason, Event, Finished, Started, Utterance
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.history import (
    StoredItems,
    StoredMeasures,
    add_items,
    add_measures,
    case_means,
    cases_without_items,
    dialogues,
    newest_items,
    unmeasured,
)
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, write_journal

ITEMS = '[{"key":"lump","value":"nodule","topic":"other"}]'
STRUCTURE = {"queries": "DOUBLE", "curves": {"recall": ["DOUBLE"]}, "order": {"past history": "DOUBLE"}}


def a_talk(trial_id: str, case_key: str, reason: EndReason = "final_diagnosis") -> Iterable[Event]:
    return [
        Started(trial_id=trial_id, case_key=case_key, trial=0, seed=7, at=1.0),
        Utterance(turn=0, role="doctor", text="Hello?"),
        Utterance(turn=1, role="patient", text="A lump."),
        Ended(reason=reason, doctor_turns=0),
        Finished(at=2.0),
    ]


@pytest.fixture
def filled(store: Store) -> Store:
    """Model a: two trials of case 1, one of which broke off, and one of case 2. Model b: one trial of case 1."""
    talks = (
        ("run/1/0", "ours/1", "final_diagnosis"),
        ("run/1/1", "ours/1", "error"),
        ("run/2/0", "ours/2", "turn_cap"),
    )
    trials = [a_trial(a_talk(t, c, r), trial_id=t, case_key=c) for t, c, r in talks]  # type: ignore[arg-type]
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), *trials)
    write_journal(
        store.journals, "other", a_header("other", doctor="openai/b", cases=[a_case(1)]),
        a_trial(a_talk("other/1/0", "ours/1"), trial_id="other/1/0", run_id="other"),
    )  # fmt: skip
    fold(store)
    return store


def items(number: int = 1, text: str = ITEMS, made_by: str = "rules-1", at: float = 1.0) -> StoredItems:
    return StoredItems(f"ours/{number}", a_case(number).content_hash, text, made_by, at)


def add(store: Store, *new: StoredItems) -> None:
    with store.write() as connection:
        add_items(connection, new)


def missing(store: Store, selection: Selection | None = None, version: str = "v1") -> list[str]:
    with store.read() as cursor:
        return [u.trial_id for u in unmeasured(cursor, version, selection)]


def measure_all(store: Store, measures: str = '{"queries":3}') -> None:
    with store.read() as cursor:
        todo = unmeasured(cursor, "v1")
    with store.write() as connection:
        add_measures(connection, [StoredMeasures(u.trial_id, u.items_hash, measures, 1.0) for u in todo])


def test_the_newest_items_of_a_case_count(filled: Store) -> None:
    add(filled, items(at=2.0, made_by="openai/p"), items(at=1.0), items(2))
    with filled.read() as cursor:
        assert [i.made_by for i in newest_items(cursor, ["ours/1"])] == ["openai/p"]
        assert [i.case_key for i in newest_items(cursor)] == ["ours/1", "ours/2"]
        assert newest_items(cursor, ["ours/9"]) == []


def test_cases_without_items_are_those_of_selected_trials(filled: Store) -> None:
    with filled.read() as cursor:
        assert [c.case_key for c in cases_without_items(cursor)] == ["ours/1", "ours/2"]
        assert cases_without_items(cursor, Selection(models=["openai/b"])) == [a_case(1)]
    add(filled, items(1))
    with filled.read() as cursor:
        assert [c.case_key for c in cases_without_items(cursor)] == ["ours/2"]


def test_items_by_an_earlier_version_of_the_rules_are_to_be_made_again(filled: Store) -> None:
    add(filled, items(1, made_by="rules-1"), items(2, made_by="openai/p"))
    with filled.read() as cursor:
        assert cases_without_items(cursor, rules=["rules-1", "profile-1"]) == []
        assert [c.case_key for c in cases_without_items(cursor, rules=["rules-2", "profile-1"])] == ["ours/1"]


def test_only_whole_conversations_with_items_are_to_be_measured(filled: Store) -> None:
    assert missing(filled) == []
    add(filled, items(1), items(2))
    assert missing(filled) == ["other/1/0", "run/1/0", "run/2/0"]
    assert missing(filled, Selection(runs=["run"])) == ["run/1/0", "run/2/0"]
    assert missing(filled, Selection(models=["openai/b"])) == ["other/1/0"]


def test_what_was_measured_is_missing_again_after_new_items_or_a_new_version(filled: Store) -> None:
    add(filled, items(1), items(2))
    measure_all(filled)
    assert missing(filled) == []
    assert missing(filled, version="v2") == ["other/1/0", "run/1/0", "run/2/0"]
    add(filled, items(2, ITEMS.replace("nodule", "node"), "openai/p", at=2.0))
    assert missing(filled) == ["run/2/0"]


def test_measures_are_stored_once(filled: Store) -> None:
    add(filled, items(1))
    with filled.read() as cursor:
        trial = unmeasured(cursor, "v1")[0]
    row = StoredMeasures(trial.trial_id, trial.items_hash, "{}", 1.0)
    counts = []
    for _ in range(2):
        with filled.write() as connection:
            counts.append(add_measures(connection, [row]))
    assert counts == [1, 0]


def test_messages_come_in_their_order(filled: Store) -> None:
    with filled.read() as cursor:
        (found,) = dialogues(cursor, ["run/2/0", "no such trial"])
    assert (found.trial_id, [(t.role, t.text) for t in found.turns]) == (
        "run/2/0", [("doctor", "Hello?"), ("patient", "A lump.")],
    )  # fmt: skip


def test_means_are_taken_over_the_conversations_of_a_case(filled: Store) -> None:
    add(filled, items(1))
    with filled.read() as cursor:
        todo = unmeasured(cursor, "v1")
    told = {"other/1/0": '{"queries":3,"curves":{"recall":[0.5,null,1]},"order":{"past history":0.25}}',
            "run/1/0": '{"queries":null,"curves":{"recall":[0.25]}}'}  # fmt: skip
    with filled.write() as connection:
        add_measures(connection, [StoredMeasures(u.trial_id, u.items_hash, told[u.trial_id], 1.0) for u in todo])

    with filled.read() as cursor:
        table = case_means(cursor, "v1", STRUCTURE).set_index(["model", "case_key"])

    mine, other = table.loc["openai/a", "ours/1"], table.loc["openai/b", "ours/1"]
    assert (mine["conversations"], mine["excluded"], mine["missing"], mine["n_queries"]) == (1, 1, 0, 0)
    assert (other["queries"], other["recall_at_0"], other["recall_at_2"], other["order_past history"]) == (
        3,
        0.5,
        1,
        0.25,
    )
    assert other.isna()[["recall_at_1", "recall_at_3"]].all()
    assert (other["n_items"], other["dataset"], other["specialty"]) == (1, "ours", "Dermatology")
    unready = table.loc["openai/a", "ours/2"]
    assert (unready["conversations"], unready["missing"]) == (0, 1)


def test_live_conversations_count_only_where_they_are_asked_for(filled: Store) -> None:
    with filled.write() as connection:
        connection.execute("UPDATE runs SET source = 'live' WHERE run_id = 'other'")
    with filled.read() as cursor:
        assert set(case_means(cursor, "v1", STRUCTURE)["model"]) == {"openai/a"}
        assert set(case_means(cursor, "v1", STRUCTURE, Selection(runs=["other"]))["model"]) == {"openai/b"}
