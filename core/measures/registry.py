"""Where measures and metrics are found: the modules of this package, and ``measures/NAME.py`` in extension folders.

A file with a ``Measure`` is all that a new one takes: without a metric of its own it is reported by ``ScoreMeans``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import numpy as np
import orjson
import pandas as pd

import core.measures
from core.errors import AnamnesisError, UsageError
from core.measures.base import Asked, Columns, Listed, Measure, Metric, Row, add_extensions
from core.measures.missing import measure_missing
from core.stats.bootstrap import bootstrap_interval
from core.store.scores import score_table


def modules() -> Iterator[ModuleType]:
    """Yield the modules of this package and of extension folders. Raises ``UsageError`` where a file of those fails."""
    add_extensions()
    for found in pkgutil.walk_packages(core.measures.__path__, f"{core.measures.__name__}."):
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
            if own and hasattr(kind, "name"):
                found.setdefault(kind.name, kind())
    return found


def metrics() -> dict[str, Metric]:
    """Return name → metric, by name; a measure without one of its name is reported by ``ScoreMeans``."""
    found = {one.name: one for module in modules() for one in vars(module).values() if isinstance(one, Metric)}
    for name, one in measures().items():
        if name not in found and type(one).read is Measure.read:
            empty = "There is nothing to measure: run a campaign, or choose other --run, --models or --cases."
            help_ = f"{inspect.cleandoc(type(one).__doc__ or name)}\n\n{inspect.cleandoc(ScoreMeans.__doc__ or '')}"
            found[name] = Metric(name, ScoreMeans(one), ("run", "models", "cases"), empty, help_)
    return dict(sorted(found.items()))


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
        with asked.store.read() as cursor:
            table = score_table(cursor, self.measure.name, self.measure.version, asked.selection)
        scored = table[table["name"] != ""]
        if part == "evidence":
            yield from self._evidence(scored)
            return
        for model, trials in table.groupby("model", sort=False):
            for name in dict.fromkeys(scored["name"]):
                yield self._mean(str(model), str(name), trials)

    def _mean(self, model: str, name: str, trials: pd.DataFrame) -> Row:
        of = trials[(trials["name"] == name) & trials["value"].notna()]
        values = of.groupby("case_key", sort=False)["value"].mean().to_numpy(dtype=np.float64)
        whole = bool(((values >= 0) & (values <= 1)).all()) if values.size else False
        bounds = bootstrap_interval(values, shares=whole) if values.size else None
        have = set(of["trial_id"])
        rest = trials[~trials["trial_id"].isin(have)].drop_duplicates("trial_id")
        why = Counter(
            "failed" if broken else ("nothing to measure" if measured else "not measured")
            for broken, measured in zip(rest["broken"], rest["measured"], strict=True)
        )
        return Row(
            {"model": model, "score": name}, float(values.mean()) if values.size else None,
            bounds.low if bounds else None, bounds.high if bounds else None, values.size, dict(why),
            {"n_trials": len(have)}, columns=Columns(excluded="excluded"),
        )  # fmt: skip

    def _evidence(self, scored: pd.DataFrame) -> Iterator[Listed]:
        for one in scored.itertuples():
            for piece in orjson.loads(str(one.evidence)):
                yield {
                    "model": one.model, "case": one.case_key, "trial_id": one.trial_id, "score": one.name,
                    "value": one.value, **piece,
                }  # fmt: skip
