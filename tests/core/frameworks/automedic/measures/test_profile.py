"""The four parts of CARE, worked out by hand for six items, and their intervals against other ways to resample."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.frameworks.automedic.measures.profile import (
    CareProfile,
    Estimate,
    habits_of,
    item_rows,
    penalised_interval,
    penalty,
    profiles,
    without_blank,
)
from core.store.database import Store
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, a_consultation, automedic, trials_of
from tests.core.store.builders import a_case
from tests.support.intervals import beta_bounds


def profile_of(trials: pd.DataFrame) -> CareProfile | None:
    return next(iter(profiles(trials)), None)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The six items, and the one that broke off."""
    store = Store(tmp_path_factory.mktemp("care") / "results.duckdb")
    return trials_of(store, automedic(), *SIX, BROKEN)


@pytest.fixture(scope="module")
def six(trials: pd.DataFrame) -> CareProfile:
    found = profile_of(trials)
    assert found is not None
    return found


def test_the_four_parts_of_six_items(six: CareProfile) -> None:
    """Conv right: 1, 2, 4. Static right: 1, 2, 3, 6. Words a turn where right: 20/4, 36/5, 10/1."""
    assert six.acc_conv.value == pytest.approx(3 / 6, abs=1e-9)
    assert six.acc_static.value == pytest.approx(4 / 6, abs=1e-9)
    assert six.penalty == pytest.approx(0.75, abs=1e-9)
    assert six.accuracy.value == pytest.approx(0.5 * 0.75, abs=1e-9)
    # 100 × (1/5 + 5/36 + 0 + 1/10 + 0 + 0) / 6
    assert six.efficiency.value == pytest.approx((20 + 500 / 36 + 10) / 6, abs=1e-9)
    # (5 + 4 + 3 + 2 + 1) / 5 items / 5; the fifth item's rating could not be read
    assert (six.empathy.value, six.empathy.n, six.unrated) == (pytest.approx(0.6, abs=1e-9), 5, 1)
    # items 3 to 6 failed, two of them in two ways
    assert six.robustness.value == pytest.approx(1 - 4 / 6, abs=1e-9)
    assert [six.part(name).n for name in ("accuracy", "efficiency", "robustness")] == [6, 6, 6]


def test_failures_by_kind_and_cause(six: CareProfile) -> None:
    assert six.kinds == {"role_breaking": 2, "abrupt_termination": 3, "invalid_answer": 1}
    assert six.causes["abrupt_termination", "misplaced_end"] == 1
    assert six.causes["invalid_answer", "no_diagnosis"] == 0
    assert six.failed == 4


def test_a_conversation_that_broke_off_is_in_no_part_but_counted(six: CareProfile) -> None:
    assert (six.items, six.trials, six.excluded) == (7, 7, {"provider_error": 1})
    # its answer to the whole question stands: 5 of 7 are right, but the pairs are six
    assert (six.static_all.value, six.static_all.n) == (pytest.approx(5 / 7, abs=1e-9), 7)
    assert (six.conv_all.n, six.acc_static.n, six.excluded_static) == (6, 6, {})


def test_a_failed_answer_to_the_whole_question_leaves_the_other_parts(store: Store) -> None:
    lines = [SIX[0], a_consultation(2, ["<patient>One two?</patient>"] * 4 + ["</end>"], static="provider_error")]
    found = profile_of(trials_of(store, automedic(), *lines))
    assert found is not None
    assert (found.accuracy.n, found.excluded_static) == (1, {"provider_error": 1})
    # 100 × (1/5 + 1/2) / 2
    assert (found.efficiency.value, found.efficiency.n) == (pytest.approx(35, abs=1e-9), 2)


def test_a_blank_answer_fails_unless_it_is_left_out(store: Store) -> None:
    """Item 1: right. Item 2: a blank answer after the conversation. Item 3: a blank one to the whole question."""
    said = ["<patient>One two three four?</patient>"] * 4 + ["</end>"]
    lines = [
        a_consultation(1, said, rating=5),
        a_consultation(2, said, conv="empty", rating=5),
        a_consultation(3, said, static="empty", rating=5),
    ]
    trials = trials_of(store, automedic(), *lines)
    found = profile_of(trials)
    assert found is not None
    assert (found.robustness.value, found.causes["invalid_answer", "empty"]) == (pytest.approx(1 - 1 / 3), 1)
    assert (found.conv_all.value, found.static_all.value) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (found.excluded, found.excluded_static) == ({}, {})
    left_out = profile_of(without_blank(trials))
    assert left_out is not None
    assert (left_out.robustness.value, left_out.robustness.n, left_out.failed) == (1, 2, 0)
    assert (left_out.conv_all.value, left_out.conv_all.n) == (1, 2)
    assert (left_out.static_all.value, left_out.static_all.n) == (1, 2)
    assert (left_out.excluded, left_out.excluded_static) == ({"empty": 1}, {"empty": 1})


