from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from core.errors import UsageError
from core.interchange.hub import DataSetCard, write_data_set
from core.measures.accuracy import accuracy
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.annotations import Annotation, add_annotations
from core.store.selection import Selection
from tests.core.interchange import exchanged as campaign
from tests.core.interchange.exchanged import EXCLUDED, MEAN, RUN, SECRET, SECRET_MESSAGE
from tests.core.measures.experts.reviews import a_review
from tests.support.stores import copy_of

CARD = DataSetCard("Lumps on necks", "An institute")
ROWS = {"accuracy": 2, "answers": 16, "conversations": 8, "cases": 4}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(campaign.exchanged, tmp_path)


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    written = write_data_set(store, Selection(runs=[RUN]), tmp_path / "hub", CARD)
    assert written.rows == ROWS
    return tmp_path / "hub"


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "data" / f"{name}.parquet").to_pylist()
    return rows


def test_hugging_face_loads_every_configuration(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    for name, count in ROWS.items():
        loaded = load_dataset(str(folder), name, split="test", cache_dir=str(tmp_path / "cache"))
        assert loaded.num_rows == count
        assert loaded.column_names == pq.read_schema(folder / "data" / f"{name}.parquet").names
    talks = load_dataset(str(folder), "conversations", split="test", cache_dir=str(tmp_path / "cache"))
    assert talks[0]["messages"][1] == {"turn": 1, "role": "patient", "text": "A lump on my neck since 1 weeks."}


def test_figures_are_those_of_report_accuracy(store: Store, folder: Path) -> None:
    expected = accuracy(store, selection=Selection(runs=[RUN]))
    assert [(r["mean"], r["ci_low"], r["ci_high"], r["n_cases"]) for r in rows_of(folder, "accuracy")] == [
        (row.estimate, row.low, row.high, row.n) for row in expected
    ]
    card = (folder / "README.md").read_text()
    for row in expected:
        assert f"| {row.estimate:.3f} | {row.low:.3f} to {row.high:.3f} | {row.n} |" in card


def test_answers_give_the_figure_and_name_what_is_excluded(folder: Path) -> None:
    free = [row for row in rows_of(folder, "answers") if row["question_type"] == "frq"]
    by_case = defaultdict(list)
    for row in free:
        if row["counted"]:
            by_case[row["case_key"]].append(row["correct"])
    assert np.mean([np.mean(values) for values in by_case.values()]) == MEAN
    excluded = [row for row in free if not row["counted"]]
    assert [(row["verdict"], row["correct"]) for row in excluded] == [("provider_error", None)] * EXCLUDED


def test_card_says_how_to_load_it_and_under_which_licence(folder: Path) -> None:
    _, header, body = (folder / "README.md").read_text().split("---\n", 2)
    fields = yaml.safe_load(header)
    assert fields["license"] == "mit"  # of the cases whose texts are included
    assert {config["config_name"] for config in fields["configs"]} == set(ROWS)
    for config in fields["configs"]:
        assert (folder / config["data_files"][0]["path"]).is_file()
    assert fields["language"] == ["en"]
    assert "- 1 cases of made for tests: see the data set's own page." in body


def test_texts_of_a_case_without_an_open_licence_are_withheld(store: Store, folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert write_data_set(store, Selection(runs=[RUN]), whole, CARD, with_cases=True).withheld == 0

    def texts(place: Path) -> str:
        return json.dumps([rows_of(place, name) for name in ROWS], default=str) + (place / "README.md").read_text()

    for secret in (SECRET, SECRET_MESSAGE):
        assert secret not in texts(folder)
        assert secret in texts(whole)
    (case,) = [row for row in rows_of(folder, "cases") if row["case_key"] == "ours/4"]
    assert (case["vignette"], case["answer"], case["texts_included"]) == (None, None, False)
    assert (
        case["text_sha256"]
        == hashlib.sha256(f"{SECRET}\n\nWhat is the most likely diagnosis?Eczema".encode()).hexdigest()
    )
    talks = [row for row in rows_of(folder, "conversations") if row["case_key"] == "ours/4"]
    assert {m["text"] for talk in talks for m in talk["messages"]} == {None}
    assert [len(talk["messages"]) for talk in talks] == [3, 3]


def test_no_answer_of_a_review_leaves(store: Store, tmp_path: Path) -> None:
    review = a_review(store, "Blinded review", annotators=("Annotatorella",), number=4, shared=0.0, seed=1)
    item = state_of(store, review.review_id).items_for("Annotatorella")[0].item
    said = Annotation(item, "Annotatorella", "medical_terms", "yes", "commentarium", review_id=review.review_id)
    with store.write() as connection:
        add_annotations(connection, [said])
    folder = tmp_path / "hub"
    write_data_set(store, Selection(runs=[RUN]), folder, CARD)
    everything = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    everything += json.dumps([rows_of(folder, name) for name in ROWS], default=str).encode()
    for private in (b"Annotatorella", b"commentarium", b"Blinded review", review.review_id.encode()):
        assert private not in everything


def test_existing_folder_is_not_replaced(store: Store, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UsageError):
        write_data_set(store, Selection(runs=[RUN]), folder, CARD)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_publisher_chooses_the_licence(store: Store, tmp_path: Path) -> None:
    card = DataSetCard("Lumps", "An institute", licence="CC BY 4.0")
    write_data_set(store, Selection(runs=[RUN]), tmp_path / "own", card)
    header = yaml.safe_load((tmp_path / "own" / "README.md").read_text().split("---\n", 2)[1])
    assert header["license"] == "cc-by-4.0"
    description = json.loads((tmp_path / "own" / "croissant.json").read_bytes())
    assert description["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
