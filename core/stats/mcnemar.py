"""McNemar's test of paired yes/no judgements: whether two models (or judges) differ on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.errors import UsageError


class PairedCounts(NamedTuple):
    """How many items got yes from both, from the first alone, from the second alone, from neither."""

    both: int
    first_only: int
    second_only: int
    neither: int


class McNemar(NamedTuple):
    """``statistic``: the smaller discordant count (exact) or chi-square (asymptotic); ``p`` is two-sided."""

    statistic: float
    p: float
    counts: PairedCounts


def paired_counts(first: Sequence[bool], second: Sequence[bool]) -> PairedCounts:
    """Count paired judgements; raises ``UsageError`` where they do not pair up."""
    if len(first) != len(second):
        raise UsageError("Paired judgements need one of each for every item.")
    pairs = [(bool(a), bool(b)) for a, b in zip(first, second, strict=True)]
    return PairedCounts(*(pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))))


def mcnemar(counts: PairedCounts, *, exact: bool = True, continuity: bool = True) -> McNemar:
    """Return the test by the binomial distribution, or by chi-square with or without continuity correction.

    Only items on which the two differ carry information; without any, p is 1.
    """
    if not counts.first_only + counts.second_only:
        return McNemar(0.0, 1.0, counts)
    from statsmodels.stats import contingency_tables  # type: ignore[import-untyped]  # slow to load

    table = [[counts.both, counts.first_only], [counts.second_only, counts.neither]]
    result = contingency_tables.mcnemar(table, exact=exact, correction=continuity)
    return McNemar(float(result.statistic), min(1.0, float(result.pvalue)), counts)
