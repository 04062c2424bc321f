"""Beliefs over many conversations: curves and calibration, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.events import Probed
from core.measures.belief import belief_table, bin_of, calibrations, curves, series_of, trajectory
from core.stats.ratios import ratio, ratio_intervals, resampled_sums
from core.stats.scores import score_interval
from core.stats.smoothed import mean_interval
from tests.core.store.builders import a_case
from tests.support.intervals import beta_bounds


def course(case: int, *probes: tuple[str, float], model: str = "m") -> tuple[str, str, dict[str, tuple[float, ...]]]:
    """Return the course of a belief on a case of eczema; a probe is (leading diagnosis, probability)."""
    probed = [
        Probed(turn=2 * n + 1, differential=((name, share), ("Gout", 0.01))) for n, (name, share) in enumerate(probes)
    ]
    return model, f"ours/{case}", series_of(trajectory(a_case(case), probed, "final_diagnosis"))


TRAJECTORIES = [
    course(1, ("Eczema", 0.8), ("Eczema", 0.9)),
    course(1, ("Psoriasis", 0.6), ("Psoriasis", 0.7)),
    course(2, ("Psoriasis", 0.6), ("Eczema", 0.6), ("Eczema", 0.95), ("Eczema", 0.95)),
    course(3, ("Eczema", 0.4), ("Psoriasis", 0.4)),
]


def test_models_have_separate_rows_and_conversations_without_probe_are_left_out() -> None:
    rows = curves(belief_table([*TRAJECTORIES, course(9, model="other"), course(9, ("Eczema", 0.9), model="a")]))
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["a", "m"]


def test_curves_by_hand() -> None:
    points = {(p["quantity"], p["per_cent"]): p for p in curves(belief_table(TRAJECTORIES))}
    assert points["right", 50].estimate == pytest.approx(((0.8 + 0) / 2 + 0.6 + 0.4) / 3)
    assert points["leads", 100].estimate == pytest.approx((0.5 + 1 + 0) / 3)
    assert points["leading", 100].estimate == pytest.approx(((0.9 + 0.7) / 2 + 0.95 + 0.4) / 3)
    assert (points["leads", 100].low, points["leads", 100].high) == mean_interval([0.5, 1, 0])
    assert (points["leads", 100].n, points["leads", 100]["n_conversations"]) == (3, 4)


def test_calibration_by_hand() -> None:
    at_every_probe, at_end = calibrations(belief_table(TRAJECTORIES))
    assert (at_every_probe["when"], at_every_probe.n, at_every_probe["n_probes"]) == ("every probe", 3, 10)
    case_1 = (0.2**2 + 0.1**2 + 0.6**2 + 0.7**2) / 4
    case_2 = (0.6**2 + 0.4**2 + 2 * 0.05**2) / 4
    case_3 = (0.6**2 + 0.4**2) / 2
    assert at_every_probe.estimate == pytest.approx((case_1 + case_2 + case_3) / 3)
    assert (at_every_probe.low, at_every_probe.high) == score_interval([case_1, case_2, case_3])
    # weights: 0.4: 1 and 0 at 1/2 each · 0.6: two 0 and a 1 at 1/4 each · 0.7: 0 at 1/4 · 0.8: 1 at 1/4
    # · 0.9: a 1 at 0.9 and two at 0.95, 1/4 each
    gaps = [abs(0.4 - 0.5), abs(0.75 * 0.6 - 0.25), 0.25 * 0.7, 0.25 * 0.2, 0.25 * (0.1 + 0.05 + 0.05)]
    assert at_every_probe["ece"] == pytest.approx(sum(gaps) / 3)
    assert (at_end["when"], at_end["n_probes"]) == ("at the end", 4)
    assert at_end.estimate == pytest.approx(((0.1**2 + 0.7**2) / 2 + 0.05**2 + 0.4**2) / 3)


def test_bins_begin_at_their_lower_edge_and_one_is_in_the_last() -> None:
    assert list(bin_of(np.array([0.0, 0.0999, 0.1, 0.3, 0.7, 0.9, 0.99, 1.0]))) == [0, 0, 1, 3, 7, 9, 9, 9]


def test_a_perfect_doctor_has_no_error_and_no_spread() -> None:
    _, row = calibrations(belief_table(course(n, ("Eczema", 1.0)) for n in range(5)))
    assert (row.estimate, row["ece"], row.low) == (0, 0, 0)
    assert row.high == pytest.approx(beta_bounds(0, 5)[1])
    assert row["ece_low"] is None


def test_the_interval_of_the_calibration_error_agrees_with_resampling_by_hand() -> None:
    """Half of the cases are right at 0.5: the error of a resample is |share − 0.5|, share ~ Binomial(40, ½)/40."""
    trajectories = [course(n, ("Eczema" if n % 2 else "Psoriasis", 0.5)) for n in range(40)]
    _, row = calibrations(belief_table(trajectories))
    assert row["ece"] == 0
    draws = np.abs(np.random.default_rng(1).binomial(40, 0.5, 20_000) / 40 - 0.5)
    assert row["ece_high"] == pytest.approx(float(np.quantile(draws, 0.978)), abs=0.02)


def test_sums_are_resampled_case_by_case() -> None:
    sums = resampled_sums([[1, 10], [2, 20], [4, 40]], resamples=500)
    assert sums.shape == (500, 2)
    assert np.allclose(sums[:, 1], 10 * sums[:, 0]), "the columns of a case stay together"
    assert set(np.unique(sums[:, 0])) == {a + b + c for a in (1, 2, 4) for b in (1, 2, 4) for c in (1, 2, 4)}
    assert sums[:, 0].mean() == pytest.approx(7, abs=0.3)


def test_ratios_of_sums_weigh_cases_by_their_denominator() -> None:
    assert ratio([1, 0], [1, 3]) == 0.25
    assert math.isnan(ratio([0], [0]))
    plain, without_data = ratio_intervals([[1, 0]] * 10 + [[0, 0]] * 10, [[1, 0]] * 20)
    assert plain.low < 0.5 < plain.high
    assert plain.low > 0.2
    assert math.isnan(without_data.low)
