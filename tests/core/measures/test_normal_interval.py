"""The interval of normal theory, as ``report accuracy --interval normal`` gives it."""

from __future__ import annotations

import pytest

from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.selection import Selection


def test_the_interval_of_normal_theory_by_hand(filled_store: Store) -> None:
    """Of six cases, openai/b answers four correctly in both trials: 2/3 ± t(0.975, 5) · s / √6, s² = 4/15."""
    selection = Selection(models=["openai/b"], formats=["multi_turn"])
    (row,) = accuracy(filled_store, selection=selection, interval="normal")
    assert row.estimate == pytest.approx(2 / 3)
    half = 2.570582 * (4 / 15 / 6) ** 0.5
    assert (row.low, row.high) == pytest.approx((2 / 3 - half, 2 / 3 + half), abs=1e-5)
