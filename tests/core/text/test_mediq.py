"""Items from MediQ's files: a small file of the same layout, and the published one if a copy is present."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.case import Case
from core.errors import UsageError
from core.text.case_items import items_of_facts, match_cases, read_mediq

RECORD = {
    "id": 0, "question": "Which is it?", "options": {"A": "Gout"}, "answer": "Gout", "answer_idx": "A",
    "context": ["A 50-year-old man has a painful toe", "He denied fever and chills", "He takes aspirin."],
    "facts": [
        "1. The patient is a 50-year-old man.", "2. The man has a painful toe.", "3. The man denied having a fever.",
        "4. The man denied having chills.", "5. The man takes aspirin.",
    ],
}  # fmt: skip


def a_case(vignette: str, key: str = "t/1") -> Case:
    return Case(case_key=key, dataset="t", specialty="Other", vignette=vignette, answer="Gout")


def written(folder: Path, *lines: object) -> Path:
    path = folder / "mediq.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_facts_are_joined_by_topic() -> None:
    values = {item.key: item.value for item in items_of_facts(RECORD["facts"])}  # type: ignore[arg-type]
    assert values == {
        "age and sex": "The patient is a 50-year-old man",
        "main complaint": "painful toe",
        "symptoms that are absent": "denied having a fever; chills",
        "current medication": "takes aspirin",
    }


def test_a_record_belongs_to_the_case_with_its_words(tmp_path: Path) -> None:
    same = "A 50-year-old man has a painful toe. He denied fever, and chills. He takes aspirin."
    nearly = same.replace("painful", "painfull")
    reading = read_mediq(written(tmp_path, RECORD))
    for vignette in (same, nearly):
        match = match_cases(reading.records, [a_case("A woman has asthma.", "t/2"), a_case(vignette)])
        assert list(match.items) == ["t/1"]
        assert match.items["t/1"].made_by == "mediq"
    match = match_cases(reading.records, [a_case("A woman has asthma.", "t/2")])
    assert (match.items, match.unmatched) == ({}, 1)


def test_a_json_array_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps([RECORD, RECORD]), encoding="utf-8")
    assert len(read_mediq(path).records) == 2


def test_bad_lines_are_rejected_by_number(tmp_path: Path) -> None:
    reading = read_mediq(written(tmp_path, RECORD, "{broken", {"id": 3, "context": ["x"]}))
    assert len(reading.records) == 1
    assert [(number, reason.split(":")[0]) for number, reason in reading.rejected][1] == (3, "facts")
    assert reading.rejected[0][1].startswith("this is not JSON")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for path in (written(tmp_path, {"question": "Why?"}), tmp_path / "absent.jsonl", written(tmp_path, "[1,")):
        with pytest.raises(UsageError, match="give MediQ's JSON or JSONL file"):
            read_mediq(path)


def test_the_published_file_gives_items_for_every_record() -> None:
    folder = os.environ.get("ANAMNESIS_DATASETS")
    path = Path(folder or "") / "mediq_craft_md.jsonl"
    if not folder or not path.is_file():
        pytest.skip("ANAMNESIS_DATASETS names no folder with mediq_craft_md.jsonl")
    reading = read_mediq(path)
    assert reading.rejected == ()
    assert len(reading.records) == 140
    for record in reading.records:
        items = items_of_facts(record.facts)
        assert 2 <= len(items) <= len(record.facts)
        assert len({item.key for item in items}) == len(items)
    own = [
        a_case(" ".join(f"{part.rstrip('.')}." for part in r.context), f"t/{i}") for i, r in enumerate(reading.records)
    ]
    assert match_cases(reading.records, own).unmatched == 0
