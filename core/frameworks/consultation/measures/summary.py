"""Figures of history taking by condition: the mean over a case's conversations, then over cases, with an interval.

Intervals (95 %) resample cases, comparisons are paired by case (``core.stats.smoothed``, ``core.stats.differences``).
Conversations that broke off are excluded and counted; a case counts in a figure where any of its conversations has the
measure. The task's accuracy stands beside.

Curves show measures against the share of the dialogue done (Liao et al., arXiv 2309.02077, analyses): 0 % is the
opening alone; after k of n exchanges k/n is done. Orders say when which topic comes up, and three equal groups of cases
by their number of items whether longer histories go worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import CURVES, HISTORY, LENGTHS, MEASURES, SCALARS, SHARES
from core.frameworks.consultation.measures.published import HistorySet, published_rows
from core.frameworks.consultation.queries import history_means, recalls_and_answers, vague_openings
from core.measures.base import Asked, Columns, Row, metric
from core.measures.comparison import compare_cases, corrected
from core.measures.counterparts import Own
from core.measures.missing import measure_missing
from core.measures.paired import CaseBy
from core.stats.bootstrap import column_intervals
from core.stats.corrections import Correction
from core.stats.smoothed import ratio_interval
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.selection import Selection, conditions
from core.text.topics import TOPICS

_CHANGE = Columns("change")
_UNCOVERED = Columns("share_right", n="n_conversations")


def read_history(store: Store, selection: Selection | None = None, *, curves: bool = False) -> pd.DataFrame:
    """Return the table of ``core.frameworks.consultation.queries.history_means``: a row for each model and case.

    ``curves`` asks for the points over the dialogue in place of the means, of which there are ten times as many.

    What is not measured yet is counted in ``missing``: ``measure_missing`` first. Formats and question types of the
    selection have no bearing on conversations.
    """
    with store.read() as cursor:
        means, points, topics = ((), CURVED, ()) if curves else (SCALARS, (), TOPICS)
        return history_means(cursor, HISTORY, means, points, topics, selection)


def figures_of(table: pd.DataFrame, columns: Sequence[str]) -> dict[tuple[str, str], Row]:
    """Return (model, column) → the mean over its cases, all from one resampling of the table's cases.

    Without cases there is no mean; lengths that are all alike have no bounds.
    """
    models = sorted(table["model"].unique())
    if not models:
        return {}
    wide = table.pivot(index="case_key", columns="model", values=list(columns))
    places = [(model, column) for column in columns for model in models]
    matrix = np.column_stack(
        [wide[column][model].to_numpy(dtype=np.float64, na_value=np.nan) for model, column in places]
    )
    bounds = column_intervals(matrix, shares=[column not in LENGTHS for _, column in places])
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

    ``n_conversations`` have the measure; ``n_without`` were measured and lack it (repetition of fewer than two
    queries). Conversations that broke off, or are not measured yet, are excluded. Of the accuracy, which needs
    ``read_doctors``, the same numbers are of answers.
    """
    figures = figures_of(table, measures)
    names = ["conversations", "excluded", "missing", *(f"n_{m}" for m in measures)]
    names += ["uncounted"] if "accuracy" in measures else []
    counts = table.groupby("model")[names].sum().astype(int).to_dict("index")
    rows = []
    for (model, n), m in product(counts.items(), measures):
        having = n[f"n_{m}"]
        if m == "accuracy":
            without, excluded, broken = 0, {"not_counted": n["uncounted"]}, n["uncounted"]
        else:
            without, broken = n["conversations"] - having, n["excluded"]
            excluded = {"broke_off": broken, "not_measured": n["missing"]}
        more = {"n_conversations": having, "n_without": without, "n_excluded": broken}
        rows.append(replace(figures[str(model), m], excluded=excluded, more=more))
    return rows


