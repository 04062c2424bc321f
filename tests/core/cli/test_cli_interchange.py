from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from core.store.sample import add_sample
from tests.support.stores import copy_of

PUBLISHER = ("--organization", "An institute")
RUN = "20261123-115148-6494b7a6"
"""The small model before training: eight arms, two answers failed by the provider."""


@pytest.fixture
def sample(db: Path) -> Store:
    return copy_of(add_sample, db.parent)


def _reported(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, str]]:
    """Return arm → the row that ``report accuracy`` prints."""
    capsys.readouterr()
    assert main(["report", "accuracy", "--run", RUN, "--format", "csv", *options]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    return {f"{row['format']}:{row['question_type']}": row for row in rows}


def test_every_eval_ever_has_the_numbers_of_report_accuracy(
    sample: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shared"
    assert main(["export", "eee", RUN, "--out", str(out), *PUBLISHER, "--relationship", "third_party"]) == 0
    assert "2 are excluded" in capsys.readouterr().out
    (file,) = out.glob("data/*/*/*/*.json")
    results = {
        r["evaluation_result_id"]: r["score_details"] for r in json.loads(file.read_bytes())["evaluation_results"]
    }
    reported = _reported(capsys, "--interval", "bootstrap")
    assert results.keys() == reported.keys()
    for arm, row in reported.items():
        interval = results[arm]["uncertainty"]["confidence_interval"]
        numbers = (results[arm]["score"], interval["lower"], interval["upper"])
        assert numbers == pytest.approx([float(row[name]) for name in ("mean", "ci_low", "ci_high")], abs=1e-6)
        assert results[arm]["details"]["n_excluded"] == row["n_excluded"]
    assert results["vignette:frq"]["details"]["excluded_provider_error"] == "2"


@pytest.mark.parametrize(
    "words",
    [
        f"eee {RUN} --out x --organization An-institute",
        f"eee {RUN} --out x --organization An-institute --relationship friendly",
        "eee no-such-run --out x --organization An-institute --relationship other",
    ],
)
def test_misuse_writes_nothing(words: str, sample: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "empty"
    place.mkdir()
    monkeypatch.chdir(place)
    assert main(["export", *words.split()]) == 2
    assert list(place.iterdir()) == []
