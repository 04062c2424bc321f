"""The strict rule on 150 responses, against readings by a person who had not seen the rule."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from core import paths


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(paths.ROOT / "benchmarks"))
    return importlib.import_module("bench_choice_reader")


def test_precision_and_recall_do_not_fall(measuring: ModuleType) -> None:
    by_kind = measuring.by_kind(measuring.read_all())
    total = by_kind.pop(measuring.ALL)
    assert (total.responses, total.stated, len(by_kind)) == (150, 93, 10)
    assert total.precision >= 0.93
    assert total.recall >= 0.92
    assert total.agreeing >= 133
    for kind in ("short", "argued", "formats", "punctuation_and_languages", "ten_options"):
        assert min(by_kind[kind].precision, by_kind[kind].recall) >= 0.9, kind
    for kind, quality in by_kind.items():
        assert min(quality.precision, quality.recall) >= 0.6, kind


def test_precision_and_recall_by_hand(measuring: ModuleType) -> None:
    """Of three stated choices one is read right, one as another, one not; one is read although none is stated."""
    pairs = [("gout", "gout"), ("gout", "lupus"), ("gout", "multiple"), ("none", "gout"), ("none", "none")]
    quality = measuring.quality([measuring.Read("k", "…", meant, read) for meant, read in pairs])
    assert (quality.precision, quality.recall, quality.agreeing) == (1 / 3, 1 / 3, 2)
