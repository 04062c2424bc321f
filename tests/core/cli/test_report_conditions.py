"""Reports and the conditions of their rows: counting graders, served models, repeats of a seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.store.builders import graded, grades, write_journal
from tests.core.store.test_repeats import AGAIN, FIRST, run
from tests.core.store.test_served import by_doctor, store_run, trial


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[dict[str, object]], str]:
    capsys.readouterr()
    assert main(["report", *arguments, "--format", "json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


@pytest.mark.slow
def test_a_comparison_names_the_graders_whose_verdicts_count(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The strict grader marks both runs as wrong; the lenient grader marks the second as right."""
    store = Store()
    for run_id, doctor in (("one", "openai/a"), ("two", "openai/b")):
        trials = [trial(run_id, n, [], "incorrect") for n in (1, 2, 3)]
        store_run(store, run_id, trials, doctor=doctor)
    lenient = [grades(f"two/{n}", graded("correct", grader="openai/lenient", at=20.0), run_id="two") for n in (1, 2, 3)]
    write_journal(store.journals, "two", *lenient)
    (row,), notes = report(capsys, "monitor", "--versions", "openai/a,openai/b")
    assert row["difference"] == 1.0
    assert "openai/a: openai/g; openai/b: openai/lenient." in notes
    (differs,) = [line for line in notes.splitlines() if line.startswith("What else differs")]
    assert "Grader: openai/g" in differs
    assert "against openai/lenient" in differs


@pytest.mark.slow
def test_served_models_of_one_run_are_rows_and_steps(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store()
    store_run(
        store,
        "r",
        [
            trial("r", 1, [("doctor", "openai/a", "new")], "correct", at=30.0),
            trial("r", 2, [("doctor", "openai/a", "old")], "incorrect", at=20.0),
            trial("r", 3, [("doctor", "openai/a", "old")], "correct", at=20.0),
        ],
    )
    store_run(store, "s", [trial("s", 1, [("doctor", "openai/a", "old")], "incorrect", at=5.0)])
    rows, _ = report(capsys, "accuracy", "--by", "served")
    means = {(row["model"], row["group"]): row["mean"] for row in rows}
    mixed = "openai/a · served as new and old"
    assert means == {(mixed, "new"): 1.0, (mixed, "old"): 0.5, ("openai/a · served as old", "old"): 0.0}
    assert "several served models" in report(capsys, "accuracy")[1]
    rows, _ = report(capsys, "monitor", "--versions", "openai/a", "--by", "served")
    (row,) = rows
    assert (row["first"], row["second"]) == ("openai/a · served as old", "openai/a · served as new")
    assert (row["difference"], row["n_cases"]) == (1.0, 1), "only case 1 is in both runs: wrong in s, right in r"
    by_doctor(store, "t", "b-1", doctor="openai/b")
    assert main(["report", "monitor", "--versions", "openai/b", "--by", "served"]) == 2
    assert "one name only" in capsys.readouterr().err


@pytest.mark.slow
def test_accuracy_excludes_and_counts_repeats_of_a_seed(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(Store(), "a", FIRST, at=100.0)
    assert "repeat" not in report(capsys, "accuracy")[1]
    run(Store(), "b", AGAIN, at=200.0)
    (row,), notes = report(capsys, "accuracy")
    assert (row["mean"], row["n_trials"], row["n_repeats"]) == (0.75, 4, 4)
    assert "4 repeats of the same seed left out" in notes
    figures, notes = report(capsys, "repeatability")
    values = {figure["figure"]: figure["value"] for figure in figures}
    assert {name: value for name, value in values.items() if name.startswith("pass")} == {"pass^1": 0.75, "pass^2": 0.5}
    assert "4 repeats of the same seed left out" in notes
