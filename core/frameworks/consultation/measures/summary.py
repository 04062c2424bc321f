"""Figures of history taking by condition: the mean over a case's conversations, then over cases, with an interval.

Intervals (95 %) resample cases, comparisons are paired by case (``core.stats.smoothed``, ``core.stats.differences``).
Conversations that broke off are excluded and counted; a case counts in a figure if any of its conversations has the
measure. The accuracy of the task is reported with the measures.

Curves show measures against the share of the dialogue (Liao et al., arXiv 2309.02077, analyses): 0 % is only the
opening; after k of n exchanges the share is k/n. Orders show when topics are told; three equal groups of cases by their
number of items show whether longer histories are harder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import CURVES, HISTORY, LENGTHS, MEASURES, SCALARS, SHARES
from core.frameworks.consultation.measures.published import HistorySet, published_rows
from core.frameworks.consultation.queries import history_means, recalls_and_answers, vague_openings
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import CASES_OF_RUNS, Columns, Listed, MetricRequest, Row, metric
from core.measures.comparison import compare_cases, corrected
from core.measures.extent import changed_keys, read_extents
from core.measures.paired import CaseBy
from core.stats.bootstrap import column_intervals
from core.stats.corrections import Correction
from core.stats.smoothed import ratio_interval
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.queries.history_items import item_makers
from core.store.selection import Selection, conditions
from core.text.case_items import BY_RULE
from core.text.topics import TOPICS

_CHANGE = Columns("change")
_UNCOVERED = Columns("share_right", n="n_conversations")


def read_history(store: Store, selection: Selection | None = None, *, curves: bool = False) -> pd.DataFrame:
    """Return the table of ``core.frameworks.consultation.queries.history_means``: a row for each model and case.

    ``curves`` reads the points over the dialogue instead of the means; there are ten times as many.

    Conversations that are not measured yet are counted in ``missing``. Formats and
    question types of the selection do not matter for conversations.
    """
    with store.read() as cursor:
        means, points, topics = ((), CURVED, ()) if curves else (SCALARS, (), TOPICS)
        return history_means(cursor, HISTORY, means, points, topics, selection)


def figures_of(table: pd.DataFrame, columns: Sequence[str]) -> dict[tuple[str, str], Row]:
    """Return (model, column) → row with the mean over cases; all intervals use the same resamples of cases.

    A value is the mean of ``n_COLUMN`` trials, or of ``conversations`` without this column. Without cases there is no
    mean; lengths without variation have no bounds.
    """
    models = sorted(table["model"].unique())
    if not models or not columns:
        return {}
    places = [(model, column) for column in columns for model in models]
    with_trials = [f"n_{column}" if f"n_{column}" in table else "conversations" for column in columns]
    case, keys = pd.factorize(table["case_key"], sort=True)
    model_code = pd.Categorical(table["model"], models).codes
    cube = np.full((2, len(keys), len(columns), len(models)), np.nan)
    for number, names in enumerate((list(columns), with_trials)):
        cube[number][case, :, model_code] = table[names].to_numpy(dtype=np.float64, na_value=np.nan)
    matrix, trials = cube.reshape(2, len(keys), len(places))
    bounds = column_intervals(matrix, shares=[column not in LENGTHS for _, column in places], trials=trials)
    figures = {}
    for (model, column), values, interval in zip(places, matrix.T, bounds, strict=True):
        present = values[~np.isnan(values)]
        label = {"model": model, "measure": column}
        figures[model, column] = (
            Row(label, float(present.mean()), *interval, present.size) if present.size else Row(label, None, n=0)
        )
    return figures


def measure_rows(table: pd.DataFrame, measures: Sequence[str] = SCALARS) -> list[Row]:
    """Return every measure of every model, in the order of models and measures.

    ``n_conversations`` have the measure; ``n_without`` are measured and lack it (repetition of fewer than two queries).
    Conversations that broke off, or are not measured yet, are excluded. For the accuracy, which needs ``read_doctors``,
    these numbers count answers.
    """
    figures = figures_of(table, measures)
    names = ["conversations", "excluded", "missing", *(f"n_{m}" for m in measures)]
    names += ["uncounted"] if "accuracy" in measures else []
    counts = table.groupby("model")[names].sum().astype(int).to_dict("index")
    rows = []
    for (model, n), m in product(counts.items(), measures):
        n_with = n[f"n_{m}"]
        if m == "accuracy":
            n_without, excluded, n_excluded = 0, {"not_counted": n["uncounted"]}, n["uncounted"]
        else:
            n_without, n_excluded = n["conversations"] - n_with, n["excluded"]
            excluded = {"broke_off": n_excluded, "not_measured": n["missing"]}
        more = {"n_conversations": n_with, "n_without": n_without, "n_excluded": n_excluded}
        rows.append(replace(figures[str(model), m], excluded=excluded, more=more))
    return rows


def compare_models(
    table: pd.DataFrame, before: str, after: str, measures: Sequence[str] = SCALARS, correction: Correction = "holm"
) -> list[Row]:
    """Return the difference of each measure, ``after`` minus ``before``, on the cases of both.

    p-values are corrected over the measures. Raises ``UsageError`` if the models share no case.
    """
    sides = [table[table["model"] == model].set_index("case_key")[list(measures)] for model in (before, after)]
    if sides[0].index.intersection(sides[1].index).empty:
        raise UsageError(f"{after} and {before} have no case in common: compare models with runs on the same cases.")
    rows = []
    for m in measures:
        first, second = (dict(zip(side.index, side[m].astype(np.float64), strict=True)) for side in sides)
        most, scores = None if m in LENGTHS else 1.0, m != "accuracy"
        compared = compare_cases(first, second, most=most, scores=scores)
        label = {"model": after, "against": before, "measure": m}
        rows.append(
            Row(
                label,
                compared.difference,
                compared.low,
                compared.high,
                compared.n,
                columns=_CHANGE,
                comparison=compared,
            )
        )
    return [
        replace(row, more={"before": c.first_mean, "after": c.second_mean, "p": c.p, f"p_{correction}": c.adjusted_p})
        for row in corrected(rows, correction)
        if (c := row.comparison) is not None
    ]


CURVED = (*CURVES, "patient_f1", "doctor_f1")
"""Measures with a curve; F1 is computed in each conversation from recall and precision at the share of the dialogue."""


def curve_rows(table: pd.DataFrame, measures: Sequence[str] = CURVED) -> list[Row]:
    """Return the curves of every model (``read_history``'s ``curves``), in the order of models, measures and shares.

    A doctor's precision begins with its first query: before it a conversation does not count.
    """
    columns = {(m, share): f"{m}_at_{i}" for m in measures for i, share in enumerate(SHARES)}
    figures = figures_of(table, list(columns.values()))
    return [
        replace(figures[model, column], label={"model": model, "measure": measure, "per_cent": share})
        for model in sorted(table["model"].unique())
        for (measure, share), column in columns.items()
    ]


def order_rows(table: pd.DataFrame) -> list[Row]:
    """Return the topics of every model, the earliest first; topics that no case has are left out.

    The estimate is the mean share (0 to 1) of the dialogue at which the patient first tells the topic, over the
    conversations in which it is told; ``told_mean`` is the share of these conversations, over cases with the topic.
    """
    figures = figures_of(table, [f"{kind}_{topic}" for kind in ("order", "told") for topic in TOPICS])
    rows = []
    for model, topic in product(sorted(table["model"].unique()), TOPICS):
        told_row = figures[model, f"told_{topic}"]
        if told_row.n:
            label = {"model": model, "topic": topic}
            rows.append(
                replace(
                    figures[model, f"order_{topic}"],
                    label=label,
                    more={
                        "told_mean": told_row.estimate,
                        "told_ci_low": told_row.low,
                        "told_ci_high": told_row.high,
                        "told_n_cases": told_row.n,
                    },
                )
            )
    return sorted(rows, key=lambda r: (r.label["model"], r.estimate is None, r.estimate or 0.0))


GROUPS = 3


def item_groups(table: pd.DataFrame) -> list[tuple[dict[str, int], list[str]]]:
    """Divide the cases of ``read_history``'s table into three groups whose sizes differ by at most one.

    A group has a number (1 has the fewest items) with the least and most items of its cases, and the keys of the cases.
    Cases are sorted by number of items, then by key, so neighbouring groups may share a number of items.
    """
    counts = table.dropna(subset=["n_items"]).groupby("case_key")["n_items"].max()
    ranked = sorted((int(n), str(key)) for key, n in counts.items())
    bounds = [len(ranked) * i // GROUPS for i in range(GROUPS + 1)]
    parts = [ranked[low:high] for low, high in pairwise(bounds)]
    return [
        ({"group": number, "least_items": part[0][0], "most_items": part[-1][0]}, [key for _, key in part])
        for number, part in enumerate(parts, 1)
        if part
    ]


def group_rows(table: pd.DataFrame, measures: Sequence[str] = SCALARS) -> list[Row]:
    """Return the measures of every model in each group, in the order of groups, models and measures."""
    rows = []
    for group, cases in item_groups(table):
        part = table[table["case_key"].isin(cases)]
        figures = figures_of(part, measures)
        rows += [
            replace(figures[model, measure], label={"model": model, **group, "measure": measure})
            for model in sorted(part["model"].unique())
            for measure in measures
        ]
    return rows


def read_uncovered(store: Store, selection: Selection | None = None) -> pd.DataFrame:
    """Return recall and answer of each conversation: ``core.frameworks.consultation.queries.recalls_and_answers``."""
    with store.read() as cursor:
        return recalls_and_answers(cursor, HISTORY, "patient_recall", selection)


def uncovered_rows(table: pd.DataFrame) -> list[Row]:
    """Return the share (0 to 1) of right answers of ``read_uncovered``, by model and third of patient recall.

    Thirds are of all conversations of the table: 1 has the lowest recall; conversations with equal recall are in the
    same third. A third without conversations of a model is left out. Cases are resampled with all their conversations.
    """
    if table.empty:
        return []
    recall = table["recall"].to_numpy(dtype=np.float64)
    thirds = 1 + np.searchsorted(np.quantile(recall, [1 / 3, 2 / 3]), recall, side="left")
    rows = []
    for model, third in product(sorted(table["model"].unique()), range(1, GROUPS + 1)):
        members = table[(table["model"] == model).to_numpy() & (thirds == third)]
        if members.empty:
            continue
        within = recall[thirds == third]
        label = {"model": model, "third": third, "recall_from": float(within.min()), "recall_to": float(within.max())}
        n, right, by_case = (
            len(members),
            int(members["right"].sum()),
            members.groupby("case_key")["right"].agg(["sum", "size"]),
        )
        more = {"n_right": right, "n_wrong": n - right, "n_cases": len(by_case)}
        interval = ratio_interval(by_case["sum"], by_case["size"])
        rows.append(Row(label, right / n, *interval, n, more=more, unit="conversations", columns=_UNCOVERED))
    return rows


TASK = Selection(formats=("multi_turn",), question_types=("mcq",))
"""The arm whose accuracy is reported with the history: the task T with its choices, after the conversation."""


def case_sets_of(table: pd.DataFrame) -> pd.Series:
    return table["case_key"].map({key: str(key).partition("/")[0] for key in table["case_key"].unique()})


def read_doctors(store: Store, selection: Selection | None = None) -> pd.DataFrame:
    """Return ``read_history``'s table with ``case_set`` and the task's accuracy, judged by the selection's rule.

    ``accuracy`` is the share of right answers among the counted answers of a case (NaN if none counts), ``n_accuracy``
    the number of counted answers, ``uncounted`` that of the others. A bound has no conversations by design, so none are
    excluded.
    """
    chosen = selection or Selection()
    table = read_history(store, chosen)
    task = replace(chosen, formats=TASK.formats, question_types=TASK.question_types)
    with store.read() as cursor:
        scores = case_scores(cursor, task, chosen.mcq_rule)
    answers = pd.DataFrame(
        [(s.model, s.case_key, s.score, s.counted, sum(s.excluded.values())) for s in scores],
        columns=["model", "case_key", "accuracy", "n_accuracy", "uncounted"],
    )
    table = table.merge(answers, how="left", on=["model", "case_key"])
    counts = ["n_accuracy", "uncounted"]
    framework = publisher("history")
    is_bound = {key: not framework.has_conversation(doctor_of(key), framework.arms) for key in table["model"].unique()}
    return table.assign(
        accuracy=table["accuracy"].astype(np.float64),
        **{name: table[name].fillna(0).astype(int) for name in counts},
        excluded=table["excluded"].mask(table["model"].map(is_bound).astype(bool), 0),
        case_set=case_sets_of(table),
    )


def openings_note(store: Store, selection: Selection | None = None) -> str:
    """Return a sentence on opening requests without a complaint; empty if there are none."""
    with store.read() as cursor:
        vague, opened = vague_openings(cursor, selection)
    if not vague:
        return ""
    return f"{vague:,} of {opened:,} opening requests ({vague / opened:.0%}) name no complaint: the rule found none."


def items_note(store: Store, selection: Selection | None = None) -> str:
    """Return a sentence on whose items the conversations are measured against; empty if all are by rule."""
    with store.read() as cursor:
        makers = item_makers(cursor, selection)
    if all(maker in BY_RULE.values() for maker in makers):
        return ""
    words = ", ".join(f"{'rule' if maker in BY_RULE.values() else maker} ({n:,})" for maker, n in makers.items())
    return f"Cases by the maker of their items: {words}. Figures against items of other makers are not comparable."


HistoryPart = Literal["measures", "change", "curves", "order", "groups", "uncovered", "virtues", "cases"]
Speaker = Literal["patient", "doctor"]
VIRTUES = ("honesty", "strictness", "colloquialism")


@metric(
    "history",
    *CASES_OF_RUNS,
    "mcq_rule",
    "sample",
    empty="There is no conversation to report.",
    measure=HISTORY,
    starts=(CAMPAIGN, RELEASE),
    page="quality",
)
def report(
    request: MetricRequest,
    by: CaseBy = None,
    part: Annotated[
        HistoryPart,
        "Measures, the change from the first to the second of two --models, curves over the dialogue, order of "
        "inquiry, groups by items, right answers by patient recall, the patient's virtues by patient, or each case.",
    ] = "measures",
    speaker: Annotated[Speaker | None, "Only the measures of the words of one speaker."] = None,
    measure: Annotated[str | None, "Only these measures, with commas."] = None,
    published: Annotated[HistorySet | None, "Add the published figures of Liao et al. on a data set."] = None,
    correction: Annotated[Correction, "Correction of p over the measures of a change."] = "holm",
) -> Iterator[Listed]:
    """Report ROUGE-1 against the items of cases, turns, lengths, repetition, the patient's virtues, and accuracy."""
    if words := request.read(openings_note, replace(request.selection, mcq_rule="usual")):
        request.note(words)
    if words := request.read(items_note, replace(request.selection, mcq_rule="usual")):
        request.note(words, kind="items", page="cases")
    if part == "cases":
        yield from _case_lines(_table_of(request, part))
        return

    def wanted(name: str) -> bool:
        return name.startswith(speaker or "") and (measure is None or name in measure.split(","))

    for place, table in _table_of(request, part).groupby(["case_set", by] if by else ["case_set"], sort=True):
        label = dict(zip(("cases", *filter(None, [by])), map(str, place), strict=True))
        for row in _rows_of(request, part, table, correction, wanted):
            if "measure" not in row.label or wanted(row.label["measure"]):
                yield replace(row, label={**label, **row.label})
    if published and part == "measures":
        for row in published_rows(published):
            yield replace(row, label={**row.label, by: ""} if by else row.label)
        request.note(
            "Published figures: Liao et al. (arXiv 2309.02077), tables 2 and 3. They are on other cases, and on items "
            "by a model, so that only their order is comparable.",
            kind="published",
            page="quality",
        )


def _case_lines(table: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    """Yield a line for each model and case with a conversation that is measured."""
    measured = table[table["conversations"] > 0].sort_values(["model", "case_key"], kind="stable")
    for line in measured.to_dict("records"):
        yield {str(name): None if pd.isna(value) else value for name, value in line.items()}


def _table_of(request: MetricRequest, part: HistoryPart) -> pd.DataFrame:
    """Return the table of cases or conversations of a part, with ``case_set``."""
    if part == "uncovered":
        table = request.read(read_uncovered, request.selection)
    elif part == "curves":
        any_rule = replace(request.selection, mcq_rule="usual")  # the rule does not matter for conversations
        table = request.read(read_history, any_rule, curves=True)
    else:
        return request.read(read_doctors, request.selection)
    return table.assign(case_set=case_sets_of(table))


def _rows_of(
    request: MetricRequest,
    part: HistoryPart,
    table: pd.DataFrame,
    correction: Correction,
    wanted: Callable[[str], bool],
) -> list[Row]:
    """Return the rows of a part; rows that are not ``wanted`` by their measure may be left out."""
    measures = list(filter(wanted, MEASURES))
    match part:
        case "measures":
            if shares := [measure for measure in measures if measure not in LENGTHS]:
                values = table.melt(["model", "case_key"], shares, "figure")
                request.case_values = values.astype({"value": float}).dropna(subset=["value"])
            return measure_rows(table, measures)
        case "change":
            sides = _two_sides(request, table)
            extents = [extent for extent in request.read(read_extents, request.selection) if extent.model in sides]
            same = table[~table["case_key"].isin(changed_keys(extents))]
            return compare_models(same, *sides, MEASURES, correction)
        case "curves":
            return curve_rows(table, list(filter(wanted, CURVED)))
        case "order":
            return order_rows(table)
        case "groups":
            return group_rows(table, measures)
        case "uncovered":
            return uncovered_rows(table)
        case "cases":
            return []  # lines of a list
        case "virtues":
            selected = conditions(request.store, request.selection)
            patients = {condition.name: condition.newest.patient for condition in selected}
            return [
                replace(row, label={"model": model, "patient": patients[model], "measure": row.label["measure"]})
                for row in measure_rows(table, VIRTUES)
                if (model := row.label["model"])
            ]


def _two_sides(request: MetricRequest, table: pd.DataFrame) -> tuple[str, str]:
    """Return the conditions of the two selected models, in order; raises ``UsageError`` if there are not two."""
    models = table["model"].unique()
    names = request.selection.conditions or request.selection.models or ()
    sides = [[model for model in models if name in (model, doctor_of(model))] for name in names]
    if len(sides) != 2 or any(len(side) != 1 for side in sides):
        raise UsageError(
            "A change is from one condition to another: name two with --models, and their runs with --run if a model "
            f"has several. There are {', '.join(sorted(models))}."
        )
    (before,), (after,) = sides
    if before == after:
        raise UsageError(f"{before} is compared with itself: name two conditions with --models.")
    return before, after
