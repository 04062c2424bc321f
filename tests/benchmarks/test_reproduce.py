"""The printed figures against a small release, worked out by hand, and against the authors' release if it is here."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reproduce
from reproduce import Cell, MissingData, adjusted_p, family_of

from core.datasets.published import accuracy_figures, published_tests
from core.stats.corrections import adjusted
from tests.benchmarks.small_release import a_trial, case_row, literal, write_release

WRONG = a_trial()
RIGHT = a_trial(vignette_mcq="It is GOUT.", evaluation_vignette_frq=1, extracted_ans_vignette_frq="multiple")
RELEASE = Path(os.environ.get("ANAMNESIS_CRAFTMD_RELEASE", ""))
Cells = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "results.duckdb"))


def cells_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cells:
    reproduce.main([str(folder), "--format", "json"])
    cells: Cells = json.loads(capsys.readouterr().out)["cells"]
    return cells


def values(cells: Cells, table: int, quantity: str, **labels: str) -> list[float | None]:
    wanted = {"table": table, "quantity": quantity, "model": "gpt_3_5", **labels}
    return [cell["recomputed"] for cell in cells if wanted.items() <= cell.items()]


@pytest.mark.slow
def test_scores_are_means_of_the_trials_that_are_not_missing_and_a_test_is_the_authors_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = {
        "case_9": [RIGHT, RIGHT, WRONG, WRONG, WRONG],
        "case_3": [RIGHT, None, WRONG, WRONG, WRONG],  # a missing trial
        "case_5": [  # a list, a null, no evaluation: missing as well
            {**RIGHT, "vignette_mcq": ["Gout", 0.01]},
            {**WRONG, "vignette_mcq": None},
            RIGHT,
            WRONG,
            {**WRONG, "evaluation_vignette_frq": -1},
        ],
        "case_7": [{**RIGHT, "vignette_mcq": None, "evaluation_vignette_frq": -1}] * 5,  # no valid answer
    }
    folder = write_release(tmp_path / "release", [case_row(case_id) for case_id in trials], trials)
    cells = cells_of(folder, capsys)

    choices, free = [2 / 5, 1 / 4, 1 / 3, 0], [2 / 5, 1 / 4, 2 / 4, 0]
    arm = {"format": "vignette"}
    assert values(cells, 1, "mean", **arm) == [round(sum(choices) / 4, 3)] == [0.246]
    assert values(cells, 4, "mean", **arm) == [0.288]
    # 0.24583 ± 3.18245 · 0.175 / 2
    assert values(cells, 1, "ci_low", **arm) + values(cells, 1, "ci_high", **arm) == [-0.033, 0.524]
    p = values(cells, 3, "p_value", arm_a="mcq_vignette")
    assert p == [literal(np.array(choices), np.array(free))]
    others = [cell for cell in cells if cell["model"] == "gpt_4" and cell["table"] == 1]
    assert {(cell["status"], cell["reason"]) for cell in others} == {
        ("not_attempted", "the import has no results of gpt_4")
    }


@pytest.mark.slow
def test_groups_are_dermatology_by_data_set_with_the_annotators_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    derm = [case_row(f"case_{n}", category="Dermatology", dataset="dermatology_public") for n in range(3)]
    others = [
        case_row("case_206", category="Dermatology"),  # inferred: not single
        case_row("case_293", category="Dermatology"),  # inferred: single
        case_row("case_500", category="Renal and Genitourinary System"),
    ]
    qc = (
        "case_id,only_possible_answer,single_most_likely_answer\n"
        "public_case01,Yes,\npublic_case02,No,No\npublic_case03,No,Yes\n"
    )
    trials = {row[-1]: [WRONG] * 5 for row in [*derm, *others]}
    trials["case_2"] = trials["case_206"] = [RIGHT] * 5
    cells = cells_of(write_release(tmp_path / "release", [*derm, *others], trials, qc), capsys)

    arm = {"format": "vignette"}
    assert values(cells, 10, "mean", dataset="derm_public", **arm) == [0.333]
    assert values(cells, 14, "mean", dataset="derm_public", **arm) == [0.5]
    assert values(cells, 10, "mean", dataset="medqa_usmle", **arm) == [0.5]
    assert values(cells, 14, "mean", dataset="medqa_usmle", **arm) == [0]
    assert values(cells, 6, "mean", specialty="urology_and_nephrology", **arm) == [0]
    assert values(cells, 6, "mean", specialty="neurology", **arm) == [None]


def test_a_figure_that_differs_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_release(tmp_path / "release", [case_row("case_0")], {"case_0": [WRONG] * 5})
    assert reproduce.main([str(folder)]) == 1
    printed = next(f.mean for f in accuracy_figures() if (f.table, f.model, f.format) == (1, "gpt_3_5", "vignette"))
    line = f"Differs: 1 gpt_3_5 mcq vignette mean: printed {printed:.3f}, recomputed 0.0"
    assert line in capsys.readouterr().out


def test_a_cell_matches_values_that_round_to_the_printed_digits(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, str]] = [(0.8204, "match"), (0.8196, "match"), (0.8206, "differs"), (0.8194, "differs")]
    for value, status in rows:
        with subtests.test(value=value, status=status):
            cell = Cell(1, "mean", "gpt_4", published=0.82, printed="0.820").filled(value)
            assert (cell.status, cell.recomputed) == (status, round(value, 3))


def test_a_known_misprint_stays_a_misprint_if_the_numbers_agree() -> None:
    blank = Cell(15, "p_value", "gpt_4", published=0.0013, printed="0.0013")
    differing, agreeing = (blank.filled(value) for value in (0.5, 0.0013))
    assert (differing.status, agreeing.status) == ("misprint", "misprint")
    assert (agreeing.reason or "").endswith("here the two agree nevertheless")


def test_halves_are_rounded_as_the_tables_do() -> None:
    assert reproduce.as_printed(0.0001 * 72 / 16, "p_adjusted") == 0.0004
    assert reproduce.as_printed(0.00055, "p_adjusted") == 0.0006


def test_families_are_tables_or_the_part_of_one_question_type(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, str, int]] = [
        (2, "mcq", 24),
        (3, None, 16),
        (7, "mcq", 288),
        (20, "mcq", 12),
        (21, "frq", 4),
        (23, "mcq", 12),
    ]
    for table, question_type, size in rows:
        with subtests.test(table=table, question_type=question_type):
            test = next(t for t in published_tests() if (t.table, t.question_type) == (table, question_type))
            assert len(family_of(test)) == size


def test_benjamini_hochberg_over_the_printed_p_values_gives_the_printed_adjusted_ones() -> None:
    """As the remarks say: Holm–Bonferroni, which the paper names, gives at most two of a table."""
    tests = [t for t in published_tests() if t.p_adjusted is not None]
    printed = {t: t.p_value for t in tests if t.p_value is not None}
    corrected = adjusted_p(printed, {})
    assert {t for t in tests if reproduce.as_printed(corrected[t], "p_adjusted") != t.p_adjusted} == set()  # type: ignore[arg-type]
    for table in {t.table for t in tests}:
        family = [t for t in tests if t.table == table]
        by_holm = adjusted([printed[t] for t in family], "holm")
        assert sum(round(p, 4) == t.p_adjusted for t, p in zip(family, by_holm, strict=True)) <= 2


def test_a_family_that_is_not_complete_names_the_models_it_needs() -> None:
    tests = [t for t in published_tests() if t.table == 2]
    missing = {t: MissingData(models=[t.model]) for t in tests if t.model and t.model != "gpt_3_5"}
    known = {t: t.p_value or math.nan for t in published_tests() if t not in missing}
    reason = adjusted_p(known, missing)[next(t for t in tests if t.model == "gpt_3_5")]
    assert str(reason) == (
        "it is adjusted together with 23 other tests, and the import has no results of gpt_4 and mistral_v2_7b and "
        "llama_2_7b"
    )


def test_the_listed_misprints_are_what_the_tables_print() -> None:
    """Table 4 prints the intervals of table 1, and table 15 the p-values of table 11."""
    intervals = {(f.table, f.model, f.format): (f.ci_low, f.ci_high) for f in accuracy_figures()}
    fourth = [f for f in accuracy_figures() if f.table == 4]
    assert all(intervals[1, f.model, f.format] == (f.ci_low, f.ci_high) for f in fourth)
    outside = {f.table for f in accuracy_figures() if not f.ci_low <= f.mean <= f.ci_high}
    assert (len(fourth), outside) == (16, {4})

    def numbers(table: int) -> list[tuple[object, ...]]:
        tests = [t for t in published_tests() if t.table == table]
        return [(t.model, t.dataset, t.arm_a, t.arm_b, t.p_value, t.p_adjusted) for t in tests]

    assert numbers(15) == numbers(11)


@pytest.mark.skipif(
    not (RELEASE / "results").is_dir(),
    reason="needs the CRAFT-MD authors' release: set ANAMNESIS_CRAFTMD_RELEASE to its folder",
)
@pytest.mark.xdist_group("craftmd_release")
def test_every_cell_that_three_models_give_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main([str(RELEASE), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    models = {"gpt_3_5", "mistral_v1_7b", "mistral_v2_7b"}
    assert set(report["models"]) == models
    assert report["summary"] == {"match": 1425, "misprint": 55, "differs": 0, "not_attempted": 2858}
    # two numbers for each of the preprint's 144 tests, one for each of its other figures
    assert len(report["cells"]) == 640 * 3 + 984 * 2 - 12 + 81 + 32 + 205 + 144
    wrong = Counter((c["table"], c["quantity"]) for c in report["cells"] if c["status"] == "misprint")
    assert wrong == {(4, "ci_low"): 8, (4, "ci_high"): 8, (15, "p_value"): 36, ("text", "figure"): 3}
    values = {(c["figure"], c["model"]): c["recomputed"] for c in report["cells"] if c["table"] == "experts"}
    assert values["patient_ai_conversations_with_medical_language", "patient_ai"] == 7.22
    others = [c for c in report["cells"] if c["model"] not in models and c["table"] in range(1, 18)]
    assert {c["status"] for c in others} == {"not_attempted"}
    assert all(c["reason"] for c in others)
