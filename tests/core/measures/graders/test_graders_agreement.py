"""Agreement of three graders, on verdicts that can be counted by hand."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.measures.base import Row
from core.measures.graders.agreement import VerdictTable, agreement_rows, crossed_rows, read_judged
from core.store.database import Store
from tests.core.measures.graders.graded import DOCTORS, OTHER, OWN, THIRD, judge_again


def of_graders(judged: VerdictTable, *graders: str, verdicts: str = "right or not") -> dict[str, Row]:
    """Return the agreement rows of these graders on the first doctor's answers, by measure."""
    label = {"graders": ", ".join(graders), "model": DOCTORS[0], "verdicts": verdicts}
    return {row["measure"]: row for row in agreement_rows(judged) if label.items() <= row.label.items()}


def test_agreement_by_hand(store: Store) -> None:
    judged = read_judged(store)
    assert judged.judges == (OWN, OTHER, THIRD)  # the grader with the most verdicts comes first
    pair = of_graders(judged, OWN, OTHER)
    agreed = pair["percent agreement"]
    # they agree on three of five common answers; the other grader has not judged the sixth
    assert (agreed.n, agreed["n_cases"], agreed["left_out"]) == (5, 3, 1)
    assert agreed.estimate == pytest.approx(3 / 5)
    # both call three of five right: agreement by chance is .6·.6 + .4·.4 = .52
    assert pair["Cohen's kappa"].estimate == pytest.approx((0.6 - 0.52) / (1 - 0.52))
    # AC1: agreement by chance is 2 · .6 · .4 = .48
    assert pair["Gwet's AC1"].estimate == pytest.approx((0.6 - 0.48) / (1 - 0.48))
    assert agreed.low < 3 / 5 < agreed.high
    # only one grader judged the second doctor's answers
    assert {row["model"] for row in agreement_rows(judged)} == {DOCTORS[0]}
    common = of_graders(judged, OWN, OTHER, THIRD)
    # all three on what all judged
    agreed = common["percent agreement"]
    # right by (own, other, third): 1 1 1 · 0 1 1 · 1 1 0 · 1 0 1: one answer with full agreement, three with 1/3
    assert (agreed.n, agreed["left_out"]) == (4, 2)
    assert agreed.estimate == pytest.approx((1 + 3 / 3) / 4)
    # 9 of 12 verdicts are right: agreement by chance is .75² + .25²
    assert common["Fleiss' kappa"].estimate == pytest.approx((0.5 - 0.625) / (1 - 0.625))
    assert "Fleiss' kappa" not in of_graders(judged.of([OWN, OTHER]), OWN, OTHER)
    rows = list(crossed_rows(judged.of([OWN, OTHER])))
    crossed = {(row["first_verdict"], row["second_verdict"]): (row.n, row.estimate) for row in rows}
    assert crossed == {
        ("correct", "correct"): (2, pytest.approx(2 / 3)),
        ("correct", "incorrect"): (1, pytest.approx(1 / 3)),
        ("incorrect", "correct"): (1, 0.5),
        ("incorrect", "incorrect"): (1, 0.5),
    }
    assert {(row["first"], row["second"], row["model"]) for row in rows} == {(OWN, OTHER, DOCTORS[0])}
    with pytest.raises(UsageError, match="No grader 'openai/x' has judged these answers, only openai/g"):
        judged.of([OWN, "openai/x"])


def test_agreement_on_all_kinds_is_lower_than_on_right_or_not(store: Store) -> None:
    judge_again(store, OTHER, {"t021": "incorrect"}, 40.0, "abc")  # the run's own grader: no diagnosis
    judged = read_judged(store, [OWN, OTHER])
    assert of_graders(judged, OWN, OTHER)["percent agreement"].estimate == pytest.approx(4 / 6)
    kinds = of_graders(judged, OWN, OTHER, verdicts="all kinds")
    assert kinds["percent agreement"].estimate == pytest.approx(3 / 6)


def test_the_newest_verdict_counts_but_never_a_providers_failure(store: Store) -> None:
    judge_again(store, OTHER, {"t001": "incorrect"}, 40.0, "abc")
    judge_again(store, OTHER, {"t000": "provider_error"}, 50.0, "abc")
    agreed = of_graders(read_judged(store, [OWN, OTHER]), OWN, OTHER)["percent agreement"]
    assert (agreed.n, agreed.estimate) == (5, pytest.approx(4 / 5))
