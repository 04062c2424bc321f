"""``report care`` and ``report suitability`` from end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, automedic
from tests.core.store.builders import write_journal

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def six(db: Path) -> None:
    write_journal(Store().journals, "run", automedic(), *SIX, BROKEN)


def rows(capsys: Captured, *given: str) -> list[dict[str, str]]:
    assert main(["report", "care", "--format", "csv", *given]) == 0
    printed = capsys.readouterr()
    # all answers of the fixture are right by the substring rule, which CARE does not use
    severe = [line for line in printed.err.splitlines() if line.startswith("Note: ")]
    assert all("rules for choices differ" in line or "openai/a 7 of 8 planned" in line for line in severe), severe
    return list(csv.DictReader(io.StringIO(printed.out)))


@pytest.mark.slow
@pytest.mark.usefixtures("six")
def test_accuracy_and_care_use_one_rule_and_report_the_difference_to_the_other(capsys: Captured) -> None:
    care = {row["measure"]: row for row in rows(capsys)}
    assert main(["report", "accuracy", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    by_format = {row["format"]: row for row in csv.DictReader(io.StringIO(printed.out))}
    # over all cases with this answer; CARE's accuracy uses the six cases with both answers
    assert float(by_format["multi_turn"]["mean"]) == pytest.approx(float(care["acc_conv"]["value"])) == 3 / 6
    assert float(by_format["vignette"]["mean"]) == pytest.approx(5 / 7, abs=1e-6)
    assert {row["rule"] for row in (*by_format.values(), *care.values())} == {"mcq_strict"}
    for words in ("0.500 in Multi-turn · Multiple choice (1.000", "0.286 in Vignette · Multiple choice (1.000"):
        assert words in printed.err
    assert main(["report", "accuracy", "--format", "csv", "--mcq-rule", "mcq_loose"]) == 0
    loose = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["mean"], row["rule"]) for row in loose} == {("1.000000", "mcq_loose")}


@pytest.mark.slow
@pytest.mark.usefixtures("six")
def test_a_live_run_is_reported_only_if_named(capsys: Captured) -> None:
    assert main(["runs"]) == 0  # folds
    with Store().write() as connection:
        connection.execute("UPDATE runs SET source = 'live'")
    assert main(["report", "care"]) == 1
    capsys.readouterr()
    assert len(rows(capsys, "--run", "run")) == 6


@pytest.mark.usefixtures("six")
def test_without_rows_the_report_fails_with_a_sentence(capsys: Captured) -> None:
    assert main(["report", "care", "--question-type", "frq"]) == 1
    assert "of AutoMedic has answers to report: free response" in capsys.readouterr().err
    assert main(["report", "care", "--models", "openai/z"]) == 2
    assert main(["report", "care", "--question-type", "mcq_many"]) == 2


def test_suitability_of_the_library(db: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["report", "suitability", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["dataset"], row["cases"], row["unjudged"], row["suitable"]) == ("library", 60, 0, 60)
    assert row["ci_low"] == pytest.approx(60 / (60 + 1.959964**2)), "Wilson's lower bound of 60 in 60"
    assert main(["report", "suitability", "library", "--part", "fields", "--format", "json"]) == 0
    fields = {field["field"]: field for field in json.loads(capsys.readouterr().out)}
    assert fields["age"]["present"] == 1
    assert all(row["present"] + row["imputed"] + row["absent"] == pytest.approx(1) for row in fields.values())
    assert fields["sex"]["ci_low"] == pytest.approx(60 / (60 + 1.959964**2))
    drawing = tmp_path / "fields.html"
    assert main(["report", "suitability", "library", "--part", "fields", "--figure", str(drawing)]) == 0
    assert f"Drew {len(fields)} estimates" in capsys.readouterr().out
    assert drawing.stat().st_size > 0
    assert main(["report", "suitability", "nowhere"]) == 2
