"""The providers' names of the served models: part of the condition, counted by run when calls are folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from core.events import Answered, Event, Finished, Graded, Started
from core.journal import ReplyLine, TrialLine
from core.measures.accuracy import accuracy
from core.measures.condition_notes import Basis, notes_of
from core.measures.provenance import differing, settings_side_by_side, side_of
from core.store.conditions import Condition
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.calls import served_since
from core.store.queries.runs import run_records
from core.store.selection import Selection, conditions
from core.store.tallies import miscounted
from tests.core.store.builders import a_call, a_case, a_header, a_trial, graded, grades, write_journal
from tests.core.store.old import make_older

PLACE: dict[str, Any] = {"format": "multi_turn", "question_type": "frq"}
Calls = Sequence[tuple[str, str, str | None]]
"""(role, model, served by) of the calls of a trial."""


def trial(run_id: str, case: int, calls: Calls, verdict: str = "correct", *, at: float = 10.0) -> TrialLine:
    trial_id, case_key = f"{run_id}/{case}", a_case(case).case_key
    events: list[Event] = [
        Started(trial_id=trial_id, case_key=case_key, trial=0, seed=1, at=at),
        *(
            a_call(f"{trial_id}/{n}", role=role, model=model, served_by=served)
            for n, (role, model, served) in enumerate(calls)
        ),
        Answered(**PLACE, response="Eczema"),
        Graded(**PLACE, grader="openai/g", rule="frq", extracted=None, verdict=verdict, at=at),
        Finished(at=at),
    ]
    return a_trial(events, trial_id=trial_id, run_id=run_id, case_key=case_key, finished_at=at)


_seeds = iter(range(1000, 2000))


def store_run(store: Store, run_id: str, trials: Sequence[TrialLine], **changes: Any) -> None:
    """Store a run with a new seed, so that no run repeats another."""
    cases = [a_case(n) for n in range(1, 5)]
    header = a_header(run_id, cases, **{"arms": [("multi_turn", "frq")], "trials": 1, "seed": next(_seeds), **changes})
    write_journal(store.journals, run_id, header, *trials)
    fold(store)


def by_doctor(store: Store, run_id: str, *served: str | None, **changes: Any) -> None:
    """Store a run with one trial for each name in ``served``, which is the doctor's served model."""
    calls = [[("doctor", "openai/a", name)] for name in served]
    store_run(store, run_id, [trial(run_id, n, call, at=10.0 * n) for n, call in enumerate(calls, start=1)], **changes)


def names(store: Store) -> dict[str, tuple[str, ...]]:
    return {condition.name: condition.runs for condition in conditions(store)}


def only(store: Store, selection: Selection | None = None) -> Condition:
    (condition,) = conditions(store, selection)
    return condition


def test_runs_of_one_model_with_two_served_models_are_two_conditions(store: Store) -> None:
    by_doctor(store, "r", "gpt-4o-2024-05-13", "gpt-4o-2024-05-13")
    by_doctor(store, "s", "gpt-4o-2024-08-06", created_at=200.0)
    assert names(store) == {
        "openai/a · served as gpt-4o-2024-08-06": ("s",),
        "openai/a · served as gpt-4o-2024-05-13": ("r",),
    }


@pytest.mark.parametrize("unknown", [None, ""])
def test_an_unrecorded_name_splits_nothing(store: Store, unknown: str | None) -> None:
    by_doctor(store, "r", unknown)
    assert names(store) == {"openai/a": ("r",)}
    by_doctor(store, "s", "a-1", unknown)
    assert names(store) == {"openai/a": ("r", "s")}
    assert only(store).served == {"doctor": ("a-1",)}


@pytest.mark.slow
def test_a_run_without_a_name_stays_separate_from_two_served_models(store: Store) -> None:
    for run_id, served in (("r", None), ("s", "a-1"), ("t", "a-2")):
        by_doctor(store, run_id, served)
    assert names(store) == {"openai/a": ("r",), "openai/a · served as a-1": ("s",), "openai/a · served as a-2": ("t",)}


def test_a_run_that_was_served_under_two_names_is_one_condition_with_a_note(store: Store) -> None:
    by_doctor(store, "r", "a-1", "a-2")
    condition = only(store)
    assert (condition.name, condition.served) == ("openai/a", {"doctor": ("a-1", "a-2")})
    (note,) = (note for note in notes_of(Basis([condition], ())) if note.kind == "served")
    assert "a-1" in note.text
    assert "a-2" in note.text
    assert note.severity == "high"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["patient", "summariser"])
def test_the_served_models_of_other_seats_make_conditions_too(store: Store, role: str) -> None:
    model = {"patient": "openai/p", "summariser": "openai/s"}[role]
    for run_id, served in (("r", "x-1"), ("s", "x-2")):
        calls: Calls = [("doctor", "openai/a", "a-1"), (role, model, served)]
        store_run(store, run_id, [trial(run_id, 1, calls)], arms=[("multi_turn", "frq"), ("summarized", "frq")])
    assert set(names(store)) == {f"openai/a · {role} served as x-1", f"openai/a · {role} served as x-2"}


def test_the_names_of_different_patients_have_no_served_models(store: Store) -> None:
    for run_id, patient in (("r", "openai/p"), ("s", "openai/q")):
        calls: Calls = [("doctor", "openai/a", "a-1"), ("patient", patient, f"{patient}-1")]
        store_run(store, run_id, [trial(run_id, 1, calls)], patient=patient)
    assert set(names(store)) == {"openai/a · patient openai/p", "openai/a · patient openai/q"}


