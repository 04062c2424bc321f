"""``run --protocol consultation`` from the command line: its output, its report, and wrong options."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from core.store.queries.runs import runs
from tests.support.campaigns import BESIDE_RULES

RUN = ("run", "--protocol", "consultation", "--cases", "library:Cardiology", "--trials", "1", "--doctor")


@pytest.mark.slow
def test_a_run_and_its_report(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five cases with the upper bound, all answered correctly by the reference solver."""
    assert main([*RUN, "reference/upper-bound"]) == 0
    lines = capsys.readouterr().out.splitlines()
    run_id = lines[0].split()[1]
    assert lines[1] == "Verdicts: 5 correct."  # one verdict for each answer
    assert main(["report", "accuracy", "--run", run_id, "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["model"], row["format"], row["question_type"]) == ("reference/upper-bound", "multi_turn", "mcq")
    assert (row["mean"], row["n_cases"], row["n_trials"], row["n_excluded"]) == ("1.000000", "5", "5", "0")
    assert main(["report", "accuracy", "--format", "csv"]) == 0
    assert [other["model"] for other in csv.DictReader(io.StringIO(capsys.readouterr().out))] == [row["model"]]
    with Store().read() as cursor:
        (stored,) = runs(cursor)
    assert (stored.protocol, stored.settings["solver"], stored.done) == ("consultation", "reference/solver", 5)


def test_a_dry_run_starts_nothing(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "openai/gpt-4o", "--solver", "openai/gpt-4o", *BESIDE_RULES[:4], "--cap", "4", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 cases, 5 trials, 5 conversations, 5 answers."
    assert lines.pop() == "Note that rules play the patient."
    calls = {line.split()[0]: line.split()[2] for line in lines[2:] if line.split()[2].isdigit()}
    assert calls == {"doctor": "20", "patient": "0", "solver": "5", "grader": "0"}
    assert not db.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("reference/oracle-direct", "--cap", "0"), "--cap must be from 1 to 100"),
        (("reference/oracle-direct", "--probe"), "--probe belongs to the protocol craftmd, not consultation"),
        (("reference/oracle-direct", "--arms", "vignette:mcq"), "does not ask vignette:mcq"),
        (("openai/doctor", "--doctor-prompt", "loud"), "choose long or short"),
        (("reference/oracle-sideways",), "There is no 'reference/oracle-sideways' for the doctor"),
    ],
)
def test_wrong_options_are_refused(
    db: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert main([*RUN, *arguments]) == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert errors.count("\n") == 1
    assert not db.exists()
