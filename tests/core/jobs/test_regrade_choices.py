"""Graders that judge answers with four choices, next to the rules."""

from __future__ import annotations

import pytest

from core.cli.app import main
from core.measures.accuracy import accuracy
from core.measures.base import MetricRequest
from core.measures.graders.report import report_choices as report
from core.store.database import Store
from core.store.queries.grades import grade_history
from tests.core.jobs.regrading import a_run, again, judged_before
from tests.support.fake_provider import FakeProvider


def test_a_grader_judges_four_choices_without_changing_the_accuracy(provider: FakeProvider) -> None:
    header = a_run(provider)
    by_rule = {row["question_type"]: row.estimate for row in accuracy(Store())}
    outcome = again(header, provider, "openai/kind", types=("mcq",))
    assert (outcome.done, len(provider.requests)) == (4, 2)  # equal answers are asked about once
    assert {row["question_type"]: row.estimate for row in accuracy(Store())} == by_rule
    assert judged_before(again(header, provider, "openai/kind", types=("mcq",))) == ("openai/kind", 4)
    rows = list(report.rows(MetricRequest(Store())))
    # both rules call "Podagra" wrong, the grader calls it right
    assert [(row["rule"], row["agreement"], row["by_rule"], row["by_grader"]) for row in rows] == [
        ("mcq_loose", 0.0, 0.0, 1.0),
        ("mcq_strict", 0.0, 0.0, 1.0),
    ]
    differing = list(report.rows(MetricRequest(Store()), part="differences"))
    assert {(line["case"], line["read_as"], line["by_grader"]) for line in differing} == {
        (f"small/{n}", "Podagra", "correct") for n in range(4)
    }
    with Store().read() as cursor:
        stored = grade_history(cursor, differing[0]["trial_id"])
    assert [(grade.rule, grade.verdict) for grade in stored if grade.grader == "openai/kind"] == [
        ("mcq_graded", "correct")
    ]


def test_without_such_verdicts_the_report_says_how_to_get_them(
    provider: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(provider)
    assert main(["report", "graded_choices"]) == 1
    assert "job regrade --types mcq --grader MODEL" in capsys.readouterr().err
