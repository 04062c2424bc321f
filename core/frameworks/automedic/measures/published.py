"""What is printed of CARE, as rows with their source, to stand next to what this database holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.datasets import published
from core.frameworks.automedic.measures.profile import PARTS, VALUE, Part
from core.frameworks.base import publisher
from core.measures.base import Columns, Row

PAPER: Final = "Oh, Park, Kim, arXiv 2512.10195"
_PARTS: Final[dict[str, Part]] = {
    "care_metric:accuracy": "accuracy", "care_metric:conversational_efficiency_strategy": "efficiency",
    "care_metric:empathy": "empathy", "care_metric:robustness": "robustness",
}  # fmt: skip
"""Section of the published figures → the part that they are of."""
_MODELS: Final[dict[str, str]] = {"claude_sonnet_4": "Claude Sonnet 4", "llama_3_70b": "LLaMA-3 70B"}
_SOURCE: Final = "table 3, {n} conversations that experts also rated, MedQA by the text, MedBullets by the table’s note"


def published_parts() -> Iterator[Row]:
    """Yield a row for each model of which the paper prints parts, and part; no interval is printed."""
    rows = published.rows(publisher("care").name)
    n = next(int(row["value"]) for row in rows if row["metric"] == "n_simulations_rated_per_model")
    for row in rows:
        if part := _PARTS.get(row["section"]):
            label = {"model": _MODELS[row["model"]], "dataset": "all", "measure": part}
            value = float(row["value"])
            yield Row(label, value, more={"trials": n}, unit="items", columns=VALUE, source=_SOURCE.format(n=n))


def published_summaries() -> Iterator[Row]:
    """Yield the same with the parts of a model in one row."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in published_parts():
        by_model.setdefault(row.label["model"], {})[row.label["measure"]] = row
    for model, rows in by_model.items():
        more = {**{part: rows[part].estimate for part in PARTS[1:]}, **rows["accuracy"].more}
        columns = Columns("accuracy", n="n_pairs", excluded="excluded")
        source = rows["accuracy"].source
        estimate = rows["accuracy"].estimate
        yield Row({"model": model, "dataset": "all"}, estimate, more=more, unit="items", columns=columns, source=source)


def published_r() -> float:
    """Return the paper's Pearson r of conversational on static accuracy over all its models and data sets."""
    rows = published.rows(publisher("care").name)
    return next(float(row["value"]) for row in rows if row["section"] == "static_vs_conversational")
