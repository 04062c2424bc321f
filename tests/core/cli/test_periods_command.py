"""Dates of cases and cutoffs of models by command, up to the figures before and after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.models.registry import load_registry

TABLE = """\
id,vignette,answer,date
1,A 30-year-old man coughs and has a fever.,Influenza,2023-05-02T10:00:00Z
2,A 40-year-old woman itches all over.,Eczema,2024
3,A 50-year-old man has a swollen big toe.,Gout,last spring
4,A 60-year-old woman has chest pain.,Angina,
"""
LABELS = "case,field,value,by\n3,date,2024-09,Ada\n4,date,2024-06-30,Ada\n2,date,2025-01-15,Ada\n"


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_dates_come_from_a_table_and_from_a_file_of_labels(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Case 1 is from before June 2024, 4 of that month, 2 and 3 from after it."""
    (tmp_path / "dated.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "labels.csv").write_text(LABELS, encoding="utf-8")
    status, out, err = run_command(capsys, "import", "cases", str(tmp_path / "dated.csv"))
    assert (status, "Imported 4 cases" in out) == (0, True), err
    assert "last spring" in out
    status, out, err = run_command(capsys, "data", "labels", "dated", "--field", "date", "--format", "json")
    assert {(row["case"], row["value"]) for row in json.loads(out)} == {("1", "2023-05-02"), ("2", "2024")}, err
    assert run_command(capsys, "data", "label-file", "dated", str(tmp_path / "labels.csv"))[0] == 0
    played = ("run", "--doctor", "reference/bayes", "--cases", "dated", "--trials", "1", "--arms", "vignette:frq")
    assert run_command(capsys, *played)[0] == 0
    report = ("report", "accuracy", "--by", "period", "--cases", "dated", "--format", "json")
    assert run_command(capsys, *report)[0] == 1, "rules have no cutoff"
    status, out, err = run_command(capsys, *report, "--cutoff", "2024-06")
    rows = {row["group"]: row for row in json.loads(out)}
    assert status == 0
    assert (rows["before"]["n_cases"], rows["after"]["n_cases"]) == (1, 2)
    assert rows["after"]["excluded"] == {"date too near to the cutoff": 1}
    assert "difficulty" in err


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("case,value\n1,2024\n", "no column field"),
        ("case,field,value\n9,date,2024\n", "row 2"),
        ("case,field,value\ncardiology-2,date,2024\ncardiology-1,date,soon\n", "row 3"),
        ("case,field,value\ncardiology-1,colour,red\n", "'colour' is no field"),
        ("case,field,value\ncardiology-1,date,2024-02-30\n", "'2024-02-30' is no date"),
    ],
)
def test_a_file_of_labels_with_a_fault_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, fault: str
) -> None:
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    status, _, err = run_command(capsys, "data", "label-file", "library", str(tmp_path / "labels.csv"))
    assert status == 2
    assert fault in err
    assert run_command(capsys, "data", "labels", "library")[0] == 1


def test_a_model_is_added_with_a_cutoff(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.toml"))
    add = ("models", "add", "mine", "--address", "http://127.0.0.1:8000/v1")
    assert run_command(capsys, *add, "--cutoff", "spring 2024")[0] == 2
    assert run_command(capsys, *add, "--cutoff", "2024-10")[0] == 0
    assert load_registry().cutoff("server/mine") == ("2024-10", "")
    assert load_registry().cutoff("openai/gpt-4o") == ("", "")
    assert load_registry().cutoff("reference/bayes") == ("", "")
