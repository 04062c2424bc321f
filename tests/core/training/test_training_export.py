"""The files of a training set: format, manifest, and refused input."""

from __future__ import annotations

import hashlib
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from core.datasets.library import library
from core.errors import AnamnesisError, UsageError
from core.text.case_items import HistoryItem, ItemSet
from core.training.chat import ChatLine, check_apart, read_side
from core.training.export import ExportSettings, build, write
from tests.core.training.golden_cases import PROFILE, RETOLD, a_case

CASES = [
    *(a_case(n, profile=PROFILE) for n in range(8)),
    a_case(20, vignette=RETOLD[0], licence="", source="elsewhere", case_key="theirs/1"),
    a_case(21, vignette=RETOLD[1], licence="", source="elsewhere", case_key="theirs/2"),
    a_case(30, question="Which is the next step in management?"),
]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "set", build(CASES, ExportSettings(order="random", dialogues=2, test_share=0.3)))
    return tmp_path / "set"


def test_each_line_is_a_chat_whose_assistant_is_the_doctor(folder: Path) -> None:
    for side, cases in (("train", 7), ("test", 3)):
        lines = rows(folder / f"{side}.jsonl")
        assert len(lines) == 2 * cases
        for row in lines:
            roles = [message["role"] for message in row["messages"]]
            assert roles[:3] == ["system", "user", "assistant"]
            assert roles[1:] == ["user", "assistant"] * (len(roles[1:]) // 2)
            assert "Final Diagnosis" in row["messages"][-1]["content"]
            assert row["split"] == side
    assert not {r["case_key"] for r in rows(folder / "train.jsonl")} & {
        r["case_key"] for r in rows(folder / "test.jsonl")
    }


def test_the_dialogues_of_a_case_differ(folder: Path) -> None:
    by_case: dict[str, set[str]] = {}
    for row in rows(folder / "train.jsonl"):
        by_case.setdefault(row["case_key"], set()).add(json.dumps(row["messages"]))
    assert {len(dialogues) for dialogues in by_case.values()} == {2}


def test_the_manifest_has_counts_and_sources(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        assert entry["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert entry["dialogues"] == len(rows(folder / name)) == 2 * entry["cases"]
    assert manifest["sources"] == [
        {"dataset": "ours", "source": "ours", "licence": "MIT", "cases": 8},
        {"dataset": "theirs", "source": "elsewhere", "licence": "not stated", "cases": 2},
    ]
    assert manifest["specialties"] == [{"specialty": "Cardiology", "train": 7, "test": 3}]
    assert manifest["near_duplicates"] == [["theirs/1", "theirs/2"]]
    assert manifest["left_out"] == ["ours/30"]
    assert manifest["items_made_by"] == {"profile-3": 8, "rules-3": 2}


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "again", build(CASES, ExportSettings(order="random", dialogues=2, test_share=0.3)))
    write(tmp_path / "other", build(CASES, ExportSettings(order="random", dialogues=2, test_share=0.3, seed=1)))
    for name in ("train.jsonl", "test.jsonl", "manifest.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
        assert (tmp_path / "other" / name).read_bytes() != (folder / name).read_bytes()


def test_stored_items_are_used() -> None:
    stored = ItemSet((HistoryItem(key="shoe size", value="large", topic="other"),), "openai/x")
    training = build(CASES[:8], ExportSettings(), lambda case: stored if case.case_key == "ours/3" else None)
    line = next(x for side in ("train", "test") for x in training.lines[side] if x.case_key == "ours/3")
    assert line.keys == ("shoe size",)
    assert "shoe size" in line.messages[2].content
    assert training.manifest.items_made_by == {"openai/x": 1, "profile-3": 7}


def test_a_training_set_is_only_replaced_with_force(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    before = (folder / "train.jsonl").read_bytes()
    other = build(CASES, ExportSettings(seed=5))
    with pytest.raises(UsageError, match=r"holds train.jsonl already: .* --force"):
        write(folder, other)
    assert (folder / "train.jsonl").read_bytes() == before
    write(folder, other, force=True)
    assert (folder / "train.jsonl").read_bytes() != before
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json", "notes.txt", "test.jsonl", "train.jsonl"]
    with pytest.raises(UsageError, match="is a file"):
        write(folder / "notes.txt", other, force=True)


def test_a_training_set_is_checked_when_read(folder: Path) -> None:
    assert len(read_side(folder, "train")) == 14
    (folder / "test.jsonl").write_bytes((folder / "train.jsonl").read_bytes())
    with pytest.raises(AnamnesisError, match=r"test\.jsonl, line 1 belongs to train"):
        read_side(folder, "test")
    (folder / "test.jsonl").write_text('{"messages": []}\n')
    with pytest.raises(AnamnesisError, match=r"test\.jsonl, line 1 is no dialogue"):
        read_side(folder, "test")
    (folder / "test.jsonl").write_text("")
    with pytest.raises(UsageError, match="holds no dialogue"):
        read_side(folder, "test")
    (folder / "test.jsonl").unlink()
    with pytest.raises(UsageError, match="export training"):
        read_side(folder, "test")


def test_a_line_without_alternating_roles_is_refused(folder: Path) -> None:
    row = rows(folder / "train.jsonl")[0]
    ChatLine.model_validate(row)
    for messages in (row["messages"][1:], row["messages"][:-1], [row["messages"][0], *row["messages"][2:], {}]):
        with pytest.raises(ValueError, match=r"roles|messages"):
            ChatLine.model_validate({**row, "messages": messages})


def test_a_case_on_both_sides_is_refused(folder: Path) -> None:
    train, test = read_side(folder, "train"), read_side(folder, "test")
    check_apart(train, test)
    with pytest.raises(AnamnesisError, match=f"{train[0].case_key} stands in train.jsonl and in test.jsonl"):
        check_apart(train, [*test, train[0]])


@pytest.mark.slow
def test_the_library_exports_and_loads_with_datasets(tmp_path: Path) -> None:
    datasets = import_module("datasets")
    write(tmp_path, build(library(), ExportSettings()))
    files = {side: str(tmp_path / f"{side}.jsonl") for side in ("train", "test")}
    loaded = datasets.load_dataset("json", data_files=files, cache_dir=str(tmp_path / "cache"))
    assert (len(loaded["train"]), len(loaded["test"])) == (36, 24)
    assert loaded["train"][0]["messages"][0]["role"] == "system"
