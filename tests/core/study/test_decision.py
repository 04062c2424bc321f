"""What a study decides, in one look and in two; errors and power are measured by benchmarks/bench_study.py."""

from __future__ import annotations

from core.stats.margins import margin_interval
from core.stats.power import PairedComponents
from core.study.decision import MOST_CASES, SPENT, decide, resolution


def differences(lost: int, gained: int, same: int) -> list[float]:
    return [-1.0] * lost + [1.0] * gained + [0.0] * same


def test_each_look_decides_with_half_of_the_error_and_the_study_by_what_both_have_in_common() -> None:
    table = {
        "better": [differences(1, 15, 14)],
        "worse": [differences(15, 1, 14)],
        "not worse": [differences(5, 8, 287)],
        "cannot tell": [differences(2, 3, 15)],
        "second look: not worse": [differences(2, 3, 15), differences(20, 30, 350)],
        "second look: cannot tell": [differences(3, 3, 14), differences(6, 6, 28)],
        "the looks contradict each other: cannot tell": [differences(15, 1, 14), differences(40, 30, 430)],
        "too few: cannot tell": [differences(0, 11, 0)],
    }
    wrong = {
        name: decided.verdict
        for name, looks in table.items()
        if (decided := decide(*looks, margin=0.05)).verdict != name.rpartition(": ")[2]
    }
    assert not wrong
    first, second = differences(2, 3, 15), differences(20, 30, 350)
    decided = decide(first, second, margin=0.05)
    assert decided.looks == (margin_interval(first, SPENT[0]), margin_interval(second, SPENT[1]))
    assert decided.interval == decided.looks[1], "the second lies within the first"
    assert (decided.cases, decided.means) == (400, (0.05, 0.025))


def test_the_needed_cases_grow_with_the_square_of_the_margin_and_end_where_no_number_is_realistic() -> None:
    look = differences(3, 2, 15)
    wide, narrow = decide(look, margin=0.15), decide(look, margin=0.05)
    assert wide.needed
    assert narrow.needed
    assert 6 < narrow.needed / wide.needed < 12
    assert narrow.more_cases == narrow.needed - 20
    assert decide(look, margin=0.015).needed is None, "about ten times as many as for 0.05"


def test_a_plan_says_what_its_cases_show_and_what_would_show_the_margin() -> None:
    # variance 0.25 of a case's difference, a tenth of it by trials: (1.96 + 0.84)² · 0.25 / 0.05² = 784 by the normal
    shown = resolution(PairedComponents(0.225, 0.025), 20, 1, 0.05)
    assert 780 <= (shown.cases or 0) <= 795
    assert 0.3 < shown.smallest < 0.36
    assert shown.trials is None
    by_trials = resolution(PairedComponents(0.0, 0.5), 100, 1, 0.1)
    # 7.85 · 0.5 / (100 · 0.1²) = 3.9 trials, and a little more because of t
    assert by_trials.trials == 5 or by_trials.trials == 4
    assert resolution(PairedComponents(0.225, 0.025), 20, 1, 0.01).cases is None
    assert MOST_CASES == 5_000
