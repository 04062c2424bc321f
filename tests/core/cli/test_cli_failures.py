"""``run --probe``, ``report belief`` and ``report failures`` from end to end."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.cli.app import main
from core.frameworks.craftmd import QUESTIONS_A_CONVERSATION
from core.jobs.begun import journals
from core.journal import read_header
from core.store.database import Store
from tests.support.campaigns import BESIDE_RULES
from tests.support.fake_provider import running
from tests.support.stores import copy_of

ARMS = "vignette:frq,multi_turn:frq"


def doctor(body: dict[str, Any]) -> str:
    """A doctor that asks once, and diagnoses gout with a probability of 70 % for every patient."""
    last = str(body["messages"][-1]["content"])
    if "from the examiner" in last:
        return (
            '{"diagnoses": [{"diagnosis": "Gout", "probability": 0.7}, {"diagnosis": "Scabies", "probability": 0.1}]}'
        )
    if "**Final Diagnosis:** and" in last or len(body["messages"]) > 4:
        return "**Final Diagnosis:** Gout"
    return "How old are you?"


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def probed_run(store: Store) -> None:
    """Three library cases, none of which is gout, with a probed doctor."""
    with running(doctor) as provider:
        options = ["--base-url", provider.base_url, "--limit", "3", "--trials", "1", "--arms", ARMS]
        assert main(["run", "--doctor", "openai/doctor", *BESIDE_RULES, *options, "--probe"]) == 0


@pytest.fixture
def run_option(db: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    copy_of(probed_run, db.parent)
    capsys.readouterr()
    (path,) = journals()
    return ["--run", read_header(path).run_id]


@pytest.mark.slow
def test_a_probed_run_and_its_reports(run_option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = journals()
    settings = read_header(path).settings
    assert settings["probe"] is True
    with Store().read() as cursor:
        costed = cursor.execute("SELECT purpose, count(*) FROM calls GROUP BY purpose ORDER BY 1").fetchall()
    assert dict(costed) == {"answer": 6, "dialogue": 6, "probe": 6}

    assert main(["report", "belief", *run_option, "--format", "csv"]) == 0
    rows = {(row["quantity"], row["per_cent"]): row for row in csv_rows(capsys.readouterr().out)}
    assert float(rows["leads", "100"]["mean"]) == 0

    assert main(["report", "belief", *run_option, "--part", "calibration", "--format", "json"]) == 0
    every, end = json.loads(capsys.readouterr().out)
    assert (every["n_probes"], end["n_probes"]) == (6, 3)
    assert every["brier"] == pytest.approx(0.7**2)
    assert every["ece"] == pytest.approx(0.7)

    assert main(["report", "failures", *run_option, "--format", "csv"]) == 0
    causes = csv_rows(capsys.readouterr().out)
    assert sum(int(row["n"]) for row in causes) == 3
    assert sum(float(row["share"]) for row in causes) == pytest.approx(1)
    concluded = next(row for row in causes if row["cause"] == "doctor_concluded_wrongly")
    assert concluded["n"] == "3", "it also answers gout on the vignette"

    assert main(["report", "failures", *run_option, "--part", "answers", "--formats", "all", "--format", "json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert {(row["format"], row["cause"]) for row in answers} == {
        ("vignette", "doctor_concluded_wrongly"),
        ("multi_turn", "doctor_concluded_wrongly"),
    }
    assert all(row["rule"].endswith(".") for row in answers)


def test_without_rows_the_reports_say_what_to_do(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "belief"]) == 1
    assert "--probe" in capsys.readouterr().err
    assert main(["report", "failures"]) == 1
    assert "core run" in capsys.readouterr().err


def test_the_estimate_includes_the_probes(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--doctor", "openai/gpt-4o", "--limit", "2", "--trials", "3", "--arms", ARMS, "--dry-run"]
    assert main(arguments) == 0
    plain = capsys.readouterr().out
    assert main([*arguments, "--probe"]) == 0
    with_probes = capsys.readouterr().out
    assert "probe" not in plain
    (line,) = [line for line in with_probes.splitlines() if line.strip().startswith("probe")]
    assert f" {2 * 3 * QUESTIONS_A_CONVERSATION} calls" in line


def test_a_reference_doctor_is_not_probed(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--doctor", "reference/bayes", "--limit", "1", "--trials", "1", "--arms", ARMS, "--probe"]) == 0
    (path,) = journals()
    assert "probe" not in read_header(path).settings


def test_options_without_a_prompt_in_the_pack_are_refused(
    db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bare"
    shutil.copytree(paths.PROMPTS / "craftmd", folder)
    for name in ("belief", "persona"):
        (folder / f"{name}.md").unlink()
    arguments = [
        "run",
        "--doctor",
        "openai/gpt-4o",
        "--patient",
        "openai/gpt-4o",
        "--prompts",
        str(folder),
        "--limit",
        "1",
    ]
    assert main([*arguments, "--probe"]) == 2
    assert "belief.md" in capsys.readouterr().err
    assert main([*arguments, "--persona", "terse"]) == 2
    assert "persona.md" in capsys.readouterr().err
    assert main([*arguments, "--persona", "grumpy"]) == 2
    assert "grumpy" in capsys.readouterr().err
    assert not journals()


def test_a_persona_of_the_reference_patient_is_refused(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--doctor", "reference/bayes", "--limit", "1", "--persona", "terse,A"]) == 2
    assert "The reference patient plays no persona: choose a model for the patient" in capsys.readouterr().err
    assert not journals()
