"""Published figures of CARE, as rows with their source, to compare with stored figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from core.datasets import published
from core.frameworks.automedic.measures.profile import PARTS, VALUE, CareDimension
from core.frameworks.base import publisher
from core.measures.base import Columns, Row

PAPER: Final = "Oh, Park, Kim, arXiv 2512.10195"
_PARTS: Final[dict[str, CareDimension]] = {
    "care_metric:accuracy": "accuracy", "care_metric:conversational_efficiency_strategy": "efficiency",
    "care_metric:empathy": "empathy", "care_metric:robustness": "robustness",
}  # fmt: skip
"""Section of the published figures → part of CARE."""
MODELS: Final[dict[str, str]] = {"claude_sonnet_4": "Claude Sonnet 4", "llama_3_70b": "LLaMA-3 70B"}
"""Name in the published figures → display name."""
DATASET: Final = "MedQA / MedBullets"
WORDS: Final = (
    f"Published ({PAPER}, table 3): 15 conversations of each model that experts also rated; MedQA by the paper’s text, "
    "MedBullets by the table’s note. No interval is printed."
)


def published_parts(dataset: str = DATASET) -> Iterator[Row]:
    """Yield a row for each published model and part; ``dataset`` is the data set of the labels."""
    rows = published.rows(publisher("care").name)
    n = next(int(row["value"]) for row in rows if row["metric"] == "n_simulations_rated_per_model")
    for row in rows:
        if part := _PARTS.get(row["section"]):
            label = {"model": MODELS[row["model"]], "dataset": dataset, "measure": part}
            value = float(row["value"])
            yield Row(label, value, more={"trials": n}, unit="items", columns=VALUE, source="table 3")


def published_summaries(dataset: str = DATASET) -> Iterator[Row]:
    """Yield the published parts with all parts of a model in one row."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in published_parts(dataset):
        by_model.setdefault(row.label["model"], {})[row.label["measure"]] = row
    for model, rows in by_model.items():
        more: dict[str, Any] = {
            **{part: rows[part].estimate for part in PARTS[1:]},
            "trials": rows["accuracy"]["trials"],
        }
        columns = Columns("accuracy", n="n_pairs", excluded="excluded")
        label = {"model": model, "dataset": dataset}
        accuracy = rows["accuracy"]
        yield replace(accuracy, label=label, more=more, columns=columns)


def published_r() -> float:
    """Return the paper's Pearson r of conversational on static accuracy over all its models and data sets."""
    rows = published.rows(publisher("care").name)
    return next(float(row["value"]) for row in rows if row["section"] == "static_vs_conversational")
