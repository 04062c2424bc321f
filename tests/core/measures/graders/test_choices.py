"""Verdicts of graders on choices next to those of the rules."""

from __future__ import annotations

import pytest

from core.events import Verdict
from core.measures.graders.agreement import VerdictTable
from core.measures.graders.report import choice_rows
from core.store.queries.grades import VerdictCount


def test_agreement_and_both_accuracies_by_hand() -> None:
    def count(case: str, n: int, *verdicts: Verdict | None) -> VerdictCount:
        return VerdictCount("openai/a", "vignette", "mcq", case, None, None, "run", None, n, verdicts)

    counts = [
        count("set/1", 2, "correct", None, "correct"),
        count("set/1", 1, "correct", None, "incorrect"),
        count("set/2", 1, "incorrect", None, "correct"),
        count("set/2", 2, "incorrect", None, "no_diagnosis"),
        count("set/2", 1, "incorrect", None, "ungradable"),
        count("set/2", 1, "incorrect", None, None),
    ]
    (row,) = choice_rows(VerdictTable(("mcq_loose", "mcq_strict", "openai/g"), counts))
    # 2 + 2 of 6 answers agree; by the grader 2/3 of the first case and 1/3 of the second are right
    assert (row.estimate, row.n) == (pytest.approx(4 / 6), 6)
    assert (row["rule_only"], row["grader_only"]) == (1, 1)
    assert (row["by_rule"], row["by_grader"]) == (pytest.approx((1 + 0) / 2), pytest.approx((2 / 3 + 1 / 3) / 2))
    assert row.excluded == {"ungradable": 1, "not judged by this grader": 1}
    assert row.low is not None
    assert row.high is not None
    assert row.low < 4 / 6 < row.high
