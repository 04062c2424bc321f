"""``report history`` from end to end, and the conditions of its rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets.library import library
from core.frameworks.consultation.measures.summary import read_doctors
from core.measures.registry import measures
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.runs import CAMPAIGNS, run_records
from core.store.selection import conditions
from core.text.case_items import itemized
from tests.support.stores import copy_of, count_unmeasured


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def runs_of_both_protocols(store: Store) -> None:
    """Run the reference doctor under both protocols, an oracle, and the upper bound, on three cases; measure them."""
    options = ["--limit", "3", "--trials", "1"]
    for doctor in ("bayes", "oracle-direct", "upper-bound"):
        assert main(["run", "--protocol", "consultation", "--doctor", f"reference/{doctor}", *options]) == 0
    assert main(["run", "--doctor", "reference/bayes", *options, "--arms", "multi_turn:mcq"]) == 0
    assert main(["report", "history"]) == 0


@pytest.fixture
def run_both(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_of(runs_of_both_protocols, db.parent)
    capsys.readouterr()


@pytest.mark.slow
def test_measures_by_doctor(run_both: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "history", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    rows = {(row["model"], row["measure"]): row for row in csv_rows(printed.out)}
    assert "Traceback" not in printed.err
    bayes, other = (f"reference/bayes · {protocol}" for protocol in ("CRAFT-MD", "Consultation"))
    oracle, upper = "reference/oracle-direct", "reference/upper-bound"
    assert {name for name, _ in rows} == {bayes, other, oracle, upper}
    # the oracle asks for each item by its key, and closes
    assert float(rows[oracle, "doctor_recall"]["mean"]) == 1
    assert float(rows[other, "doctor_recall"]["mean"]) < 1
    items = [len(itemized(case).items) for case in library()[:3]]
    assert float(rows[oracle, "doctor_turns"]["mean"]) == sum(items) / 3 + 1
    assert {rows[name, "patient_recall"]["n_conversations"] for name in (bayes, other, oracle)} == {"3"}
    # the upper bound reads the whole case without a conversation, which is not a failure
    assert (rows[upper, "patient_recall"]["mean"], rows[upper, "patient_recall"]["n_excluded"]) == ("", "0")
    assert (float(rows[upper, "accuracy"]["mean"]), rows[upper, "accuracy"]["n_conversations"]) == (1, "3")


@pytest.mark.slow
def test_published_figures_are_rows_next_to_the_measured_ones(
    run_both: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "history", "--published", "medqa", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    printed = {(row["model"], row["measure"]): row for row in rows if row["cases"] != "library"}
    # table 2 of the paper, MedQA; repetition is in table 3, for all of its data sets
    assert printed["vicuna_ft", "accuracy"]["mean"] == pytest.approx(0.4020)
    assert printed["vicuna", "repetition_1"]["cases"] == "all three data sets"
    assert printed["chatgpt_long", "doctor_turns"]["ci_low"] is None
    assert {row["model"] for row in rows if row["cases"] == "library"} >= {"reference/oracle-direct"}


@pytest.mark.slow
@pytest.mark.usefixtures("measuring_commands")
def test_a_run_is_measured_before_the_command_ends(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--doctor", "reference/bayes", "--limit", "2", "--trials", "1"]) == 0
    assert [count_unmeasured(Store(), measure) for measure in measures().values()] == [0] * len(measures())
    with Store().write() as connection:
        connection.execute("DELETE FROM scores WHERE measure = 'history_taking'")  # as a kill leaves them
    capsys.readouterr()
    assert main(["report", "history", "--format", "json"]) == 0
    rows = {row["measure"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["doctor_turns"]["n_cases"] == 2


@pytest.mark.slow
def test_one_run_alone(run_both: None, capsys: pytest.CaptureFixture[str]) -> None:
    with Store().read() as cursor:
        (run_id,) = [run.run_id for run in run_records(cursor, sources=CAMPAIGNS) if run.protocol == "craftmd"]
    assert main(["report", "history", "--run", run_id, "--format", "csv"]) == 0
    assert {row["model"] for row in csv_rows(capsys.readouterr().out)} == {"reference/bayes"}


@pytest.mark.slow
def test_two_conditions_of_a_doctor_are_separate(run_both: None) -> None:
    store = Store()
    table = read_doctors(store)
    counted = table.groupby("model")["conversations"].sum().to_dict()
    assert counted == {
        "reference/bayes · CRAFT-MD": 3,
        "reference/bayes · Consultation": 3,
        "reference/oracle-direct": 3,
        "reference/upper-bound": 0,
    }
    assert {condition.name: conversations_in(store, condition) for condition in conditions(store)} == counted
    assert set(table["case_set"]) == {"library"}


def conversations_in(store: Store, condition: Condition) -> int:
    """Return the number of trials with a message in a condition's runs."""
    with store.read() as cursor:
        sql = "SELECT count(DISTINCT trial_id) FROM utterances JOIN trials USING (trial_id) WHERE run_id IN $runs"
        return int(cursor.execute(sql, {"runs": list(condition.runs)}).fetchall()[0][0])


def test_an_empty_database_says_what_to_do(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "history"]) == 1
    assert "python -m core run --doctor" in capsys.readouterr().err
