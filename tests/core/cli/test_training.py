"""``export training`` and ``train``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets import imported
from core.datasets.library import library
from core.datasets.select import select
from core.store.database import Store
from core.text.case_items import HistoryItem
from tests.core.frameworks.consultation.measures.dialogues import save_items
from tests.core.training.golden_cases import RETOLD, a_case
from tests.core.training.learning import make_tiny_model, make_training_set


def test_the_library_becomes_a_training_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "set"
    assert main(["export", "training", "--out", str(out), "--order", "random"]) == 0
    output = capsys.readouterr().out
    assert f"Wrote 36 dialogues of 36 cases to {out / 'train.jsonl'}." in output
    assert f"Wrote 24 dialogues of 24 cases to {out / 'test.jsonl'}." in output
    assert "Only " not in output
    assert "Licence of the 60 cases of library (written for Anamnesis): MIT." in output
    assert all(f"{s:<30}     3 train     2 test" in output for s in {case.specialty for case in library()})
    sides = {side: select(f"library:{side}@{out}") for side in ("train", "test")}
    manifest = json.loads((out / "manifest.json").read_text())
    assert {side: {case.case_key for case in cases} for side, cases in sides.items()} == {
        side: set(keys) for side, keys in manifest["cases"].items()
    }
    assert (len(sides["train"]), len(sides["test"])) == (36, 24)
    assert not {*sides["train"]} & {*sides["test"]}
    assert main(["run", "--doctor", "reference/bayes", "--cases", f"library:test@{tmp_path}", "--dry-run"]) == 2
    assert "is no training set: give a folder" in capsys.readouterr().err
    assert main(["export", "training", "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["export", "training", "--out", str(out), "--force", "--cases", "library:Neurology"]) == 0
    output = capsys.readouterr().out
    assert "of 2 cases" in output
    assert "Only 2 cases are kept for test" in output, "too few to compare before and after"


def test_imported_cases_keep_their_licence_and_near_duplicates_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [a_case(n, case_key=f"mine/{n}", licence="CC BY 4.0", source="somebody") for n in range(8)]
    retold = [a_case(n, case_key=f"mine/{n}", vignette=RETOLD[n - 8], licence="CC BY 4.0") for n in (8, 9)]
    other = a_case(10, case_key="mine/10", question="What is the next step?")
    imported.save("mine", [*cases, *retold, other])
    assert main(["export", "training", "--out", str(tmp_path / "set"), "--cases", "mine"]) == 0
    output = capsys.readouterr().out
    assert "Licence of the 8 cases of mine (somebody): CC BY 4.0." in output
    assert "1 clusters of near-duplicate cases, each on one side.\n  mine/8, mine/9\n" in output
    assert "Left out 1 cases" in output
    row = json.loads((tmp_path / "set" / "test.jsonl").read_text().splitlines()[0])
    assert row["licence"] == "CC BY 4.0"


def test_items_of_the_database_are_asked_for(tmp_path: Path) -> None:
    case = library()[0]
    save_items(Store(), case, [HistoryItem(key="shoe size", value="large", topic="other")])
    assert main(["export", "training", "--out", str(tmp_path), "--cases", "library:Cardiology"]) == 0
    rows = [json.loads(x) for side in ("train", "test") for x in (tmp_path / f"{side}.jsonl").open()]
    assert [row["keys"] for row in rows if row["case_key"] == case.case_key] == [["shoe size"]]


@pytest.mark.slow
def test_a_model_is_trained_with_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny, data = make_tiny_model(tmp_path / "tiny"), make_training_set(tmp_path / "set")
    train = ["train", "--model", str(tiny), "--data", str(data), "--out", str(tmp_path / "model")]
    assert main([*train, "--epochs", "1", "--lr", "0.003", "--max-length", "1000"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Trained 2 steps: loss \d\.\d+ at first, \d\.\d+ at last\.", printed)
    assert f"--doctor hf/{tmp_path / 'model'}" in printed
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert metrics["settings"]["max_length"] == 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "training", "--out", "x", "--order", "odd"], "'odd' is no order: use direct, random, reversed."),
        (["export", "training", "--out", "x", "--cases", "nothing"], "There is no data set 'nothing'"),
        (["export", "training", "--out", "x", "--test-share", "1"], "must lie between 0 and 1, not 1"),
        (["export", "training", "--out", "x", "--limit", "1"], "cannot be split into train and test"),
        (["train", "--model", "m", "--data", "/nowhere", "--out", "x"], "There is no file /nowhere/train.jsonl"),
        (["train", "--model", "m", "--data", ".", "--out", "x", "--lr", "0"], "--lr must be above 0, not 0."),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "x").exists()
