"""Marking stored conversations: once, with progress and stop, again with new rules; and the figures."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from core import processes
from core.errors import AnamnesisError
from core.judging.patient_rule import KINDS, ReplyMarkKind
from core.measures import measuring
from core.measures.base import Record, Row
from core.measures.measuring import TrialParcel, measure_trials
from core.measures.patients import PATIENT_MARKS, PatientMarks, hit_sample, patient_hits, patient_rates, rule_precisions
from core.store.database import Store
from core.store.queries.scores_of_patients import hits, offer
from core.store.selection import Selection
from tests.core.measures.patients.patient_conversations import stored
from tests.core.store.builders import a_case
from tests.support.intervals import beta_bounds
from tests.support.stores import copy_of, count_unmeasured, shared


def fill(store: Store) -> None:
    stored(store.path, persona="terse")


def fill_marked(store: Store) -> None:
    fill(store)
    measure_trials(store, [PATIENT_MARKS])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


@pytest.fixture
def marked() -> Store:
    return shared(fill_marked)


def rates(store: Store, kind: ReplyMarkKind) -> dict[str, Row]:
    return {row["doctor"]: row for row in patient_rates(store, "doctor", Selection(), [kind])}


def test_every_conversation_is_marked_once_with_progress(store: Store) -> None:
    reports: list[tuple[int, int]] = []
    assert count_unmeasured(store, PATIENT_MARKS) == 4
    assert measure_trials(store, [PATIENT_MARKS], progress=lambda *done: reports.append(done)) == 4
    assert reports[-1] == (4, 4)
    assert count_unmeasured(store, PATIENT_MARKS) == 0
    assert measure_trials(store, [PATIENT_MARKS]) == 0


@pytest.mark.slow
def test_processes_mark_the_same(store: Store) -> None:
    measure_trials(store, [PATIENT_MARKS], processes=1)
    with store.read() as cursor:
        stored_hits = hits(cursor, PATIENT_MARKS, selection=Selection(trials=["m1/1/0"]))
    assert [hit["words"] for hit in stored_hits] == ["papules", "pruritus", "vignette"]


def test_the_marks_before_a_stop_are_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PARCEL", 1)
    reports: list[int] = []
    measured = measure_trials(
        store, [PATIENT_MARKS], progress=lambda at, of: reports.append(at), stop=lambda: bool(reports)
    )
    assert measured == 1
    assert count_unmeasured(store, PATIENT_MARKS) == 3
    assert measure_trials(store, [PATIENT_MARKS]) == 3


def test_the_marks_before_an_error_are_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PARCEL", 1)

    def fail(done: int, planned: int) -> None:
        if done == 2:
            raise AnamnesisError("power failure")

    with pytest.raises(AnamnesisError, match="power"):
        measure_trials(store, [PATIENT_MARKS], progress=fail)
    assert count_unmeasured(store, PATIENT_MARKS) == 2


def test_a_process_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes, "_start", lambda begin: subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )
    with pytest.raises(AnamnesisError, match="ended early"):
        list(processes.read_by(1, [TrialParcel(PATIENT_MARKS, (Record("t", a_case()),))]))


def test_other_rules_mark_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    measure_trials(store, [PATIENT_MARKS])
    monkeypatch.setattr(PatientMarks, "version", "2")
    assert count_unmeasured(store, PATIENT_MARKS) == 4
    assert patient_hits(store, ["mentions_text"]) == []


def test_rates_are_shares_of_conversations_and_hits_of_replies(marked: Store) -> None:
    # m1: three conversations with 3 + 2 + 4 replies; one conversation has two terms
    terms = rates(marked, "medical_term")["m1"]
    assert tuple(terms[name] for name in ("n", "with_hit", "cases", "hits", "replies")) == (3, 1, 2, 2, 9)
    assert terms["rate"] == pytest.approx(1 / 3)
    assert terms["per_100"] == pytest.approx(100 * 2 / 9)
    assert terms["ci_low"] <= terms["rate"] <= terms["ci_high"]
    # m2: one conversation; two of its three replies mention the vignette
    text = rates(marked, "mentions_text")["m2"]
    assert tuple(text[name] for name in ("n", "with_hit", "hits", "replies")) == (1, 1, 2, 3)
    assert (text.low, text.high) == pytest.approx(beta_bounds(1, 1), rel=1e-4)


def test_without_a_hit_the_upper_bound_is_above_zero(marked: Store) -> None:
    leaks = rates(marked, "leak")["m1"]
    assert leaks.estimate == 0
    assert leaks.low == 0
    # two cases, with two conversations and with one
    assert 0.6 < leaks.high < 1
    assert leaks["per_100_high"] > 10


def test_plain_patients_and_personas_have_separate_rows(marked: Store) -> None:
    rows = patient_rates(marked, "patient", kinds=["mentions_text"])
    assert {(row["patient"], row["persona"]): row["n"] for row in rows} == {
        ("openai/p", "plain"): 3,
        ("openai/p", "terse"): 1,
    }


def test_the_shares_of_cases_are_those_behind_the_rates(marked: Store) -> None:
    """A rate weighs conversations, and a share has one value for each case of a condition."""
    tables: list[pd.DataFrame] = []
    rows = patient_rates(marked, "doctor", kinds=["mentions_text", "leak"], case_values=tables)
    values = pd.concat(tables)
    assert set(values) == {"model", "figure", "case_key", "value"}
    assert not values.duplicated(["model", "figure", "case_key"]).any()
    claimed = [row for row in rows if row.estimate is not None]
    assert len(values) == sum(row["cases"] for row in claimed)
    for row in claimed:
        of_row = values[
            (values["model"] == f"{row['doctor']} {row['condition']}")
            & (
                values["figure"]
                == f"{row['kind']} {'' if row['persona'] == 'plain' else row['persona']} {row['protocol']}"
            )
        ]
        if row["n"] == row["cases"]:
            assert of_row["value"].mean() == pytest.approx(row.estimate)


def test_every_kind_is_a_score_with_its_hits_as_evidence(marked: Store) -> None:
    sql = "SELECT name, value, evidence FROM scores WHERE trial_id = 'm1/1/0' AND name <> '' ORDER BY rowid"
    with marked.read() as cursor:
        scores = {name: (value, json.loads(text or "[]")) for name, value, text in cursor.execute(sql).fetchall()}
    assert list(scores) == ["replies", *KINDS]
    assert (scores["replies"], scores["leak"]) == ((3, []), (0, []))
    number, terms = scores["medical_term"]
    assert (number, [(hit["turn"], hit["words"], hit["start"]) for hit in terms]) == (
        2,
        [(5, "papules", len("I have a few ")), (5, "pruritus", len("I have a few papules and "))],
    )
    assert all(hit["detail"] for hit in terms), "the plain words"


def test_hits_come_with_question_reply_and_place(marked: Store) -> None:
    with marked.read() as cursor:
        assert len(hits(cursor, PATIENT_MARKS, ["mentions_text"], limit=2)) == 2
        first_of_each = hits(cursor, PATIENT_MARKS, ["mentions_text", "medical_term"], limit=1)
    assert [hit["kind"] for hit in first_of_each] == ["mentions_text", "medical_term"]
    (hit,) = patient_hits(marked, ["mentions_text"], Selection(models=["m1"]))
    assert (hit["trial_id"], hit["turn"], hit["question"], hit["words"]) == ("m1/1/0", 3, "Do you smoke?", "vignette")
    assert hit["words"] in hit["reply"]
    assert len(patient_hits(marked, ["medical_term"], words="PRUR")) == 1


def test_filters_name_runs_personas_and_specialties(marked: Store) -> None:
    assert len(patient_hits(marked, ["mentions_text"], Selection(personas=[""]))) == 1
    assert len(patient_hits(marked, ["mentions_text"], Selection(runs=["m2"]))) == 2
    assert patient_hits(marked, ["mentions_text"], Selection(specialties=["Cardiology"])) == []
    with marked.read() as cursor:
        filters = offer(cursor)
    assert set(zip(filters["doctor"], filters["persona"], strict=True)) == {("m1", ""), ("m2", "terse")}


def test_the_precision_of_a_rule_is_that_of_the_hits_that_were_read() -> None:
    rows = {row["kind"]: row for row in rule_precisions()}
    assert (rows["plays_doctor"].estimate, rows["plays_doctor"].n, rows["plays_doctor"]["rates"]) == (10 / 13, 13, "no")
    assert (rows["leak"]["right"], rows["leak"].n, rows["leak"]["before"]) == (2, 2, "1 of 3")
    assert (rows["both_sides"].estimate, rows["both_sides"].n) == (None, 0)


def test_a_sample_is_drawn_by_its_seed(marked: Store) -> None:
    assert hit_sample(marked, "mentions_text", 2, seed=1) == hit_sample(marked, "mentions_text", 2, seed=1)
    assert len(hit_sample(marked, "mentions_text", 20)) == 3


@pytest.mark.slow
def test_without_conversations_there_are_no_figures(tmp_path: Path) -> None:
    empty = Store(tmp_path / "empty.duckdb")
    assert measure_trials(empty, [PATIENT_MARKS]) == 0
    assert patient_rates(empty) == []
    assert patient_hits(empty, KINDS) == []