def test_only_the_graders_whose_verdicts_count_make_conditions(store: Store) -> None:
    """Grader g judges both runs. Grader h judges both again, with another served model at the second."""
    calls: Calls = [("doctor", "openai/a", "a-1"), ("grader", "openai/g", "g-1")]
    for run_id in ("r", "s"):
        store_run(store, run_id, [trial(run_id, 1, calls)])
    assert names(store) == {"openai/a": ("r", "s")}
    for run_id, served in (("r", "h-1"), ("s", "h-2")):
        call = a_call(f"{run_id}/again", role="grader", purpose="judge", model="openai/h", served_by=served).call
        new = graded("incorrect", grader="openai/h", at=20.0)
        reply = ReplyLine(run_id=run_id, trial_id=f"{run_id}/1", unit="again", key="k", number=0, place=0, call=call)
        write_journal(store.journals, run_id, reply, grades(f"{run_id}/1", new, run_id=run_id))
    fold(store)
    assert names(store) == {"openai/a · grader served as h-1": ("r",), "openai/a · grader served as h-2": ("s",)}


def test_answers_are_split_by_the_served_model_of_their_trial(store: Store) -> None:
    """Run r has two right trials with a-1, one wrong with a-2 and one wrong with both; run s has one served model."""
    two_models: Calls = [("doctor", "openai/a", "a-1"), ("doctor", "openai/a", "a-2")]
    trials = [
        *(trial("r", n, [("doctor", "openai/a", "a-1"), ("patient", "openai/p", "p")]) for n in (1, 2)),
        trial("r", 3, [("doctor", "openai/a", "a-2")], "incorrect"),
        trial("r", 4, two_models, "incorrect"),
    ]
    store_run(store, "r", trials)
    store_run(store, "s", [trial("s", 1, [("doctor", "openai/b", "b-1")])], doctor="openai/b")
    rows = {(row["model"], row["group"]): (row.estimate, row["n_trials"]) for row in accuracy(store, "served")}
    assert rows == {
        ("openai/a", "a-1"): (1.0, 2),
        ("openai/a", "a-2"): (0.0, 1),
        ("openai/a", "a-1 + a-2"): (0.0, 1),
        ("openai/b", "b-1"): (1.0, 1),
    }
    by_model = {row["model"]: (row.estimate, row["n_trials"]) for row in accuracy(store)}
    assert by_model == {"openai/a": (0.5, 4), "openai/b": (1.0, 1)}
    assert [row["n_trials"] for row in accuracy(store, "served", Selection(cases=["ours/3"]))] == [1]


def test_served_models_are_dated_by_their_first_trial(store: Store) -> None:
    by_doctor(store, "r", "late", "early", "late")
    by_doctor(store, "s", None, doctor="openai/b")
    with store.read() as cursor:
        assert served_since(cursor) == {
            ("openai/a", "late"): 10.0,
            ("openai/a", "early"): 20.0,
            ("openai/b", None): 10.0,
        }


def counted(store: Store) -> dict[tuple[str, ...], int]:
    sql = "SELECT run_id, role, model, served_by, sum(n) FROM served GROUP BY ALL HAVING sum(n) <> 0"
    with store.read() as cursor:
        return {tuple(row[:-1]): int(row[-1]) for row in cursor.execute(sql).fetchall()}


def test_calls_are_counted_as_they_come_in_and_in_an_older_database(store: Store) -> None:
    by_doctor(store, "r", "a-1", "a-1", None)
    write_journal(store.journals, "r", trial("r", 4, [("doctor", "openai/a", "a-2"), ("patient", "openai/p", "p-1")]))
    fold(store)
    expected = {
        ("r", "doctor", "openai/a", "a-1"): 2,
        ("r", "doctor", "openai/a", "a-2"): 1,
        ("r", "patient", "openai/p", "p-1"): 1,
    }
    assert counted(store) == expected
    with store.read() as cursor:
        assert miscounted(cursor) == 0
    make_older(store, 10, "DROP TABLE served")
    assert counted(store) == expected


def test_calls_that_are_taken_away_are_counted_no_longer(store: Store) -> None:
    by_doctor(store, "r", "a-1", "a-2")
    with store.write() as connection:
        connection.execute("DELETE FROM calls WHERE served_by = 'a-2'")
    assert counted(store) == {("r", "doctor", "openai/a", "a-1"): 1}


def addresses(store: Store) -> list[tuple[str, tuple[str, ...]]]:
    with store.read() as cursor:
        runs = run_records(cursor)
    sides = [side_of(condition, runs) for condition in conditions(store)]
    return [(s.name, s.values) for s in differing(settings_side_by_side(sides)) if s.name.startswith("Address")]


def test_two_servers_of_one_name_are_shown_by_their_addresses_without_keys(store: Store) -> None:
    near, far = ("http://me:secret@localhost:8000/v1?key=secret", "http://far.example:8000/v1")
    for run_id, address in (("r", near), ("s", far)):
        settings = {"base_url": address, "own_address": "grader", "max_messages": 30}
        by_doctor(store, run_id, "a-1", settings=settings, prompt_hash=run_id, created_at={"r": 2.0, "s": 1.0}[run_id])
    without_keys = ("http://localhost:8000/v1", "http://far.example:8000/v1")
    assert addresses(store) == [(f"Address of the {role}", without_keys) for role in ("doctor", "patient")], (
        "the grader was reached at its own address, and the summariser had nothing to do"
    )


def test_a_condition_with_two_addresses_has_a_note(store: Store) -> None:
    for run_id, port in (("r", 1), ("s", 2)):
        by_doctor(store, run_id, "a-1", settings={"addresses": f"doctor=http://h:{port}/v1", "max_messages": 30})
    condition = only(store)
    assert condition.addresses == {"doctor": ("http://h:1/v1", "http://h:2/v1")}
    (note,) = (note for note in notes_of(Basis([condition], ())) if note.kind == "addresses")
    assert all(address in note.text for address in condition.addresses["doctor"])
