"""Figures of the part History taking: what was uncovered, how the dialogue went, a comparison, the patient."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from core.figures.curves import Point, curves
from core.figures.marks import Mark, dots
from core.figures.scatter import Spot, scatter
from core.figures.shares import Segment, stacked
from core.figures.style import GREY, RISE, Axis
from core.frameworks.consultation.measures.history_taking import LENGTHS
from core.frameworks.consultation.measures.published import HISTORY_SETS
from core.frameworks.consultation.measures.summary import (
    MEASURES,
    ComparisonRow,
    CurvePoint,
    Figure,
    GroupRow,
    MeasureRow,
    OrderRow,
    UncoveredRow,
    accuracy_counted,
    compare_models,
    curve_points,
    group_rows,
    measure_rows,
    order_rows,
    read_doctors,
    read_history,
    read_uncovered,
    uncovered_rows,
)
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.store.conditions import Condition
from core.store.database import Store
from core.store.selection import McqRule, Selection
from pages.kit.cached import cached_query
from pages.kit.controls import choose
from pages.kit.figures import draw_conditions, draw_figure, draw_what_differs
from pages.kit.look import STARS, plain
from pages.kit.names import dataset_name, model_colours, model_name
from pages.kit.stored import history_conditions
from pages.kit.tables import draw_as_table, draw_table, offer_csv, percents
from pages.kit.view import View
from pages.quality.history.solving import ask_solver, draw_accuracy, draw_solving
from pages.quality.history.tables import (
    MEASURE,
    THIRDS,
    VIRTUE_RULES,
    VIRTUES,
    PublishedRow,
    estimate,
    group_words,
    measures_table,
    overview_table,
    published_rows,
)

_WHOSE = {"patient": "The patient’s, against the items", "doctor": "The doctor’s, against their keys"}
_DONE = Axis("Share of the dialogue done", (-0.02, 1.02), ".0%", 0.2, ".0%")
_CLEAR = 0.05


@cached_query("Reading the measures…", entries=4)
def stored_history(rule: McqRule) -> pd.DataFrame:
    """Return a row for each condition and case."""
    return read_doctors(Store(), Selection(mcq_rule=rule), _stored_measures())


@cached_query(spinner=False, entries=1)
def _stored_measures() -> pd.DataFrame:
    """Return what was measured of the conversations, on which the rule has no bearing."""
    return read_history(Store())


@cached_query()
def scoped(view: View) -> pd.DataFrame:
    """Return the rows of ``stored_history`` that are looked at."""
    return view.rows(stored_history(view.rule))


@cached_query("Computing intervals…", entries=32)
def figures(view: View) -> list[MeasureRow]:
    """Return every measure of every condition."""
    table = scoped(view)
    rows = [
        *_figures_of_conversations(replace(view, rule="usual")),
        *(accuracy_counted(row, table) for row in measure_rows(table, ["accuracy"])),
    ]
    by_place = {(row.model, row.measure): row for row in rows}
    return [by_place[model, measure] for model in dict.fromkeys(row.model for row in rows) for measure in MEASURES]


@cached_query(spinner=False, entries=32)
def _figures_of_conversations(view: View) -> list[MeasureRow]:
    """Return the measures on which the rule has no bearing, so that another rule does not resample them again."""
    return measure_rows(scoped(view), [measure for measure in MEASURES if measure != "accuracy"])


@cached_query("Computing intervals…")
def course(view: View) -> tuple[list[CurvePoint], list[OrderRow], list[GroupRow]]:
    """Return curves over the dialogue, the order of inquiry, and the measures in three groups of cases."""
    table = scoped(view)
    points = curve_points(view.rows(read_history(Store(), curves=True)))
    return points, order_rows(table), group_rows(table, MEASURES)


@cached_query("Computing intervals…")
def uncovered(view: View) -> list[UncoveredRow]:
    """Return how often answers were right by how much was uncovered."""
    return uncovered_rows(view.rows(_stored_answers(view.rule)))


@cached_query(spinner=False, entries=2)
def _stored_answers(rule: McqRule) -> pd.DataFrame:
    """Return recall and answer of each conversation."""
    return read_uncovered(Store(), Selection(mcq_rule=rule))


@cached_query("Comparing…", entries=64)
def comparison(view: View, first: str, second: str, correction: Correction) -> list[ComparisonRow]:
    """Return first minus second in every measure that both have on some case."""
    table = scoped(view)
    sides = [table[table["model"] == key].set_index("case_key")[list(MEASURES)] for key in (first, second)]
    both = sides[0].notna() & sides[1].notna().reindex(sides[0].index, fill_value=False)
    shared = [m for m in MEASURES if both[m].sum() > 1]
    return compare_models(table, first, second, shared, correction) if shared else []


def rests(view: View) -> str:
    """Return what the figures of a view rest on."""
    table = scoped(view)
    chosen = [*map(dataset_name, (view.case_set, *view.datasets)), *view.specialties]
    return (
        f"{int(table['conversations'].sum()):,} measured conversations on {table['case_key'].nunique():,} cases "
        f"({', '.join(dict.fromkeys(chosen))}); 95 % intervals, cases resampled"
    )


def draw_dots(
    view: View,
    found: Sequence[tuple[str, str, Figure]],
    rows: Sequence[str],
    axis: Axis,
    name: str,
    title: str,
    more: str = "",
) -> None:
    """Draw a row for each of ``rows``, in it a dot for each doctor; ``found`` are (doctor, row, figure)."""
    marks = [
        Mark(row, one.mean, one.ci_low, one.ci_high, model, words=f"{one.n_cases:,} cases") for model, row, one in found
    ]
    colours = model_colours(list(view.names))
    draw_figure(
        lambda dark: dots(marks, view.names, colours, axis, places=rows, legend=True, dark=dark),
        name,
        title,
        f"{rests(view)}. {more}".strip(),
    )


def draw_overview(view: View) -> None:
    """Draw the table of all doctors beside the published ones, and what was uncovered against accuracy."""
    rows, names, conditions = figures(view), view.names, history_conditions()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        printed = ask_published()
        bounds = st.toggle("Intervals", key="history_bounds", bind="query-params", help="95 %, by resampling cases.")
    draw_doctors(rows, names, conditions, printed, bounds=bounds)
    held = {(row.model, row.measure): row for row in rows}
    draw_conditions({key: name for key, name in names.items() if (key, "accuracy") in held}, conditions)
    spots = list[Spot]()
    for key in names:
        recall, accuracy = held.get((key, "patient_recall")), held.get((key, "accuracy"))
        if recall is None or accuracy is None or (y := accuracy.figure).mean is None:
            continue
        x = recall.figure
        # without any conversation to measure the doctor answers without one
        if x.mean is not None or not (recall.n_missing or recall.n_excluded):
            spots.append(
                Spot(key, y.mean, x.mean, (x.ci_low, x.ci_high), (y.ci_low, y.ci_high), words=f"{y.n_cases:,} cases")
            )
    spots += [
        Spot(one.dataset, one.values["accuracy"], one.values["patient_recall"], label=one.doctor, published=True)
        for one in printed
        if {"patient_recall", "accuracy"} <= set(one.values)
    ]
    every = {**names, **{one.dataset: one.dataset for one in printed}}
    inks = {**model_colours(list(names)), **{one.dataset: GREY for one in printed}}
    along = Axis("Patient recall: what was uncovered")
    axis = Axis("Accuracy of the task", (0, 1.03), ".1f")
    draw_figure(
        lambda dark: scatter(spots, every, inks, along, axis, height=430, dark=dark),
        "history_reached",
        "What was uncovered, and what came of it",
        f"Accuracy of the task against patient recall, by doctor. {rests(view)}.",
    )
    st.caption("A dashed line marks who answers without a conversation; open circles are published.")
    draw_uncovered(view)


def draw_uncovered(view: View) -> None:
    """Draw whether answers were right where little and where much had been uncovered."""
    found = uncovered(view)
    order = list(view.names)
    rows = sorted(found, key=lambda row: (order.index(row.model), row.third))
    if not rows:
        return
    labels = [f"{view.names[row.model]}<br>{THIRDS[row.third]}, n = {row.n:,}" for row in rows]
    words = [f"recall {row.least:.2f}–{row.most:.2f}, {row.cases:,} cases" for row in rows]
    right, wrong = [row.right for row in rows], [row.n - row.right for row in rows]
    segments = [
        Segment(name, colour, "white", [n / row.n for n, row in zip(counts, rows, strict=True)], counts, words=words)
        for name, colour, counts in (("Answer right", "#0072B2", right), ("Answer wrong", "#B35806", wrong))
    ]
    ends = {row.third: f"{THIRDS[row.third].lower()} {row.least:.2f}–{row.most:.2f}" for row in rows}
    thirds = f"Thirds of all these conversations by patient recall: {', '.join(ends[n] for n in sorted(ends))}."
    draw_figure(
        lambda dark: stacked(labels, segments, "Share of the conversations of this third", "conversations", dark=dark),
        "history_uncovered",
        "How complete the history was, and whether the answer was right",
        f"{sum(row.n for row in rows):,} conversations whose answer counts. {thirds}",
    )
    st.caption(
        f"{thirds} Numbers on the bars are conversations. Only those whose answer to the question with choices counts "
        "are here."
    )
    lines = (
        {
            "Doctor": view.names[row.model],
            "Third": THIRDS[row.third],
            "Patient recall from": row.least,
            "To": row.most,
            "Right": row.right,
            "Wrong": row.n - row.right,
            "Share right": row.right / row.n,
            "Low": row.interval.low,
            "High": row.interval.high,
            "Conversations": row.n,
            "Cases": row.cases,
        }
        for row in rows
    )
    draw_as_table(pd.DataFrame(lines), "history-uncovered", percents("Share right", "Low", "High"))


def ask_published() -> list[PublishedRow]:
    """Ask which published figures stand beside ours, and return them."""
    dataset = choose(
        "Published figures",
        [*HISTORY_SETS, "none"],
        "history_published",
        names={**HISTORY_SETS, "none": "None"},
        shape="segments",
        help="Liao et al. (arXiv 2309.02077), tables 2 and 3: other cases, and items made by a model, so that only "
        "their order compares. Repetition is printed for all of their data sets together.",
    )
    return [] if dataset == "none" else published_rows(dataset)


def draw_doctors(
    rows: Sequence[MeasureRow],
    names: Mapping[str, str],
    conditions: Sequence[Condition],
    printed: Sequence[PublishedRow],
    *,
    bounds: bool,
) -> None:
    """Draw a row for each doctor, ours first, with what the figures rest on."""
    columns: dict[str, Any] = {
        name: st.column_config.TextColumn(help=words)
        if bounds
        else st.column_config.NumberColumn(help=words, format="%.2f" if measure in LENGTHS else "%.3f")
        for measure, (name, words) in MEASURE.items()
    }
    whole = {
        "Conversations": "Conversations that were measured; the upper bound holds none by design.",
        "Broke off": "Conversations that a failure or refusal broke off: left out.",
        "Not measured": "Conversations still to be measured: left out.",
        "Answers": "Answers to the task that count in accuracy, choices by the rule chosen above.",
        "Answers excluded": "Answers that a provider’s failure or a refusal keeps from counting.",
        "Cases": "Cases with a measured conversation or a counted answer.",
    }
    columns |= {name: st.column_config.NumberColumn(format="localized", help=words) for name, words in whole.items()}
    columns["Doctor"] = st.column_config.TextColumn(pinned=True, width="medium")
    draw_table(
        overview_table(rows, names, conditions, printed, bounds=bounds), "history-taking", columns, height="content"
    )
    if rows:
        offer_csv(measures_table(rows, names), "history-taking-intervals", "CSV with intervals")
    st.caption(
        "ROUGE-1 of what was said against the case’s items: of the patient’s words against their values, of the "
        "doctor’s questions against their keys, words stemmed. Means over a case’s conversations, then over cases. "
        "Conversations that broke off are left out; where there are none to measure, a dash stands."
    )


def draw_course(view: View) -> None:
    """Draw how the history unfolds: curves, order of inquiry, and longer against shorter histories."""
    points, topics, grouped = course(view)
    names, colours = view.names, model_colours(list(view.names))
    who = choose("Whose words", list(_WHOSE), "history_who", names=_WHOSE, shape="segments")
    solver = ask_solver(view)
    shown = [p for p in points if p.measure.startswith(who)]
    *cells, last = [*st.columns(2), *st.columns(2)]
    for column, kind in zip(cells, ("recall", "precision", "f1"), strict=True):
        measure = f"{who}_{kind}"
        held = [
            Point(p.model, p.share / 100, f.mean, f.ci_low, f.ci_high, f"{f.n_cases:,} cases")
            for p in shown
            if p.measure == measure and (f := p.figure).mean is not None
        ]
        axis = Axis(MEASURE[measure][0])
        with column:
            draw_figure(
                lambda dark, held=held, axis=axis: curves(held, names, colours, _DONE, axis, dark=dark),  # type: ignore[misc]
                f"history_curve_{measure}",
                f"{MEASURE[measure][0]} over the dialogue",
                f"{rests(view)}. 0 % is the patient’s opening alone.",
            )
    with last:
        draw_accuracy(view, solver, _DONE)
    st.caption(
        "0 % is the patient’s opening alone. Bands are 95 % intervals over cases. F1 at a share is the mean of each "
        "conversation’s own."
    )
    table = pd.DataFrame(
        [
            {
                "Doctor": names[p.model],
                "Measure": MEASURE[p.measure][0],
                "Dialogue done": p.share / 100,
                **estimate(p.figure),
            }
            for p in shown
        ]
    )
    draw_as_table(table, "history-curves", percents("Dialogue done"))
    draw_solving(view, solver)

    st.subheader("Order of inquiry", anchor=False)
    places: dict[str, list[float]] = {}
    for row in topics:
        if row.position.mean is not None:
            places.setdefault(row.topic.capitalize(), []).append(row.position.mean)
    if places:
        order = sorted(places, key=lambda topic: sum(places[topic]) / len(places[topic]))
        parts = {
            "position": ("First told, as share of the dialogue", [r.position for r in topics]),
            "told": ("Told in the conversations", [r.told for r in topics]),
        }
        for column, (key, (title, found)) in zip(st.columns(2), parts.items(), strict=True):
            rows = [(r.model, r.topic.capitalize(), one) for r, one in zip(topics, found, strict=True)]
            with column:
                draw_dots(
                    view, rows, order, Axis(title, (-0.02, 1.02), ".0%", None, ".1%"), f"history_order_{key}", title
                )
        st.caption(
            "Topics of the cases’ items, the earliest on top. Left: where in the dialogue the patient first tells one, "
            "over the conversations where that happens. Right: in which share of the conversations it does."
        )
        shares = percents("First told at", "Low", "High", "Told in", "Told, low", "Told, high")
        told = (
            {
                "Doctor": names[row.model],
                "Topic": row.topic.capitalize(),
                "First told at": row.position.mean,
                "Low": row.position.ci_low,
                "High": row.position.ci_high,
                "Cases where told": row.position.n_cases,
                "Told in": row.told.mean,
                "Told, low": row.told.ci_low,
                "Told, high": row.told.ci_high,
                "Cases with the topic": row.told.n_cases,
            }
            for row in topics
        )
        draw_as_table(pd.DataFrame(told), "history-order", shares)
    else:
        st.info("No topic of the items was told in these conversations.")

    st.subheader("Shorter and longer histories", anchor=False)
    measure = choose("Measure", list(MEASURE), "history_group_measure", names=lambda m: MEASURE[m][0])
    labels = {row.group: f"{group_words(row.group)}<br>n = {len(row.group.cases):,} cases" for row in grouped}
    if not labels:
        st.info("No case in scope has items.")
        return
    draw_dots(
        view,
        [(row.model, labels[row.group], row.figure) for row in grouped if row.measure == measure],
        list(labels.values()),
        Axis(MEASURE[measure][0]),
        f"history_groups_{measure}",
        f"{MEASURE[measure][0]} in three groups of cases",
        "Three equal groups of the cases by their number of items.",
    )
    st.caption(f"Three equal groups of the cases in scope by their number of items. {MEASURE[measure][1]}")
    table = pd.DataFrame(
        [
            {
                "Doctor": names[row.model],
                "Cases with": group_words(row.group),
                "Measure": MEASURE[row.measure][0],
                **estimate(row.figure),
            }
            for row in grouped
        ]
    )
    draw_as_table(table, "history-groups")


def draw_comparison(view: View) -> None:
    """Ask for two doctors and compare them on the cases that both have."""
    models = {row.model for row in figures(view)}
    held = [key for key in view.names if key in models]
    if len(held) < 2:
        st.info("A comparison needs two doctors on the same cases: remove a filter, or run another doctor.")
        return
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    first = choose("First doctor", held, "history_first", names=view.names, where=left)
    second = choose("Second doctor", held, "history_second", names=view.names, default=held[1], where=middle)
    correction = choose(
        "Correction of p", list(LABELS), "correction", names=LABELS, help="Over all measures compared.", where=right
    )
    if first == second:
        st.info("Choose two different doctors.")
        return
    rows = comparison(view, first, second, correction)
    if not rows:
        st.info("These two have no measured case in common.")
        return
    one, other = view.names[first], view.names[second]
    by_measure = {row.measure: row for row in rows if row.measure not in LENGTHS}
    marks = [
        Mark(
            MEASURE[row.measure][0],
            row.difference.mean,
            *row.difference.interval,
            "both",
            words=f"{row.difference.n:,} cases",
            colour=RISE if row.p_adjusted <= _CLEAR else GREY,
        )
        for row in (by_measure[m] for m in MEASURE if m in by_measure)
    ]
    axis = Axis("Difference", None, "+.2f", None, "+.3f", zero=True)
    draw_figure(
        lambda dark: dots(marks, {"both": ""}, {}, axis, legend=False, dark=dark),
        "history_differences",
        f"{one} minus {other}",
        f"Paired by case. Colour: p ≤ .05 after {LABELS[correction]}. {rests(view)}.",
    )
    st.caption(f"{plain(one)} minus {plain(other)}, paired by case. Colour: adjusted p ≤ .05.")
    signed = {name: st.column_config.NumberColumn(format="%+.3f") for name in ("Difference", "Low", "High")}
    lines = (
        {
            "Measure": MEASURE[row.measure][0],
            one: row.first,
            other: row.second,
            "Difference": row.difference.mean,
            "Low": row.difference.interval.low,
            "High": row.difference.interval.high,
            "p": format_p(row.difference.p),
            f"p ({LABELS[correction]})": f"{format_p(row.p_adjusted)} {stars(row.p_adjusted)}",
            "Cases": row.difference.n,
        }
        for row in sorted(rows, key=lambda row: list(MEASURE).index(row.measure))
    )
    draw_table(pd.DataFrame(lines), "history-comparison", signed)
    st.caption(
        f"Smoothed intervals, p by the sign-flip test over cases in pairs. Turns, questions and words are numbers and "
        f"not in the chart. {STARS}."
    )
    draw_what_differs({first: one, second: other}, history_conditions(), "these two")


def draw_patients(view: View) -> None:
    """Draw the patient's virtues in each doctor's conversations."""
    rows = [row for row in figures(view) if row.measure in VIRTUES]
    if not any(row.figure.mean is not None for row in rows):
        st.info("The patient has said nothing in these conversations, or they are not measured yet.")
        return
    lows = [row.figure.ci_low for row in rows if row.figure.ci_low is not None]
    axis = Axis("Share", (max(0.0, int(10 * min(lows, default=0.0)) / 10), 1.01))
    draw_dots(
        view,
        [(row.model, MEASURE[row.measure][0], row.figure) for row in rows],
        [MEASURE[m][0] for m in VIRTUES],
        axis,
        "history_virtues",
        "Honesty, strictness and colloquialism of the patient, by doctor",
    )
    st.markdown(VIRTUE_RULES)
    table = measures_table(rows, view.names)
    patients = {
        view.names[one.name]: model_name(one.newest.patient)
        for one in history_conditions()
        if view.has(one.name) and one.name in view.names
    }
    table.insert(1, "Patient", table["Doctor"].map(patients))
    draw_table(table, "history-patient")
