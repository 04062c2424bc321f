"""Tables of the History taking page, with plain heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from core.datasets import published
from core.frameworks.base import publisher
from core.measures.history.figures import ComparisonRow, CurvePoint, Figure, GroupRow, ItemGroup, MeasureRow, OrderRow
from core.measures.history.measures import LENGTHS
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.store.conditions import Condition
from pages.parts.figure_controls import dataset_name, natural
from pages.parts.figures import model_name
from pages.parts.history_words import (
    MEASURE,
    PUBLISHED_DOCTORS,
    PUBLISHED_MEASURES,
    PUBLISHED_SETS,
    VIRTUES,
)

_FIRST = ("accuracy", "doctor_turns")
TABLE_2 = (*_FIRST, *(name for name in MEASURE if name not in (*_FIRST, *VIRTUES, "queries")))
"""The measures of the paper's tables 2 and 3, what came of it first."""


@dataclass(frozen=True)
class PublishedRow:
    """A doctor of the paper (Liao et al., tables 2 and 3) on one of its data sets; lengths aside between 0 and 1."""

    doctor: str
    dataset: str
    values: Mapping[str, float]


def published_rows(dataset: str) -> list[PublishedRow]:
    """Return the paper's doctors on a data set; repetition is printed for all of them together."""
    found: dict[str, dict[str, float]] = {}
    for row in published.rows(publisher("history").name):
        printed = (row["table"], row["dataset"]) in (("2", dataset), ("3", ""))
        if printed and row["model"] and row["metric"] in PUBLISHED_MEASURES:
            measure = PUBLISHED_MEASURES[row["metric"]]
            unit = 1 if measure in LENGTHS else 100
            found.setdefault(row["model"], {})[measure] = float(row["value"]) / unit
    return [PublishedRow(PUBLISHED_DOCTORS[m], PUBLISHED_SETS[dataset], values) for m, values in found.items()]


def overview_table(
    rows: Sequence[MeasureRow], names: Mapping[str, str], seats: Sequence[Condition], printed: Sequence[PublishedRow],
    *, bounds: bool = False,
) -> pd.DataFrame:  # fmt: skip
    """Return a row for each doctor, ours and then the published ones; with ``bounds`` as text with intervals."""
    where = {seat.name: _where(seat) for seat in seats}
    found = {(row.model, row.measure): row for row in rows}
    held = [key for key in names if (key, TABLE_2[0]) in found]
    lines = [
        {
            "Doctor": names[key], "From": where[key],
            **{MEASURE[m][0]: _value(found[key, m].figure, m, bounds) for m in TABLE_2},
            **_counts(found, key),
        }
        for key in held
    ]  # fmt: skip
    lines += [
        {
            "Doctor": row.doctor, "From": f"published, {row.dataset}",
            **{MEASURE[m][0]: _printed(row.values.get(m), m, bounds) for m in TABLE_2},
        }
        for row in printed
    ]  # fmt: skip
    return pd.DataFrame(lines)


def _where(seat: Condition) -> str:
    return f"{seat.parts['framework']}, {'release' if seat.newest.source == 'release' else 'run here'}"


def _counts(found: Mapping[tuple[str, str], MeasureRow], key: str) -> dict[str, int]:
    talks, task = found[key, "doctor_turns"], found[key, "accuracy"]
    return {
        "Cases": max(talks.figure.n_cases, task.figure.n_cases), "Conversations": talks.n_conversations,
        "Broke off": talks.n_excluded, "Not measured": talks.n_missing, "Answers": task.n_conversations,
        "Answers excluded": task.n_excluded,
    }  # fmt: skip


def _value(figure: Figure, measure: str, bounds: bool) -> float | str | None:
    if not bounds:
        return figure.mean
    return "–" if figure.mean is None else f"{decimal(figure.mean, measure)} ({interval_words(figure, measure)})"


def _printed(value: float | None, measure: str, bounds: bool) -> float | str | None:
    if not bounds:
        return value
    return "–" if value is None else decimal(value, measure)


def decimal(value: float, measure: str) -> str:
    """Return a figure with as many decimals as it bears."""
    return f"{value:.2f}" if measure in LENGTHS else f"{value:.3f}"


def interval_words(figure: Figure, measure: str) -> str:
    """Return the interval of a figure as text."""
    if figure.ci_low is None or figure.ci_high is None:
        return "no interval"
    return f"{decimal(figure.ci_low, measure)}–{decimal(figure.ci_high, measure)}"


