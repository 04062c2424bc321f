"""Every benchmark runs, with little data and a small artificial release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core import paths
from tests.support.release import a_conversation, a_file, a_row, a_trial, write_release

FOLDER = paths.ROOT / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("bench_*.py"))
QUESTION = "What is the most likely diagnosis?"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of two models to two cases, and artificial vignettes under the ids of all cases with marks by hand."""
    halves = json.loads((FOLDER / "examination_marks.json").read_text())["halves"]
    marked = {case: marks for half in halves.values() for case, marks in half.items()}
    rows = {
        case: a_row(case) for case in ("case_0", "case_1", *json.loads((FOLDER / "question_kinds.json").read_text()))
    }
    for case, marks in marked.items():
        finding = "The blood pressure is 120/80 mm Hg on examination."
        sentences = [finding if n in marks["shown"] else "He says he is tired." for n in range(marks["sentences"])]
        rows[case] = a_row(case, case_vignette=" ".join([*sentences, QUESTION]))
    messages = (
        "Hi! What brings you in?",
        "I itch.",
        "Since when do you itch?",
        "A week.",
        "Where do you itch?",
        "My arms.",
    )
    trial = a_trial(multiturn_conversation=a_conversation(*messages, "**Final Diagnosis:** Scabies"))
    files = {case: a_file(case, **{f"trial_{n}": trial for n in range(5)}) for case in ("case_0", "case_1")}
    models = {"gpt3_1106": files, "mistral-v1": files}
    return write_release(tmp_path_factory.mktemp("release"), models, list(rows.values()))


def test_there_are_benchmarks() -> None:
    assert "bench_fold.py" in SCRIPTS


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_runs(script: str, release: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "ANAMNESIS_BENCH_SMOKE": "1",
        "ANAMNESIS_CRAFTMD_RELEASE": str(release),
        "ANAMNESIS_DB": str(tmp_path / "bench.duckdb"),
    }
    command = [sys.executable, str(FOLDER / script)]
    done = subprocess.run(command, env=environment, cwd=paths.ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 2
    assert "Skipped" not in done.stdout
