"""The composite of CARE: the mean of the parts by default, and weights from experts' choices between consultations."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from core.errors import UsageError
from core.frameworks.automedic.measures.composite import (
    FittedWeights,
    composite_interval,
    composite_rows,
    conversation_figures,
    fit_weights,
    preference_reviews,
)
from core.frameworks.automedic.measures.profile import PARTS
from core.frameworks.automedic.measures.report import report
from core.measures.base import MetricRequest, Row
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.stats.choices import LogOdds
from core.stats.intervals import NOTHING
from core.store.database import Store
from core.store.review_records import parse_item, planned
from tests.core.frameworks.automedic.measures.consultations import SIX, a_consultation, automedic, trials_of
from tests.support.answering import record_all

CASES = range(1, 41)


def care(store: Store, part: str, **options: object) -> tuple[list[Row], MetricRequest]:
    request = MetricRequest(store)
    return [row for row in report.rows(request, part=part, by="all", **options) if isinstance(row, Row)], request


def test_the_composite_is_the_mean_of_the_parts_in_their_ranges(store: Store) -> None:
    """Accuracy 0.375, efficiency (20 + 500/36 + 10)/6 of 100, empathy 0.6 from 0.2 to 1: one half, robustness 1/3."""
    trials = trials_of(store, automedic(), *SIX)
    scaled = [0.375, (20 + 500 / 36 + 10) / 600, 0.5, 1 / 3]
    (row,), request = care(store, "composite")
    assert row.estimate == pytest.approx(np.mean(scaled))
    assert (row.label["weights"], row.n) == ("equal", 6)
    assert row.low is not None
    assert row.low < (row.estimate or 0) < (row.high or 0)
    assert not [note for note in request.notes if note.kind == "weights"]
    # weights of one unit of a part become those of its range: 1, 100, 0.8 and 1 units
    fitted = FittedWeights("R", {p: LogOdds(w, NOTHING) for p, w in zip(PARTS, (2, -1, 1, 0), strict=True)}, {}, 9, {})
    (weighted,) = composite_rows(trials, fitted)
    assert weighted.estimate == pytest.approx(float(np.array(scaled) @ [2, -100, 0.8, 0]) / 102.8)
    assert weighted.label["weights"] == "R"
    figures = conversation_figures(store, [f"run/{n}/0" for n in range(1, 7)])
    assert figures["run/1/0"].tolist() == pytest.approx([1, 100 / 5, 1.0, 1])
    assert figures["run/3/0"].tolist() == pytest.approx([0, 0, 0.6, 0])
    assert np.isnan(figures["run/5/0"][2])  # no readable rating


def test_without_a_judge_of_empathy_the_composite_is_withheld_with_its_reason(store: Store) -> None:
    asked = ["<patient>One two?</patient>"] * 4 + ["</end>"]
    trials_of(store, automedic(), a_consultation(1, asked, rating=5, rater="reference/profile"))
    (row,), request = care(store, "composite")
    assert (row.estimate, row.low, row.high, row["missing"]) == (None, None, None, "empathy")
    assert [note for note in request.notes if note.severity == "high" and "No composite" in note.text]


def drawn_items(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """Draw items whose answers after the conversation and to the whole question depend on one difficulty."""
    difficulty = rng.normal(size=n)
    conv, static = ((rng.random(n) < 1 / (1 + np.exp(-shift - difficulty))).astype(float) for shift in (0.3, 0.8))
    empathy = rng.integers(1, 6, n) / 5
    empathy[rng.random(n) < 0.1] = np.nan
    return {
        "conv": conv,
        "static": static,
        "efficiency": conv / rng.integers(8, 40, n),
        "empathy": empathy,
        "failed": (rng.random(n) < 0.2).astype(float),
    }


def test_the_interval_of_the_composite_narrows_with_items_and_needs_every_part() -> None:
    rng, equal = np.random.default_rng(2), np.ones(4) / 4
    few, many = (composite_interval(drawn_items(n, rng), equal) for n in (20, 500))
    assert many.high - many.low < (few.high - few.low) / 2
    unrated = {**drawn_items(20, rng), "empathy": np.full(20, np.nan)}
    assert np.isnan(composite_interval(unrated, equal)).all()


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.25, 0.25, 0.25, 0.25), (0.6, 0.02, 0.2, 0.18)])
def test_intervals_of_the_composite_cover(shares: tuple[float, ...]) -> None:
    rng = np.random.default_rng(5)
    large = drawn_items(400_000, rng)
    conv, static = large["conv"].mean(), large["static"].mean()
    accuracy = conv * min(1, conv / static)
    others = (large["efficiency"].mean(), np.nanmean(large["empathy"]), 1 - large["failed"].mean())
    true = np.array([accuracy, *others])
    covered = 0
    for _ in range(500):
        interval = composite_interval(drawn_items(30, rng), np.array(shares))
        covered += interval.low <= float(true @ shares) <= interval.high
    assert 0.93 <= covered / 500 <= 0.97


def two_doctors(store: Store, seed: int = 3) -> pd.DataFrame:
    """Consultations of two doctors on the same cases, with figures drawn at random."""
    rng, lines = np.random.default_rng(seed), []
    for number, run in enumerate(("one", "two")):
        lines.append(automedic(run, CASES, doctor=f"openai/{run}"))
        for case in CASES:
            words = " ".join(["word"] * int(rng.integers(4, 20)))
            queries = [f"<patient>{words}?</patient>", "<patient>And now?</patient>"] * 2
            verdict = "correct" if rng.random() < 0.6 - 0.2 * number else "incorrect"
            broken = ["It is eczema."] if rng.random() < 0.3 else ["</end>"]
            spoken = queries[:2] + broken if broken[0] != "</end>" else [*queries, *broken]
            reason = "no_tag" if broken[0] != "</end>" else "end_tag"
            lines.append(
                a_consultation(
                    case,
                    spoken,
                    conv=verdict,
                    rating=int(rng.integers(1, 6)),
                    reason=reason,
                    run_id=run,  # type: ignore[arg-type]
                )
            )
    return trials_of(store, *lines)


def choose_by(store: Store, weights: dict[str, float], seed: int = 4) -> None:
    """Two experts choose between the consultations of each case as the weights say, with chance."""
    plan = planned(kind="care_preference", number=len(CASES), annotators=("Ada", "Ben"), shared=1.0, seed=1)
    review = plan_review(store, "Pairs", plan)
    state, rng = state_of(store, review.review_id), np.random.default_rng(seed)
    trials = [trial for item in state.items for trial in parse_item(item.item).trials]
    figures = conversation_figures(store, trials)
    choices = []
    for item in state.items:
        first, second = (figures[trial] for trial in parse_item(item.item).trials)
        log_odds = float((first - second) @ [weights[part] for part in PARTS])
        for expert in ("Ada", "Ben"):
            better = "first" if rng.random() < 1 / (1 + math.exp(-log_odds)) else "second"
            choices.append((item.number, expert, "better", better))
    record_all(store, "Pairs", choices)


@pytest.mark.slow
def test_weights_maximise_the_likelihood_of_the_choices(store: Store) -> None:
    two_doctors(store)
    choose_by(store, {"accuracy": 2.0, "efficiency": 0.0, "empathy": 1.5, "robustness": 1.0})
    with pytest.raises(UsageError, match="blinded"):
        fit_weights(store, "Pairs")
    assert preference_reviews(store) == []
    unblind(store, "Pairs", "Ada")
    fitted = fit_weights(store)
    state = state_of(store, "Pairs")
    sides = {item.item: parse_item(item.item).trials for item in state.items}
    assert {trials[0].partition("/")[0] for trials in sides.values()} == {"one", "two"}  # sides are swapped at random
    figures = conversation_figures(store, [trial for trials in sides.values() for trial in trials])

    def loss(values: np.ndarray) -> float:  # type: ignore[type-arg]
        total = 0.0
        for item, (first, second) in sides.items():
            log_odds = float((figures[first] - figures[second]) @ values)
            for expert in ("Ada", "Ben"):
                sign = 1 if state.value(item, expert, "better") == "first" else -1
                total += math.log1p(math.exp(-sign * log_odds))
        return total

    best = minimize(loss, np.zeros(4), method="BFGS").x
    assert [fitted.parts[part].value for part in PARTS] == pytest.approx(best.tolist(), abs=1e-3)
    assert (fitted.choices, fitted.determined) == (2 * len(CASES), True)
    rows, _ = care(store, "weights")
    assert [row.label["measure"] for row in rows] == list(PARTS)
    assert all((row.low or 0) < (row.estimate or 0) < (row.high or 0) for row in rows)

    unweighted, _ = care(store, "composite")
    weighted, request = care(store, "composite", weights="Pairs")
    assert {row.label["weights"] for row in unweighted} == {"equal"}
    assert {row.label["weights"] for row in weighted} == {"Pairs"}
    note = next(note for note in request.notes if note.kind == "weights")
    assert note.severity == "high"
    assert "Pairs" in note.text


def test_choices_of_conversations_without_a_part_are_excluded_and_counted(store: Store) -> None:
    asked = ["<patient>Where does it hurt?</patient>", "</end>"]
    trials_of(
        store,
        automedic("one", doctor="openai/one"),
        *(a_consultation(n, asked, rating=None if n == 1 else 3, run_id="one") for n in range(1, 5)),
        automedic("two", doctor="openai/two"),
        *(a_consultation(n, asked, rating=4, run_id="two") for n in range(1, 5)),
    )
    plan = planned(kind="care_preference", number=4, annotators=("Ada",), shared=0.0, seed=1)
    plan_review(store, "Pairs", plan)
    for number in range(1, 5):
        record(store, "Pairs", number, "Ada", "better", "cannot judge" if number == 1 else "first")
    unblind(store, "Pairs", "Ada")
    fitted = fit_weights(store, "Pairs")
    assert sum(fitted.excluded.values()) + fitted.choices == 4
    assert fitted.excluded["cannot be judged"] == 1
    assert not fitted.determined
    rows, request = care(store, "weights")
    assert {row.estimate for row in rows} == {None}
    assert [note.severity for note in request.notes if note.kind == "weights"] == ["high"]
    assert care(store, "composite", weights="Pairs")[0] == []
