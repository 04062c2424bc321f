"""Stored conversations are measured once, in parcels that can be stopped, and again if their case has new items."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.case import Case
from core.events import Ended, Finished, Started, Utterance
from core.frameworks.consultation.measures.history_taking import HISTORY
from core.frameworks.consultation.measures.summary import measure_rows, read_history, report
from core.measures import measuring
from core.measures.base import MetricRequest
from core.measures.measuring import measure_trials
from core.measures.notes import result_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.history_items import stored_items
from core.text.case_items import ItemSet
from tests.core.frameworks.consultation.measures.dialogues import COUGH, COUGH_ITEMS, HASTY, an_item, save_items
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of, count_unmeasured

VIGNETTE = "A 40-year-old man comes to the clinic because of a cough for two weeks. He takes aspirin."


def fill(store: Store) -> None:
    """Store two trials of each of two cases: the dialogues COUGH and HASTY."""
    trials = [
        a_trial(
            [
                Started(trial_id=f"run/{case}/{n}", case_key=f"ours/{case}", trial=n, seed=7, at=1.0),
                *(Utterance(turn=i, role=turn.role, text=turn.text) for i, turn in enumerate(turns)),
                Ended(reason="final_diagnosis", doctor_turns=1),
                Finished(at=2.0),
            ],
            trial_id=f"run/{case}/{n}",
            case_key=f"ours/{case}",
            trial=n,
        )
        for case in (1, 2)
        for n, turns in enumerate((COUGH, HASTY))
    ]
    write_journal(store.journals, "run", a_header(cases=[the_case(1), the_case(2)]), *trials)
    fold(store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def the_case(number: int) -> Case:
    return a_case(number, vignette=VIGNETTE, profile=None)


@pytest.mark.slow
def test_every_conversation_is_measured_once(store: Store) -> None:
    reports: list[tuple[int, int]] = []
    assert measure_trials(store, [HISTORY], progress=lambda done, of: reports.append((done, of))) == 4
    assert reports == [(4, 4)]
    assert measure_trials(store, [HISTORY]) == 0
    assert count_unmeasured(store, HISTORY) == 0


def test_the_figures_are_those_of_the_conversations(store: Store) -> None:
    save_items(store, the_case(1), COUGH_ITEMS)
    measure_trials(store, [HISTORY])

    rows = {r["measure"]: r for r in measure_rows(read_history(store))}

    # both cases have the same two conversations: 2 and 1 turns of the doctor; HASTY has no question
    assert rows["doctor_turns"].estimate == 1.5
    assert (rows["doctor_words"].estimate, rows["doctor_words"]["n_conversations"]) == (5, 2)
    assert (rows["repetition_1"]["n_conversations"], rows["repetition_1"]["n_without"]) == (0, 4)
    table = read_history(store).set_index("case_key")
    # values: 40 year old man cough for two week; COUGH has 4 of 8 (counted in test_measures), HASTY none
    assert table.loc["ours/1", "patient_recall"] == pytest.approx((4 / 8 + 0) / 2)
    points = read_history(store, curves=True).set_index("case_key")
    assert points.loc["ours/1", "patient_recall_at_0"] == pytest.approx((1 / 8 + 0) / 2)


@pytest.mark.slow
def test_the_scores_before_a_stop_are_stored_and_the_next_call_continues(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "PARCEL", 1)
    reports: list[int] = []
    measured = measure_trials(
        store, [HISTORY], progress=lambda done, of: reports.append(done), stop=lambda: len(reports) == 3
    )
    assert (measured, reports) == (3, [1, 2, 3])
    assert count_unmeasured(store, HISTORY) == 1
    assert measure_trials(store, [HISTORY]) == 1


def test_a_stop_before_the_beginning_measures_nothing(store: Store) -> None:
    assert measure_trials(store, [HISTORY], stop=lambda: True) == 0
    assert set(read_history(store)["missing"]) == {2}


def test_new_items_of_a_case_make_its_conversations_missing(store: Store) -> None:
    measure_trials(store, [HISTORY])
    by_rule = stored_items(store, the_case(1))
    assert by_rule is not None
    assert by_rule.made_by.startswith("rules-")
    save_items(store, the_case(1), [an_item("cough", "a cough")])
    assert stored_items(store, the_case(1)) == ItemSet((an_item("cough", "a cough"),), "openai/p")
    (note,) = (n for n in result_of(report, MetricRequest(store)).notes if n.kind == "not_measured")
    assert ("2 conversations" in note.text, note.severity) == (True, "high")
    assert measure_trials(store, [HISTORY]) == 2
    assert "not_measured" not in {n.kind for n in result_of(report, MetricRequest(store)).notes}
    # values: a cough; the patient of COUGH says one of the two words, that of HASTY none
    assert read_history(store).set_index("case_key").loc["ours/1", "patient_recall"] == pytest.approx((1 / 2 + 0) / 2)


def test_items_of_another_content_of_the_case_do_not_count(store: Store) -> None:
    changed = the_case(1).model_copy(update={"vignette": "Another text."})
    save_items(store, changed, COUGH_ITEMS)
    assert stored_items(store, the_case(1)) is None
    assert stored_items(store, changed) is not None


def test_measures_are_stored_as_scores(store: Store) -> None:
    measure_trials(store, [HISTORY])
    sql = "SELECT trial_id, value FROM scores WHERE measure = 'history_taking' AND name = 'doctor_turns' ORDER BY ALL"
    with store.read() as cursor:
        assert cursor.execute(sql).fetchall() == [("run/1/0", 2), ("run/1/1", 1), ("run/2/0", 2), ("run/2/1", 1)]
