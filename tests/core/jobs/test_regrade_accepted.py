"""Further accepted answers count under a condition of their own, next to the usual verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from core.journal import RunHeader
from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, label_of
from core.store.queries.grades import latest_grades
from core.store.selection import conditions
from core.store.tallies import miscounted
from tests.core.jobs.regrading import ANSWERS, Judges, again, judged_before
from tests.support.fake_provider import FakeProvider


@pytest.fixture
def prompts(provider: FakeProvider, judges: Judges) -> list[str]:
    """Let the grader say yes to a candidate that is among the right answers; return the prompts of comparisons."""
    asked: list[str] = []

    def script(body: dict[str, Any]) -> Any:
        prompt = str(body["messages"][-1]["content"])
        if "R: Podagra" in prompt:
            asked.append(prompt)
            return "Yes"
        return judges(body)

    provider.script = script
    return asked


def accept(header: RunHeader, number: int, answers: str = "Podagra") -> None:
    add_labels(Store(), [label_of(header.cases[number], "accepted", answers, "person", "Ada")])


def means(question_type: str = "frq") -> dict[bool, float | None]:
    """Return whether accepted answers count → accuracy."""
    accepting = {condition.name: condition.accepting for condition in conditions(Store())}
    rows = accuracy(Store())
    return {accepting[row.label["model"]]: row.estimate for row in rows if row.label["question_type"] == question_type}


@pytest.mark.slow
def test_accepted_answers_count_in_a_condition_of_their_own(
    graded: RunHeader, provider: FakeProvider, prompts: list[str]
) -> None:
    fold(Store())
    accept(graded, 0)
    outcome = again(graded, provider, "openai/strict", accepted=True)

    assert (outcome.by, outcome.done, outcome.counts["changed"]) == ("openai/strict [accepted answers]", ANSWERS, 2)
    assert outcome.counts["adopted"] == ANSWERS - 2, "cases without further answers keep the usual verdict, at no cost"
    assert len(prompts) == 1
    assert f"R: {graded.cases[0].answer}" in prompts[0]
    assert means() == {False: 0.0, True: 0.25}
    assert means("mcq") == {False: 0.0}
    with Store().read() as cursor:
        trials = [trial for (trial,) in cursor.execute("SELECT trial_id FROM trials").fetchall()]
        shown = {grade.grader for trial in trials for grade in latest_grades(cursor, trial)}
    assert shown == {"rule", "openai/strict"}, "the usual verdict is the one that is shown"
    with Store().write() as connection:
        assert miscounted(connection) == 0
    assert judged_before(again(graded, provider, "openai/strict", accepted=True))[1] == ANSWERS
    assert judged_before(again(graded, provider, "openai/strict"))[1] == ANSWERS
    Store().path.unlink()
    fold(Store())
    assert means() == {False: 0.0, True: 0.25}


@pytest.mark.slow
def test_other_accepted_answers_are_another_condition(
    graded: RunHeader, provider: FakeProvider, prompts: list[str]
) -> None:
    fold(Store())
    accept(graded, 0)
    again(graded, provider, "openai/strict", accepted=True)
    first = [condition.keys["grader"] for condition in conditions(Store()) if condition.accepting]
    accept(graded, 1)
    again(graded, provider, "openai/strict", accepted=True)
    second = [condition.keys["grader"] for condition in conditions(Store()) if condition.accepting]

    assert set(first).isdisjoint(second)
    assert means() == {False: 0.0, True: 0.5}
    again(graded, provider, "openai/kind")  # a later usual grading replaces the usual one only
    assert means() == {False: 1.0, True: 0.5}


def test_the_grader_by_rules_counts_them_too(graded: RunHeader, provider: FakeProvider) -> None:
    fold(Store())
    again(graded, provider, "reference/names")
    (usual,) = means().values()
    accept(graded, 0)
    accept(graded, 1, "Something else")
    outcome = again(graded, provider, "reference/names", accepted=True)
    assert outcome.by == "reference/names [accepted answers]"
    assert means() == {False: usual, True: pytest.approx((usual or 0) + 0.25)}
