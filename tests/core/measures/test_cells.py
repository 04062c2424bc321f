"""Computed and published cells: which are shown, marked how, and never mixed."""

from __future__ import annotations

import csv

import pytest

from core.datasets.published import FOLDER
from core.measures.accuracy import Cell, case_sets, own_cells, published_cells, scores_of, with_published
from tests.core.measures.test_compare import score


def cell_at(cells: list[Cell], *key: str | None) -> Cell:
    (found,) = [c for c in cells if (c.model, c.format, c.question_type, c.group) == key]
    return found


def test_published_cells_are_the_printed_ones_with_their_table() -> None:
    cells = published_cells("craftmd", "all")
    gpt_4 = cell_at(cells, "gpt_4", "vignette", "mcq", None)
    assert (gpt_4.mean, gpt_4.ci_low, gpt_4.ci_high, gpt_4.source) == (0.82, 0.804, 0.837, "supplementary table 1")
    assert cell_at(cells, "mistral_v1_7b", "vignette", "mcq", None).source == "supplementary table 22"
    # of both tables that print Mistral v2, the one on all cases is taken, and the other is named where it differs
    both = cell_at(cells, "mistral_v2_7b", "vignette", "frq", None)
    assert (both.mean, [(one.table, one.mean) for one in both.differing]) == (0.222, [(22, 0.211)])
    assert both.source.startswith("supplementary table 4; table 22")
    assert "0.211" in both.source
    assert cell_at(cells, "mistral_v2_7b", "vignette", "mcq", None).source == "supplementary table 1"
    assert cell_at(published_cells("craftmd", "specialty"), "gpt_4", "vignette", "mcq", "Cardiology").mean == 0.802
    assert cell_at(published_cells("craftmd", "dermatology"), "gpt_4", "vignette", "mcq", "MedQA_USMLE").mean == 0.791
    assert cell_at(published_cells("craftmd", "single"), "gpt_4", "vignette", "mcq", "MedQA_USMLE").mean == 0.867
    assert published_cells("craftmd", "dataset") == []


def test_every_printed_accuracy_is_in_some_split() -> None:
    with (FOLDER / "craftmd_accuracy.csv").open(encoding="utf-8") as file:
        printed = list(csv.DictReader(file))
    shown = {split: len(published_cells("craftmd", split)) for split in ("all", "specialty", "dermatology", "single")}
    of_scope = {scope: sum(row["scope"] == scope for row in printed) for scope in {row["scope"] for row in printed}}
    assert shown["specialty"] == of_scope["specialty"] == 384
    assert shown["dermatology"] == of_scope["dataset"] == 96
    assert shown["single"] == of_scope["dataset_single_dx"] == 96
    # Mistral v2 stands in tables 1 and 4 and again in 22
    assert shown["all"] == of_scope["overall"] + of_scope["multimodal"] + of_scope["monitoring"] - 8


def test_an_interval_that_misses_its_mean_is_not_shown() -> None:
    cells = published_cells("craftmd", "all")
    assert all(c.ci_low is None for c in cells if c.printed[0].table == 4)
    assert all(c.ci_low is not None and c.ci_low <= c.mean for c in cells if c.printed[0].table != 4)


def test_published_cells_fill_only_what_nothing_of_ours_covers() -> None:
    scores = [score(1, 4, model="openai/gpt-4-1106-preview"), score(2, 5, model="openai/gpt-4-1106-preview")]
    own = own_cells(scores, "all", "bootstrap")
    assert [c.mean for c in own] == pytest.approx([0.9])
    labels = {"openai/gpt-4-1106-preview": "gpt_4"}
    cells = with_published(own, published_cells("craftmd", "all"), lambda model: labels.get(model, model))
    vignettes = [c for c in cells if c.format == "vignette" and c.question_type == "mcq"]
    assert [c.model for c in vignettes if c.own] == ["openai/gpt-4-1106-preview"]
    assert "gpt_4" not in {c.model for c in vignettes}
    assert cell_at(cells, "gpt_4", "multi_turn", "mcq", None).source == "supplementary table 1"
    assert all((c.own is None) == bool(c.printed) for c in cells)


def test_an_arm_of_which_nothing_counts_is_no_cell_and_leaves_the_published_one() -> None:
    broken = [score(1, 0, 0, model="gpt_4", excluded={"provider_error": 5})]
    assert own_cells(broken, "all", "bootstrap") == []
    cells = with_published([], published_cells("craftmd", "all"), str)
    assert cell_at(cells, "gpt_4", "vignette", "mcq", None).source == "supplementary table 1"


def test_case_sets_are_kept_apart_and_dermatology_is_only_that() -> None:
    scores = [
        score(1, 5),
        score(1, 2, format="multi_turn"),
        score(2, 5, specialty="Neurology"),
        score(1, 0, case_key="craftmd/case_1"),
        score(2, 0, case_key="craftmd/case_2", specialty="Neurology"),
        score(3, 0, case_key="craftmd/case_3"),
    ]
    assert list(case_sets(scores).items()) == [("craftmd", 3), ("ours", 2)]
    assert len(scores_of(scores, "ours", "all")) == 3
    assert [s.case_key for s in scores_of(scores, "craftmd", "dermatology")] == ["craftmd/case_1", "craftmd/case_3"]
    only = scores_of(scores, "craftmd", "single", frozenset({"craftmd/case_3", "craftmd/case_2"}))
    assert [s.case_key for s in only] == ["craftmd/case_3"]


def test_a_split_by_specialty_has_a_cell_for_each() -> None:
    scores = [score(1, 5), score(2, 0, specialty="Neurology"), score(3, 4, specialty="Neurology")]
    cells = own_cells(scores, "specialty", "normal")
    assert [(c.group, c.mean, c.own.n_cases if c.own else 0) for c in cells] == [
        ("Dermatology", 1.0, 1),
        ("Neurology", pytest.approx(0.4), 2),
    ]
