"""Computed and published cells: their sources and splits, and that they are never mixed."""

from __future__ import annotations

import csv

import pytest

from core.datasets.published import FOLDER
from core.measures.accuracy import accuracy_of, printed_twice, published_rows, scores_of, with_published
from core.measures.base import Row
from tests.core.measures.test_compare import score


def cell_at(rows: list[Row], *key: str | None) -> Row:
    parts = ("model", "format", "question_type", "group")
    (row,) = [row for row in rows if tuple(row.label.get(part) for part in parts) == key]
    return row


def test_published_cells_are_the_printed_ones_with_their_table() -> None:
    cells = published_rows("craftmd")
    gpt_4 = cell_at(cells, "gpt_4", "vignette", "mcq", None)
    assert (gpt_4.estimate, gpt_4.low, gpt_4.high, gpt_4.source) == (0.82, 0.804, 0.837, "supplementary table 1")
    assert cell_at(cells, "mistral_v1_7b", "vignette", "mcq", None).source == "supplementary table 22"
    # two tables print Mistral v2: the table on all cases counts, the other is named if it differs
    twice_printed = cell_at(cells, "mistral_v2_7b", "vignette", "frq", None)
    assert twice_printed.estimate == 0.222
    assert "0.222 in table 4, 0.211 in table 22" in printed_twice([twice_printed], "craftmd")
    assert twice_printed.source.startswith("supplementary table 4; table 22")
    assert "0.211" in twice_printed.source
    assert cell_at(cells, "mistral_v2_7b", "vignette", "mcq", None).source == "supplementary table 1"
    assert cell_at(published_rows("craftmd", "specialty"), "gpt_4", "vignette", "mcq", "Cardiology").estimate == 0.802
    assert (
        cell_at(published_rows("craftmd", "dermatology"), "gpt_4", "vignette", "mcq", "MedQA_USMLE").estimate == 0.791
    )
    assert cell_at(published_rows("craftmd", "single"), "gpt_4", "vignette", "mcq", "MedQA_USMLE").estimate == 0.867
    assert published_rows("craftmd", "dataset") == []


def test_every_printed_accuracy_is_in_some_split() -> None:
    with (FOLDER / "craftmd_accuracy.csv").open(encoding="utf-8") as file:
        printed = list(csv.DictReader(file))
    counts = {split: len(published_rows("craftmd", split)) for split in (None, "specialty", "dermatology", "single")}
    of_scope = {scope: sum(row["scope"] == scope for row in printed) for scope in {row["scope"] for row in printed}}
    assert counts["specialty"] == of_scope["specialty"] == 384
    assert counts["dermatology"] == of_scope["dataset"] == 96
    assert counts["single"] == of_scope["dataset_single_dx"] == 96
    # Mistral v2 is in tables 1 and 4 and again in 22
    assert counts[None] == of_scope["overall"] + of_scope["multimodal"] + of_scope["monitoring"] - 8


def test_an_interval_that_misses_its_mean_is_not_shown() -> None:
    cells = published_rows("craftmd")
    of_table_4 = [row for row in cells if row.source.startswith("supplementary table 4")]
    assert of_table_4
    assert all(row.low is None for row in of_table_4)
    others = [row for row in cells if row not in of_table_4]
    assert all(row.low is not None and row.estimate is not None and row.low <= row.estimate for row in others)


def test_published_cells_fill_only_cells_without_a_computed_figure() -> None:
    scores = [score(1, 4, model="openai/gpt-4-1106-preview"), score(2, 5, model="openai/gpt-4-1106-preview")]
    own = accuracy_of(scores, interval="bootstrap")
    assert [row.estimate for row in own] == pytest.approx([0.9])
    cells = with_published(own, published_rows("craftmd"))
    vignettes = [row for row in cells if (row["format"], row["question_type"]) == ("vignette", "mcq")]
    assert [row["model"] for row in vignettes if not row.source] == ["openai/gpt-4-1106-preview"]
    assert "gpt_4" not in {row["model"] for row in vignettes}
    assert cell_at(cells, "gpt_4", "multi_turn", "mcq", None).source == "supplementary table 1"
    assert all((row.n is None) == bool(row.source) for row in cells)


def test_an_arm_of_which_nothing_counts_has_no_estimate() -> None:
    broken = [score(1, 0, 0, model="gpt_4", excluded={"provider_error": 5})]
    (row,) = accuracy_of(broken)
    assert (row.estimate, row.low, row.n, row.excluded) == (None, None, 0, {"provider_error": 5})


def test_the_split_of_dermatology_has_only_its_cases() -> None:
    scores = [
        score(1, 0, case_key="craftmd/case_1"),
        score(2, 0, case_key="craftmd/case_2", specialty="Neurology"),
        score(3, 0, case_key="craftmd/case_3"),
    ]
    assert len(scores_of(scores, None)) == 3
    assert [s.case_key for s in scores_of(scores, "dermatology")] == ["craftmd/case_1", "craftmd/case_3"]
    only = scores_of(scores, "single", frozenset({"craftmd/case_3", "craftmd/case_2"}))
    assert [s.case_key for s in only] == ["craftmd/case_3"]


def test_a_split_by_specialty_has_a_cell_for_each() -> None:
    scores = [score(1, 5), score(2, 0, specialty="Neurology"), score(3, 4, specialty="Neurology")]
    rows = accuracy_of(scores, "specialty", interval="normal")
    assert [(row["group"], row.estimate, row.n) for row in rows] == [
        ("Dermatology", 1.0, 1),
        ("Neurology", pytest.approx(0.4), 2),
    ]
