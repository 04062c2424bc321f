"""Bradley–Terry abilities and weights of features against the likelihood itself and in simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from core.stats.choices import Choice, abilities, weights


def by_likelihood(choices: list[Choice], names: list[str]) -> dict[str, float]:
    """Maximise the Bradley–Terry likelihood directly; abilities have the mean 0."""
    places = {name: place for place, name in enumerate(names)}

    def loss(values: NDArray[np.float64]) -> float:
        total = 0.0
        for choice in choices:
            log_odds = values[places[choice.first]] - values[places[choice.second]]
            total += choice.share * math.log1p(math.exp(-log_odds)) + (1 - choice.share) * math.log1p(
                math.exp(log_odds)
            )
        return total

    best = minimize(loss, np.zeros(len(names)), method="BFGS").x
    return dict(zip(names, best - best.mean(), strict=True))


def simulated(true: dict[str, float], cases: int, rng: np.random.Generator, spread: float = 0.5) -> list[Choice]:
    """Draw one choice per case and pair; what a case adds to a pair is shared by two experts."""
    choices = []
    for case in range(cases):
        for first, second in combinations(true, 2):
            log_odds = true[first] - true[second] + spread * rng.standard_normal()
            for _ in range(2):
                chosen = float(rng.random() < 1 / (1 + math.exp(-log_odds)))
                choices.append(Choice(first, second, chosen, f"case {case}"))
    return choices


def test_two_models_have_the_log_odds_of_their_wins() -> None:
    # a is chosen in 3 of 4 cases: log(3/1), divided between the two
    choices = [Choice("a", "b", share, f"case {n}") for n, share in enumerate((1, 1, 1, 0))]
    fitted = abilities(choices)
    assert fitted["a"].value == pytest.approx(math.log(3) / 2)
    assert fitted["b"].value == pytest.approx(-math.log(3) / 2)
    # the clustered variance of log-odds is Σ (y − p)² / (n p (1 − p))² · n / (n − 1); t has 3 degrees of freedom
    error = math.sqrt(0.75 / 0.75**2 * 4 / 3) / 2
    assert fitted["a"].interval.high == pytest.approx(math.log(3) / 2 + 3.182446 * error, rel=1e-4)


def test_the_order_of_the_two_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    choices = simulated({"a": 0.6, "b": 0.0, "c": -0.6}, 30, rng)
    swapped = [Choice(c.second, c.first, 1 - c.share, c.case) if n % 2 else c for n, c in enumerate(choices)]
    for name, coefficient in abilities(choices).items():
        assert abilities(swapped)[name].value == pytest.approx(coefficient.value, abs=1e-9)


def test_abilities_maximise_the_likelihood_also_with_ties() -> None:
    choices = simulated({"a": 0.6, "b": 0.0, "c": -0.2, "d": -0.4}, 40, np.random.default_rng(6))
    choices[::7] = [choice._replace(share=0.5) for choice in choices[::7]]
    expected = by_likelihood(choices, ["a", "b", "c", "d"])
    assert {name: c.value for name, c in abilities(choices).items()} == pytest.approx(expected, abs=1e-4)


def by_minorisation(choices: list[Choice]) -> dict[str, float]:
    """Return Bradley–Terry abilities by the MM algorithm of Hunter (Annals of Statistics 32 (2004), 384–406)."""
    names = sorted({name for choice in choices for name in choice[:2]})
    wins, comparisons = dict.fromkeys(names, 0.0), dict.fromkeys(combinations(names, 2), 0)
    for choice in choices:
        wins[choice.first] += choice.share
        wins[choice.second] += 1 - choice.share
        first, second = sorted(choice[:2])
        comparisons[first, second] += 1
    strength = dict.fromkeys(names, 1.0)
    for _ in range(3_000):
        strength = {
            name: wins[name]
            / sum(n / (strength[a] + strength[b]) for (a, b), n in comparisons.items() if name in (a, b))
            for name in names
        }
    logs = {name: math.log(value) for name, value in strength.items()}
    return {name: value - sum(logs.values()) / len(logs) for name, value in logs.items()}


def test_abilities_are_those_of_the_mm_algorithm() -> None:
    choices = simulated({"a": 0.9, "b": 0.2, "c": -0.3, "d": -0.8}, 25, np.random.default_rng(9))
    choices[::5] = [choice._replace(share=0.5) for choice in choices[::5]]
    assert {name: c.value for name, c in abilities(choices).items()} == pytest.approx(
        by_minorisation(choices), abs=1e-6
    )


def test_what_is_always_chosen_or_never_compared_has_no_ability() -> None:
    always = [Choice("a", "b", 1.0, f"case {n}") for n in range(10)]
    assert all(math.isnan(coefficient.value) for coefficient in abilities(always).values())
    apart = [Choice("a", "b", n % 2, f"{n}") for n in range(6)] + [Choice("c", "d", n % 2, f"{n}") for n in range(6)]
    assert all(math.isnan(coefficient.value) for coefficient in abilities(apart).values())


@pytest.mark.slow
def test_intervals_of_abilities_and_weights_cover() -> None:
    rng, true = np.random.default_rng(7), {"a": 0.5, "b": 0.0, "c": -0.5}
    covered = inside = 0
    # what the case adds flattens the mean log-odds: the target is what very many cases give
    target = abilities(simulated(true, 20_000, np.random.default_rng(8)))
    for _ in range(500):
        fitted = abilities(simulated(true, 30, rng))
        covered += sum(c.interval.low <= target[name].value <= c.interval.high for name, c in fitted.items())
        features = rng.normal(size=(60, 2))
        chosen = (rng.random(60) < 1 / (1 + np.exp(-features @ [0.8, -0.3]))).astype(float)
        first, second = weights(features, chosen.tolist(), [str(n) for n in range(60)])
        inside += (first.interval.low <= 0.8 <= first.interval.high) + (
            second.interval.low <= -0.3 <= second.interval.high
        )
    assert 0.93 <= covered / 1_500 <= 0.97
    assert 0.93 <= inside / 1_000 <= 0.97


def test_nothing_but_ties_has_no_interval() -> None:
    tied = abilities([Choice("a", "b", 0.5, str(number)) for number in range(5)])
    assert [ability.value for ability in tied.values()] == [0, 0]
    assert all(math.isnan(ability.interval.low) for ability in tied.values())
