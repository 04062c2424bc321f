"""Queries about graders: who judged, who contradicted itself, where two differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.measures.base import Row
from core.measures.graders.agreement import flip_rates
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.grades_by_grader import (
    DifferenceFilter,
    count_differences,
    difference_at,
    differences,
    stored_graders,
)
from core.store.selection import Selection
from tests.core.measures.graders.graded import OTHER, OWN, THIRD, judge_again, three_graders
from tests.core.store.builders import graded, grades, write_journal
from tests.support.stores import copy_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(three_graders, tmp_path)


def test_who_judged_what(store: Store) -> None:
    judge_again(store, OTHER, {"t000": "correct"}, 60.0, "abc")
    judge_again(store, OTHER, {"t021": "provider_error"}, 70.0, "abc")
    with store.read() as cursor:
        held = {one.grader: one for one in stored_graders(cursor)}
        narrowed = stored_graders(cursor, Selection(runs=["run1"]))
    assert (held[OWN].answers, held[OWN].verdicts, held[OWN].prompts) == (11, 11, ())
    assert (held[OTHER].answers, held[OTHER].verdicts, held[OTHER].prompts) == (5, 6, ("abc",))
    assert held[OTHER].newest_at == 60.0  # a failure is no verdict
    assert [(one.grader, one.answers) for one in narrowed] == [(OWN, 5)]


def test_a_releases_grader_is_one_whatever_its_doctors_were_told(store: Store) -> None:
    """The hash that a release's run has is that of its doctor's prompt, and says nothing of its grader's."""
    with store.write() as connection:
        connection.execute("UPDATE runs SET prompt_hash = 'doctor ' || run_id")
    with store.read() as cursor:
        assert {one.grader for one in stored_graders(cursor)} > {f"{OWN} · prompts of doctor"}
    with store.write() as connection:
        connection.execute("UPDATE runs SET source = 'release'")
    with store.read() as cursor:
        own = [one for one in stored_graders(cursor) if one.grader.startswith(OWN)]
    assert [(one.grader, one.answers) for one in own] == [(OWN, 11)]


def flips(store: Store) -> dict[tuple[str, str], Row]:
    """Return (grader, what it met again) → its row."""
    return {(row["grader"], row["judged_again"].removeprefix("the same ")): row for row in flip_rates(store)}


def test_the_same_words_and_the_same_answer_judged_again(store: Store) -> None:
    found = flips(store)
    # the other grader met "Eczema" three times, once wrong; "Gout" twice, both ways
    other = found[OTHER, "response"]
    assert (other.n, other["both_ways"], other.estimate) == (2, 2, 1.0)
    assert (OTHER, "answer") not in found  # no answer was judged twice
    judge_again(store, OTHER, {"t000": "incorrect", "t010": "correct"}, 60.0, "abc")
    judge_again(store, OTHER, {"t011": "correct"}, 60.0, "other prompts")
    again = flips(store)[f"{OTHER} · prompts abc", "answer"]
    # other prompts are no contradiction: t011 was not judged again under the same
    assert (again.n, again["both_ways"], again["verdicts"]) == (2, 1, 4)
    assert again.low <= 0.5 <= again.high


def test_a_verdict_taken_over_is_not_a_second_judgement(store: Store) -> None:
    for name, at in (("t100", 80.0), ("t101", 81.0), ("t110", 82.0)):
        calls = ("c1",) if name != "t110" else ("c2",)
        verdict = graded("incorrect", grader="openai/k", at=at, call_ids=calls, extracted="gout")
        write_journal(store.journals, "run1", grades(name, verdict, run_id="run1"))
    fold(store)
    found = flips(store)
    assert (found["openai/k", "response"].n, found["openai/k", "response"]["verdicts"]) == (1, 2)


def test_a_diagnosis_that_one_call_judged_for_two_answers_was_judged_once(store: Store) -> None:
    for name, at in (("t100", 80.0), ("t101", 81.0)):  # each response was read by a call of its own
        verdict = graded("incorrect", grader="openai/k", at=at, call_ids=(f"read {name}", "judged"), extracted="gout")
        write_journal(store.journals, "run1", grades(name, verdict, run_id="run1"))
    fold(store)
    found = flips(store)
    assert ("openai/k", "diagnosis") not in found
    assert found["openai/k", "response"]["verdicts"] == 2


def test_where_two_graders_differ(store: Store) -> None:
    wanted = DifferenceFilter((OWN, OTHER))
    with store.read() as cursor:
        assert count_differences(cursor, wanted) == {"first": 1, "second": 1}
        found = differences(cursor, wanted)
        assert [(one.trial_id, one.direction) for one in found] == [("t001", "second"), ("t011", "first")]
        one = found[0]
        assert (one.case_key, one.trial, one.answer, one.response) == ("ours/0", 1, "Eczema", "Gout")
        assert (one.first_grader, one.first_verdict, one.first_extracted) == (OWN, "incorrect", "Gout")
        assert (one.second_grader, one.second_verdict, one.second_extracted) == (OTHER, "correct", "Eczema")
        assert differences(cursor, wanted, 1, 1) == found[1:]
        assert differences(cursor, DifferenceFilter((OWN, OTHER), directions=("first",))) == found[1:]
        assert differences(cursor, DifferenceFilter((OWN, OTHER), Selection(case_sets=["elsewhere"]))) == []
        assert (
            differences(cursor, DifferenceFilter((OWN, OTHER), Selection(case_sets=["ours"], models=["openai/b"])))
            == []
        )
        assert difference_at(cursor, wanted, "t011", "multi_turn", "frq") == found[1]
        assert difference_at(cursor, wanted, "t000", "multi_turn", "frq") is None


def test_the_newest_verdict_against_the_one_before_whoever_gave_it(store: Store) -> None:
    with store.read() as cursor:
        found = {one.trial_id: one for one in differences(cursor, DifferenceFilter())}
    # t001: own no, other yes, third yes → the last two agree; t010: yes, yes, no; t011: yes, no, yes
    assert set(found) == {"t010", "t011"}
    assert (found["t010"].first_grader, found["t010"].second_grader) == (OTHER, THIRD)
    assert (found["t010"].first_verdict, found["t010"].second_verdict) == ("correct", "incorrect")
