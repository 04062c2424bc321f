"""The table of scores: trials that a measure has not scored yet, scores that count, means over a case's trials."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from core.measures.base import Measure, Record
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.fact_sets import save_facts
from core.store.queries.history_items import add_items, cases_without_items, newest_items
from core.store.queries.scores import (
    Evidence,
    Lists,
    Reader,
    Score,
    Trials,
    add_scores,
    case_means,
    evidence,
    lists_of,
    unmeasured,
)
from core.store.selection import Selection
from core.store.tables import CaseListRow
from tests.core.store.builders import Ended, Failed, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of

ITEMS = '[{"key":"lump","value":"nodule","topic":"other"}]'


class Toy(Measure):
    name = "toy"

    def scores(self, record: Record) -> tuple[Score, ...]:
        return ()


class ByItems(Toy):
    reads: ClassVar[Trials] = "whole"
    against: ClassVar[Lists | None] = "items"


def fill(store: Store) -> None:
    """Model a: case 1 with a finished and a broken trial, case 2 without a reply. Model b: case 1, up to the cap."""
    hello, lump = Utterance(turn=0, role="doctor", text="Hello?"), Utterance(turn=1, role="patient", text="A lump.")
    broken = Failed(where="doctor", failure="server", message="The provider failed.")
    conversations = (
        ("run/1/0", "ours/1", [hello, lump, Ended(reason="final_diagnosis", doctor_turns=0), Finished()]),
        ("run/1/1", "ours/1", [hello, lump, broken, Ended(reason="error", doctor_turns=0)]),
        ("run/2/0", "ours/2", [hello, Ended(reason="no_question", doctor_turns=0), Finished()]),
    )
    trials = [a_trial(events, trial_id=t, case_key=c) for t, c, events in conversations]
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), *trials)
    write_journal(
        store.journals,
        "other",
        a_header("other", doctor="openai/b", cases=[a_case(1)]),
        a_trial(
            [hello, lump, Ended(reason="turn_cap", doctor_turns=0), Finished()],
            trial_id="other/1/0",
            run_id="other",
            case_key="ours/1",
        ),
    )
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def missing(store: Store, measure: Reader, selection: Selection | None = None) -> list[str]:
    with store.read() as cursor:
        return [trial.trial_id for trial in unmeasured(cursor, measure, selection)]


def save_missing(store: Store, measure: Reader, **scores: list[Score]) -> None:
    """Save scores of all unmeasured trials: ``run_1_0`` are those of trial "run/1/0"; other trials get none."""
    with store.read() as cursor:
        todo = unmeasured(cursor, measure)
    with store.write() as connection:
        add_scores(connection, measure, [(trial, scores.get(trial.trial_id.replace("/", "_"), [])) for trial in todo])


def add(store: Store, number: int = 1, text: str = ITEMS, made_by: str = "rules-1", at: float = 1.0) -> None:
    with store.write() as connection:
        add_items(connection, [CaseListRow(f"ours/{number}", a_case(number).content_hash, "items", text, made_by, at)])


@pytest.mark.slow
def test_a_measure_says_which_trials_it_reads(filled: Store) -> None:
    trial_ids = {
        reads: missing(filled, type("Reads", (Toy,), {"reads": reads})())
        for reads in ("all", "replies", "consultations", "whole")
    }
    assert trial_ids == {
        "all": ["other/1/0", "run/1/0", "run/1/1", "run/2/0"],
        "replies": ["other/1/0", "run/1/0", "run/1/1"],
        "consultations": ["other/1/0", "run/1/0", "run/1/1", "run/2/0"],
        "whole": ["other/1/0", "run/1/0", "run/2/0"],
    }
    assert missing(filled, Toy(), Selection(models=["openai/b"])) == ["other/1/0"]
    assert missing(filled, Toy(), Selection(runs=["run"], formats=["vignette"])) == ["run/1/0", "run/1/1", "run/2/0"]


def test_a_trial_without_scores_is_measured_all_the_same(filled: Store) -> None:
    save_missing(filled, Toy())
    assert missing(filled, Toy()) == []


@pytest.mark.slow
def test_scores_count_for_one_version_and_one_list_of_the_case(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = ByItems()
    save_missing(filled, measure)
    assert missing(filled, measure) == []
    add(filled, 2)
    assert missing(filled, measure) == ["run/2/0"], "its case has a list now"
    save_missing(filled, measure)
    add(filled, 2, ITEMS.replace("nodule", "node"), at=2.0)
    assert missing(filled, measure) == ["run/2/0"]
    monkeypatch.setattr(ByItems, "version", "2")
    assert missing(filled, measure) == ["other/1/0", "run/1/0", "run/2/0"]


def test_lists_of_another_kind_change_nothing(filled: Store) -> None:
    save_missing(filled, ByItems())
    with filled.write() as connection:
        save_facts(connection, a_case(1), [], "Ada")
    assert missing(filled, ByItems()) == []


def test_new_scores_replace_older_ones(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    save_missing(filled, Toy(), run_1_0=[Score("words", 3.0)])
    monkeypatch.setattr(Toy, "version", "2")
    save_missing(filled, Toy(), run_1_0=[Score("words", 4.0, series=(1.0, None, 4.0))])
    sql = "SELECT measure_version, value, series FROM scores WHERE trial_id = 'run/1/0' AND name = 'words'"
    with filled.read() as cursor:
        assert cursor.execute(sql).fetchall() == [("2", 4.0, [1.0, None, 4.0])]


def test_means_are_over_the_trials_of_a_case_and_left_out_trials_are_counted(filled: Store) -> None:
    with filled.read() as cursor:
        todo = [trial for trial in unmeasured(cursor, Toy()) if trial.trial_id != "run/2/0"]
    scores = {"run/1/0": [Score("words", 3.0)], "run/1/1": [Score("words", 5.0)], "other/1/0": [Score("words", None)]}
    with filled.write() as connection:
        add_scores(connection, Toy(), [(trial, scores[trial.trial_id]) for trial in todo])
    with filled.read() as cursor:
        means, counts = case_means(cursor, Toy())
    rows = means.set_index(["model", "case_key"])
    assert tuple(rows.loc[("openai/a", "ours/1"), ["mean", "n", "n_broken", "trials"]]) == (4.0, 2, 1, 2)
    assert rows.loc[("openai/b", "ours/1"), "n"] == 0
    assert counts.to_dict("records") == [
        {"model": "openai/a", "broken": 1, "trials": 3, "missing": 1},
        {"model": "openai/b", "broken": 0, "trials": 1, "missing": 0},
    ]


def test_evidence_comes_piece_by_piece(filled: Store) -> None:
    pieces = (Evidence(1, "A lump.", 0, "patient's words"), Evidence(None, "of no message"))
    save_missing(filled, Toy(), run_1_0=[Score("words", 3.0, pieces)], run_1_1=[Score("words", 5.0)])
    with filled.read() as cursor:
        rows = evidence(cursor, Toy())
    assert [(row["trial_id"], row["value"]) for row in rows] == [("run/1/0", 3.0)] * 2
    assert [Evidence(*(row[name] for name in Evidence._fields)) for row in rows] == list(pieces)


def test_the_newest_list_of_a_case_counts(filled: Store) -> None:
    add(filled, 1, at=2.0, made_by="openai/p")
    add(filled, 1, "[]", at=1.0)
    add(filled, 2)
    keys = [(f"ours/{n}", a_case(n).content_hash) for n in (1, 2, 9)]
    with filled.read() as cursor:
        assert [i.made_by for i in newest_items(cursor, ["ours/1"])] == ["openai/p"]
        assert [i.case_key for i in newest_items(cursor)] == ["ours/1", "ours/2"]
        assert newest_items(cursor, ["ours/9"]) == []
        assert lists_of(cursor, "items", keys) == dict.fromkeys(keys[:2], ITEMS)


def test_cases_without_items_are_those_of_stored_trials(filled: Store) -> None:
    with filled.read() as cursor:
        assert [c.case_key for c in cases_without_items(cursor)] == ["ours/1", "ours/2"]
    add(filled, 1)
    with filled.read() as cursor:
        assert [c.case_key for c in cases_without_items(cursor)] == ["ours/2"]


def test_items_by_an_earlier_version_of_the_rules_are_to_be_made_again(filled: Store) -> None:
    add(filled, 1)
    add(filled, 2, made_by="openai/p")
    with filled.read() as cursor:
        assert cases_without_items(cursor, rules=["rules-1", "profile-1"]) == []
        assert [c.case_key for c in cases_without_items(cursor, rules=["rules-2", "profile-1"])] == ["ours/1"]


def test_a_measure_without_scores_is_none() -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (Measure,), {"name": "empty"})()
