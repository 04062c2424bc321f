"""Prediction-powered means against the formula of the paper, by hand, and in simulation; audit of the sample."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.errors import UsageError
from core.stats.calibrated import JudgedItem, calibrated_mean, resemblance


def judged(
    rng: np.random.Generator, cases: int = 300, labelled: int = 60, *, wrong: float = 0.1, share: float = 0.6
) -> list[JudgedItem]:
    """Draw an item per case: right with the chance ``share``; a judge errs with the chance ``wrong`` either way."""
    chosen = set(rng.choice(cases, labelled, replace=False).tolist())
    items = []
    for case in range(cases):
        expert = float(rng.random() < share)
        judge = 1 - expert if rng.random() < wrong else expert
        items.append(JudgedItem(case, judge, expert if case in chosen else None))
    return items


def test_the_estimate_is_the_experts_mean_plus_tuning_times_the_judges_difference() -> None:
    items = judged(np.random.default_rng(3))
    judge = np.array([item.judge for item in items])
    has_label = np.array([item.expert is not None for item in items])
    expert = np.array([item.expert for item in items if item.expert is not None])
    # independent: with one item per case the best λ is the slope of the experts' on the judge's score, here from the
    # labelled part of both influence functions
    n, m = len(items), len(expert)
    own = np.zeros(n)
    own[has_label] = (expert - expert.mean()) / m
    difference = (judge - judge.mean()) / n
    difference[has_label] -= (judge[has_label] - judge[has_label].mean()) / m
    tuning = -(own @ difference) / (difference @ difference)
    result = calibrated_mean(items)
    assert result.tuning == pytest.approx(tuning)
    assert result.experts == pytest.approx(expert.mean())
    assert result.judge == pytest.approx(judge.mean())
    assert result.estimate == pytest.approx(expert.mean() + tuning * (judge.mean() - judge[has_label].mean()))
    assert (result.items, result.labelled, result.labelled_cases) == (300, 60, 60)


def test_a_judge_that_says_nothing_leaves_the_experts_mean() -> None:
    items = [JudgedItem(case, 1.0, float(case % 4 != 0) if case < 40 else None) for case in range(100)]
    result = calibrated_mean(items)
    assert (result.tuning, result.estimate, result.experts) == pytest.approx((0.0, 0.75, 0.75))
    assert result.interval == pytest.approx(result.experts_interval)


def test_labels_of_every_item_give_the_experts_mean() -> None:
    items = [JudgedItem(case, float(case % 3 == 0), float(case % 2 == 0)) for case in range(30)]
    assert calibrated_mean(items).estimate == pytest.approx(0.5)


def test_strata_count_by_their_size() -> None:
    # 90 items of which 2 are labelled, 10 of which 5 are: the experts' mean weighs 45 and 2 items
    items = [JudgedItem(f"a{n}", 0.5, 1.0 if n < 2 else None, 45.0) for n in range(90)]
    items += [JudgedItem(f"b{n}", 0.5, 0.0 if n < 5 else None, 2.0) for n in range(10)]
    assert calibrated_mean(items).estimate == pytest.approx(0.9)


def test_one_labelled_case_has_no_interval_and_bad_input_is_refused() -> None:
    result = calibrated_mean([JudgedItem("a", 1.0, 1.0), JudgedItem("b", 0.0)])
    assert math.isnan(result.interval.low)
    assert math.isnan(result.half_width())
    for items in ([], [JudgedItem("a", math.nan)], [JudgedItem("a", 1.0, 1.0, 0.0)]):
        with pytest.raises(UsageError):
            calibrated_mean(items)


def test_more_judgements_narrow_the_interval_as_forecast() -> None:
    rng = np.random.default_rng(8)
    few, many = ([calibrated_mean(judged(rng, labelled=labelled)) for _ in range(15)] for labelled in (40, 160))
    forecast = np.mean([result.half_width(120) for result in few])
    width = np.mean([(result.interval.high - result.interval.low) / 2 for result in many])
    assert forecast == pytest.approx(width, rel=0.1)
    assert few[0].half_width(10) < few[0].half_width()


@pytest.mark.slow
def test_intervals_cover_and_are_narrower_than_the_experts(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, float]] = [(0.05, 0.6), (0.15, 0.6), (0.3, 0.5), (0.1, 0.85)]
    for wrong, share in rows:
        with subtests.test(wrong=wrong, share=share):
            rng = np.random.default_rng(11)
            results = [calibrated_mean(judged(rng, wrong=wrong, share=share)) for _ in range(500)]
            covered = np.mean([result.interval.low <= share <= result.interval.high for result in results])
            assert 0.93 <= covered <= 0.98
            width = np.mean([result.interval.high - result.interval.low for result in results])
            alone = np.mean([result.experts_interval.high - result.experts_interval.low for result in results])
            assert width < alone


def test_a_random_sample_passes_and_a_shifted_one_fails() -> None:
    rng = np.random.default_rng(5)
    cases = [f"case {n}" for n in range(1_500)]
    scores, lengths = rng.random(1_500), rng.normal(10, 3, 1_500)
    random = np.isin(np.arange(1_500), rng.choice(1_500, 500, replace=False))
    verdicts = {row.feature: row.verdict for row in resemblance(cases, random, {"judge": scores, "length": lengths})}
    assert verdicts == {"judge": "alike", "length": "alike"}
    shifted = rng.random(1_500) < np.where(scores > 0.6, 0.6, 0.1)
    rows = {row.feature: row for row in resemblance(cases, shifted, {"judge": scores, "length": lengths})}
    assert rows["judge"].verdict == "shifted"
    assert rows["judge"].difference > 0.5
    assert rows["length"].verdict == "alike"
    few = np.arange(1_500) < 10
    assert resemblance(cases, few, {"length": lengths})[0].verdict == "cannot say"


def test_equal_scores_of_a_few_experts_leave_room_for_other_cases() -> None:
    # resamples of three conversations that are all met are all met
    few = calibrated_mean([JudgedItem(case, 1.0, 1.0 if case < 3 else None) for case in range(20)])
    many = calibrated_mean([JudgedItem(case, 1.0, 1.0 if case < 15 else None) for case in range(20)])
    assert few.interval.low < 0.5
    assert few.interval.low < many.interval.low < 1
    assert few.interval.high == few.experts_interval.high == few.judge_interval.high == 1
    assert 0.8 < few.judge_interval.low < 1
    assert few.half_width() > few.half_width(5) > few.half_width(17) > 0
    points = calibrated_mean([JudgedItem(case, -2.0, -2.0, 1.0, -2.0, 0.0) for case in range(4)])
    assert (points.interval.low, points.estimate) == (-2, -2)
    assert -2 < points.interval.high < 0


@pytest.mark.slow
def test_intervals_cover_a_rare_error_of_a_judge() -> None:
    # 95 % are met, the judge errs in 5 %, 30 of 100 conversations are judged by people, too
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(150):
        people = rng.random(100) < 0.95
        judge = np.where(rng.random(100) < 0.05, ~people, people)
        result = calibrated_mean(
            [JudgedItem(c, float(judge[c]), float(people[c]) if c < 30 else None) for c in range(100)]
        )
        covered += result.interval.low <= 0.95 <= result.interval.high
    assert covered / 150 >= 0.93  # plain percentiles cover 80 %
