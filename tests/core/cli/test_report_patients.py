"""``report patients`` from end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from tests.core.measures.patients.patient_conversations import stored


@pytest.mark.slow
def test_rates_hits_and_a_sample(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(db)
    assert main(["report", "patients", "--by", "doctor", "--kind", "mentions_text", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["doctor"], row["with_hit"], row["n"], row["hits"]) for row in rows] == [
        ("m1", "1", "3", "1"),
        ("m2", "1", "1", "2"),
    ]
    assert main(["report", "patients", "--part", "hits", "--words", "papul", "--format", "json"]) == 0
    (hit,) = json.loads(capsys.readouterr().out)
    assert (hit["words"], hit["detail"], hit["trial_id"], hit["turn"]) == ("papules", "small bump", "m1/1/0", 5)
    assert main(["report", "patients", "--part", "sample", "--limit", "1", "--models", "m2", "--format", "json"]) == 0
    assert [row["doctor"] for row in json.loads(capsys.readouterr().out)] == ["m2"]
    # a rate is given only for rules of sufficient precision
    assert main(["report", "patients", "--pool", "--format", "json"]) == 0
    rows = {row["kind"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["medical_term"]["rate"], rows["medical_term"]["read_right"], rows["medical_term"]["read"]) == (
        0.25,
        35,
        40,
    )
    assert (rows["plays_doctor"]["rate"], rows["plays_doctor"]["hits"], rows["plays_doctor"]["read"]) == (None, 0, 13)
    assert rows["stage_direction"]["rate"] is None
    # one patient with two doctors is two conditions unless they are pooled
    kind = ["report", "patients", "--kind", "medical_term", "--format", "json"]
    assert main(kind) == 0
    apart = json.loads(capsys.readouterr().out)
    assert [(row["condition"], row["n"]) for row in apart] == [("m1", 3), ("m2", 1)]
    assert main([*kind, "--pool"]) == 0
    (pooled,) = json.loads(capsys.readouterr().out)
    assert (pooled["n"], pooled["condition"].partition(", ")[2]) == (4, "2 conditions combined")


def test_without_conversations_the_report_says_what_to_do(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "patients"]) == 1
    assert "core run --doctor" in capsys.readouterr().err
    assert main(["report", "patients", "--part", "experts"]) == 1
    assert "import craftmd" in capsys.readouterr().err