def test_trials_of_an_item_are_averaged_first(store: Store) -> None:
    """Item 1: right and wrong, then broken; item 2: right. Items weigh the same."""
    said = ["<patient>One two three four?</patient>"] * 4 + ["</end>"]
    lines = [
        a_consultation(1, said, rating=5),
        a_consultation(1, said, conv="multiple", rating=2, trial=1),
        a_consultation(1, said[:1], conv="provider_error", reason="error", trial=2),
        a_consultation(2, said, rating=4),
    ]
    found = profile_of(trials_of(store, automedic(trials=3), *lines))
    assert found is not None
    assert found.acc_conv.value == pytest.approx((0.5 + 1) / 2, abs=1e-9)
    assert found.efficiency.value == pytest.approx(100 * (0.25 / 2 + 0.25) / 2, abs=1e-9)
    assert found.empathy.value == pytest.approx((3.5 / 5 + 4 / 5) / 2, abs=1e-9)
    assert found.robustness.value == pytest.approx(1 - (0.5 + 0) / 2, abs=1e-9)
    assert (found.items, found.trials, found.excluded) == (2, 4, {"provider_error": 1})


def test_one_item_says_little_of_others(store: Store) -> None:
    one = profile_of(trials_of(store, automedic(), SIX[0]))
    assert one is not None
    for part in ("accuracy", "empathy", "robustness"):
        found = one.part(part)
        assert (found.value, found.high, found.n) == (1, 1, 1)
        assert 0 < found.low <= beta_bounds(1, 1)[0] + 1e-3, "S_A, which the other answer lowers too, may be lower"
    assert (one.efficiency.value, one.efficiency.n) == (pytest.approx(20), 1)


def test_nobody_right_leaves_room_for_some_efficiency(store: Store) -> None:
    wrong = [a_consultation(n, [f"<patient>{'word ' * 5}</patient>", "</end>"], conv="incorrect") for n in (1, 2)]
    found = profile_of(trials_of(store, automedic(), *wrong))
    assert found is not None
    assert (found.acc_conv.low, found.acc_conv.high) == pytest.approx(beta_bounds(0, 2))
    # queries of five words are worth 100/5 where the answer is right
    assert (found.efficiency.value, found.efficiency.low) == (0, 0)
    assert found.efficiency.high == pytest.approx(20 * beta_bounds(0, 2)[1])


def test_a_doctor_that_asks_nothing_has_no_interval_of_its_efficiency(store: Store) -> None:
    found = profile_of(trials_of(store, automedic(), *(a_consultation(n, ["</end>"]) for n in (1, 2, 3))))
    assert found is not None
    assert (found.efficiency.value, found.efficiency.low, found.efficiency.high) == (0, None, None)


def test_nothing_to_figure_is_none_and_not_zero(store: Store) -> None:
    found = profile_of(trials_of(store, automedic(), BROKEN))
    assert found is not None
    assert found.accuracy == found.efficiency == found.empathy == found.robustness == Estimate()
    assert found.penalty is None
    assert profile_of(trials_of(Store(store.path.with_name("empty.duckdb")))) is None


def test_a_run_without_the_whole_question_has_no_penalised_accuracy(store: Store) -> None:
    lines = [a_consultation(n, ["</end>"], static=None) for n in (1, 2)]
    found = profile_of(trials_of(store, automedic(arms=[("multi_turn", "mcq")]), *lines))
    assert found is not None
    assert (found.accuracy, found.conv_all.value) == (Estimate(), 1.0)


@pytest.mark.parametrize(
    ("conv", "static", "kept"), [(0.3, 0.6, 0.5), (0.6, 0.3, 1), (0.5, 0.5, 1), (0.2, 0, 1), (0, 0, 1), (0, 0.4, 0)]
)
def test_the_penalty(conv: float, static: float, kept: float) -> None:
    assert penalty(conv, static) == pytest.approx(kept, abs=1e-12)


