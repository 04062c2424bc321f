"""Queries about graders: their verdicts, repeated judgements that contradict each other, differences of two graders."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.measures.base import Row
from core.measures.graders.agreement import flip_rates
from core.store.conditions import ACCEPTED, RunJudge, counting_judges
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.grades import differences, stored_graders
from core.store.selection import Selection
from tests.core.measures.graders.graded import OTHER, OWN, THIRD, judge_again, three_graders
from tests.core.store.builders import graded, grades, write_journal
from tests.support.stores import copy_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(three_graders, tmp_path)


@pytest.mark.slow
def test_graders_are_listed_with_their_answers_verdicts_and_prompts(store: Store) -> None:
    judge_again(store, OTHER, {"t000": "correct"}, 60.0, "abc")
    judge_again(store, OTHER, {"t021": "provider_error"}, 70.0, "abc")
    with store.read() as cursor:
        graders = {grader["grader"]: grader for grader in stored_graders(cursor)}
        narrowed = stored_graders(cursor, Selection(runs=["run1"]))
    assert (graders[OWN]["answers"], graders[OWN]["verdicts"], graders[OWN]["prompts"]) == (11, 11, [])
    # a failure is no verdict
    assert graders[OTHER] == {"grader": OTHER, "answers": 5, "verdicts": 6, "prompts": ["abc"], "newest": 60.0}
    assert [(grader["grader"], grader["answers"]) for grader in narrowed] == [(OWN, 5)]


def test_the_prompts_of_a_releases_doctors_do_not_split_its_grader(store: Store) -> None:
    """The prompt hash of a release's run belongs to the doctor's prompt, not to the grader's."""
    with store.write() as connection:
        connection.execute("UPDATE runs SET prompt_hash = 'doctor ' || run_id")
    with store.read() as cursor:
        assert {grader["grader"] for grader in stored_graders(cursor)} > {f"{OWN} · prompts of doctor"}
    with store.write() as connection:
        connection.execute("UPDATE runs SET source = 'release'")
    with store.read() as cursor:
        own = [grader for grader in stored_graders(cursor) if grader["grader"].startswith(OWN)]
    assert [(grader["grader"], grader["answers"]) for grader in own] == [(OWN, 11)]


def test_a_grader_that_accepts_more_answers_never_counts_before_one_that_does_not() -> None:
    """Each has judged all answers first, then a part later; who accepts more judged more, and later."""
    plain = [RunJudge("openai/g", "p", (), 10, 100.0), RunJudge("openai/h", "p", (), 2, 200.0)]
    accepting = [RunJudge(name, f"{ACCEPTED}x", (), n, at) for name, n, at in (("i", 12, 300.0), ("j", 3, 400.0))]
    assert counting_judges([*accepting, *plain]) == counting_judges([*plain, *accepting]) == [*plain, *accepting]


def flips(store: Store) -> dict[tuple[str, str], Row]:
    """Return the rows by grader and by what was judged again: "response", "answer" or "diagnosis"."""
    return {(row["grader"], row["judged_again"].removeprefix("the same ")): row for row in flip_rates(store)}


@pytest.mark.slow
def test_the_same_words_and_the_same_answer_judged_again(store: Store) -> None:
    rows = flips(store)
    # OTHER judged "Eczema" three times, once as incorrect, and "Gout" twice, with both verdicts
    other = rows[OTHER, "response"]
    assert (other.n, other["both_ways"], other.estimate) == (2, 2, 1.0)
    assert (OTHER, "answer") not in rows  # no answer was judged twice
    judge_again(store, OTHER, {"t000": "incorrect", "t010": "correct"}, 60.0, "abc")
    judge_again(store, OTHER, {"t011": "correct"}, 60.0, "other prompts")
    judged_again = flips(store)[f"{OTHER} · prompts abc", "answer"]
    # t011 was judged again under other prompts, which is no contradiction
    assert (judged_again.n, judged_again["both_ways"], judged_again["verdicts"]) == (2, 1, 4)
    assert judged_again.low <= 0.5 <= judged_again.high


def test_a_verdict_taken_over_is_not_a_second_judgement(store: Store) -> None:
    for name, at in (("t100", 80.0), ("t101", 81.0), ("t110", 82.0)):
        calls = ("c1",) if name != "t110" else ("c2",)
        verdict = graded("incorrect", grader="openai/k", at=at, call_ids=calls, extracted="gout")
        write_journal(store.journals, "run1", grades(name, verdict, run_id="run1"))
    fold(store)
    rows = flips(store)
    assert (rows["openai/k", "response"].n, rows["openai/k", "response"]["verdicts"]) == (1, 2)


def test_a_diagnosis_that_one_call_judged_for_two_answers_was_judged_once(store: Store) -> None:
    for name, at in (("t100", 80.0), ("t101", 81.0)):  # a separate call read each response
        verdict = graded("incorrect", grader="openai/k", at=at, call_ids=(f"read {name}", "judged"), extracted="gout")
        write_journal(store.journals, "run1", grades(name, verdict, run_id="run1"))
    fold(store)
    rows = flips(store)
    assert ("openai/k", "diagnosis") not in rows
    assert rows["openai/k", "response"]["verdicts"] == 2


def test_where_two_graders_differ(store: Store) -> None:
    with store.read() as cursor:
        first, second = differences(cursor, (OWN, OTHER))
        assert list(differences(cursor, (OWN, OTHER), Selection(case_sets=["elsewhere"]))) == []
        of_second_doctor = Selection(case_sets=["ours"], models=["openai/b"])
        assert list(differences(cursor, (OWN, OTHER), of_second_doctor)) == []
    assert (first["trial_id"], second["trial_id"]) == ("t001", "t011")
    assert (second["first_verdict"], second["second_verdict"]) == ("correct", "incorrect")
    assert first == {
        "model": "openai/a", "case": "ours/0", "trial": 2, "format": "multi_turn", "question_type": "frq",
        "answer": "Eczema", "response": "Gout", "trial_id": "t001",
        "first_grader": OWN, "first_read_as": "Gout", "first_verdict": "incorrect",
        "second_grader": OTHER, "second_read_as": "Eczema", "second_verdict": "correct",
    }  # fmt: skip
    # without named graders the newest verdict is compared with the one before
    with store.read() as cursor:
        rows = {row["trial_id"]: row for row in differences(cursor)}
    # verdicts of OWN, OTHER, THIRD: t001 no, yes, yes (the last two agree); t010 yes, yes, no; t011 yes, no, yes
    assert set(rows) == {"t010", "t011"}
    assert (rows["t010"]["first_grader"], rows["t010"]["second_grader"]) == (OTHER, THIRD)
    assert (rows["t010"]["first_verdict"], rows["t010"]["second_verdict"]) == ("correct", "incorrect")
