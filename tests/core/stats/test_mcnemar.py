"""McNemar's test by hand."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.stats.differences import PairedCounts, mcnemar, paired_counts

COUNTS = PairedCounts(both=30, first_only=10, second_only=2, neither=8)


def test_judgements_are_counted_by_pair() -> None:
    first = [True, True, False, False, True]
    second = [True, False, True, False, False]
    assert paired_counts(first, second) == (1, 2, 1, 1)
    with pytest.raises(UsageError, match="one of each"):
        paired_counts(first, second[:4])


def test_exact() -> None:
    # twice the chance of 2 or fewer heads in 12 throws: 2 · (1 + 12 + 66) / 4096
    result = mcnemar(COUNTS)
    assert result.p == pytest.approx(2 * 79 / 4096)
    assert result.statistic == 2


def test_asymptotic() -> None:
    # (|10 − 2| − 1)² / 12 = 4.083 and (10 − 2)² / 12 = 5.333 on one degree of freedom
    corrected, plain = mcnemar(COUNTS, exact=False), mcnemar(COUNTS, exact=False, continuity=False)
    assert (corrected.statistic, corrected.p) == pytest.approx((49 / 12, 0.04331), abs=1e-5)
    assert (plain.statistic, plain.p) == pytest.approx((64 / 12, 0.02092), abs=1e-5)


@pytest.mark.parametrize("exact", [True, False])
def test_without_disagreement_p_is_1(exact: bool) -> None:
    assert mcnemar(PairedCounts(5, 0, 0, 9), exact=exact).p == 1
    assert mcnemar(PairedCounts(5, 4, 4, 9), exact=exact).p <= 1
