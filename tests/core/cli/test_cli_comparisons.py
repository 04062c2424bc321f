"""``report pairs`` and ``report monitor`` on a campaign of the reference doctor."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.stores import copy_of


def three_formats(store: Store) -> None:
    """Ten cases, one trial, the reference doctor on vignettes and in conversation."""
    arms = "vignette:mcq,multi_turn:mcq,single_turn:mcq"
    assert main(["run", "--doctor", "reference/bayes", "--limit", "10", "--trials", "1", "--arms", arms]) == 0


@pytest.fixture
def campaign(db: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    copy_of(three_formats, db.parent)
    capsys.readouterr()
    return db


def test_pairs_compare_each_format_with_the_vignette(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "pairs", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["first"], row["second"]) for row in rows] == [("vignette", "multi_turn"), ("vignette", "single_turn")]
    assert main(["report", "accuracy", "--format", "json"]) == 0
    means = {row["format"]: row["mean"] for row in json.loads(capsys.readouterr().out)}
    for row in rows:
        assert float(row["difference"]) == pytest.approx(means[row["second"]] - means["vignette"], abs=1e-6)
        assert int(row["improved"]) + int(row["regressed"]) + int(row["equal"]) == 10


def test_accuracy_can_be_restricted_to_the_kind_of_question(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two cases ask for a diagnosis, with one correct answer; the third asks for a treatment."""
    cases = [a_case(1), a_case(2), a_case(3, question="Which of the following is the best treatment?")]
    verdicts = ("correct", "incorrect", "correct")
    lines = [
        a_trial(
            [answered("vignette", "mcq"), graded(verdict, "vignette", "mcq")],
            trial_id=f"run/{n}/0",
            case_key=f"ours/{n}",
        )
        for n, verdict in enumerate(verdicts, start=1)
    ]
    write_journal(Store().journals, "run", a_header(cases=cases, arms=[("vignette", "mcq")]), *lines)

    def cases_and_mean(*kinds: str) -> tuple[int, float]:
        options = ("--asks-for", *kinds) if kinds else ()
        assert main(["report", "accuracy", "--format", "json", *options]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        return row["n_cases"], row["mean"]

    assert cases_and_mean() == (3, pytest.approx(2 / 3))
    assert cases_and_mean("diagnosis") == (2, 0.5)
    assert cases_and_mean("treatment") == (1, 1.0)
    assert cases_and_mean("treatment, diagnosis") == cases_and_mean()
    assert main(["report", "accuracy", "--asks-for", "organism"]) == 1
    assert "No answered case asks for this" in capsys.readouterr().err


def test_holm_is_never_below_the_plain_p(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "pairs", "--format", "json", "--correction", "holm"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["p_adjusted"] >= row["p"] for row in rows)
    smallest = min(rows, key=lambda row: row["p"])
    assert smallest["p_adjusted"] == pytest.approx(min(1.0, len(rows) * smallest["p"]))


def test_monitor_refuses_unknown_or_single_versions(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "monitor", "--versions", "reference/bayes,gpt_4"]) == 2
    error = capsys.readouterr().err
    assert "gpt_4" in error
    assert "reference/bayes" in error
    assert main(["report", "monitor", "--versions", "reference/bayes"]) == 2
    assert "at least two" in capsys.readouterr().err


def test_a_model_compared_with_itself_has_no_difference(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = "reference/bayes,reference/bayes"
    assert main(["report", "monitor", "--versions", versions, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["format"] for row in rows} == {"vignette", "multi_turn", "single_turn"}
    assert all((row["difference"], row["change"], row["equal"]) == (0.0, "unclear", 10) for row in rows)


def test_without_any_answer_the_report_says_what_to_do(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "pairs"]) == 1
    assert "run a campaign" in capsys.readouterr().err
