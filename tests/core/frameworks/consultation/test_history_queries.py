"""Means of history taking over the conversations of a case."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest

from core.events import Ended, EndReason, Event, Finished, Started, Utterance
from core.frameworks.consultation.measures.history_taking import HISTORY
from core.frameworks.consultation.queries import history_means
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.history_items import add_items
from core.store.queries.scores import Score, add_scores, unmeasured
from core.store.selection import Selection
from core.store.tables import CaseListRow
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of

ITEMS = '[{"key":"lump","value":"nodule","topic":"other"}]'


def a_conversation(trial_id: str, case_key: str, reason: EndReason = "final_diagnosis") -> Iterable[Event]:
    return [
        Started(trial_id=trial_id, case_key=case_key, trial=0, seed=7, at=1.0),
        Utterance(turn=0, role="doctor", text="Hello?"),
        Utterance(turn=1, role="patient", text="A lump."),
        Ended(reason=reason, doctor_turns=0),
        Finished(at=2.0),
    ]


def fill(store: Store) -> None:
    """Model a: two trials of case 1, one of which broke off, and one of case 2. Model b: one trial of case 1."""
    conversations = (
        ("run/1/0", "ours/1", "final_diagnosis"),
        ("run/1/1", "ours/1", "error"),
        ("run/2/0", "ours/2", "turn_cap"),
    )
    trials = [a_trial(a_conversation(t, c, r), trial_id=t, case_key=c) for t, c, r in conversations]  # type: ignore[arg-type]
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), *trials)
    write_journal(
        store.journals,
        "other",
        a_header("other", doctor="openai/b", cases=[a_case(1)]),
        a_trial(a_conversation("other/1/0", "ours/1"), trial_id="other/1/0", run_id="other"),
    )
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def add_scores_of_trials(store: Store, **scores_by_trial: list[Score]) -> None:
    """Store an item of case 1, and scores of trials: ``run_1_0`` has those of trial "run/1/0"."""
    with store.write() as connection:
        add_items(connection, [CaseListRow("ours/1", a_case(1).content_hash, "items", ITEMS, "rules-1", 1.0)])
    with store.read() as cursor:
        todo = {trial.trial_id.replace("/", "_"): trial for trial in unmeasured(cursor, HISTORY)}
    with store.write() as connection:
        add_scores(connection, HISTORY, [(todo[trial], scores) for trial, scores in scores_by_trial.items()])


def means(store: Store, selection: Selection | None = None) -> pd.DataFrame:
    with store.read() as cursor:
        table = history_means(cursor, HISTORY, ["queries", "patient_recall"], ["patient_recall"], ["onset"], selection)
    return table.set_index(["model", "case_key"])


def test_conversations_that_broke_off_are_not_measured(filled: Store) -> None:
    with filled.read() as cursor:
        assert [u.trial_id for u in unmeasured(cursor, HISTORY)] == ["other/1/0", "run/1/0", "run/2/0"]


def test_means_are_taken_over_the_conversations_of_a_case(filled: Store) -> None:
    curve = (0.5, None, *[0.75] * 8, 1.0)
    add_scores_of_trials(
        filled,
        other_1_0=[Score("queries", 3), Score("patient_recall", 1.0, series=curve), Score("order onset", 0.25)],
        run_1_0=[Score("queries", None), Score("order onset", None)],
    )
    table = means(filled)
    first, other = table.loc[("openai/a", "ours/1")], table.loc[("openai/b", "ours/1")]
    assert (first["conversations"], first["excluded"], first["missing"], first["n_queries"]) == (1, 1, 0, 0)
    assert (first["told_onset"], other["told_onset"], other["order_onset"]) == (0, 1, 0.25)
    assert pd.isna(first["order_onset"])
    assert (other["queries"], other["n_queries"], other["patient_recall"]) == (3, 1, 1)
    assert [other[f"patient_recall_at_{i}"] for i in (0, 2, 10)] == [0.5, 0.75, 1]
    assert pd.isna(other["patient_recall_at_1"])
    assert (other["n_items"], other["dataset"], other["specialty"]) == (1, "ours", "Dermatology")
    unready = table.loc[("openai/a", "ours/2")]
    assert (unready["conversations"], unready["missing"], unready["n_queries"]) == (0, 1, 0)


def test_the_curve_of_f1_is_computed_for_each_conversation(filled: Store) -> None:
    """With recall .5 and precision 1, F1 is 2/3. Without words there is no precision; with recall 0, F1 is 0."""
    recall, precision = (0.0, 0.5, *[0.5] * 9), (None, 1.0, *[0.5] * 9)
    add_scores_of_trials(
        filled,
        other_1_0=[
            Score("patient_recall", 0.5, series=recall),
            Score("patient_precision", 0.5, series=precision),
            Score("patient_f1", 0.5),
        ],
    )
    with filled.read() as cursor:
        table = history_means(cursor, HISTORY, ["patient_f1"], ["patient_f1"], [])
    row = table.set_index(["model", "case_key"]).loc[("openai/b", "ours/1")]
    assert [row[f"patient_f1_at_{i}"] for i in (0, 1, 10)] == pytest.approx([0, 2 / 3, 0.5])


def test_without_scores_all_columns_exist(filled: Store) -> None:
    table = means(filled)
    assert list(table["missing"]) == [1, 1, 1]
    assert table[["queries", "patient_recall_at_10", "told_onset"]].isna().all(axis=None)


def test_live_conversations_count_only_if_they_are_selected(filled: Store) -> None:
    with filled.write() as connection:
        connection.execute("UPDATE runs SET source = 'live' WHERE run_id = 'other'")
    assert set(means(filled).reset_index()["model"]) == {"openai/a"}
    assert set(means(filled, Selection(runs=["other"])).reset_index()["model"]) == {"openai/b"}
