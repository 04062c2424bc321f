"""Figures of history taking by condition: the mean over a case's conversations, then over cases, with an interval.

Intervals (95 %) resample cases, comparisons are paired by case (``core.stats.smoothed``, ``core.stats.differences``).
Conversations that broke off are excluded and counted; a case counts in a figure where any of its conversations has the
measure. The task's accuracy stands beside.

Curves show measures against the share of the dialogue done (Liao et al., arXiv 2309.02077, analyses): 0 % is the
opening alone; after k of n exchanges k/n is done. Orders say when which topic comes up, and three equal groups of cases
by their number of items whether longer histories go worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import CURVES, HISTORY, LENGTHS, SCALARS, SHARES
from core.frameworks.consultation.queries import history_means, recalls_and_answers, vague_openings
from core.measures.base import Asked, Columns, Row, metric
from core.measures.missing import measure_missing
from core.measures.paired import CaseBy
from core.stats.bootstrap import Floats, column_intervals
from core.stats.corrections import Correction, adjusted
from core.stats.differences import Difference, paired_difference
from core.stats.intervals import Interval
from core.stats.smoothed import ratio_interval
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.selection import Selection
from core.text.topics import TOPICS, Topic


@dataclass(frozen=True)
class Figure:
    """A mean over cases with its 95 % interval; all ``None`` without cases, bounds if lengths are all alike."""

    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_cases: int


@dataclass(frozen=True)
class MeasureRow:
    """One measure of one model.

    ``n_conversations`` have the measure; ``n_without`` were measured and lack it (repetition of fewer than two
    queries); ``n_excluded`` broke off; ``n_missing`` are not measured yet.
    """

    model: str
    measure: str
    figure: Figure
    n_conversations: int
    n_without: int
    n_excluded: int
    n_missing: int


@dataclass(frozen=True)
class ComparisonRow:
    """First minus second model in one measure, paired by case; ``p_adjusted`` over the measures compared."""

    measure: str
    first: float
    second: float
    difference: Difference
    p_adjusted: float


def read_history(store: Store, selection: Selection | None = None, *, curves: bool = False) -> pd.DataFrame:
    """Return the table of ``core.frameworks.consultation.queries.history_means``: a row for each model and case.

    ``curves`` asks for the points over the dialogue in place of the means, of which there are ten times as many.

    What is not measured yet is counted in ``missing``: ``measure_missing`` first. Formats and question types of the
    selection have no bearing on conversations.
    """
    with store.read() as cursor:
        means, points, topics = ((), CURVED, ()) if curves else (SCALARS, (), TOPICS)
        return history_means(cursor, HISTORY, means, points, topics, selection)


def figures_of(table: pd.DataFrame, columns: Sequence[str]) -> dict[tuple[str, str], Figure]:
    """Return (model, column) → figure, all from one resampling of the table's cases."""
    models = sorted(table["model"].unique())
    if not models:
        return {}
    wide = table.pivot(index="case_key", columns="model", values=list(columns))
    named = [(model, column) for column in columns for model in models]
    matrix = np.column_stack(
        [wide[column][model].to_numpy(dtype=np.float64, na_value=np.nan) for model, column in named]
    )
    bounds = column_intervals(matrix, shares=[column not in LENGTHS for _, column in named])
    return {name: _figure(matrix[:, i], bounds[i].low, bounds[i].high) for i, name in enumerate(named)}


def measure_rows(table: pd.DataFrame, measures: Sequence[str] = SCALARS) -> list[MeasureRow]:
    """Return every measure of every model, in the order of models and measures."""
    figures = figures_of(table, measures)
    counts = table.groupby("model")[["conversations", "excluded", "missing", *(f"n_{m}" for m in measures)]].sum()
    rows = []
    for model, of in ((str(model), of) for model, of in counts.astype(int).to_dict("index").items()):
        for m in measures:
            having, rest = of[f"n_{m}"], (of["excluded"], of["missing"])
            rows.append(MeasureRow(model, m, figures[model, m], having, of["conversations"] - having, *rest))
    return rows


