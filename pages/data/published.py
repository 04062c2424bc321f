"""What a paper reports of data sets: how many of their items are suitable, how many carry which facts."""

import re
from dataclasses import dataclass

import pandas as pd

from core.datasets.published import rows
from core.frameworks.base import publisher

PAPER = "Oh, Park, Kim, arXiv 2512.10195"
_METRIC = {
    "appropriate_pct": "Suitable",
    "n_appropriate": "Suitable items",
    "demographics_present": "With demographics",
    "basic_information_present_pct": "With basic information",
}
_NAME = {
    "medqa": "MedQA", "medbullets": "MedBullets", "medxpertqa": "MedXpertQA", "medmcqa": "MedMCQA",
    "head_qa": "HEAD-QA", "mmlu_pro": "MMLU-Pro",
}  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """One printed figure: the data set's label, what it is of, and the figure in words, for it is often a bound."""

    dataset: str
    metric: str
    value: str


def published_suitability() -> list[Printed]:
    """Return all figures that the paper's text gives on suitability, in their order."""
    found = [row for row in rows(publisher("care").name) if row["section"] == "suitability"]
    return [Printed(row["dataset"], row["metric"], _figure(row["value"], row["unit"])) for row in found]


def published_for(name: str) -> list[Printed]:
    """Return what is printed of the data set that is called ``name``, or begins with its name (medqa-test)."""
    return [row for row in published_suitability() if _same(name, row.dataset)]


def sentence(found: list[Printed]) -> str:
    """Return the printed figures of one data set in words."""
    told = "; ".join(f"{metric_words(row.metric).lower()}: {row.value}" for row in found)
    return f"{dataset_label(found[0].dataset)} in the paper: {told}"


def published_table() -> pd.DataFrame:
    """Return all printed figures as a table, a row for each data set."""
    printed = published_suitability()
    held = {(row.dataset, row.metric): row.value for row in printed}
    return pd.DataFrame(
        [
            {"Data set": dataset_label(name), **{words: held.get((name, metric)) for metric, words in _METRIC.items()}}
            for name in dict.fromkeys(row.dataset for row in printed)
        ]
    )


def dataset_label(label: str) -> str:
    """Return the name that a published data set goes by."""
    return _NAME.get(label, label)


def metric_words(metric: str) -> str:
    """Return what a printed figure is of."""
    return _METRIC.get(metric, metric.replace("_", " ").capitalize())


def _figure(value: str, unit: str) -> str:
    text = value.replace("-", "–").replace(">", "more than ").replace("<", "less than ")
    if unit == "count":
        return f"{int(value):,}"
    return f"{text} %" if unit == "percent" else text


def _same(name: str, label: str) -> bool:
    """Say whether a data set's name is a published one's, whatever stands between its words."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower())
    tight = label.replace("_", "")
    return any(re.fullmatch(rf"{re.escape(spelt)}(_.*)?", words) for spelt in (label, tight))
