"""Descriptions in Croissant; with ANAMNESIS_MLCROISSANT_PYTHON also read by mlcroissant itself.

The variable names a Python with mlcroissant 1.1.1 and pyarrow, which are not among the packages of this project.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from core.cli.app import main
from core.errors import UsageError
from core.interchange.croissant import description_of
from core.interchange.hub import DataSetCard, write_data_set
from core.store.database import Store
from core.store.selection import Selection
from tests.core.interchange import exchanged as campaign
from tests.core.interchange.exchanged import RUN
from tests.support.stores import copy_of

READER = os.environ.get("ANAMNESIS_MLCROISSANT_PYTHON", "")
READ = """
import json, sys, mlcroissant
data = mlcroissant.Dataset(jsonld=sys.argv[1])
issues = data.metadata.ctx.issues
sets = {s.uuid: [
    {k.split("/")[-1]: v for k, v in record.items()} for record in data.records(s.uuid)
] for s in data.metadata.record_sets}
text = lambda value: value.decode() if isinstance(value, bytes) else str(value)
print(json.dumps({"issues": sorted(issues.errors | issues.warnings), "sets": sets}, default=text))
"""
needs_reader = pytest.mark.skipif(not READER, reason="ANAMNESIS_MLCROISSANT_PYTHON names no Python with mlcroissant")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(campaign.exchanged, tmp_path)


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    write_data_set(store, Selection(runs=[RUN]), tmp_path / "hub", DataSetCard("Lumps", "An institute"))
    return tmp_path / "hub"


def read(description: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a description by mlcroissant, which must have no issue with it."""
    done = subprocess.run([READER, "-c", READ, description], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["issues"] == []
    sets: dict[str, list[dict[str, Any]]] = answer["sets"]
    return sets


def test_files_and_columns_are_described_as_they_are(folder: Path) -> None:
    document = json.loads((folder / "croissant.json").read_bytes())
    assert "http://mlcommons.org/croissant/1.1" in document["conformsTo"]
    objects = {described["@id"]: described for described in document["distribution"]}
    for described in objects.values():
        content = (folder / described["contentUrl"]).read_bytes()
        assert described["sha256"] == hashlib.sha256(content).hexdigest()
        assert described["contentSize"] == f"{len(content)} B"
    for record_set in document["recordSet"]:
        columns = pq.read_schema(folder / "data" / f"{record_set['name']}.parquet").names
        assert [described["name"] for described in record_set["field"]] == columns


def test_what_is_excluded_and_who_judged_is_said(folder: Path) -> None:
    document = json.loads((folder / "croissant.json").read_bytes())
    assert "Provider error, excluded 1" in document["rai:dataCollectionMissingData"]
    assert [tool.partition(" ")[0] for tool in document["rai:machineAnnotationTools"]] == ["openai/g"]
    assert document["rai:personalSensitiveInformation"][0].startswith("None")


@needs_reader
def test_mlcroissant_reads_the_data_set(folder: Path) -> None:
    sets = read(folder / "croissant.json")
    assert {name: len(records) for name, records in sets.items()} == {
        "accuracy": 2, "answers": 16, "conversations": 8, "cases": 4,
    }  # fmt: skip
    expected = pq.read_table(folder / "data" / "conversations.parquet").to_pylist()
    for record, row in zip(sets["conversations"], expected, strict=True):
        assert record["trial_id"] == row["trial_id"]
        texts = [{k.split("/")[-1]: v for k, v in message.items()}["text"] for message in record["messages"]]
        assert texts == [message["text"] for message in row["messages"]]


@needs_reader
@pytest.mark.parametrize(
    "command", ["results --out {}/r.csv", "results --out {}/r.parquet", "transcripts RUN --out {}/t.jsonl"]
)
def test_mlcroissant_reads_other_exports(command: str, store: Store, tmp_path: Path) -> None:
    words = command.format(tmp_path).replace("RUN", RUN).split()
    assert main(["export", *words, "--croissant", "An institute"]) == 0
    (records,) = read(Path(f"{words[-1]}.croissant.json")).values()
    # a row for each answer and rule: two rules judge an answer with choices, one a free response
    assert len(records) == (8 if words[-1].endswith("jsonl") else 8 * 3)
    assert {record["trial_id"] for record in records} == {f"{RUN}/{n}/{t}" for n in range(1, 5) for t in range(2)}


@needs_reader
def test_mlcroissant_reads_a_training_set(store: Store, tmp_path: Path) -> None:
    assert main(["export", "training", "--out", str(tmp_path / "set"), "--croissant", "An institute"]) == 0
    sets = read(tmp_path / "set" / "croissant.json")
    lines = {side: (tmp_path / "set" / f"{side}.jsonl").read_text().count("\n") for side in sets}
    assert {side: len(records) for side, records in sets.items()} == lines


def test_columns_of_a_table_are_described_by_their_values(tmp_path: Path) -> None:
    table = pa.table({"name": ["a", "b"], "share": [0.5, 1.0], "n": [1, 2], "right": [True, False]})
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    (tmp_path / "l.jsonl").write_text('{"n": 1, "nested": {"a": 1}, "x": null}\n{"n": 2, "nested": {}, "x": 0.5}\n')
    document = json.loads(
        description_of([tmp_path / "t.csv", tmp_path / "l.jsonl"], tmp_path, "T", "A table.", "Me", ["MIT", "MIT"])
    )
    types = [{described["name"]: described["dataType"] for described in s["field"]} for s in document["recordSet"]]
    assert types == [
        {"name": "sc:Text", "share": "sc:Float", "n": "sc:Integer", "right": "sc:Boolean"},
        {"n": "sc:Integer", "x": "sc:Float"},
    ]
    assert document["license"] == "https://spdx.org/licenses/MIT.html"


def test_file_that_cannot_be_described_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("words")
    with pytest.raises(UsageError):
        description_of([tmp_path / "t.txt"], tmp_path, "T", "A text.", "Me", [])
