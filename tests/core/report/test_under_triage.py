"""The break ``under_triage``: severe under-triage that is new fails a gate; an unanswered case decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from core.report.breaks import Breaks, find_breaks
from core.report.gate import GateResult, GateRule, gate, run_side
from core.store.database import Store
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing
from tests.support.urgency_doctors import asked, says, set_levels, write_conversations

CASES = {1: 2, 2: 1, 3: 1, 4: 1, 5: 1}
"""Case → its number of trials."""
LEVELS = {1: 2, 2: 1, 3: 2, 4: 3, 5: 4}
OLD = {
    "1.0": says(2),
    "1.1": says(3),
    "2.0": says(3),  # severe before
    "3.0": says(3),
    "4.0": says(5),  # severe before, gone later
    "5.0": says(5),
}
NEW = {
    "1.0": says(2),
    "1.1": says(4),  # severe in one of two trials, and in none of the reference
    "2.0": says(5),
    "3.0": says(3),  # one level too late
    "4.0": says(4),
    "5.0": says(3),
}


def breaks(store: Store) -> Breaks:
    return find_breaks("under_triage", store, "new", "old")


def gated(store: Store) -> GateResult:
    rule = GateRule("multi_turn:frq", margin=0.1, breaks=("under_triage",))
    return gate(store, run_side(store, "new"), run_side(store, "old"), rule)


@pytest.fixture
def two_runs(store: Store) -> Store:
    for run_id in ("old", "new"):
        write_conversations(store, run_id, CASES, doctor=f"openai/{run_id}")
    return store


@pytest.mark.slow
def test_severe_under_triage_that_is_new_fails(two_runs: Store, fake_provider_thread: FakeProvider) -> None:
    set_levels(two_runs, LEVELS)
    asked(two_runs, fake_provider_thread, OLD, "old")
    asked(two_runs, fake_provider_thread, NEW, "new")
    compared = breaks(two_runs)
    assert compared.failures == ("ours/1: 4 by appointment instead of 2 within hours (1 of 2 trials)",)
    assert (compared.gone, compared.compared, compared.undecided, compared.problem) == (1, 5, 0, "")


def test_the_gate_fails_says_why_and_does_not_decide_without_answers(
    store: Store, fake_provider_thread: FakeProvider
) -> None:
    for run_id in ("old", "new"):
        write_conversations(store, run_id, {1: 1, 2: 1}, doctor=f"openai/{run_id}")
    set_levels(store, {1: 2, 2: 2})
    asked(store, fake_provider_thread, {"1.0": says(2), "2.0": says(2)}, "old")
    asked(store, fake_provider_thread, {"1.0": says(2), "2.0": failing(500)}, "new")
    result = gated(store)
    assert (result.verdict, result.status) == ("cannot say", 2)
    assert "Break under_triage: 1 of 2 cases have no verdict." in result.reason
    asked(store, fake_provider_thread, {"2.0": says(4)}, "new")
    result = gated(store)
    assert (result.verdict, result.status) == ("fail", 1)
    assert "ours/2: 4 by appointment instead of 2 within hours" in result.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [({}, {}, "the doctor of new was not asked"), ({}, NEW, "the doctor of old was not asked")],
)
def test_a_run_that_was_not_asked_decides_nothing(
    two_runs: Store,
    fake_provider_thread: FakeProvider,
    old: Mapping[str, Reply | str],
    new: Mapping[str, Reply | str],
    problem: str,
) -> None:
    set_levels(two_runs, LEVELS)
    for run_id, replies in (("old", old), ("new", new)):
        if replies:
            asked(two_runs, fake_provider_thread, replies, run_id)
    assert breaks(two_runs).problem.startswith(problem)


@pytest.mark.slow
def test_unanswered_cases_and_cases_without_a_level_are_undecided_and_no_failures(
    two_runs: Store, fake_provider_thread: FakeProvider
) -> None:
    asked(two_runs, fake_provider_thread, OLD, "old")
    asked(two_runs, fake_provider_thread, {**NEW, "1.1": failing(500), "3.0": failing(500)}, "new")
    assert "no case of new has a level" in breaks(two_runs).problem
    set_levels(two_runs, {case: level for case, level in LEVELS.items() if case != 5})
    compared = breaks(two_runs)
    assert (compared.failures, compared.compared, compared.undecided) == ((), 5, 2)


@pytest.mark.slow
def test_a_reference_that_nobody_answered_on_a_case_makes_no_failure_new(
    two_runs: Store, fake_provider_thread: FakeProvider
) -> None:
    set_levels(two_runs, LEVELS)
    asked(two_runs, fake_provider_thread, {**OLD, "1.0": failing(500), "1.1": says(2, "I invent this")}, "old")
    asked(two_runs, fake_provider_thread, NEW, "new")
    compared = breaks(two_runs)
    assert (compared.failures, compared.undecided) == ((), 1)
