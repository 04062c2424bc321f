"""How far three graders agree, on verdicts that can be counted by hand."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.events import COUNTED
from core.measures.graders.agreement import common_agreement, cross_table, pair_agreements, read_judged
from core.store.database import Store
from tests.core.measures.graders.graded import OTHER, OWN, THIRD, judge_again


def test_two_graders_are_compared_on_what_both_judged(store: Store) -> None:
    judged = read_judged(store)
    assert judged.graders == (OWN, OTHER, THIRD)  # who judged most comes first
    found = {(one.graders, one.kinds): one for one in pair_agreements(judged)}
    pair = found[(OWN, OTHER), "right or not"]
    # of five common answers they agree on three; the first's own other six nobody else judged
    assert (pair.n, pair.n_cases, pair.left_out) == (5, 3, 6)
    assert pair.measures["percent agreement"].value == pytest.approx(3 / 5)
    # both say right three times of five: by chance .6·.6 + .4·.4 = .52
    assert pair.measures["Cohen's kappa"].value == pytest.approx((0.6 - 0.52) / (1 - 0.52))
    # AC1: by chance 2 · .6 · .4 = .48
    assert pair.measures["Gwet's AC1"].value == pytest.approx((0.6 - 0.48) / (1 - 0.48))
    low, high = pair.measures["percent agreement"].interval
    assert low < 3 / 5 < high


def test_all_kinds_tell_more_apart_than_right_and_not(store: Store) -> None:
    judge_again(store, OTHER, {"t021": "incorrect"}, 40.0, "abc")  # the run's own grader: no diagnosis
    found = {one.kinds: one for one in pair_agreements(read_judged(store, [OWN, OTHER]))}
    assert found["right or not"].measures["percent agreement"].value == pytest.approx(4 / 6)
    assert found["all kinds"].measures["percent agreement"].value == pytest.approx(3 / 6)


def test_the_newest_verdict_counts_but_never_a_providers_failure(store: Store) -> None:
    judge_again(store, OTHER, {"t001": "incorrect"}, 40.0, "abc")
    judge_again(store, OTHER, {"t000": "provider_error"}, 50.0, "abc")
    pair = pair_agreements(read_judged(store, [OWN, OTHER]))[0]
    assert (pair.n, pair.measures["percent agreement"].value) == (5, pytest.approx(4 / 5))


def test_three_graders_together_on_what_all_judged(store: Store) -> None:
    found = {one.kinds: one for one in common_agreement(read_judged(store))}
    whole = found["right or not"]
    # right by (own, other, third): 1 1 1 · 0 1 1 · 1 1 0 · 1 0 1: full agreement on one, a third on three
    assert (whole.n, whole.left_out) == (4, 7)
    assert whole.measures["percent agreement"].value == pytest.approx((1 + 3 / 3) / 4)
    # 9 of 12 say right: by chance .75² + .25²
    assert whole.measures["Fleiss' kappa"].value == pytest.approx((0.5 - 0.625) / (1 - 0.625))
    assert common_agreement(read_judged(store, [OWN, OTHER])) == []


def test_verdicts_crossed(store: Store) -> None:
    table = cross_table(read_judged(store), OWN, OTHER)
    right, wrong = COUNTED.index("correct"), COUNTED.index("incorrect")
    assert table[right, right] == 2
    assert table[right, wrong] == 1
    assert table[wrong, right] == 1
    assert table[wrong, wrong] == 1
    assert table.sum() == 5


def test_a_grader_that_judged_nothing_is_named_with_those_that_did(store: Store) -> None:
    with pytest.raises(UsageError, match="No grader 'openai/x' has judged these answers, only openai/g"):
        read_judged(store).of([OWN, "openai/x"])
