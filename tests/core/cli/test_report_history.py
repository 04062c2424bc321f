"""``report history`` from end to end, and which conversations it pools under one name."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.cli.report_history import Seat, read_seats, seats_of
from core.consultation.items import consultation_case
from core.datasets.library import library
from core.metrics.history.measuring import measure_missing
from core.store.casts import RunCast, casts
from core.store.database import Store


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def a_cast(run_id: str, **changes: Any) -> RunCast:
    given: dict[str, Any] = {
        "run_id": run_id, "protocol": "craftmd", "doctor": "openai/a", "patient": "openai/p", "grader": "g",
        "summariser": "s", "prompt_pack": "craftmd", "prompt_hash": "h", "case_set": "library", "case_set_hash": "c",
        "trials": 1, "seed": 20, "settings": {}, "code_version": "1", "source": "local", "created_at": 1.0, "cases": 1,
    }  # fmt: skip
    return RunCast(**{**given, **changes})


def keys(*runs: RunCast) -> dict[str, tuple[str, ...]]:
    return {seat.key: seat.runs for seat in seats_of(runs)}


def test_runs_with_the_same_cast_are_one_seat() -> None:
    assert keys(a_cast("2", seed=1), a_cast("1")) == {"openai/a": ("1", "2")}


def test_another_protocol_prompt_patient_or_persona_is_another_seat() -> None:
    solved = {"solver": "openai/s", "doctor_prompt": "short"}
    assert keys(a_cast("1"), a_cast("2", protocol="consultation", settings=solved)) == {
        "openai/a · CRAFT-MD": ("1",), "openai/a · Consultation": ("2",),
    }  # fmt: skip
    assert keys(
        a_cast("2", protocol="consultation", settings=solved),
        a_cast("3", protocol="consultation", settings={**solved, "doctor_prompt": "long"}),
    ) == {"openai/a · short prompt": ("2",), "openai/a · long prompt": ("3",)}
    assert keys(a_cast("1"), a_cast("2", patient="openai/q"), a_cast("3", settings={"persona": "terse"})) == {
        "openai/a · patient openai/p": ("1",), "openai/a · patient openai/q": ("2",),
        "openai/a · patient openai/p · persona terse": ("3",),
    }  # fmt: skip


def test_a_doctor_is_not_told_apart_by_what_only_others_vary() -> None:
    assert set(keys(a_cast("1"), a_cast("2", doctor="openai/b", patient="openai/q"))) == {"openai/a", "openai/b"}


@pytest.fixture
def run_both(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reference doctor under both protocols, an oracle, and the upper bound, on the same three cases."""
    given = ["--limit", "3", "--trials", "1"]
    for doctor in ("bayes", "oracle-direct", "upper-bound"):
        assert main(["run", "--protocol", "consultation", "--doctor", f"reference/{doctor}", *given]) == 0
    assert main(["run", "--doctor", "reference/bayes", *given, "--arms", "multi_turn:mcq"]) == 0
    capsys.readouterr()


def test_measures_by_doctor(run_both: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "history", "--format", "csv"]) == 0
    said = capsys.readouterr()
    rows = {(row["model"], row["measure"]): row for row in csv_rows(said.out)}
    assert said.err == ""
    bayes, other = (f"reference/bayes · {protocol}" for protocol in ("CRAFT-MD", "Consultation"))
    oracle, upper = "reference/oracle-direct", "reference/upper-bound"
    assert {name for name, _ in rows} == {bayes, other, oracle, upper}
    # the oracle asks for item after item by its key until none is left, and closes
    assert float(rows[oracle, "doctor_recall"]["mean"]) == 1
    assert float(rows[other, "doctor_recall"]["mean"]) < 1
    items = [len(consultation_case(case).items) for case in library()[:3]]
    assert float(rows[oracle, "doctor_turns"]["mean"]) == sum(items) / 3 + 1
    assert {rows[name, "patient_recall"]["n_conversations"] for name in (bayes, other, oracle)} == {"3"}
    # the upper bound sees all and holds no conversation, which is no failure
    assert (rows[upper, "patient_recall"]["mean"], rows[upper, "patient_recall"]["n_excluded"]) == ("", "0")
    assert (float(rows[upper, "accuracy"]["mean"]), rows[upper, "accuracy"]["n_conversations"]) == (1, "3")


def test_parts_groups_and_ways_to_print(run_both: None, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["report", "history", "--models", "reference/oracle-direct", "--format", "json"]
    assert main([*given, "--part", "curves"]) == 0
    curve = [row for row in json.loads(capsys.readouterr().out) if row["measure"] == "doctor_recall"]
    means = [row["mean"] for row in curve]
    assert [row["per_cent"] for row in curve] == list(range(0, 101, 10))
    assert means == sorted(means), "a question more never takes a word back"
    assert means[0] == 0, "before the first question the doctor has said nothing"

    assert main([*given, "--part", "order"]) == 0
    (first,) = [row for row in json.loads(capsys.readouterr().out) if row["topic"] == "chief complaint"]
    assert 0 <= first["mean"] <= 1
    assert first["told_n_cases"] == 3

    assert main([*given, "--part", "groups"]) == 0
    assert {row["group"] for row in json.loads(capsys.readouterr().out)} == {1, 2, 3}

    assert main([*given, "--by", "specialty"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["n_cases"] for row in rows if row["measure"] == "doctor_turns") == 3

    assert main(["report", "history"]) == 0
    assert "nan" not in capsys.readouterr().out.lower()


def test_one_run_alone(run_both: None, capsys: pytest.CaptureFixture[str]) -> None:
    with Store().read() as cursor:
        (run_id,) = [run.run_id for run in casts(cursor) if run.protocol == "craftmd"]
    assert main(["report", "history", "--run", run_id, "--format", "csv"]) == 0
    assert {row["model"] for row in csv_rows(capsys.readouterr().out)} == {"reference/bayes"}


def test_two_seats_of_a_doctor_are_read_apart(run_both: None) -> None:
    store = Store()
    measure_missing(store)
    with store.read() as cursor:
        seats = seats_of(casts(cursor))
    table = read_seats(store, seats)
    counted = table.groupby("model")["conversations"].sum().to_dict()
    assert counted == {
        "reference/bayes · CRAFT-MD": 3, "reference/bayes · Consultation": 3, "reference/oracle-direct": 3,
        "reference/upper-bound": 0,
    }  # fmt: skip
    assert {seat.key: talks_in(store, seat) for seat in seats} == counted
    assert set(table["case_set"]) == {"library"}


def talks_in(store: Store, seat: Seat) -> int:
    """Return in how many trials of a seat's runs anything was said."""
    with store.read() as cursor:
        sql = "SELECT count(DISTINCT trial_id) FROM utterances JOIN trials USING (trial_id) WHERE run_id IN $runs"
        return int(cursor.execute(sql, {"runs": list(seat.runs)}).fetchall()[0][0])


def test_an_empty_database_says_what_to_do(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "history"]) == 1
    assert "--protocol consultation" in capsys.readouterr().err
