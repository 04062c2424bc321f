"""`make figures` finds each value that changed, and tells it from what was removed or is new."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from core import paths


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(paths.ROOT / "benchmarks"))
    import figures

    yield figures
    for name in ("figures", "common"):
        sys.modules.pop(name, None)


BEFORE = [["a", "vignette", 0.5, 3], ["b", "vignette", 0.25, 4]]


def report(figures: Any, rows: list[list[Any]], columns: str = "model format mean n_cases") -> dict[str, Any]:
    return {"sample: accuracy": figures.Report(["model", "format"], columns.split(), rows)}


def test_rounding_is_no_difference_and_a_changed_number_is(figures: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = report(figures, BEFORE)
    assert (
        figures.compare(before, report(figures, [["b", "vignette", 0.25, 4], ["a", "vignette", 0.5 + 1e-12, 3]])) == 0
    )
    assert "2 rows equal, 0 different" in capsys.readouterr().out
    assert figures.compare(before, report(figures, [["a", "vignette", 0.5, 3], ["b", "vignette", 0.26, None]])) == 1
    assert "b, vignette (1): mean 0.25 → 0.26; n_cases 4 → None" in capsys.readouterr().out


def test_a_removed_report_column_or_row_is_listed_and_no_difference(
    figures: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = report(figures, BEFORE)
    assert figures.compare(before, report(figures, [["a", "vignette", 0.5]], "model format mean")) == 0
    printed = capsys.readouterr().out
    assert "the column n_cases only before" in printed
    assert "b, vignette (1) only before" in printed
    assert figures.compare(before, {}) == 0
    assert "sample: accuracy: removed (2 rows)" in capsys.readouterr().out


def test_a_list_without_labels_is_compared_row_by_row(figures: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = {"sample: evidence": figures.Report([], ["case", "words"], [["1", "a lump"], ["2", "a rash"]])}
    after = {"sample: evidence": figures.Report([], ["case", "words"], [["1", "a lump"], ["2", "an itch"]])}
    assert figures.compare(before, after) == 1
    assert "words a rash → an itch" in capsys.readouterr().out


def test_values_are_stored_as_json_has_them(figures: Any) -> None:
    assert [figures.stored_value(value) for value in (float("nan"), 1 / 3, 2.0, True, None, {"failed": 2, "": 0})] == [
        *(None, 0.333333333333, 2, True, None, "failed=2")
    ]