def compare_models(
    table: pd.DataFrame, before: str, after: str, measures: Sequence[str] = SCALARS, correction: Correction = "holm"
) -> list[Row]:
    """Return what each measure of ``after`` is above that of ``before``, on the cases that both have.

    p-values are corrected over the measures. Raises ``UsageError`` if the models share no case.
    """
    sides = [table[table["model"] == model].set_index("case_key")[list(measures)] for model in (before, after)]
    if sides[0].index.intersection(sides[1].index).empty:
        raise UsageError(
            f"{after} and {before} have no case in common: compare models that were run on the same cases."
        )
    rows = []
    for m in measures:
        first, second = (dict(zip(side.index, side[m].astype(np.float64), strict=True)) for side in sides)
        compared = compare_cases(first, second, most=None if m in LENGTHS else 1.0)
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
"""Measures with a curve; F1 is each conversation's own, of its recall and precision at that share of the dialogue."""


def curve_rows(table: pd.DataFrame) -> list[Row]:
    """Return the curves of every model (``read_history``'s ``curves``), in the order of models, measures and shares.

    A doctor's precision begins with its first query: conversations without one yet do not count at that share.
    """
    columns = {(m, share): f"{m}_at_{i}" for m in CURVED for i, share in enumerate(SHARES)}
    figures = figures_of(table, list(columns.values()))
    return [
        replace(figures[model, column], label={"model": model, "measure": measure, "per_cent": share})
        for model in sorted(table["model"].unique())
        for (measure, share), column in columns.items()
    ]


def order_rows(table: pd.DataFrame) -> list[Row]:
    """Return the topics of every model, the earliest first; topics that no case has are left out.

    The estimate is the mean share (0–1) of the dialogue at which the patient first tells it, over the conversations
    where that happens; ``told_mean`` the share of conversations where it does, over the cases whose items have it.
    """
    figures = figures_of(table, [f"{kind}_{topic}" for kind in ("order", "told") for topic in TOPICS])
    rows = []
    for model, topic in product(sorted(table["model"].unique()), TOPICS):
        told = figures[model, f"told_{topic}"]
        if told.n:
            label = {"model": model, "topic": topic}
            rows.append(
                replace(
                    figures[model, f"order_{topic}"],
                    label=label,
                    more={
                        "told_mean": told.estimate,
                        "told_ci_low": told.low,
                        "told_ci_high": told.high,
                        "told_n_cases": told.n,
                    },
                )
            )
    return sorted(rows, key=lambda r: (r.label["model"], r.estimate is None, r.estimate or 0.0))


GROUPS = 3