def compare_models(
    table: pd.DataFrame, first: str, second: str, measures: Sequence[str] = SCALARS, correction: Correction = "holm"
) -> list[ComparisonRow]:
    """Compare two models on the cases that both have, measure by measure; p-values are corrected over the measures.

    Raises ``UsageError`` where the models share no case.
    """
    sides = [table[table["model"] == model].set_index("case_key")[list(measures)] for model in (first, second)]
    shared = sides[0].index.intersection(sides[1].index)
    if shared.empty:
        raise UsageError(
            f"{first} and {second} have no case in common: compare models that were run on the same cases."
        )
    compared = []
    for m in measures:
        first_values, second_values = (side.loc[shared, m].to_numpy(dtype=np.float64) for side in sides)
        compared.append(_compared(first_values, second_values, most=None if m in LENGTHS else 1.0))
    p_values = adjusted((difference.p for _, _, difference in compared), correction)
    return [
        ComparisonRow(m, one, other, difference, p)
        for m, (one, other, difference), p in zip(measures, compared, p_values, strict=True)
    ]


def _compared(one: Floats, other: Floats, most: float | None) -> tuple[float, float, Difference]:
    both = ~(np.isnan(one) | np.isnan(other))
    one, other = one[both], other[both]
    difference = paired_difference(one, other, most=most)
    return (float(one.mean()), float(other.mean()), difference) if one.size else (np.nan, np.nan, difference)


def _figure(values: Floats, low: float, high: float) -> Figure:
    held = values[~np.isnan(values)]
    if not held.size:
        return Figure(None, None, None, 0)
    bounds = [None if np.isnan(bound) else bound for bound in (low, high)]
    return Figure(float(held.mean()), bounds[0], bounds[1], held.size)


@dataclass(frozen=True)
class CurvePoint:
    """One measure of one model when ``share`` per cent of the dialogue is done."""

    model: str
    measure: str
    share: int
    figure: Figure


@dataclass(frozen=True)
class OrderRow:
    """One topic in one model's conversations, over the cases whose items have it.

    ``position``: mean share (0–1) of the dialogue at which the patient first tells it, over the conversations where
    that happens; ``told``: the share of conversations where it does.
    """

    model: str
    topic: Topic
    position: Figure
    told: Figure


CURVED = (*CURVES, "patient_f1", "doctor_f1")
"""Measures with a curve; F1 is each conversation's own, of its recall and precision at that share of the dialogue."""


def curve_points(table: pd.DataFrame) -> list[CurvePoint]:
    """Return the curves of every model (``read_history``'s ``curves``), in the order of models, measures and shares.

    A doctor's precision begins with its first query: conversations without one yet do not count at that share.
    """
    wanted = [(m, share, f"{m}_at_{i}") for m in CURVED for i, share in enumerate(SHARES)]
    figures = figures_of(table, [column for _, _, column in wanted])
    return [
        CurvePoint(model, measure, share, figures[model, column])
        for model in sorted(table["model"].unique())
        for measure, share, column in wanted
    ]


def order_rows(table: pd.DataFrame) -> list[OrderRow]:
    """Return the topics of every model, by the mean position; topics that no case has are left out."""
    columns = [f"{kind}_{topic}" for kind in ("order", "told") for topic in TOPICS]
    figures = figures_of(table, columns)
    rows = [
        OrderRow(model, topic, figures[model, f"order_{topic}"], figures[model, f"told_{topic}"])
        for model in sorted(table["model"].unique())
        for topic in TOPICS
        if figures[model, f"told_{topic}"].n_cases
    ]
    return sorted(rows, key=lambda r: (r.model, r.position.mean is None, r.position.mean or 0.0))


GROUPS = 3


@dataclass(frozen=True)
class ItemGroup:
    """A third of the cases: its number (0 has the fewest items), least and most items of its cases, and the cases."""

    number: int
    least: int
    most: int
    cases: tuple[str, ...]


@dataclass(frozen=True)
class GroupRow:
    """One measure of one model in one group of cases."""

    model: str
    group: ItemGroup
    measure: str
    figure: Figure


