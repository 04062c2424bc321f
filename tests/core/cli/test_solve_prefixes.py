"""``job prefixes`` and ``report prefixes`` from end to end, with the reference cast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main

OPTIONS = ["--protocol", "consultation", "--limit", "2", "--trials", "1", "--arms", "multi_turn:mcq"]


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict]:
    assert main(["report", *arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_accuracy_from_the_opening_to_the_full_dialogue(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reference solver equals the lower bound at 0 %, and the run's own solver at 100 %."""
    for doctor in ("reference/oracle-direct", "reference/lower-bound"):
        assert main(["run", "--doctor", doctor, *OPTIONS]) == 0
    capsys.readouterr()
    assert main(["report", "prefixes"]) == 1
    assert "python -m core job prefixes --solver reference/solver" in capsys.readouterr().err

    assert main(["job", "prefixes", "--solver", "reference", "--dry-run"]) == 0
    assert "4 conversations to solve, 0 solved before." in capsys.readouterr().out
    assert main(["job", "prefixes", "--solver", "reference"]) == 0
    output = capsys.readouterr().out
    assert "reference/solver answered after 0, 20, 40, 60, 80 and 100 % of 4 conversations." in output
    assert main(["job", "prefixes", "--solver", "reference/solver"]) == 0
    assert "4 were solved before and are unchanged." in capsys.readouterr().out

    points = {(row["model"], row["per_cent"]): row for row in rows(capsys, "prefixes")}
    own = {row["model"]: row["mean"] for row in rows(capsys, "accuracy") if row["format"] == "multi_turn"}
    assert sorted({share for _, share in points}) == [0, 20, 40, 60, 80, 100]
    oracle, lower = "reference/oracle-direct", "reference/lower-bound"
    assert points[oracle, 100]["mean"] == own[oracle] == 1
    assert points[oracle, 0]["mean"] == own[lower]
    assert {row["mean"] for (model, _), row in points.items() if model == lower} == {own[lower]}, (
        "the lower bound has no dialogue"
    )
    assert {row["n_cases"] for row in points.values()} == {2}
    by = rows(capsys, "prefixes", "--by", "specialty", "--models", oracle)
    assert sum(row["n_conversations"] for row in by if row["per_cent"] == 100) == 2
