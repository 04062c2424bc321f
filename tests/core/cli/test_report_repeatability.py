"""``report repeatability`` and ``report power`` from end to end, with figures calculated by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.cli.app import main
from core.measures.base import MetricRequest
from core.measures.repeatability import report_power
from core.store.database import Store
from core.store.queries.answers import CaseScore
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal

Captured = pytest.CaptureFixture[str]


def store_answers(run: str, right: dict[int, str]) -> None:
    """Store answers to the vignette; ``right`` gives for each case its trials as right (1) or wrong (0)."""
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
    header = a_header(run, [a_case(n) for n in right], arms=[("vignette", "mcq")], doctor=f"openai/{run}")
    write_journal(Store().journals, run, header, *lines)


def report(capsys: Captured, *given: str) -> list[dict[str, Any]]:
    assert main(["report", *given, "--format", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_trials_of_three_cases(capsys: Captured) -> None:
    store_answers("a", {1: "11", 2: "10", 3: "00", 4: "1"})
    rows = {row["figure"]: row for row in report(capsys, "repeatability")}
    # (1 + 1/2 + 0 + 1) / 4; of the three cases with two trials one is right twice and one disagrees
    assert (rows["pass^1"]["value"], rows["pass^1"]["n_cases"]) == (0.625, 4)
    assert (rows["pass^2"]["value"], rows["pass^2"]["n_cases"]) == (pytest.approx(1 / 3), 3)
    assert rows["pass^2"]["excluded"] == {"too few trials": 1}
    assert rows["flip rate"]["value"] == pytest.approx(1 / 3)
    assert 0 <= rows["flip rate"]["ci_low"] < 1 / 3 < rows["flip rate"]["ci_high"] <= 1
    # squares within: 1/2 on 7 − 4 degrees of freedom
    assert rows["variance within cases"]["value"] == pytest.approx(1 / 6)
    assert rows["ICC"]["ci_low"] <= rows["ICC"]["value"] <= rows["ICC"]["ci_high"]


@pytest.mark.slow
def test_planning_from_the_stored_variance(capsys: Captured) -> None:
    marks = {n: ("111", "110", "000", "100")[n % 4] for n in range(1, 13)}
    store_answers("a", marks)
    store_answers("b", {n: text[::-1] for n, text in marks.items()})
    plans = {row["trials"]: row for row in report(capsys, "power", "--models", "openai/a", "--difference", "0.1")}
    assert list(plans) == [1, 2, 3, 5, 10]
    assert all(row["conversations"] == row["cases"] * row["trials"] for row in plans.values())
    assert plans[10]["cases"] < plans[1]["cases"], "more trials reduce the noise of sampling"
    needed = plans[3]["cases"]
    detectable = {
        row["trials"]: row for row in report(capsys, "power", "--models", "openai/a", "--planned", str(needed))
    }
    assert detectable[3]["detectable_difference"] == pytest.approx(0.1, abs=0.002)
    both = report(capsys, "power", "--beside", "openai/b", "--difference", "0.1")
    assert {row["model"] for row in both} == {"openai/a"}
    # both are equally often right on every case: they differ only by trial
    assert all(row["cases"] < plans[row["trials"]]["cases"] for row in both)


def test_a_plan_that_means_nothing_is_refused(capsys: Captured) -> None:
    store_answers("a", {1: "11", 2: "10"})
    for options, word in (
        (["--difference", "0"], "--difference"),
        (["--difference", "1.5"], "--difference"),
        (["--target", "1"], "--target"),
        (["--planned", "1"], "--planned"),
        (["--beside", "openai/a"], "itself"),
    ):
        assert main(["report", "power", *options]) == 2
        assert word in capsys.readouterr().err


def test_two_models_are_planned_for_on_the_cases_with_equal_content() -> None:
    """Case 3 differs under b: alone it would make the models differ."""

    def score(model: str, case: int, correct: int, content: int) -> CaseScore:
        return CaseScore(model, "vignette", "mcq", f"ours/{case}", None, None, correct, 2, {}, content=content)

    def planned(content: int) -> list[Any]:
        rights = {"a": (2, 0, 2, 1), "b": (2, 0, 0, 1)}
        scores = [
            score(model, case, right, content if (model, case) == ("b", 3) else 1)
            for model, of in rights.items()
            for case, right in enumerate(of, 1)
        ]
        request = MetricRequest(Store(), query=lambda query, *given: scores)
        return list(report_power.rows(request, beside="b", planned=50))

    sizes = {content: planned(content)[0]["detectable_difference"] for content in (1, 2)}
    assert sizes[2] < sizes[1]


@pytest.mark.slow
def test_without_repeated_trials_the_report_says_what_to_do(capsys: Captured) -> None:
    assert main(["report", "repeatability"]) == 1
    assert "--trials" in capsys.readouterr().err
    store_answers("a", {1: "1", 2: "0"})
    assert {row["figure"] for row in report(capsys, "repeatability")} == {"pass^1"}
    assert main(["report", "power"]) == 1
    assert "two trials" in capsys.readouterr().err
    assert main(["report", "power", "--beside", "openai/x"]) == 2
    assert "openai/x" in capsys.readouterr().err