def measures_table(rows: Sequence[MeasureRow], names: Mapping[str, str], measures: Sequence[str]) -> pd.DataFrame:
    """Return every figure in a row of its own, with its interval and what it rests on."""
    return pd.DataFrame(
        [
            {
                "Doctor": names[row.model], "Measure": MEASURE[row.measure][0], **_figure(row.figure),
                "Conversations": row.n_conversations, "Without": row.n_without, "Broke off": row.n_excluded,
                "Not measured": row.n_missing,
            }
            for row in rows
            if row.measure in measures
        ]
    )  # fmt: skip


def virtues_table(rows: Sequence[MeasureRow], names: Mapping[str, str], seats: Sequence[Condition]) -> pd.DataFrame:
    """Return the patient's virtues by doctor, with who played the patient."""
    patients = {names[seat.name]: model_name(seat.newest.patient) for seat in seats}
    table = measures_table(rows, names, VIRTUES)
    if not table.empty:
        table.insert(1, "Patient", table["Doctor"].map(patients))
    return table


def curves_table(points: Sequence[CurvePoint], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the points of the curves."""
    return pd.DataFrame(
        [
            {"Doctor": names[p.model], "Measure": MEASURE[p.measure][0], "Dialogue done": p.share / 100,
             **_figure(p.figure)}
            for p in points
        ]
    )  # fmt: skip


def order_table(rows: Sequence[OrderRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return when and how often each topic is told."""
    return pd.DataFrame(
        [
            {
                "Doctor": names[row.model], "Topic": row.topic.capitalize(), "First told at": row.position.mean,
                "Low": row.position.ci_low, "High": row.position.ci_high, "Cases where told": row.position.n_cases,
                "Told in": row.told.mean, "Told, low": row.told.ci_low, "Told, high": row.told.ci_high,
                "Cases with the topic": row.told.n_cases,
            }
            for row in rows
        ]
    )  # fmt: skip


def group_words(group: ItemGroup) -> str:
    """Return what a group of cases is called."""
    size = f"{group.least}" if group.least == group.most else f"{group.least}–{group.most}"
    return f"{('Fewest', 'Middle', 'Most')[group.number]}: {size} items"


def groups_table(rows: Sequence[GroupRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the measures in the three groups of cases."""
    return pd.DataFrame(
        [
            {"Doctor": names[row.model], "Cases with": group_words(row.group), "Measure": MEASURE[row.measure][0],
             **_figure(row.figure)}
            for row in rows
        ]
    )  # fmt: skip


def comparison_table(rows: Sequence[ComparisonRow], first: str, second: str, correction: Correction) -> pd.DataFrame:
    """Return the differences of two doctors, in the order of ``MEASURE``."""
    ordered = sorted(rows, key=lambda row: list(MEASURE).index(row.measure))
    return pd.DataFrame(
        [
            {
                "Measure": MEASURE[row.measure][0], first: row.first, second: row.second,
                "Difference": row.difference.mean, "Low": row.difference.interval.low,
                "High": row.difference.interval.high, "p": format_p(row.difference.p),
                f"p ({LABELS[correction]})": f"{format_p(row.p_adjusted)} {stars(row.p_adjusted)}",
                "Cases": row.difference.n_first,
            }
            for row in ordered
        ]
    )  # fmt: skip


CASE_COLUMNS = ("patient_recall", "patient_precision", "doctor_recall", "doctor_turns", "repetition_1", "accuracy")


def cases_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a doctor's cases with their means, in the order of their keys."""
    ordered = table.iloc[sorted(range(len(table)), key=lambda i: natural(str(table["case_key"].iloc[i])))]
    return pd.DataFrame(
        {
            "Case": ordered["case_key"], "Data set": ordered["dataset"].map(dataset_name),
            "Specialty": ordered["specialty"], "Items": ordered["n_items"],
            **{MEASURE[m][0]: ordered[m] for m in CASE_COLUMNS}, "Conversations": ordered["conversations"],
        }
    ).reset_index(drop=True)  # fmt: skip


def _figure(figure: Figure) -> dict[str, float | int | None]:
    return {"Mean": figure.mean, "Low": figure.ci_low, "High": figure.ci_high, "Cases": figure.n_cases}
