"""The four parts of CARE by hand for six items, and their intervals against other ways to resample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.errors import AnamnesisError, UsageError
from core.frameworks.automedic.measures.profile import (
    failure_shares,
    habits,
    item_rows,
    parts,
    penalised_interval,
    penalty,
    read_care,
    shares_of,
    summaries,
    without_blank,
)
from core.frameworks.automedic.measures.report import report
from core.journal import TrialLine
from core.measures.base import MetricRequest, Row
from core.store.database import Store
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, a_consultation, automedic, trials_of
from tests.core.store.builders import a_case
from tests.support.intervals import beta_bounds
from tests.support.stores import shared


def parts_of(trials: pd.DataFrame) -> dict[str, Row]:
    """Return the rows of a table of one condition, by measure."""
    return {row.label["measure"]: row for row in parts(trials)}


def values(row: Row) -> tuple[float | None, float | None, float | None, int | None]:
    return row.estimate, row.low, row.high, row.n


NOTHING = (None, None, None, 0)


def seven_items(store: Store) -> None:
    trials_of(store, automedic(), *SIX, BROKEN)


@pytest.fixture(scope="module")
def trials() -> pd.DataFrame:
    return read_care(shared(seven_items), "mcq")


@pytest.fixture(scope="module")
def six(trials: pd.DataFrame) -> dict[str, Row]:
    return parts_of(trials)


@pytest.fixture(scope="module")
def summary(trials: pd.DataFrame) -> Row:
    (row,) = summaries(trials)
    return row


def test_the_values_of_cases_are_those_of_the_parts_that_are_means() -> None:
    request = MetricRequest(shared(seven_items))
    rows = [row for row in report.rows(request) if isinstance(row, Row)]
    assert request.case_values is not None
    means = request.case_values.groupby("figure")["value"].agg(["mean", "size"])
    estimates = {f"{row.label['measure']} {row.label['dataset']}": row for row in rows}
    assert {name.partition(" ")[0] for name in means.index} == {"empathy", "robustness", "acc_conv", "acc_static"}
    for name, (mean, size) in means.iterrows():
        assert (mean, size) == (pytest.approx(estimates[str(name)].estimate), estimates[str(name)].n)


def listed(request: MetricRequest, **options: Any) -> list[dict[str, Any]]:
    """Return the rows as JSON has them: a number that is not there is null."""
    rows = [row.cells(plain=True) if isinstance(row, Row) else row for row in report.rows(request, **options)]
    return [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]


def test_every_part_of_the_report_of_six_items() -> None:
    store = shared(seven_items)
    stored: dict[tuple[str, str], Any] = {}

    def once(query: Any, *arguments: Any) -> Any:
        key = (query.__name__, repr(arguments))
        if key not in stored:
            stored[key] = query(store, *arguments)
        return stored[key]

    def rows(part: str, **options: Any) -> list[dict[str, Any]]:
        return listed(MetricRequest(store, query=once), part=part, by="all", **options)

    kinds = {(row["kind"], row["cause"]): row for row in rows("kinds")}
    assert (kinds["abrupt_termination", "no_tag"]["trials"], kinds["abrupt_termination", "no_tag"]["counted"]) == (1, 6)
    assert [row["trial_id"] for row in rows("failures") if row["kind"] == "invalid_answer"] == ["run/6/0"]
    (habit,) = rows("habits")
    assert (habit["queries"], habit["endings"]) == (17, "end_tag=4 turn_cap=1 no_tag=1")
    queries = {row["measure"]: row["value"] for row in rows("queries")}
    assert (queries["to_staff"], queries["repeated"]) == (pytest.approx(2 / 17), pytest.approx(1 / 17))
    assert {row["ending"]: row["count"] for row in rows("endings")} == {"end_tag": 4, "turn_cap": 1, "no_tag": 1}
    assert {row["misuse"]: row["count"] for row in rows("misuses")}["text_outside"] == 2
    assert {row["rating"]: row["count"] for row in rows("rating_shares")}["not read"] == 1
    assert rows("ratings")[0]["words"] == "I would give 1."
    assert len(rows("items")) == 7
    assert {row["value"] for row in rows("normalised")} == {None}, "one seat has no scale"
    (point,) = rows("points")
    assert (point["conversation"], point["static"], point["n_items"]) == (0.5, pytest.approx(4 / 6), 6)
    assert [(row["group"], row["n"], row["slope"]) for row in rows("fit")] == [("all", 1, None), ("openai", 1, None)]
    assert {row["measure"]: row["n_items"] for row in rows("accuracies")} == {
        "acc_conv": 6, "acc_static": 6, "acc_conv_all": 6, "acc_static_all": 7,
    }  # fmt: skip
    for part in ("profile", "summary"):
        own, published = rows(part), rows(part, published=True)
        assert published[: len(own)] == own
        assert {row["model"] for row in own} == {"openai/a"}
        assert "Claude Sonnet 4" in {row["model"] for row in published[len(own) :]}
    with pytest.raises(AnamnesisError, match="of AutoMedic has answers to report: free response"):
        rows("parts", question_type="frq")
    with pytest.raises(UsageError, match="No review of pairs of consultations is unblinded"):
        rows("weights")


def test_a_proper_early_end_is_told_apart_under_the_rule_that_is_named(store: Store) -> None:
    ask = "<patient>Since when?</patient>"
    early = (
        a_consultation(1, [ask] * 3 + ["</end>"]),  # proper, after three turns
        a_consultation(2, [ask, "<think>I know.</think></end>"]),  # proper: reasoning is no other word
        a_consultation(3, [ask] * 4 + ["</end>"]),  # not early
        a_consultation(4, [ask, "Goodbye. </end>"]),  # next to other words
        a_consultation(5, [ask, "It is eczema."], reason="no_tag"),
        a_consultation(6, ["</end>"]),  # before any query
    )
    trials_of(store, automedic(cases=range(1, 7)), *early)
    for rule, robustness, abrupt, note in (
        ("failed", 1 / 6, 5, "--early-end allowed"),
        ("allowed", 3 / 6, 3, "Clean early ends do not count as abrupt"),
    ):
        request = MetricRequest(store)
        (summary,) = listed(request, part="summary", early_end=rule)
        assert (summary["robustness"], summary["abrupt_termination"]) == (pytest.approx(robustness), abrupt)
        assert any(note in given.text for given in request.notes), rule


def test_the_four_parts_of_six_items(six: dict[str, Row], summary: Row) -> None:
    """Conv right: 1, 2, 4. Static right: 1, 2, 3, 6. Words per turn of the right items: 20/4, 36/5, 10/1."""
    assert six["acc_conv"].estimate == pytest.approx(3 / 6, abs=1e-9)
    assert six["acc_static"].estimate == pytest.approx(4 / 6, abs=1e-9)
    assert summary["penalty"] == pytest.approx(0.75, abs=1e-9)
    assert six["accuracy"].estimate == pytest.approx(0.5 * 0.75, abs=1e-9)
    # 100 × (1/5 + 5/36 + 0 + 1/10 + 0 + 0) / 6
    assert six["efficiency"].estimate == pytest.approx((20 + 500 / 36 + 10) / 6, abs=1e-9)
    # (5 + 4 + 3 + 2 + 1) / 5 items / 5; the fifth item has no readable rating
    assert (six["empathy"].estimate, six["empathy"].n, summary["unrated"]) == (pytest.approx(0.6, abs=1e-9), 5, 1)
    # items 3 to 6 failed, two of them in two ways
    assert six["robustness"].estimate == pytest.approx(1 - 4 / 6, abs=1e-9)
    assert [six[name].n for name in ("accuracy", "efficiency", "robustness")] == [6, 6, 6]


def test_failures_by_kind_and_cause(trials: pd.DataFrame, summary: Row) -> None:
    shares = {(row.label["kind"], row.label["cause"]): row for row in failure_shares(trials)}
    assert summary.more.items() >= {"role_breaking": 2, "abrupt_termination": 3, "invalid_answer": 1}.items()
    misplaced = shares["abrupt_termination", "misplaced_end"]
    assert (misplaced["trials"], misplaced.n, misplaced.estimate) == (1, 6, pytest.approx(1 / 6))
    assert shares["invalid_answer", "no_diagnosis"].estimate == 0
    assert (summary["failed"], summary["counted"]) == (4, 6)


def test_a_conversation_that_broke_off_is_in_no_part_but_counted(six: dict[str, Row], summary: Row) -> None:
    assert (summary["n_items"], summary["trials"], summary.excluded) == (7, 7, {"provider_error": 1})
    # its answer on the vignette counts: 5 of 7 are right, but there are six pairs
    all_static = six["acc_static_all"]
    assert (all_static.estimate, all_static.n) == (pytest.approx(5 / 7, abs=1e-9), 7)
    assert (six["acc_conv_all"].n, six["acc_static"].n, all_static["excluded_static"]) == (6, 6, "")


@pytest.mark.slow
def test_a_blank_answer_fails_unless_it_is_left_out(store: Store) -> None:
    """Item 1: right. Item 2: a blank answer after the conversation. Item 3: a blank answer on the vignette."""
    messages = ["<patient>One two three four?</patient>"] * 4 + ["</end>"]
    lines = [
        a_consultation(1, messages, rating=5),
        a_consultation(2, messages, conv="empty", rating=5),
        a_consultation(3, messages, static="empty", rating=5),
    ]
    trials = trials_of(store, automedic(), *lines)
    measures = parts_of(trials)
    assert measures["robustness"].estimate == pytest.approx(1 - 1 / 3)
    assert [row["trials"] for row in failure_shares(trials) if row.label["cause"] == "empty"] == [1]
    assert measures["acc_conv_all"].estimate == measures["acc_static_all"].estimate == pytest.approx(2 / 3)
    assert (measures["accuracy"]["excluded"], measures["accuracy"]["excluded_static"]) == ("", "")
    left_out = parts_of(without_blank(trials))
    assert (left_out["robustness"].estimate, left_out["robustness"].n) == (1, 2)
    assert [row["failed"] for row in summaries(without_blank(trials))] == [0]
    for name in ("acc_conv_all", "acc_static_all"):
        assert (left_out[name].estimate, left_out[name].n) == (1, 2)
        assert (left_out[name]["excluded"], left_out[name]["excluded_static"]) == ("empty=1", "empty=1")


FOUR_WORDS = ["<patient>One two three four?</patient>"] * 4 + ["</end>"]
FEW: dict[str, list[TrialLine]] = {
    "one": [a_consultation(1, FOUR_WORDS, rating=5, run_id="one")],
    "excluded": [
        a_consultation(1, FOUR_WORDS, run_id="excluded"),
        a_consultation(2, ["<patient>One two?</patient>"] * 4 + ["</end>"], static="provider_error", run_id="excluded"),
    ],
    # item 1: right, wrong and broken; item 2: right
    "trials": [
        a_consultation(1, FOUR_WORDS, rating=5, run_id="trials"),
        a_consultation(1, FOUR_WORDS, conv="multiple", rating=2, trial=1, run_id="trials"),
        a_consultation(1, FOUR_WORDS[:1], conv="provider_error", reason="error", trial=2, run_id="trials"),
        a_consultation(2, FOUR_WORDS, rating=4, run_id="trials"),
    ],
    "wrong": [
        a_consultation(n, [f"<patient>{'word ' * 5}</patient>", "</end>"], conv="incorrect", run_id="wrong")
        for n in (1, 2)
    ],
    "silent": [a_consultation(n, ["</end>"], run_id="silent") for n in (1, 2, 3)],
}
"""Run, with a doctor of its name → its trials."""


def test_parts_of_few_items(store: Store) -> None:
    headers = [automedic(run, doctor=f"openai/{run}", trials=3) for run in FEW]
    table = trials_of(store, *headers, *(line for lines in FEW.values() for line in lines))
    one, excluded, averaged, wrong, silent = (parts_of(table[table["run_id"] == run]) for run in FEW)
    for part in ("accuracy", "empathy", "robustness"):
        row = one[part]
        assert (row.estimate, row.high, row.n) == (1, 1, 1)
        assert row.low is not None
        assert 0 < row.low <= beta_bounds(1, 1)[0] + 1e-3, "the penalty can lower S_A further"
    assert (one["efficiency"].estimate, one["efficiency"].n) == (pytest.approx(25), 1)

    assert (excluded["accuracy"].n, excluded["accuracy"]["excluded_static"]) == (1, "provider_error=1")
    # 100 × (1/4 + 1/2) / 2
    assert (excluded["efficiency"].estimate, excluded["efficiency"].n) == (pytest.approx(37.5, abs=1e-9), 2)

    assert averaged["acc_conv"].estimate == pytest.approx((0.5 + 1) / 2, abs=1e-9)
    assert averaged["efficiency"].estimate == pytest.approx(100 * (0.25 / 2 + 0.25) / 2, abs=1e-9)
    assert averaged["empathy"].estimate == pytest.approx((3.5 / 5 + 4 / 5) / 2, abs=1e-9)
    robustness = averaged["robustness"]
    assert robustness.estimate == pytest.approx(1 - (0.5 + 0) / 2, abs=1e-9), "items have the same weight"
    assert (robustness.n, robustness["trials"], robustness["excluded"]) == (2, 4, "provider_error=1")

    assert (wrong["acc_conv"].low, wrong["acc_conv"].high) == pytest.approx(beta_bounds(0, 2))
    # queries of five words give 100/5 if the answer is right
    assert (wrong["efficiency"].estimate, wrong["efficiency"].low) == (0, 0)
    assert wrong["efficiency"].high == pytest.approx(20 * beta_bounds(0, 2)[1])
    nothing_asked = silent["efficiency"]
    assert (nothing_asked.estimate, nothing_asked.low, nothing_asked.high) == (0, None, None)


@pytest.mark.slow
def test_without_data_a_figure_is_none_and_not_zero(store: Store) -> None:
    measures = parts_of(trials_of(store, automedic(), BROKEN))
    assert {values(measures[name]) for name in ("accuracy", "efficiency", "empathy", "robustness")} == {NOTHING}
    assert [row["penalty"] for row in summaries(trials_of(store))] == [None]
    assert parts(trials_of(Store(store.path.with_name("empty.duckdb")))) == []


@pytest.mark.slow
def test_a_run_without_vignettes_has_no_penalised_accuracy(store: Store) -> None:
    lines = [a_consultation(n, ["</end>"], static=None) for n in (1, 2)]
    measures = parts_of(trials_of(store, automedic(arms=[("multi_turn", "mcq")]), *lines))
    assert (values(measures["accuracy"]), measures["acc_conv_all"].estimate) == (NOTHING, 1.0)


def test_the_penalty() -> None:
    conv, static = np.array([[0.3, 0.6, 0.5, 0.2, 0, 0], [0.6, 0.3, 0.5, 0, 0, 0.4]])
    assert penalty(conv, static).tolist() == pytest.approx([0.5, 1, 1, 1, 1, 0], abs=1e-12)


def test_the_interval_of_the_accuracy_against_scipy() -> None:
    """The percentiles equal those of scipy's paired resampling, within the error of 10,000 resamples."""
    chance = np.random.default_rng(3)
    static = (chance.random(60) < 0.7).astype(float)
    conv = np.where(chance.random(60) < 0.8, static, chance.integers(0, 2, 60)).astype(float)

    def s_a(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        a, b = x.mean(axis=axis), y.mean(axis=axis)
        return a * np.minimum(1, a / b)

    interval = penalised_interval(conv, static)
    level = 1 - 2 * stats.norm.cdf(stats.t.ppf(0.025, 240))
    by_scipy = stats.bootstrap(
        (conv, static), s_a, paired=True, n_resamples=40_000, method="percentile", confidence_level=level, rng=1
    ).confidence_interval
    assert interval == pytest.approx((by_scipy.low, by_scipy.high), abs=0.02), "60 items outweigh the pseudo-items"


def test_the_interval_of_the_efficiency_by_hand(trials: pd.DataFrame, six: dict[str, Row]) -> None:
    # six items with values between 0 and that of the shortest queries: Student's interval of the log odds
    most, worth = 100 * item_rows(trials)["per_word"].max(), np.array([20, 500 / 36, 0, 10, 0, 0])
    share = worth.mean() / most
    error = worth.std(ddof=1) / most * np.sqrt((1 + 2 / 6) / 6) / (share * (1 - share))
    bounds = np.log(share / (1 - share)) + np.array([-1, 1]) * stats.t.ppf(0.975, 5) * error
    row = six["efficiency"]
    assert (row.low, row.high) == pytest.approx(most / (1 + np.exp(-bounds)))


def test_intervals_are_the_same_every_time(trials: pd.DataFrame, six: dict[str, Row]) -> None:
    assert parts_of(trials) == six


@pytest.mark.slow
def test_accuracy_by_data_set_and_condition(store: Store) -> None:
    cases = [a_case(n, dataset="ours" if n < 4 else "other") for n in range(1, 8)]
    other = [line.model_copy(update={"run_id": "two", "trial_id": f"two/{n}"}) for n, line in enumerate(SIX[:2])]
    events = [
        [e.model_copy(update={"trial_id": line.trial_id}) if e.kind == "started" else e for e in line.events]
        for line in other
    ]
    other = [line.model_copy(update={"events": new}) for line, new in zip(other, events, strict=True)]
    trials = trials_of(
        store,
        automedic(cases=[]).model_copy(update={"cases": cases}),
        *SIX,
        automedic("two", doctor="openai/b").model_copy(update={"cases": cases}),
        *other,
    )
    accuracies = {
        (row.label["dataset"], row.label["model"]): row.estimate
        for row in parts(trials, by_dataset=True)
        if row.label["measure"] == "acc_conv"
    }
    assert accuracies == pytest.approx(
        {("other", "openai/a"): 1 / 3, ("ours", "openai/a"): 2 / 3, ("ours", "openai/b"): 1}, abs=1e-9
    )


@pytest.mark.slow
def test_the_efficiency_of_a_condition_does_not_depend_on_the_others(store: Store) -> None:
    lines = []
    for number in range(5):
        run = f"r{number}"
        lines += [automedic(run, doctor=f"openai/{number}")]
        lines += [
            a_consultation(n, ["<patient>One two?</patient>"] * (n + number) + ["</end>"], run_id=run) for n in (1, 2)
        ]
    trials = trials_of(store, *lines)
    together = {row.label["model"]: row for row in parts(trials) if row.label["measure"] == "efficiency"}
    assert len(together) == 5
    for model, row in together.items():
        assert parts_of(trials[trials["model"] == model])["efficiency"] == row


def test_habits_of_six_conversations(trials: pd.DataFrame) -> None:
    (row,) = habits(trials)
    assert (row.n, row["conversations"], row["queries"]) == (6, 6, 17)
    assert row.estimate == pytest.approx((4 + 5 + 5 + 1 + 2 + 0) / 6)
    # the sixth conversation has no turn
    assert row["words_per_turn"] == pytest.approx((5 + 36 / 5 + 9 / 5 + 10 + 8 / 2) / 5)
    assert (row["to_staff"], row["repeated"]) == (pytest.approx(2 / 17), pytest.approx(1 / 17))
    assert {kind: n for kind, n in row["misuses"].items() if n} == {
        "no_tag": 1,
        "text_outside": 2,
        "end_with_query": 1,
        "speaks_for_others": 2,
    }
    assert row["endings"] == {"end_tag": 4, "turn_cap": 1, "no_tag": 1}
    assert row["ratings"] == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}