def item_groups(table: pd.DataFrame) -> list[ItemGroup]:
    """Divide the cases of ``read_history``'s table into three groups of equal size (but for one case).

    Cases are ranked by their number of items, those with as many by their keys: neighbouring groups may share a number.
    """
    counts = table.dropna(subset=["n_items"]).groupby("case_key")["n_items"].max()
    ranked = sorted((int(n), str(key)) for key, n in counts.items())
    bounds = [len(ranked) * i // GROUPS for i in range(GROUPS + 1)]
    parts = [ranked[low:high] for low, high in pairwise(bounds)]
    return [ItemGroup(i, p[0][0], p[-1][0], tuple(key for _, key in p)) for i, p in enumerate(parts) if p]


def group_rows(table: pd.DataFrame, measures: Sequence[str] = SCALARS) -> list[GroupRow]:
    """Return the measures of every model in each group, in the order of groups, models and measures."""
    rows = []
    for group in item_groups(table):
        part = table[table["case_key"].isin(group.cases)]
        figures = figures_of(part, measures)
        rows += [
            GroupRow(model, group, measure, figures[model, measure])
            for model in sorted(part["model"].unique())
            for measure in measures
        ]
    return rows


@dataclass(frozen=True)
class UncoveredRow:
    """Whether answers were right where so much was uncovered: of ``n`` conversations of one model ``right`` were.

    ``third`` of all conversations looked at, by the patient's recall (0 has the lowest), between ``least`` and ``most``
    of the items' words. ``interval``: of the share, cases resampled with all their conversations.
    """

    model: str
    third: int
    least: float
    most: float
    n: int
    right: int
    cases: int
    interval: Interval


def read_uncovered(store: Store, selection: Selection | None = None) -> pd.DataFrame:
    """Return recall and answer of each conversation: ``core.frameworks.consultation.queries.recalls_and_answers``."""
    with store.read() as cursor:
        return recalls_and_answers(cursor, HISTORY, "patient_recall", selection)


def uncovered_rows(table: pd.DataFrame) -> list[UncoveredRow]:
    """Return ``read_uncovered``'s conversations by model and third of their recall, in the order of models and thirds.

    Conversations of the same recall are in one third; one that nobody is in is left out.
    """
    if table.empty:
        return []
    recall = table["recall"].to_numpy(dtype=np.float64)
    thirds = np.searchsorted(np.quantile(recall, [1 / 3, 2 / 3]), recall, side="left")
    rows = []
    for model in sorted(table["model"].unique()):
        for third in range(GROUPS):
            own = table[(table["model"] == model).to_numpy() & (thirds == third)]
            if own.empty:
                continue
            by_case = own.groupby("case_key")["right"].agg(["sum", "size"])
            rows.append(
                UncoveredRow(
                    model,
                    third,
                    float(recall[thirds == third].min()),
                    float(recall[thirds == third].max()),
                    len(own),
                    int(own["right"].sum()),
                    len(by_case),
                    ratio_interval(by_case["sum"], by_case["size"]),
                )
            )
    return rows


MEASURES = (*SCALARS, "accuracy")
"""What is figured of each case: the measures of its conversations, and the accuracy of the task's answers."""
TASK = Selection(formats=("multi_turn",), question_types=("mcq",))
"""The arm whose accuracy stands beside the history: the task T with its choices, after the conversation."""


def read_doctors(store: Store, selection: Selection | None = None, history: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return ``read_history``'s table with ``case_set`` and the task's accuracy, judged by the selection's rule.

    ``accuracy`` is the share of a case's counted answers that are right (NaN where none counts), ``n_accuracy`` their
    number, ``uncounted`` that of the answers that do not count. A bound holds no conversation by design, so none of it
    is excluded. ``history`` is what ``read_history`` returns for this selection under any rule, if it was read already.
    """
    chosen = selection or Selection()
    table = read_history(store, chosen) if history is None else history
    task = replace(chosen, formats=TASK.formats, question_types=TASK.question_types)
    with store.read() as cursor:
        scores = case_scores(cursor, task, chosen.mcq_rule)
    answers = pd.DataFrame(
        [(s.model, s.case_key, s.score, s.counted, sum(s.excluded.values())) for s in scores],
        columns=["model", "case_key", "accuracy", "n_accuracy", "uncounted"],
    )
    table = table.merge(answers, how="left", on=["model", "case_key"])
    counts = ["n_accuracy", "uncounted"]
    asks = publisher("history")
    silent = {key: not asks.talks(doctor_of(key), asks.arms) for key in table["model"].unique()}
    return table.assign(
        accuracy=table["accuracy"].astype(np.float64),
        **{name: table[name].fillna(0).astype(int) for name in counts},
        excluded=table["excluded"].mask(table["model"].map(silent).astype(bool), 0),
        case_set=table["case_key"].str.split("/", n=1).str[0],
    )


def accuracy_counted(row: MeasureRow, table: pd.DataFrame) -> MeasureRow:
    """Return a row of the accuracy with its own numbers: answers that count, and those that do not."""
    if row.measure != "accuracy":
        return row
    own = table[table["model"] == row.model]
    return replace(row, n_without=0, n_excluded=int(own["uncounted"].sum()), n_missing=0)


def openings_note(store: Store, selection: Selection | None = None) -> str:
    """Say in how many of the conversations that patients opened no complaint was named; empty where one always was."""
    with store.read() as cursor:
        vague, opened = vague_openings(cursor, selection)
    if not vague:
        return ""
    return f"{vague:,} of {opened:,} opening requests ({vague / opened:.0%}) name no complaint: the rule found none."


HistoryPart = Literal["measures", "change", "curves", "order", "groups"]
_CHANGE = Columns("change", n="n_cases")


@metric(
    "history",
    "run",
    "models",
    "mcq_rule",
    empty="There is no conversation to report: run a campaign, such as `python -m core run --doctor reference/bayes`, "
    "or import the authors' release.",
    page="quality",
)
def report(
    asked: Asked,
    by: CaseBy = None,
    part: Annotated[
        HistoryPart,
        "Measures, the change from the first to the second of two --models, their curves over the dialogue, order of "
        "inquiry, groups by items.",
    ] = "measures",
) -> Iterator[Row]:
    """Report ROUGE-1 against the items of cases, turns, lengths, repetition, the patient's virtues, and accuracy."""
    with asked.progress("conversations") as show:
        measure_missing(asked.store, HISTORY, asked.selection, progress=show)
    if words := openings_note(asked.store, asked.selection):
        asked.note(words)
    table = read_doctors(asked.store, asked.selection)
    if part == "curves":
        points = read_history(asked.store, asked.selection, curves=True)
        table = points.assign(case_set=table["case_set"])  # the same rows
    for case_set, members in table.groupby("case_set", sort=True):
        for group, found in members.groupby(by, sort=True) if by else [("", members)]:
            label: dict[str, object] = {"cases": str(case_set), **({by: str(group)} if by else {})}
            if part == "measures":
                for row in (accuracy_counted(row, found) for row in measure_rows(found, MEASURES)):
                    counts = {name: getattr(row, name) for name in ("n_conversations", "n_without", "n_excluded")}
                    yield _figure_row({**label, "model": row.model, "measure": row.measure}, row.figure, counts)
            elif part == "change":
                before, after = _two_sides(asked, found)
                for c in compare_models(found, after, before, MEASURES):
                    more = {"before": c.second, "after": c.first, "p_holm": c.p_adjusted}
                    low, high = c.difference.interval.low, c.difference.interval.high
                    names = {**label, "model": after, "against": before, "measure": c.measure}
                    yield Row(names, c.difference.mean, low, high, c.difference.n, more=more, columns=_CHANGE)
            elif part == "curves":
                for p in curve_points(found):
                    yield _figure_row({**label, "model": p.model, "measure": p.measure, "per_cent": p.share}, p.figure)
            elif part == "order":
                for r in order_rows(found):
                    told = {f"told_{name}": value for name, value in vars(r.told).items()}
                    yield _figure_row({**label, "model": r.model, "topic": r.topic}, r.position, told)
            else:
                for g in group_rows(found, MEASURES):
                    place = {"group": g.group.number + 1, "least_items": g.group.least, "most_items": g.group.most}
                    yield _figure_row({**label, "model": g.model, **place, "measure": g.measure}, g.figure)


def _two_sides(asked: Asked, found: pd.DataFrame) -> tuple[str, str]:
    """Return the conditions of the two models that were named, in their order; raises ``UsageError`` for others."""
    named, held = list(asked.selection.models or ()), found["model"].unique()
    sides = [[one for one in held if name in (one, doctor_of(one))] for name in named]
    if len(sides) != 2 or any(len(side) != 1 for side in sides):
        raise UsageError(
            "A change is from one condition to another: name two with --models, and their runs with --run where a "
            f"model has several. Here are {', '.join(sorted(held))}."
        )
    (before,), (after,) = sides
    return before, after


def _figure_row(label: dict[str, object], figure: Figure, more: Mapping[str, object] = MappingProxyType({})) -> Row:
    return Row(label, figure.mean, figure.ci_low, figure.ci_high, figure.n_cases, more=more)
