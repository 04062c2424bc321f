"""What holds for every metric of the registry: the note on different data sets comes first, and no figure is NaN."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from core.errors import AnamnesisError
from core.measures.base import Metric, MetricRequest, Result, Row
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.store.database import Store
from core.store.fold import fold
from core.store.sample import add_sample
from core.store.selection import conditions
from tests.support.stores import copy_of

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "monitor": {"versions": "reference/bayes · sample,reference/bayes"},
    "experts": {"review": "Free responses"},
    "completeness": {"review": "Free responses"},
}
"""Metric → the options that it needs here."""
NOT_FIGURES = {
    "agreement": "judges, under questions of forms",
    "calibration": "judges, under questions of forms",
    "case_distribution": "cases of one data set",
    "care_studies": "answers of experts to one review",
    "dates": "when runs were made",
    "flow": "numbers of trials of runs",
    "hypotheses": "what runs state",
    "items": "cases of data sets",
    "judge_check": "judges, under questions of forms",
    "played_cases": "the cases of each run",
    "preferences": "judges, under questions of forms",
    "prompts": "prompts of runs",
    "ratings": "answers of experts to one review",
    "served": "model names of calls",
    "spend": "tokens and money of calls",
}
"""Metric without notes on conditions → what its rows are instead of figures of conditions."""


def two_data_sets(store: Store) -> None:
    """The sample study, and the same conversations again on another data set, with other ids."""
    add_sample(store)
    for folder in [path for path in store.journals.iterdir() if path.is_dir()]:
        other = store.journals / f"{folder.name}-again"
        shutil.copytree(folder, other)
        for path in other.rglob("*.jsonl"):
            text = path.read_text(encoding="utf-8").replace(folder.name, other.name)
            text = re.sub(r'"(trial_id|call_id)":"(\w+)"', r'"\1":"\2-again"', text)
            path.write_text(
                re.sub(r'"library\b', '"other', text).replace('"study":"sample"', '"study":""'), encoding="utf-8"
            )
    fold(store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return copy_of(two_data_sets, tmp_path_factory.mktemp("two"))


def computed(store: Store, metric: Metric, options: Mapping[str, Any]) -> Result | None:
    try:
        return result_of(metric, MetricRequest(store), options)
    except AnamnesisError:  # says why it has no rows
        return None


@pytest.mark.slow
def test_conditions_on_different_data_sets_have_the_severe_note_first_and_finite_figures(store: Store) -> None:
    """Also those of metrics that are not ``compared``: their conditions are in one table and on one axis."""
    names = {condition.name for condition in conditions(store)}
    wrong: list[object] = []
    with_several = set()
    for name, metric in metrics().items():
        result = computed(store, metric, OPTIONS.get(name, {}))
        if result is None:
            continue
        wrong += faults(name, result)
        shown = {value for row in result.cells() for value in row.values() if isinstance(value, str)} & names
        if len(shown) > 1 and metric.noted:
            with_several.add(name)
            first = result.notes[0] if result.notes else None
            if first is None or first.severity != "high" or first.kind not in ("data_sets", "cases"):
                wrong.append((name, first))
    assert wrong == []
    assert {name for name, metric in metrics().items() if not metric.noted} == set(NOT_FIGURES)
    uncompared = {name for name, metric in metrics().items() if metric.noted and not metric.compared}
    assert {"pairs", "repeatability"} <= uncompared & with_several
    assert len(with_several) >= 10


def variants(metric: Metric) -> Iterator[dict[str, Any]]:
    """Yield the default options, then each other word of one option at a time."""
    needed = dict(OPTIONS.get(metric.name, {}))
    yield needed
    for option in metric.options():
        for choice in words_of(option.annotation):
            if choice != option.default and option.name not in needed:
                yield {**needed, option.name: choice}


def words_of(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if isinstance(choice, str)]
    return [choice for part in get_args(annotation) if not isinstance(part, str) for choice in words_of(part)]


def numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from numbers(part, f"{path}/{name}")
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part, path)


RESIDUE = 1e-12
"""A number that is nearer to 0 than this, but not 0, is a rounding error of a sum, unless it is a p."""


def faults(name: str, result: Result) -> list[object]:
    """Return the numbers of a result that are not finite, or only a rounding error."""
    return [
        (name, path, number)
        for row in result.cells(plain=True)
        for path, number in numbers(row, "")
        if not math.isfinite(number) or (0 < abs(number) < RESIDUE and "/p" not in path)
    ]


def test_what_is_exported_is_finite_and_no_rounding_error() -> None:
    values = {"share": math.nan, "change": -1.85e-18, "most": math.inf, "p": 1e-15, "p_holm": 1e-15, "words": "nan"}
    plain = {"share": None, "change": 0.0, "most": None, "p": 1e-15, "p_holm": 1e-15, "words": "nan"}
    for row in (Row({"model": "a"}, 2e-17, -math.inf, 1.0, more=values), {"mean": 2e-17, **values}):
        (cells,) = Result("A", (row,)).cells(plain=True)
        assert cells.items() >= {"mean": 0.0, **plain}.items()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_figure_of_any_part_is_nan_infinite_or_a_rounding_error(tmp_path: Path) -> None:
    sample = copy_of(add_sample, tmp_path)
    wrong = [
        fault
        for name, metric in metrics().items()
        for options in variants(metric)
        if (result := computed(sample, metric, options))
        for fault in faults(name, result)
    ]
    assert wrong == []
