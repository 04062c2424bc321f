"""Comparison by case: differences and counts by hand; p against the enumeration of all signs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from core.case import case_set_hash
from core.events import Finished
from core.measures.base import Comparison, MetricRequest, Row
from core.measures.compare import report_monitor
from core.measures.comparison import compare_cases, corrected
from core.measures.extent import changed_keys, on_shared_cases, read_extents, shared_keys
from core.measures.notes import result_of
from core.measures.paired import by_arm, compare, format_pairs, is_right, paired_cases, read_scores
from core.measures.ranking import common_cases
from core.stats.corrections import Correction
from core.stats.differences import PairedCounts, mcnemar, paired_difference
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import CaseScore
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal


def score(case: int | str, correct: int, counted: int = 5, **changes: Any) -> CaseScore:
    defaults: dict[str, Any] = {
        "model": "m",
        "format": "vignette",
        "question_type": "mcq",
        "case_key": f"ours/{case}",
        "dataset": "ours",
        "specialty": "Dermatology",
        "correct": correct,
        "counted": counted,
        "excluded": {},
    }
    return CaseScore(**{**defaults, **changes})


def cases(*scores: CaseScore) -> dict[str, CaseScore]:
    return {s.case_key: s for s in scores}


FIRST = cases(score(1, 5), score(2, 0), score(3, 3), score(4, 2), score(5, 1), score(6, 0, 0), score(7, 4))
SECOND = cases(score(1, 5), score(2, 4), score(3, 1), score(4, 2), score(5, 2), score(6, 5), score(8, 5))


def adjusted_p(results: list[Comparison], correction: Correction) -> list[float]:
    rows = corrected([Row({}, None, comparison=result) for result in results], correction)
    return [row.comparison.adjusted_p for row in rows if row.comparison and row.comparison.adjusted_p is not None]


def test_sides_with_two_rules_for_choices_are_marked_as_mixed() -> None:
    same = compare({"ours/1": score(1, 5, rule="mcq_loose")}, {"ours/1": score(1, 3, rule="mcq_loose")})
    assert (same.rules, same.mixed) == (("mcq_loose",), False)
    other = compare({"ours/1": score(1, 5, rule="mcq_loose")}, {"ours/1": score(1, 3, rule="mcq_strict")})
    assert (other.rules, other.mixed) == (("mcq_loose", "mcq_strict"), True)


def test_a_comparison_by_hand() -> None:
    result = compare(FIRST, SECOND)
    # cases 1–5 count on both sides: 1, 0, .6, .4, .2 against 1, .8, .2, .4, .4
    assert result.n == 5
    assert result.first_mean == pytest.approx(0.44)
    assert result.second_mean == pytest.approx(0.56)
    assert result.difference == pytest.approx(0.12)
    assert (result.improved, result.regressed, result.equal) == (2, 1, 2)
    # a case is right if at least half of its trials are: 1 and 3 before, 1 and 2 after
    assert result.counts == PairedCounts(both=1, first_only=1, second_only=1, neither=2)
    assert (result.first_alone, result.second_alone) == (1, 2)


def test_interval_and_p_are_those_of_the_paired_test_and_the_second_side_comes_first_in_it() -> None:
    result = compare(FIRST, SECOND)
    expected = paired_difference([1, 0.8, 0.2, 0.4, 0.4], [1, 0, 0.6, 0.4, 0.2])
    assert (result.low, result.high, result.p) == pytest.approx((*expected.interval, expected.p))
    swapped = compare(SECOND, FIRST)
    assert swapped.difference == pytest.approx(-0.12)
    assert (swapped.low, swapped.high) == pytest.approx((-result.high, -result.low), abs=0.041)
    assert (swapped.improved, swapped.regressed) == (1, 2)
    assert swapped.p == pytest.approx(result.p)


def test_p_equals_the_enumeration_of_all_signs() -> None:
    differences = np.array([0, 0.8, -0.4, 0, 0.2])
    means = np.array([np.mean(differences * signs) for signs in itertools.product((1, -1), repeat=5)])
    expected = np.mean(np.abs(means) >= abs(differences.mean()) - 1e-9)
    assert compare(FIRST, SECOND).p == pytest.approx(expected)


def test_the_normal_interval_is_that_of_the_differences() -> None:
    result = compare(FIRST, SECOND, "normal")
    differences = np.array([0, 0.8, -0.4, 0, 0.2])
    half = 2.7764451052 * differences.std(ddof=1) / 5**0.5
    assert (result.low, result.high) == pytest.approx((0.12 - half, 0.12 + half))
    assert result.p == compare(FIRST, SECOND).p


def test_a_case_is_right_from_half_of_its_trials_on() -> None:
    assert is_right(score(1, 1, 2))
    assert is_right(score(1, 3, 5))
    assert not is_right(score(1, 2, 5))
    assert not is_right(score(1, 0, 0))


def test_equal_shares_of_unequal_numbers_of_trials_are_no_change() -> None:
    (pair,) = paired_cases(cases(score(1, 1, 3)), cases(score(1, 2, 6)))
    assert pair.change == 0
    assert pair.first == pytest.approx(1 / 3)


def test_without_common_cases_nothing_is_claimed() -> None:
    result = compare(cases(score(1, 5)), cases(score(2, 5)))
    assert result.n == 0
    assert np.isnan([result.difference, result.p, result.low, result.first_mean]).all()
    assert np.isnan(adjusted_p([result], "holm")).all()
    assert result.detectable is None


@pytest.fixture
def changed_store(tmp_path: Path) -> Store:
    """Two versions of a model on six cases; cases 5 and 6 have other texts in the second run."""
    store = Store(tmp_path / "cases.duckdb")
    for n, model in enumerate(("openai/a", "openai/b")):
        texts = {case: f"Vignette {case}." if n == 0 or case < 5 else f"Rewritten {case}." for case in range(1, 7)}
        played = [a_case(case, vignette=text) for case, text in texts.items()]
        header = a_header(
            f"run-{n}", played, doctor=model, trials=1, case_set_hash=case_set_hash(played), arms=[("vignette", "mcq")]
        )
        trials = [
            a_trial(
                [answered("vignette", "mcq"), graded("correct", "vignette", "mcq"), Finished(at=2.0)],
                trial_id=f"{n}/{case}",
                run_id=header.run_id,
                case_key=f"ours/{case}",
                trial=0,
            )
            for case in texts
        ]
        write_journal(store.journals, header.run_id, header, *trials)
    fold(store)
    return store


def test_only_cases_with_the_same_content_are_compared(changed_store: Store) -> None:
    scores = by_arm(read_scores(changed_store))
    first, second = (scores[model, "vignette", "mcq"] for model in ("openai/a", "openai/b"))
    result = compare(first, second)
    assert (result.n, result.changed, result.first_alone, result.second_alone) == (4, 2, 0, 0)
    assert [pair.case_key for pair in paired_cases(first, second)] == [f"ours/{n}" for n in range(1, 5)]
    assert len(next(iter(common_cases({"a": first, "b": second}).members.values()))) == 4
    extents = read_extents(changed_store)
    assert changed_keys(extents) == {"ours/5", "ours/6"}
    assert shared_keys(extents) == {f"ours/{n}" for n in range(1, 5)}
    assert {score.case_key for score in on_shared_cases(read_scores(changed_store))} == shared_keys(extents)
    steps = result_of(report_monitor, MetricRequest(changed_store), {"versions": "openai/a,openai/b"})
    ((row,), notes) = steps.rows, [note for note in steps.notes if note.kind == "cases"]
    assert (row["n_cases"], row["n_changed"]) == (4, 2)
    assert [(note.severity, "5, 6" in note.text) for note in notes] == [("high", True)]


def test_flips_give_mcnemars_test_its_counts() -> None:
    first = cases(*(score(i, 5 if i < 2 else 0) for i in range(12)))
    second = cases(*(score(i, 5 if i >= 1 else 0) for i in range(12)))
    result = compare(first, second)
    assert result.counts == PairedCounts(both=1, first_only=1, second_only=10, neither=0)
    # two-sided binomial test of 1 in 11: 2 · (1 + 11) / 2**11
    assert mcnemar(result.counts).p == pytest.approx(24 / 2048)


def test_holm_adjusts_over_all_rows() -> None:
    results = [compare(FIRST, SECOND), compare(FIRST, FIRST), compare(FIRST, SECOND)]
    p = results[0].p
    assert results[1].p == 1
    assert adjusted_p(results, "holm") == pytest.approx([min(1, 3 * p), 1, min(1, 3 * p)])
    assert adjusted_p(results, "none") == pytest.approx([p, 1, p])


def test_each_format_is_compared_with_the_vignette_of_its_own_kind_only() -> None:
    scores = [
        *(score(i, 5) for i in range(4)),
        *(score(i, 1, format="multi_turn") for i in range(4)),
        *(score(i, 2, format="summarized", specialty="Neurology") for i in range(4)),
        *(score(i, 3, format="single_turn", model="no vignette") for i in range(4)),
        *(score(i, 3, format="multi_turn", question_type="frq") for i in range(4)),
    ]
    pairs = format_pairs(scores)
    assert list(pairs) == [("m", "multi_turn", "mcq", None), ("m", "summarized", "mcq", None)]
    assert [result.difference for result in pairs.values()] == pytest.approx([-0.8, -0.6])
    by_specialty = format_pairs(scores, "specialty")
    assert list(by_specialty) == [("m", "multi_turn", "mcq", "Dermatology")]


def test_scores_are_grouped_by_arm_and_case() -> None:
    arms = by_arm([score(1, 5), score(2, 3), score(1, 2, format="multi_turn")])
    assert set(arms) == {("m", "vignette", "mcq"), ("m", "multi_turn", "mcq")}
    assert arms["m", "vignette", "mcq"]["ours/2"].correct == 3


@pytest.mark.parametrize("n", [10, 80, 400])
def test_the_detectable_difference_is_that_of_the_paired_t_test(n: int) -> None:
    first = {str(case): float(case % 2) for case in range(n)}
    second = {str(case): float(case % 5 < 3) for case in range(n)}
    changes = np.array([second[key] - first[key] for key in first])
    result = compare_cases(first, second)
    assert result.detectable is not None
    effect = result.detectable / changes.std(ddof=1)
    assert TTestPower().power(effect, nobs=n, alpha=0.05) == pytest.approx(0.8, abs=1e-6)


def test_values_without_a_limit_are_compared_and_missing_ones_left_out() -> None:
    first = {"a": 10.0, "b": 30.0, "c": float("nan"), "d": 5.0}
    second = {"a": 12.0, "b": 20.0, "c": 8.0}
    result = compare_cases(first, second, most=None)
    assert (result.n, result.first_alone, result.second_alone) == (2, 1, 1)
    assert (result.first_mean, result.second_mean, result.difference) == (20.0, 16.0, -4.0)
    assert (result.improved, result.regressed, result.equal) == (1, 1, 0)
