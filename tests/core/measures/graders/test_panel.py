"""Accuracy by grader and by panel, counted by hand."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.events import Verdict
from core.measures.accuracy import accuracy
from core.measures.base import Row
from core.measures.graders.agreement import (
    PANEL,
    VerdictTable,
    accuracy_by_judge,
    corrected_by_judge,
    majority,
    members,
    read_judged,
)
from core.store.database import Store
from core.store.queries.grades import VerdictCount
from tests.core.measures.graders.graded import DOCTORS, OTHER, OWN, THIRD, store_graded

A = DOCTORS[0]


def rows(store: Store, *panel: str, common: bool = False) -> dict[tuple[str, str], Row]:
    return {(row["judge"], row["model"]): row for row in accuracy_by_judge(read_judged(store), panel, common=common)}


def test_a_majority_is_more_than_half_of_all_members() -> None:
    assert majority(["correct", "correct", "incorrect"]) == "correct"
    assert majority(["correct", "multiple", "no_diagnosis"]) == "incorrect"
    assert majority(["correct", "incorrect"]) is None  # a tie
    assert majority(["correct", "correct", None]) is None  # not all have judged
    assert majority(["correct", "correct", "ungradable"]) is None  # an ungradable verdict is no vote


def test_with_one_grader_the_accuracy_is_that_of_the_accuracy_page(store: Store) -> None:
    one_grader_store = Store(store.path.with_name("alone.duckdb"))
    store_graded(one_grader_store)
    by_grader, plain = accuracy_by_judge(read_judged(one_grader_store)), accuracy(one_grader_store)
    assert len(by_grader) == len(plain) > 0
    for judge_row, row in zip(by_grader, plain, strict=True):
        assert {**judge_row.label, "rule": "frq"} == {"judge": OWN, **row.label}
        assert (judge_row.estimate, judge_row.low, judge_row.high, judge_row.n) == (
            row.estimate,
            row.low,
            row.high,
            row.n,
        )
        assert (judge_row.excluded, judge_row["n_trials"]) == (row.excluded, row["n_trials"])


def test_graders_and_panels_by_hand(store: Store) -> None:
    by_judge = rows(store)
    # case scores: OWN ½, 1, 0; OTHER 1, ½, 0 with one answer not judged; THIRD 1, ½ and a case without a verdict
    for judge, mean, cases, trials, excluded in ((OWN, 0.5, 3, 6, 0), (OTHER, 0.5, 3, 5, 1), (THIRD, 0.75, 2, 4, 2)):
        row = by_judge[judge, A]
        assert (row.estimate, row.n, row["n_trials"], row["n_excluded"]) == (mean, cases, trials, excluded), judge
        assert row.excluded == ({"ungraded": excluded} if excluded else {})
    # the other grader judged nothing of the second doctor
    assert {judge for judge, model in by_judge if model == DOCTORS[1]} == {OWN}
    three = rows(store, OWN, OTHER, THIRD)[PANEL, A]
    # on all four common answers two of three say right
    assert (three.estimate, three["n_trials"], three["ties"]) == (1.0, 4, 0)
    assert three.excluded == {"ungraded": 2}
    two = rows(store, OWN, OTHER)[PANEL, A]
    # both agree: t000 right, t010 right, t020 not; t001 and t011 are ties, t021 has one verdict only
    assert (two.estimate, two["n_trials"], two["ties"]) == (pytest.approx(2 / 3), 3, 2)
    assert two.excluded == {"ungraded": 3}
    # only the answers that all judged
    common = rows(store, common=True)
    own = common[OWN, A]
    assert (own.estimate, own["n_trials"]) == (0.75, 4)  # cases ½ and 1
    assert common[OTHER, A]["n_trials"] == 4


def test_a_grader_that_judged_nothing_of_a_run_has_no_part_in_it() -> None:
    def count(run: str, case: str, invalid: Verdict | None, *verdicts: Verdict | None) -> VerdictCount:
        return VerdictCount(A, "multi_turn", "frq", case, None, None, run, invalid, 1, verdicts)

    # a blank answer counts as wrong without a grader
    own_run = [count("r1", "c/1", "empty", None, None), count("r1", "c/2", None, "correct", None)]
    (own,) = accuracy_by_judge(VerdictTable((OWN, OTHER), own_run))
    assert (own.label["judge"], own.estimate, own.n) == (OWN, 0.5, 2)
    assert len(accuracy_by_judge(VerdictTable((OWN, OTHER), own_run), (OWN, OTHER))) == 1  # nor has the panel
    other_run = [count("r2", "c/1", "empty", None, None), count("r2", "c/3", None, None, "correct")]
    rows = accuracy_by_judge(VerdictTable((OWN, OTHER), [*own_run, *other_run]))
    assert [(row.label["judge"], row.estimate, row["n_trials"]) for row in rows] == [(OWN, 0.5, 2), (OTHER, 0.5, 2)]


def test_a_panel_has_two_members_or_more_each_once() -> None:
    assert members(" a, b ,c") == ["a", "b", "c"]
    for wrong in ("a", "a,a", "a,b,a"):
        with pytest.raises(UsageError, match="A panel needs two or more"):
            members(wrong)


def test_nothing_is_corrected_without_experts(store: Store) -> None:
    assert corrected_by_judge(store, [OWN], [OWN, OTHER]) == []
