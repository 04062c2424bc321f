"""Finds measures and metrics in the modules of this package, of frameworks and of extensions.

An extension has them in ``measures/NAME.py``; a framework, here or in an extension, in a module or package ``measures``
in its folder. A file with a ``Measure`` is all that a new measure needs: ``ScoreMeans`` reports every measure under its
name, unless a metric has this name.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np

import core.measures
from core import frameworks
from core.errors import AnamnesisError, UsageError
from core.frameworks.starts import CAMPAIGN
from core.measures.base import (
    Columns,
    Filter,
    Listed,
    Measure,
    Metric,
    MetricRequest,
    Row,
    Section,
    add_extensions,
    section_of,
)
from core.measures.case_views import CaseView
from core.measures.quality import Quality
from core.stats.bootstrap import bootstrap_interval
from core.stats.scores import score_interval
from core.store.queries.scores import case_means, evidence


def modules() -> Iterator[ModuleType]:
    """Yield the modules with measures. Raises ``UsageError`` if a module of an extension cannot be imported."""
    add_extensions()
    packages = (core.measures, frameworks)
    walks = [pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in packages]
    for info in chain.from_iterable(walks):
        _, package_name, *inside = info.name.split(".")
        if package_name == "frameworks" and inside[1:2] != ["measures"]:
            continue
        try:
            yield importlib.import_module(info.name)
        except AnamnesisError:
            raise
        except Exception as error:
            path = Path(getattr(info.module_finder, "path", "")) / info.name.rpartition(".")[2]
            raise UsageError(f"The measures in {path} cannot be read: {type(error).__name__}: {error}.") from error


def measures() -> dict[str, Measure]:
    by_name: dict[str, Measure] = {}
    for module in modules():
        for kind in vars(module).values():
            is_local = isinstance(kind, type) and issubclass(kind, Measure) and kind.__module__ == module.__name__
            if is_local and hasattr(kind, "name") and not inspect.isabstract(kind):
                by_name.setdefault(kind.name, kind())
    return by_name


def metrics() -> dict[str, Metric]:
    """Return name → metric, by name; ``ScoreMeans`` reports a measure whose name is not that of a metric."""
    by_name = {
        value.name: value for module in modules() for value in vars(module).values() if isinstance(value, Metric)
    }
    for name, measure in measures().items():
        if name not in by_name:
            empty = "There is nothing to measure."
            about = (inspect.cleandoc(type(measure).__doc__ or name), inspect.cleandoc(ScoreMeans.__doc__ or name))
            filters: tuple[Filter, ...] = ("run", "models", "source", "cases")
            by_name[name] = Metric(
                name,
                ScoreMeans(measure),
                filters,
                empty,
                "\n\n".join(about),
                page=measure.page,
                measure=measure,
                starts=(CAMPAIGN,),
            )
    return dict(sorted(by_name.items()))


def sections(page: str) -> list[Section]:
    """Return the sections of measures on a page; those without a page ("") include one for each metric without one."""
    declared = [section for module in modules() for section in getattr(module, "SECTIONS", ())]
    on_page = [section for section in declared if section.page == page]
    if not page:
        declared_metrics = {section.metric.name for section in declared}
        without_page = [metric for metric in metrics().values() if not metric.page]
        on_page += [section_of(metric) for metric in without_page if metric.name not in declared_metrics]
    return on_page


def qualities() -> list[Quality]:
    """Return the qualities that modules of measures declare, sorted by rank."""
    declared = [module.QUALITY for module in modules() if hasattr(module, "QUALITY")]
    return sorted(declared, key=lambda quality: quality.rank)


def case_views() -> list[CaseView]:
    declared = [module.CASE_VIEW for module in modules() if hasattr(module, "CASE_VIEW")]
    return sorted(declared, key=lambda view: view.rank)


class ScoreMeans:
    """Means of a measure's scores, over a case's trials and then over cases, by condition; or their evidence."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure

    def __call__(
        self,
        request: MetricRequest,
        part: Annotated[Literal["means", "evidence"], "Means by condition, or the evidence of each score."] = "means",
    ) -> Iterator[Listed]:
        if part == "evidence":
            with request.store.read() as cursor:
                yield from evidence(cursor, self.measure, request.selection)
            return
        with request.store.read() as cursor:
            means, counts = case_means(cursor, self.measure, request.selection)
        scores = means.rename(columns={"name": "figure", "mean": "value"}).dropna(subset=["value"])
        request.case_values = scores.groupby("figure").filter(lambda score: score["value"].between(0, 1).all())
        conditions: Iterator[Any] = counts.itertuples()
        by_score = dict(list(means.groupby(["model", "name"])))
        for trials, name in product(conditions, means["name"].unique()):
            by_case = by_score.get((trials.model, name), means[:0])
            values = by_case["mean"].dropna().to_numpy(dtype=np.float64)
            shares = bool(((values >= 0) & (values <= 1)).all())
            counted = by_case.loc[by_case["mean"].notna(), "n"]
            low, high = score_interval(values, trials=counted) if shares else bootstrap_interval(values, shares=False)
            n_scored, n_scored_failed = int(by_case["n"].sum()), int(by_case["n_broken"].sum())
            excluded = {
                "failed": trials.broken - n_scored_failed,
                "not measured": trials.missing,
                "nothing to measure": trials.trials - trials.broken - trials.missing - (n_scored - n_scored_failed),
            }
            yield Row(
                {"model": trials.model, "score": name},
                float(values.mean()) if values.size else None,
                low,
                high,
                values.size,
                {reason: number for reason, number in excluded.items() if number},
                {"n_trials": n_scored},
                columns=Columns(excluded="excluded"),
            )