def test_the_interval_of_the_accuracy_against_scipy() -> None:
    """The same percentiles from scipy's own paired resampling, within the error of 10,000 resamples."""
    chance = np.random.default_rng(3)
    static = (chance.random(60) < 0.7).astype(float)
    conv = np.where(chance.random(60) < 0.8, static, chance.integers(0, 2, 60)).astype(float)

    def s_a(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        a, b = x.mean(axis=axis), y.mean(axis=axis)
        return a * np.minimum(1, a / b)

    ours = penalised_interval(conv, static)
    level = 1 - 2 * stats.norm.cdf(stats.t.ppf(0.025, 240))
    theirs = stats.bootstrap(
        (conv, static), s_a, paired=True, n_resamples=40_000, method="percentile", confidence_level=level, rng=1
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02), "60 items outweigh the pseudo-items"


def test_the_interval_of_the_efficiency_against_a_plain_loop(trials: pd.DataFrame, six: CareProfile) -> None:
    found = six.efficiency
    # six items and two pseudo-items in random weights, at 0 and at what the shortest queries were worth
    shortest = 100 * item_rows(trials)["per_word"].max()
    shape = 0.75 - 1.25 / 6
    values, shapes = [20, 500 / 36, 0, 10, 0, 0, 0, shortest], [1] * 6 + [shape] * 2
    means = np.random.default_rng(5).dirichlet(shapes, 200_000) @ values
    tail = stats.norm.sf(stats.t.ppf(0.975, 24))
    assert (found.low, found.high) == pytest.approx(np.quantile(means, [tail, 1 - tail]), abs=0.25)


def test_intervals_are_the_same_every_time(trials: pd.DataFrame, six: CareProfile) -> None:
    assert profile_of(trials) == six


def test_a_data_set_by_itself_and_seats_apart(store: Store) -> None:
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
    found = {(p.group, p.seat): p for p in profiles(trials, "dataset")}
    assert set(found) == {("other", "openai/a"), ("ours", "openai/a"), ("ours", "openai/b")}
    assert found["ours", "openai/a"].acc_conv.value == pytest.approx(2 / 3, abs=1e-9)
    assert found["other", "openai/a"].acc_conv.value == pytest.approx(1 / 3, abs=1e-9)
    assert found["ours", "openai/b"].acc_conv.value == 1


def test_many_seats_have_the_efficiency_that_each_has_alone(store: Store) -> None:
    lines = []
    for number in range(5):
        run = f"r{number}"
        lines += [automedic(run, doctor=f"openai/{number}")]
        lines += [
            a_consultation(n, ["<patient>One two?</patient>"] * (n + number) + ["</end>"], run_id=run) for n in (1, 2)
        ]
    trials = trials_of(store, *lines)
    together = {p.seat: p.efficiency for p in profiles(trials)}
    for seat, found in together.items():
        alone = profile_of(trials[trials["seat"] == seat])
        assert alone is not None
        assert alone.efficiency == found


def test_habits_of_six_conversations(trials: pd.DataFrame) -> None:
    (found,) = habits_of(trials)
    assert (found.items, found.conversations, found.queries) == (6, 6, 17)
    assert found.turns == pytest.approx((4 + 5 + 5 + 1 + 2 + 0) / 6)
    # the sixth conversation has no turn
    assert found.words_per_turn == pytest.approx((5 + 36 / 5 + 9 / 5 + 10 + 8 / 2) / 5)
    assert (found.to_staff, found.repeated) == (pytest.approx(2 / 17), pytest.approx(1 / 17))
    assert {kind: n for kind, n in found.misuses.items() if n} == {
        "no_tag": 1,
        "text_outside": 2,
        "end_with_query": 1,
        "speaks_for_others": 2,
    }
    assert found.endings == {"end_tag": 4, "turn_cap": 1, "no_tag": 1}
    assert found.ratings == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}


def test_items_keep_what_is_missing(trials: pd.DataFrame) -> None:
    items = item_rows(trials).set_index("case_key")
    assert items.loc["ours/7", ["conv", "efficiency", "empathy", "failed", "turns"]].isna().all()
    assert items.loc["ours/7", "static"] == 1
    assert math.isnan(items.loc["ours/6", "words_per_turn"])
