"""The smallest difference that can be detected: next to figures of several conditions, and in the plan of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.jobs.detectable import StoredVariance, detectable_in_words, stored_variance
from core.measures.accuracy import report
from core.measures.base import MetricRequest, Result
from core.measures.notes import detectable_between, result_of
from core.measures.repeatability import report_power
from core.stats.power import detectable_effect
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.run_cases import Extent
from tests.core.jobs.workshop import begun, go, plan
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.campaigns import beside_rules


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))


def texts(result: Result) -> list[str]:
    return [note.text for note in result.notes if note.kind == "detectable"]


def store_answers(model: str, right: dict[int, str]) -> None:
    """Store answers to the vignette; ``right`` gives for each case its trials as right (1) or wrong (0)."""
    run = f"run-{model}"
    lines = [
        a_trial(
            [answered("vignette", "mcq"), graded("correct" if mark == "1" else "incorrect", "vignette", "mcq")],
            run_id=run,
            trial_id=f"{run}/{case}/{n}",
            case_key=f"ours/{case}",
            trial=n,
        )
        for case, marks in right.items()
        for n, mark in enumerate(marks)
    ]
    arms = [("vignette", "mcq")]
    header = a_header(run, [a_case(n) for n in right], arms=arms, doctor=f"openai/{model}", trials=2, case_set="ours")
    write_journal(Store().journals, run, header, *lines)
    fold(Store())


FIRST = {1: "11", 2: "11", 3: "10", 4: "00"}
SECOND = {1: "11", 2: "00", 3: "00", 4: "01"}


@pytest.mark.slow
def test_figures_of_two_conditions_have_the_smallest_difference_between_them() -> None:
    store_answers("a", FIRST)
    assert texts(result_of(report, MetricRequest(Store()))) == [], "nothing is compared"
    store_answers("b", SECOND)
    (text,) = texts(result_of(report, MetricRequest(Store())))
    # changes 0, −1, −1/2 and +1/2; 1 of 4 cases flips under each model
    size = float(np.std([0, -1, -0.5, 0.5], ddof=1)) * detectable_effect(4)
    assert f"{size:.3g} (with 4 cases × 2 trials, 25 % of which flip)" in text


def test_the_range_is_over_all_pairs_and_figures() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        [
            (model, figure, f"case/{n}", float(rng.integers(0, 2)))
            for figure, n_cases in (("few", 5), ("many", 80))
            for model in "abc"
            for n in range(n_cases)
        ],
        columns=["model", "figure", "case_key", "value"],
    )
    (note,) = detectable_between(table)
    assert "(with 80 cases)" in note.text
    assert "(with 5 cases)" in note.text


def test_conditions_that_never_differ_have_no_note() -> None:
    columns = ["model", "figure", "case_key", "value"]
    table = pd.DataFrame([(model, "x", f"case/{n}", 1.0) for model in "ab" for n in range(9)], columns=columns)
    assert not list(detectable_between(table))
    assert not list(detectable_between(None))


def test_only_cases_with_the_same_content_are_paired() -> None:
    """Case 3 has another text under b: of the differences 1, −1 and 0, the last is not one."""
    columns = ["model", "figure", "case_key", "value"]
    values = {"a": (1.0, 0.0, 1.0), "b": (0.0, 1.0, 1.0)}
    table = pd.DataFrame(
        [(model, "x", f"ours/{n}", value) for model, of in values.items() for n, value in enumerate(of, 1)],
        columns=columns,
    )

    def extent(model: str, third: int) -> Extent:
        contents = {"ours/1": 1, "ours/2": 2, "ours/3": third}
        return Extent(model, "ours", 3, 3, 0, frozenset(contents), 3, contents=contents)

    for other, n in ((3, 3), (4, 2)):
        (note,) = detectable_between(table, [extent("a", 3), extent("b", other)])
        assert f"(with {n} cases)" in note.text
    (note,) = detectable_between(table.replace({"model": {"b": "pool"}}), [extent("a", 3), extent("b", 4)])
    assert "(with 2 cases)" in note.text, "the name is no condition: the case may be the changed one"


def test_a_plan_uses_the_variance_of_a_run_on_the_same_cases() -> None:
    store_answers("a", {n: ("11", "10", "00", "01")[n % 4] for n in range(12)})
    variance = stored_variance(Store(), "craftmd", "ours", "openai/a")
    assert variance.run_id == "run-a"
    campaign = plan(30, arms=(("vignette", "mcq"),), trials=3)
    (planned,) = [
        row
        for row in result_of(report_power, MetricRequest(Store()), {"planned": 30}).rows
        if not hasattr(row, "label") and row["trials"] == 3
    ]
    words = detectable_in_words(campaign, variance)
    assert f"{planned['detectable_difference']:.3f} (vignette:mcq)" in words
    assert "run-a of openai/a" in words
    fewer = detectable_in_words(plan(8, arms=(("vignette", "mcq"),), trials=3), variance)
    assert fewer != words, "a limit of cases does not change the difference"


@pytest.mark.slow
def test_the_newest_run_of_the_doctor_precedes_others() -> None:
    store_answers("a", FIRST)
    store_answers("b", SECOND)
    assert stored_variance(Store(), "craftmd", "ours", "openai/a").doctor == "openai/a"
    assert stored_variance(Store(), "craftmd", "ours", "openai/b").doctor == "openai/b"
    assert stored_variance(Store(), "craftmd", "ours", "openai/c").doctor in ("openai/a", "openai/b")
    assert stored_variance(Store(), "craftmd", "other", "openai/a").by_arm == {}


def test_without_such_a_run_the_plan_names_the_release() -> None:
    words = detectable_in_words(plan(20, trials=5), StoredVariance())
    assert "Johri et al. 2025" in words
    assert detectable_in_words(plan(1), StoredVariance()) == "", "one case compares nothing"


def test_a_run_with_one_trial_has_no_variance() -> None:
    go(begun(plan(4, names=beside_rules("reference/bayes"))))
    fold(Store())
    assert stored_variance(Store(), "craftmd", "small", "reference/bayes").by_arm == {}


def test_values_over_trials_without_flips_have_a_note_without_trials() -> None:
    """As the means of a measure's scores, which need not be right or wrong."""
    table = pd.DataFrame(
        [
            (model, "recall", f"case/{n}", value, 2)
            for model in "ab"
            for n, value in enumerate((0.2, 0.4, 0.9 - (model == "a")))
        ],
        columns=["model", "figure", "case_key", "value", "trials"],
    )
    (note,) = detectable_between(table)
    assert "(with 3 cases)" in note.text
