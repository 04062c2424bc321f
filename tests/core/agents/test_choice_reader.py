"""The strict rule on 150 responses whose right reading somebody wrote down who had not seen the rule."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from core import paths


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(paths.ROOT / "benchmarks"))
    return importlib.import_module("bench_choice_reader")


def test_precision_and_recall_stay_what_they_are(measuring: ModuleType) -> None:
    found = measuring.by_kind(measuring.read_all())
    whole = found.pop(measuring.ALL)
    assert (whole.responses, whole.stated, len(found)) == (150, 93, 10)
    assert whole.precision >= 0.93
    assert whole.recall >= 0.92
    assert whole.agreeing >= 133
    for kind in ("short", "argued", "formats", "punctuation_and_languages", "ten_options"):
        assert min(found[kind].precision, found[kind].recall) >= 0.9, kind
    for kind, one in found.items():
        assert min(one.precision, one.recall) >= 0.6, kind


def test_the_figures_count_what_they_say(measuring: ModuleType) -> None:
    """Of three stated choices one is read right, one as another, one not; and one is read where none is stated."""
    pairs = [("gout", "gout"), ("gout", "lupus"), ("gout", "multiple"), ("none", "gout"), ("none", "none")]
    one = measuring.quality([measuring.Read("k", "…", meant, read) for meant, read in pairs])
    assert (one.precision, one.recall, one.agreeing) == (1 / 3, 1 / 3, 2)
