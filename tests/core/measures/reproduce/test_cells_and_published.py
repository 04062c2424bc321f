"""Printed numbers are read as printed, and a cell matches only values that round to them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.case import SPECIALTIES
from core.datasets import published
from core.measures.accuracy import published_rows
from core.measures.reproduce.release import ModelData, PrintedNumber, Reproduction, as_printed
from core.measures.reproduce.tables import interval_misprint


def a_cell(**changes: Any) -> PrintedNumber:
    defaults: dict[str, Any] = {
        "table": 1,
        "quantity": "mean",
        "model": "gpt_4",
        "question_type": "mcq",
        "format": "vignette",
        "specialty": None,
        "dataset": None,
        "arm_a": None,
        "arm_b": None,
        "published": 0.82,
        "printed": "0.820",
    }
    return PrintedNumber(**{**defaults, **changes})


@pytest.mark.parametrize(
    ("value", "status"), [(0.8204, "match"), (0.8196, "match"), (0.8206, "differs"), (0.8194, "differs")]
)
def test_a_cell_matches_values_that_round_to_the_printed_digits(value: float, status: str) -> None:
    cell = a_cell().with_value(value)
    assert (cell.status, cell.recomputed) == (status, round(value, 3))


def test_a_known_misprint_stays_a_misprint_if_the_numbers_agree() -> None:
    differing, agreeing = (a_cell().with_value(value, "copied") for value in (0.5, 0.82))
    assert (differing.status, differing.reason) == ("misprint", "copied")
    assert agreeing.status == "misprint"
    assert agreeing.reason == "copied; here the two agree nevertheless"


def test_a_cell_that_was_left_out_has_no_number() -> None:
    cell = a_cell().with_value(0.5).left_out("no data")
    assert (cell.status, cell.recomputed, cell.reason) == ("not_attempted", None, "no data")


def test_halves_are_rounded_as_the_tables_do() -> None:
    assert as_printed(0.0001 * 72 / 16, "p_adjusted") == 0.0004
    assert as_printed(0.00055, "p_adjusted") == 0.0006


@pytest.mark.parametrize(
    ("values", "succeeded"), [([0.82], True), ([0.82, 0.5], False), ([], False), ([None], False), ([0.82, None], True)]
)
def test_it_succeeds_if_a_cell_matches_and_none_differs(values: list[float | None], succeeded: bool) -> None:
    cells = tuple(a_cell() if value is None else a_cell().with_value(value) for value in values)
    assert Reproduction({"gpt_4": ModelData("run", 1)}, cells, ()).succeeded is succeeded


def test_every_printed_figure_is_read() -> None:
    figures, tests = published.accuracy_figures(), published.published_tests()
    assert Counter(f.table for f in figures) == {
        1: 16,
        4: 16,
        6: 192,
        8: 192,
        10: 48,
        12: 48,
        14: 48,
        16: 48,
        19: 16,
        22: 16,
    }
    assert Counter(t.table for t in tests) == {
        2: 24,
        3: 16,
        5: 24,
        7: 288,
        9: 288,
        11: 72,
        13: 72,
        15: 72,
        17: 72,
        18: 12,
        20: 24,
        21: 8,
        23: 12,
    }
    assert {f.specialty_name for f in figures if f.specialty} == set(SPECIALTIES)
    first = figures[0]
    assert (first.model, first.format, first.mean, first.ci_low, first.ci_high) == (
        "gpt_4",
        "vignette",
        0.82,
        0.804,
        0.837,
    )
    assert all(f.specialty is None and f.dataset is None for f in figures if f.scope == "overall")


def test_a_p_value_printed_as_a_bound_stays_text() -> None:
    bound = next(t for t in published.published_tests() if t.p_text.startswith("<"))
    assert (bound.table, bound.p_value, bound.p_adjusted, bound.p_text) == (18, None, None, "<0.0001")


def test_the_leaderboard_and_the_inferred_labels_are_read() -> None:
    board = published.leaderboard()
    assert len(board) == 24
    best = next(row for row in board if row.question_type == "mcq" and row.rank == 1)
    assert (best.model, best.means["multi_turn"]) == ("O1-preview-0912", 0.745)
    labels = published.inferred_single_diagnosis()
    assert (len(labels), sum(labels.values())) == (117, 84)


@pytest.mark.parametrize(
    ("name", "rows"), [("craftmd_expert", 32), ("craftmd_intext", 81), ("consultation", 166), ("automedic", 74)]
)
def test_the_other_files_have_all_their_rows(name: str, rows: int) -> None:
    assert len(published.rows(name)) == rows


def test_another_paper_is_a_file_of_its_name_and_never_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, first, *_ = (published.FOLDER / "craftmd_accuracy.csv").read_text().splitlines()
    assert "gpt_4,mcq,vignette,,,0.82," in first
    for name, row in (("craftmd", first), ("toy", first.replace("0.82,", "0.815,"))):
        (tmp_path / f"{name}_accuracy.csv").write_text(f"{head}\n{row}\n")
    cached_readers = (published.accuracy_figures, published.printed_sets)
    for reader in cached_readers:
        reader.cache_clear()
    try:
        monkeypatch.setattr(published, "FOLDER", tmp_path)
        assert published.printed_sets() == ("craftmd", "toy")
        assert [f.mean for f in published.accuracy_figures()] == [0.82, 0.815]
        assert [row.estimate for row in published_rows("toy")] == [0.815]
        assert [row.estimate for row in published_rows("craftmd")] == [0.82]
        assert published_rows("library") == []
    finally:
        for reader in cached_readers:
            reader.cache_clear()


def test_only_table_4_has_intervals_without_their_mean() -> None:
    wrong = [f for f in published.accuracy_figures() if interval_misprint(f)]
    assert Counter(f.table for f in wrong) == {4: 16}
    assert "is that of table 1" in (interval_misprint(wrong[0]) or "")
