"""Where measures and metrics are found: the modules of this package, and those that extensions and frameworks bring.

An extension brings ``measures/NAME.py``, a framework, here or in an extension, a module or package ``measures`` in its
folder. A file with a ``Measure`` is all that a new one takes; every measure is reported by ``ScoreMeans``, under its
name unless a metric has that.
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
from core.measures.base import Asked, Columns, Listed, Measure, Metric, Row, Section, add_extensions
from core.measures.missing import measure_missing
from core.stats.bootstrap import bootstrap_interval
from core.stats.smoothed import mean_interval
from core.store.queries.scores import case_means, evidence


def modules() -> Iterator[ModuleType]:
    """Yield the modules with measures. Raises ``UsageError`` where one of an extension cannot be read."""
    add_extensions()
    places = [
        pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in (core.measures, frameworks)
    ]
    for found in chain.from_iterable(places):
        _, room, *inside = found.name.split(".")
        if room == "frameworks" and inside[1:2] != ["measures"]:
            continue
        try:
            yield importlib.import_module(found.name)
        except AnamnesisError:
            raise
        except Exception as error:
            place = Path(getattr(found.module_finder, "path", "")) / found.name.rpartition(".")[2]
            raise UsageError(f"The measures in {place} cannot be read: {type(error).__name__}: {error}.") from error


def measures() -> dict[str, Measure]:
    """Return name → measure."""
    found: dict[str, Measure] = {}
    for module in modules():
        for kind in vars(module).values():
            own = isinstance(kind, type) and issubclass(kind, Measure) and kind.__module__ == module.__name__
            if own and hasattr(kind, "name") and not inspect.isabstract(kind):
                found.setdefault(kind.name, kind())
    return found


def metrics() -> dict[str, Metric]:
    """Return name → metric, by name; a measure without one of its name is reported by ``ScoreMeans``."""
    found = {one.name: one for module in modules() for one in vars(module).values() if isinstance(one, Metric)}
    for name, one in measures().items():
        if name not in found:
            empty = "There is nothing to measure: run a campaign, or choose other --run, --models or --cases."
            help_ = f"{inspect.cleandoc(type(one).__doc__ or name)}\n\n{inspect.cleandoc(ScoreMeans.__doc__ or '')}"
            found[name] = Metric(name, ScoreMeans(one), ("run", "models", "cases"), empty, help_, measure=one)
    return dict(sorted(found.items()))


def sections(page: str) -> list[Section]:
    """Return the sections that measures bring for a page; on ``measures`` also one for each metric without a page."""
    declared = [section for module in modules() for section in getattr(module, "SECTIONS", ())]
    found = [section for section in declared if section.page == page]
    if page == "measures":
        shown = {section.metric.name for section in declared}
        found += [section_of(one) for name, one in metrics().items() if not one.page and name not in shown]
    return found


def section_of(metric: Metric) -> Section:
    """Return the section that shows a metric as its command does, with all its options as controls."""
    return Section(metric.title, metric, controls=tuple(option.name for option in metric.options()), help=metric.help)


class ScoreMeans:
    """Means of a measure's scores, over a case's trials and then over cases, by condition; or the evidence itself."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure

    def __call__(
        self,
        asked: Asked,
        part: Annotated[Literal["means", "evidence"], "Means by condition, or what each score rests on."] = "means",
    ) -> Iterator[Listed]:
        """Yield a row for each condition and score, or each piece of evidence; what is missing is measured first."""
        with asked.progress("trials") as show:
            measure_missing(asked.store, self.measure, asked.selection, progress=show)
        if part == "evidence":
            with asked.store.read() as cursor:
                yield from evidence(cursor, self.measure, asked.selection)
            return
        with asked.store.read() as cursor:
            means, counts = case_means(cursor, self.measure, asked.selection)
        conditions: Iterator[Any] = counts.itertuples()
        by_score = dict(list(means.groupby(["model", "name"])))
        for trials, name in product(conditions, means["name"].unique()):
            of = by_score.get((trials.model, name), means[:0])
            values = of["mean"].dropna().to_numpy(dtype=np.float64)
            shares = bool(((values >= 0) & (values <= 1)).all())
            low, high = mean_interval(values) if shares else bootstrap_interval(values, shares=False)
            have, failed = int(of["n"].sum()), int(of["n_broken"].sum())
            why = {
                "failed": trials.broken - failed,
                "not measured": trials.missing,
                "nothing to measure": trials.trials - trials.broken - trials.missing - (have - failed),
            }
            yield Row(
                {"model": trials.model, "score": name},
                float(values.mean()) if values.size else None,
                low,
                high,
                values.size,
                {reason: number for reason, number in why.items() if number},
                {"n_trials": have},
                columns=Columns(excluded="excluded"),
            )
