"""Figures by model: means over cases, intervals, comparison, curves, order of topics, groups of cases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.errors import UsageError
from core.frameworks.consultation.measures import summary
from core.frameworks.consultation.measures.summary import (
    CURVED,
    MEASURES,
    compare_models,
    curve_rows,
    figures_of,
    group_rows,
    item_groups,
    measure_rows,
    order_rows,
    uncovered_rows,
)
from core.measures.base import MetricRequest, Row
from core.stats.bootstrap import column_intervals, resampled_interval
from core.stats.differences import paired_difference
from core.store.database import Store
from core.store.selection import Selection
from core.text.topics import TOPICS
from tests.support.intervals import beta_bounds

NAN = float("nan")


def a_row(model: str, case: str, **values: Any) -> dict[str, Any]:
    points = {f"{m}_at_{i}": values.pop(f"{m}_at_{i}", NAN) for m in CURVED for i in range(11)}
    topics = {f"{kind}_{t}": values.pop(f"{kind}_{t}", NAN) for kind in ("order", "told") for t in TOPICS}
    counted = {"conversations": 5, "excluded": 0, "missing": 0, "n_items": 8, "n_queries": 5, "n_repetition_1": 5}
    return {
        "model": model,
        "case_key": case,
        **counted,
        "repetition_1": NAN,
        "queries": NAN,
        **values,
        **points,
        **topics,
    }


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_each_column_gets_the_interval_of_the_resampled_bootstrap_of_core_stats() -> None:
    matrix = rng().random((80, 4))

    intervals = column_intervals(matrix, resamples=3_000)

    for column, interval in zip(matrix.T, intervals, strict=True):
        assert interval == pytest.approx(resampled_interval(column, resamples=3_000), abs=1e-12)


def test_cases_without_a_value_are_left_out_of_a_column() -> None:
    matrix = rng().random((200, 2))
    matrix[:100, 1] = NAN
    matrix[:10, 0] = NAN

    most, half = column_intervals(matrix)

    for interval, column in ((most, matrix[10:, 0]), (half, matrix[100:, 1])):
        expected = resampled_interval(column)
        width = expected.high - expected.low
        assert interval == pytest.approx(expected, abs=0.1 * width)  # the draws differ, the distribution is the same


def test_a_column_of_few_cases_is_resampled_by_itself_and_an_empty_one_has_no_interval() -> None:
    matrix = np.full((100, 2), NAN)
    matrix[:9, 0] = rng().random(9)

    few, none = column_intervals(matrix)

    assert few == pytest.approx(resampled_interval(matrix[:9, 0]), abs=1e-12)
    assert np.isnan(none.low)
    assert np.isnan(none.high)


def test_a_measure_is_the_mean_over_cases_with_counts_of_what_is_missing() -> None:
    table = pd.DataFrame(
        [
            a_row("a", "1", queries=2.0, repetition_1=0.5, n_repetition_1=3),
            a_row("a", "2", queries=6.0, n_repetition_1=0, excluded=2, conversations=3, n_queries=3, missing=1),
            a_row("b", "1", queries=1.0, n_repetition_1=0),
        ]
    )

    rows = {(r["model"], r["measure"]): r for r in measure_rows(table, ["queries", "repetition_1"])}

    queries = rows["a", "queries"]
    assert (queries.estimate, queries.n) == (4.0, 2)
    assert queries.more == {"n_conversations": 8, "n_without": 0, "n_excluded": 2}
    assert queries.excluded == {"broke_off": 2, "not_measured": 1}
    repetition = rows["a", "repetition_1"]
    assert (repetition.estimate, repetition.n) == (0.5, 1)
    assert (repetition["n_conversations"], repetition["n_without"]) == (3, 5)
    assert (rows["b", "repetition_1"].estimate, rows["b", "repetition_1"].n) == (None, 0)


def test_the_accuracy_counts_answers_and_not_conversations() -> None:
    table = pd.DataFrame(
        [
            a_row("a", "1", accuracy=0.5, n_accuracy=2, uncounted=1),
            a_row("a", "2", accuracy=1.0, n_accuracy=3, uncounted=0, excluded=4),
        ]
    )
    (row,) = measure_rows(table, ["accuracy"])
    assert (row.estimate, row.n, row["n_conversations"], row.excluded) == (0.75, 2, 5, {"not_counted": 1})


def test_an_empty_table_has_no_figures() -> None:
    table = pd.DataFrame([a_row("a", "1")]).iloc[:0]
    assert figures_of(table, ["queries"]) == {}
    assert measure_rows(table, ["queries"]) == []
    assert curve_rows(table) == order_rows(table) == group_rows(table, ["queries"]) == []


def test_two_models_are_compared_on_the_cases_that_both_have() -> None:
    values = rng().random((40, 2))
    rows = [a_row(m, f"c{i}", queries=v) for i, pair in enumerate(values) for m, v in zip("ab", pair, strict=True)]
    table = pd.DataFrame([*rows, a_row("a", "alone", queries=99.0), a_row("b", "c40", queries=NAN)])

    (row,) = compare_models(table, "b", "a", ["queries"])

    assert (row["before"], row["after"]) == pytest.approx((values[:, 1].mean(), values[:, 0].mean()))
    expected = paired_difference(values[:, 0], values[:, 1], most=None)
    assert (row.estimate, row.low, row.high, row["p"]) == (expected.mean, *expected.interval, expected.p)
    assert (row.n, row["p_holm"]) == (40, expected.p)
    assert row.comparison is not None
    assert (row.comparison.first_alone, row.comparison.second_alone) == (0, 1), "model a has one more case"
    (back,) = compare_models(table, "a", "b", ["queries"])
    assert (back.estimate, back.low, back.high) == pytest.approx((-row.estimate, -row.high, -row.low), abs=1e-9)


def test_p_values_are_corrected_over_the_measures() -> None:
    values = rng().random((30, 2))
    rows = [
        a_row(m, str(i), queries=v, repetition_1=v + 1)
        for i, pair in enumerate(values)
        for m, v in zip("ab", pair, strict=True)
    ]
    compared = compare_models(pd.DataFrame(rows), "a", "b", ["queries", "repetition_1"])
    # two equal p-values: Holm doubles both
    assert [row["p_holm"] for row in compared] == pytest.approx([min(1, 2 * row["p"]) for row in compared])
    compared = compare_models(pd.DataFrame(rows), "a", "b", ["queries", "repetition_1"], "none")
    assert [row["p_none"] for row in compared] == [row["p"] for row in compared]


def test_models_without_a_common_case_cannot_be_compared() -> None:
    table = pd.DataFrame([a_row("a", "1", queries=1.0), a_row("b", "2", queries=1.0)])
    with pytest.raises(UsageError, match="no case in common"):
        compare_models(table, "a", "b", ["queries"])


def test_a_curve_has_eleven_points_by_model_and_measure() -> None:
    table = pd.DataFrame(
        [
            a_row("a", "1", patient_recall_at_0=0.1, patient_recall_at_10=0.3),
            a_row("a", "2", patient_recall_at_0=0.2, patient_recall_at_10=0.7),
        ]
    )
    points = [point for point in curve_rows(table) if point["measure"] == "patient_recall"]
    assert [p["per_cent"] for p in points] == list(range(0, 101, 10))
    assert points[0].estimate == pytest.approx(0.15)
    assert points[10].estimate == pytest.approx(0.5)
    assert points[5].estimate is None


def test_topics_are_in_the_order_of_their_first_mention() -> None:
    shares = {"told_onset": 1.0, "told_medication": 0.5, "told_imaging": 0.0}
    table = pd.DataFrame(
        [
            a_row("a", "1", **shares, order_onset=0.8, order_medication=0.2),
            a_row("a", "2", **shares, order_onset=0.4, order_medication=NAN),
        ]
    )
    rows = order_rows(table)
    assert [r["topic"] for r in rows] == ["medication", "onset", "imaging"]
    assert [r.estimate for r in rows] == [pytest.approx(0.2), pytest.approx(0.6), None]
    assert [r["told_mean"] for r in rows] == [0.5, 1.0, 0.0]


def test_cases_fall_into_three_equal_groups_by_their_items() -> None:
    counts = {"c1": 9, "c2": 4, "c3": 4, "c4": 12, "c5": 6, "c6": 4, "c7": 10}
    table = pd.DataFrame([a_row(m, c, n_items=n, queries=float(n)) for c, n in counts.items() for m in "ab"])
    # ranked: c2 c3 c6 (4), c5 (6), c1 (9), c7 (10), c4 (12); cut after 7·1//3 = 2 and 7·2//3 = 4
    groups = item_groups(table)
    assert groups == [
        ({"group": 1, "least_items": 4, "most_items": 4}, ["c2", "c3"]),
        ({"group": 2, "least_items": 4, "most_items": 6}, ["c6", "c5"]),
        ({"group": 3, "least_items": 9, "most_items": 12}, ["c1", "c7", "c4"]),
    ]
    means = {(r["group"], r["model"]): r.estimate for r in group_rows(table, ["queries"])}
    assert means == {(1, "a"): 4, (1, "b"): 4, (2, "a"): 5, (2, "b"): 5, (3, "a"): 31 / 3, (3, "b"): 31 / 3}


def test_answers_are_counted_by_thirds_of_the_uncovered_facts() -> None:
    table = pd.DataFrame(
        [
            {"model": model, "case_key": f"c/{n}", "recall": recall, "right": right}
            for model, conversations in (
                ("a", [(0.1, False), (0.2, True), (0.5, True), (0.5, False), (0.9, True)]),
                ("b", [(0.8, True)]),
            )
            for n, (recall, right) in enumerate(conversations)
        ]
    )
    rows = {(row["model"], row["third"]): row for row in uncovered_rows(table)}
    assert set(rows) == {("a", 1), ("a", 2), ("a", 3), ("b", 3)}
    least, middle, most = (rows["a", third] for third in (1, 2, 3))
    assert (least.n, least["n_right"], least["recall_from"], least["recall_to"]) == (2, 1, 0.1, 0.2)
    assert (middle.n, middle["n_wrong"], middle["n_cases"]) == (2, 1, 2), (
        "conversations with the same recall are in the same third"
    )
    # the bounds of a third are over the conversations of all models
    assert (most.n, most["n_right"], most["recall_from"], most["recall_to"]) == (1, 1, 0.8, 0.9)
    assert (most.low, most.high) == pytest.approx(beta_bounds(1, 1), rel=1e-4)
    assert uncovered_rows(table.iloc[:0]) == []


def test_every_part_of_the_report_has_its_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two conditions on six cases of two data sets; the tables that the store would give are replaced."""
    cases = [f"{'one' if n < 4 else 'two'}/{n}" for n in range(6)]
    lacking = {name: value for m in MEASURES for name, value in ((m, NAN), (f"n_{m}", 5))}
    table = pd.DataFrame(
        [
            {**lacking, "uncounted": 0, "dataset": "d", "case_set": case.partition("/")[0]}
            | a_row(model, case, queries=queries + n, n_items=3 + n, patient_recall_at_10=0.5, told_onset=1.0)
            | {"honesty": 0.75, "accuracy": float(n % 2)}
            for model, queries in (("a", 2.0), ("b", 4.0))
            for n, case in enumerate(cases)
        ]
    )
    uncovered = pd.DataFrame({"model": "a", "case_key": cases, "recall": [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], "right": True})
    tables = {"read_uncovered": uncovered, "read_history": table, "read_doctors": table, "read_extents": []}
    texts = {"openings_note": "Three openings are vague.", "items_note": "Items by a model."}
    patients = [SimpleNamespace(name=name, newest=SimpleNamespace(patient=f"openai/{name}")) for name in "ab"]
    monkeypatch.setattr(summary, "conditions", lambda *_: patients)

    def listed(selection: Selection | None = None, **options: Any) -> tuple[list[Row], MetricRequest]:
        query = lambda query, *_, **__: (tables | texts)[query.__name__]  # noqa: E731
        request = MetricRequest(store, selection or Selection(), query=query)
        return list(summary.report.rows(request, **options)), request

    rows, request = listed()
    assert [note.text for note in request.notes] == list(texts.values())
    means = {(row["cases"], row["model"]): row.estimate for row in rows if row["measure"] == "queries"}
    assert means == {("one", "a"): 3.5, ("one", "b"): 5.5, ("two", "a"): 6.5, ("two", "b"): 8.5}
    spoken, _ = listed(speaker="patient")
    assert spoken
    assert {str(row["measure"]).partition("_")[0] for row in spoken} == {"patient"}
    printed, request = listed(by="dataset", published="medqa")
    assert {row["dataset"] for row in printed} == {"d", ""}
    assert request.notes[-1].kind == "published"
    changes, _ = listed(Selection(models=("a", "b")), part="change")
    assert {(row["cases"], row["model"]): row.estimate for row in changes if row["measure"] == "queries"} == {
        ("one", "b"): 2, ("two", "b"): 2,
    }  # fmt: skip
    for models, words in ((("a", "a"), "compared with itself"), (("a",), "from one condition to another")):
        with pytest.raises(UsageError, match=words):
            listed(Selection(models=models), part="change")
    curves, _ = listed(part="curves")
    assert {row.estimate for row in curves if (row["measure"], row["per_cent"]) == ("patient_recall", 100)} == {0.5}
    orders, _ = listed(part="order")
    assert {(row["topic"], row["told_mean"]) for row in orders} == {("onset", 1.0)}
    groups, _ = listed(part="groups")
    assert {row["group"] for row in groups if row["cases"] == "two"} == {2, 3}
    thirds, _ = listed(part="uncovered")
    assert {(row["cases"], row["third"]): row.estimate for row in thirds if row["cases"] == "one"} == {
        ("one", 1): 1, ("one", 2): 1, ("one", 3): 1,
    }  # fmt: skip
    virtues, _ = listed(part="virtues")
    assert {(row["model"], row["patient"]) for row in virtues} == {("a", "openai/a"), ("b", "openai/b")}
    assert {row.estimate for row in virtues if row["measure"] == "honesty"} == {0.75}