def item_groups(table: pd.DataFrame) -> list[tuple[dict[str, int], list[str]]]:
    """Divide the cases of ``read_history``'s table into three groups of equal size (but for one case).

    Each is its number (1 has the fewest items) with the least and most items of its cases, and their keys. Cases are
    ranked by their number of items, those with as many by their keys: neighbouring groups may share a number.
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
    """Return which share of ``read_uncovered``'s answers is right, by model and third of what was uncovered.

    Thirds are of all these conversations by the patient's recall: 1 has the lowest, and those of the same recall are
    together. A third of a model without any is left out. Cases are resampled with all their conversations.
    """
    if table.empty:
        return []
    recall = table["recall"].to_numpy(dtype=np.float64)
    thirds = 1 + np.searchsorted(np.quantile(recall, [1 / 3, 2 / 3]), recall, side="left")
    rows = []
    for model, third in product(sorted(table["model"].unique()), range(1, GROUPS + 1)):
        own = table[(table["model"] == model).to_numpy() & (thirds == third)]
        if own.empty:
            continue
        within = recall[thirds == third]
        label = {"model": model, "third": third, "recall_from": float(within.min()), "recall_to": float(within.max())}
        n, right, by_case = len(own), int(own["right"].sum()), own.groupby("case_key")["right"].agg(["sum", "size"])
        more = {"n_right": right, "n_wrong": n - right, "n_cases": len(by_case)}
        interval = ratio_interval(by_case["sum"], by_case["size"])
        rows.append(Row(label, right / n, *interval, n, more=more, unit="conversations", columns=_UNCOVERED))
    return rows


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


def openings_note(store: Store, selection: Selection | None = None) -> str:
    """Say in how many of the conversations that patients opened no complaint was named; empty where one always was."""
    with store.read() as cursor:
        vague, opened = vague_openings(cursor, selection)
    if not vague:
        return ""
    return f"{vague:,} of {opened:,} opening requests ({vague / opened:.0%}) name no complaint: the rule found none."


def own_histories(table: pd.DataFrame) -> list[Own]:
    """Return every measure of history taking of every condition, from a table of ``read_doctors``."""
    (format_,), (question_type,) = TASK.formats or (), TASK.question_types or ()
    return [
        Own(
            row.label["model"],
            row.label["measure"],
            row.estimate,
            row.low,
            row.high,
            row.n or 0,
            format_,
            question_type,
        )
        for row in (measure_rows(table, MEASURES) if len(table) else ())
        if row.estimate is not None
    ]


HistoryPart = Literal["measures", "change", "curves", "order", "groups", "uncovered", "virtues"]
Speaker = Literal["patient", "doctor"]
VIRTUES = ("honesty", "strictness", "colloquialism")


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
        "inquiry, groups by items, right answers by how much was uncovered, the patient's virtues and who played it.",
    ] = "measures",
    speaker: Annotated[Speaker | None, "Only the measures of one side's words."] = None,
    published: Annotated[HistorySet | None, "Add the figures that Liao et al. print of a data set."] = None,
    correction: Annotated[Correction, "Correction of p over the measures of a change."] = "holm",
    stored: Annotated[bool, "Only what is measured already: other conversations are left out, and counted."] = False,
) -> Iterator[Row]:
    """Report ROUGE-1 against the items of cases, turns, lengths, repetition, the patient's virtues, and accuracy."""
    if not stored:
        with asked.progress("conversations") as show:
            measure_missing(asked.store, HISTORY, asked.selection, progress=show)
    if words := openings_note(asked.store, asked.selection):
        asked.note(words)
    for place, table in _table_of(asked, part).groupby(["case_set", by] if by else ["case_set"], sort=True):
        label = dict(zip(("cases", *filter(None, [by])), map(str, place), strict=True))
        for row in _rows_of(asked, part, table, correction):
            if speaker is None or row.label.get("measure", speaker).startswith(speaker):
                yield replace(row, label={**label, **row.label})
    if published and part == "measures":
        for row in published_rows(published):
            yield replace(row, label={**row.label, by: ""} if by else row.label)
        asked.note(
            "Published figures: Liao et al. (arXiv 2309.02077), tables 2 and 3. They rest on other cases, and on items "
            "made by a model, so that only their order compares.",
            kind="published",
            page="reproduce",
        )


def _table_of(asked: Asked, part: HistoryPart) -> pd.DataFrame:
    """Return the cases, or conversations, that a part is made of, with their ``case_set``."""
    conversations = replace(asked.selection, mcq_rule="usual")  # on these the rule has no bearing
    if part == "uncovered":
        table = asked.read(read_uncovered, asked.selection)
    elif part == "curves":
        table = asked.read(read_history, conversations, curves=True)
    else:
        return read_doctors(asked.store, asked.selection, asked.read(read_history, conversations))
    return table.assign(case_set=table["case_key"].str.split("/", n=1).str[0])


def _rows_of(asked: Asked, part: HistoryPart, table: pd.DataFrame, correction: Correction) -> list[Row]:
    """Return the rows of a part, of cases that are shown together."""
    match part:
        case "measures":
            return measure_rows(table, MEASURES)
        case "change":
            return compare_models(table, *_two_sides(asked, table), MEASURES, correction)
        case "curves":
            return curve_rows(table)
        case "order":
            return order_rows(table)
        case "groups":
            return group_rows(table, MEASURES)
        case "uncovered":
            return uncovered_rows(table)
        case "virtues":
            patients = {one.name: one.newest.patient for one in conditions(asked.store, asked.selection)}
            return [
                replace(row, label={"model": model, "patient": patients[model], "measure": row.label["measure"]})
                for row in measure_rows(table, VIRTUES)
                if (model := row.label["model"])
            ]


def _two_sides(asked: Asked, table: pd.DataFrame) -> tuple[str, str]:
    """Return the conditions of the two models that were named, in their order; raises ``UsageError`` for others."""
    models = table["model"].unique()
    named = asked.selection.conditions or asked.selection.models or ()
    sides = [[model for model in models if name in (model, doctor_of(model))] for name in named]
    if len(sides) != 2 or any(len(side) != 1 for side in sides):
        raise UsageError(
            "A change is from one condition to another: name two with --models, and their runs with --run where a "
            f"model has several. Here are {', '.join(sorted(models))}."
        )
    (before,), (after,) = sides
    return before, after
