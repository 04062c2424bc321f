"""Verdicts of graders on choices next to those of the rules."""

from __future__ import annotations

import pytest

from core.measures.graders.choices import agreement_rows
from core.store.queries.choice_verdicts import ChoiceVerdicts

ARM = ("openai/a", "vignette", "mcq", "mcq_loose")


def test_agreement_and_both_accuracies_by_hand() -> None:
    counts = [
        ChoiceVerdicts(*ARM, None, "set/1", "correct", None, 3),
        ChoiceVerdicts(*ARM, None, "set/2", "incorrect", None, 5),
        ChoiceVerdicts(*ARM, "openai/g", "set/1", "correct", "correct", 2),
        ChoiceVerdicts(*ARM, "openai/g", "set/1", "correct", "incorrect", 1),
        ChoiceVerdicts(*ARM, "openai/g", "set/2", "incorrect", "correct", 1),
        ChoiceVerdicts(*ARM, "openai/g", "set/2", "incorrect", "no_diagnosis", 2),
        ChoiceVerdicts(*ARM, "openai/g", "set/2", "incorrect", "ungradable", 1),
    ]
    (row,) = agreement_rows(counts)
    # 2 + 2 of 6 answers agree; by the grader 2/3 of the first case and 1/3 of the second are right
    assert (row.estimate, row.n) == (pytest.approx(4 / 6), 6)
    assert (row["rule_only"], row["grader_only"]) == (1, 1)
    assert (row["by_rule"], row["by_grader"]) == (pytest.approx((1 + 0) / 2), pytest.approx((2 / 3 + 1 / 3) / 2))
    assert row.excluded == {"ungradable": 1, "not judged by this grader": 1}
    assert row.low is not None
    assert row.high is not None
    assert row.low < 4 / 6 < row.high
