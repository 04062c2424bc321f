"""The small-sample correction: compared with tables of t, and without effect on large samples."""

from __future__ import annotations

import pytest
from scipy import stats

from core.stats.intervals import expansion_of_mean


def test_tails_of_twenty_cases_by_the_tables() -> None:
    # t(0.975, 19) = 2.0930; · √(20/19) = 2.1474; P(Z > 2.1474) = 0.01588
    assert expansion_of_mean(20).tail(0.95) == pytest.approx(0.01588, abs=5e-6)
    assert expansion_of_mean(100_000).tail(0.95) == pytest.approx(0.025, abs=1e-5)


@pytest.mark.parametrize("n", [5, 20, 100, 2_004])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_p_and_tail_are_inverse(n: int, level: float) -> None:
    expansion = expansion_of_mean(n)
    assert expansion.p(2 * expansion.tail(level)) == pytest.approx(1 - level)


def test_p_is_that_of_t_and_never_smaller(subtests: pytest.Subtests) -> None:
    rows: list[float] = [1.0, 0.5, 0.05, 1e-4, 1e-10]
    for p in rows:
        with subtests.test(p=p):
            z = stats.norm.isf(p / 2)
            assert expansion_of_mean(20).p(p) == pytest.approx(2 * stats.t.sf(z * (19 / 20) ** 0.5, 19))
            assert expansion_of_mean(20).p(p) >= p
