"""Printed figures are read as printed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from core.case import SPECIALTIES
from core.datasets import published
from core.measures.accuracy import published_rows


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


def test_the_other_files_have_all_their_rows() -> None:
    wrong = [
        (name, rows, got)
        for name, rows in [("craftmd_expert", 32), ("craftmd_intext", 81), ("consultation", 166), ("automedic", 74)]
        if (got := len(published.rows(name))) != rows
    ]
    assert wrong == []


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
