"""``report graders`` from end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.measures.graders.graded import OTHER, OWN, THIRD, store_graded, three_graders

PANEL = f"{OWN},{OTHER},{THIRD}"


@pytest.fixture
def judged(db: Path) -> Store:
    return three_graders(Store(db))


def report(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, str]]:
    assert main(["report", "graders", *options, "--format", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_agreement(judged: Store, capsys: pytest.CaptureFixture[str]) -> None:
    rows = report(capsys)
    assert {row["measure"] for row in rows} == {"percent agreement", "Cohen's kappa", "Gwet's AC1", "Fleiss' kappa"}
    first = rows[0]
    assert (first["graders"], first["verdicts"], first["n_answers"]) == (f"{OWN}, {OTHER}", "right or not", "5")
    assert float(first["value"]) == 0.6
    assert {row["graders"] for row in report(capsys, "--panel", f"{OWN},{THIRD}")} == {f"{OWN}, {THIRD}"}


def test_accuracy_by_grader_and_panel(judged: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "graders", "--part", "accuracy", "--panel", PANEL, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "experts' judgements of free responses are needed" in err
    found = {(row["judge"], row["model"]): row for row in json.loads(out)}
    assert found["panel", "openai/a"]["mean"] == 1.0
    assert found["panel", "openai/a"]["excluded_by_reason"] == "ungraded=2"
    assert found[OTHER, "openai/b"]["mean"] is None
    common = report(capsys, "--part", "accuracy", "--common", "--run", "run0")
    assert {(row["judge"], row["n_trials"]) for row in common} == {(OWN, "4"), (OTHER, "4"), (THIRD, "4")}


def test_differences_and_flips(judged: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = report(capsys, "--part", "differences", "--panel", f"{OWN},{OTHER}")
    assert [(row["trial_id"], row["first_verdict"]) for row in rows] == [("t001", "incorrect"), ("t011", "correct")]
    assert len(report(capsys, "--part", "differences")) == 2
    rows = report(capsys, "--part", "flips")
    assert ("openai/h", "the same response", "2") in {(r["grader"], r["judged_again"], r["pairs"]) for r in rows}
    out = tmp_path / "flips.csv"
    assert main(["report", "graders", "--part", "flips", "--format", "csv", "--out", str(out)]) == 0
    assert f"Wrote {len(rows)} rows" in capsys.readouterr().out
    assert len(out.read_text().splitlines()) == len(rows) + 1
    assert main(["report", "graders", "--part", "flips", "--out", str(out)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_what_cannot_be_reported_is_said_in_a_sentence(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "graders"]) == 1
    assert "No grader has judged a free response here" in capsys.readouterr().err
    store_graded(Store(db))
    assert main(["report", "graders"]) == 1
    assert "no answer was judged by two of openai/g" in capsys.readouterr().err
    assert main(["report", "graders", "--part", "accuracy", "--panel", "openai/g"]) == 2
    assert "A panel needs two graders or more" in capsys.readouterr().err
    assert main(["report", "graders", "--part", "differences", "--panel", "openai/g,openai/x"]) == 2
    assert "No grader 'openai/x'" in capsys.readouterr().err
    assert main(["report", "graders", "--part", "differences"]) == 1
    assert "There is no difference" in capsys.readouterr().err