def test_a_rating_by_a_rule_is_not_judged_in_any_figure(store: Store) -> None:
    """A stored 5 of the reference patient, of version 0.5, and a 3 of a model: 3/5 on one item."""
    asked = ["<patient>One two?</patient>"] * 4 + ["</end>"]
    ruled = a_consultation(1, asked, rating=5, rater="reference/profile")
    trials = trials_of(store, automedic(), ruled, a_consultation(2, asked, rating=3))
    measures, (summary,), rows = parts_of(trials), summaries(trials), habits(trials)
    assert (measures["empathy"].estimate, measures["empathy"].n, summary["unrated"]) == (pytest.approx(0.6), 1, 1)
    shares = {row.label["rating"]: row["count"] for row in shares_of(rows, "ratings")}
    assert {rating: count for rating, count in shares.items() if count} == {"3": 1, "not judged": 1}
    request = MetricRequest(store)
    (listed,) = report.rows(request, part="ratings")
    assert (listed["rating"], listed["rater"]) == (3, "openai/p")
    assert [(note.kind, "1 conversation" in note.text) for note in request.notes if note.severity == "high"] == [
        ("not_judged", True)
    ]


def test_habits_as_shares(trials: pd.DataFrame) -> None:
    """Six conversations with 17 queries; one rating is not readable."""
    rows = habits(trials)
    endings = {row.label["ending"]: row.estimate for row in shares_of(rows, "endings")}
    assert endings == pytest.approx({"end_tag": 4 / 6, "turn_cap": 1 / 6, "no_tag": 1 / 6})
    ratings = {row.label["rating"]: (row.estimate, row["count"]) for row in shares_of(rows, "ratings")}
    assert ratings == {rating: (pytest.approx(1 / 6), 1) for rating in ("1", "2", "3", "4", "5", "not read")}
    outside = next(row for row in shares_of(rows, "misuses") if row.label["misuse"] == "text_outside")
    assert (outside.estimate, outside.n) == (pytest.approx(2 / 17), 17)


def test_missing_values_of_items_stay_missing(trials: pd.DataFrame) -> None:
    items = item_rows(trials).set_index("case_key")
    assert items.loc["ours/7", ["conv", "efficiency", "empathy", "failed", "turns"]].isna().all()
    assert items.loc["ours/7", "static"] == 1
    assert math.isnan(items.loc["ours/6", "words_per_turn"])
