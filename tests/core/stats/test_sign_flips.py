"""The paired comparison: p compared with all choices of signs, and a consistent interval."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from core.errors import UsageError
from core.stats.differences import PairedCounts, mcnemar, paired_difference, sign_flip_p

RNG = np.random.default_rng(8)


@pytest.mark.parametrize(
    "differences",
    [*(RNG.integers(-5, 6, n) / 5 for n in (1, 2, 5, 9, 12)), *(RNG.normal(0.4, 1, n) for n in (2, 5, 9, 12))],
)
def test_p_is_the_share_of_all_choices_of_signs(differences: np.ndarray) -> None:
    signs = np.array(list(itertools.product((1, -1), repeat=differences.size)))
    expected = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    assert sign_flip_p(differences) == (pytest.approx(expected), "exact")


def test_for_yes_and_no_p_equals_mcnemars_exact_test() -> None:
    counts = PairedCounts(30, 10, 2, 8)
    assert sign_flip_p([0] * 30 + [1] * 10 + [-1] * 2 + [0] * 8)[0] == pytest.approx(mcnemar(counts).p)


def test_random_signs_agree_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.random.default_rng(1).normal(0.3, 1, 18)
    exact, engine = sign_flip_p(lengths)
    monkeypatch.setattr("core.stats.differences._MOST_ENUMERATED", 0)
    drawn, other = sign_flip_p(lengths)
    assert (engine, other) == ("exact", "resampled")
    assert drawn == pytest.approx(exact, abs=4.5 * (exact * (1 - exact) / 10_000) ** 0.5)


def test_five_against_five_that_all_differ() -> None:
    five = paired_difference([1] * 5, [0] * 5)
    assert (five.mean, five.p) == (1, pytest.approx(2 / 2**5))
    assert five.interval == (0, 1), "p is above .05, so the interval reaches 0"
    six = paired_difference([1] * 6, [0] * 6)
    assert six.p == pytest.approx(2 / 2**6)
    assert 0 < six.interval.low < 0.5


def test_twelve_cases_reach_a_p_that_holds_after_correction_over_seventeen_measures() -> None:
    for effect in ([0.35] * 12, list(np.linspace(0.2, 0.5, 12) + 1e-4 * np.arange(12) ** 0.5)):
        assert paired_difference(effect, [0] * 12).p == pytest.approx(2 / 2**12)
    assert 17 * 2 / 2**12 < 0.05


def test_interval_and_p_never_contradict_each_other() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        first, second = rng.binomial(5, 0.8, 15) / 5, rng.binomial(5, 0.8 - 0.03 * seed, 15) / 5
        compared = paired_difference(first, second)
        inside = compared.interval.low < 0 < compared.interval.high
        assert not (inside and compared.p <= 0.05), seed
        assert compared.p <= 0.05 or compared.interval.low <= 0 <= compared.interval.high, seed
        other = paired_difference(second, first)
        assert other.p == pytest.approx(compared.p), seed
        assert (-other.interval.high, -other.interval.low) == pytest.approx(compared.interval), seed


def test_equal_arms_have_an_interval_around_0() -> None:
    compared = paired_difference([0.4, 1.0] * 10, [0.4, 1.0] * 10)
    assert (compared.mean, compared.p) == (0, 1)
    assert -0.2 < compared.interval.low == pytest.approx(-compared.interval.high)
    assert compared.interval.high > 0.05


def test_measures_without_a_maximum_have_students_interval() -> None:
    shares = paired_difference([0.4] * 8 + [1.0] * 4, [0.1] * 12, scores=True)
    scaled = paired_difference([4.0] * 8 + [10.0] * 4, [1.0] * 12, most=None)
    assert scaled.interval == pytest.approx([10 * bound for bound in shares.interval])
    nothing = paired_difference([0, 0], [0, 0], most=None)
    assert nothing.p == 1
    assert all(map(math.isnan, nothing.interval)), "no variation"
    with pytest.raises(UsageError, match="larger than 1"):
        paired_difference([10, 3], [1, 2])


def test_too_few_cases_and_gaps() -> None:
    for compared in (paired_difference([1], [0]), paired_difference([], [])):
        assert all(map(math.isnan, (compared.p, *compared.interval)))
    with pytest.raises(UsageError, match="same cases"):
        paired_difference([0.2, 0.4], [0.2])
    with pytest.raises(UsageError, match="without gaps"):
        paired_difference([0.2, math.nan], [0.2, 0.4])
