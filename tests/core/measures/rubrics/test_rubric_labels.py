"""Experts' verdicts on a part of a judge's: weights, worths and errors by condition, against figures by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from core.judging.calibration import Trust, agreement_with_experts, differing_errors, in_words, status_of
from core.judging.form import FormQuestion
from core.judging.judgement import Judgement
from core.judging.rubric import criterion
from core.measures.calibration import calibrated_differences, calibrated_rows
from core.measures.conversations import case_scores
from core.measures.opinions import PEOPLE, Opinions
from core.measures.rubrics.reading import JudgedConversation, Outcome, RubricReading, conversation_score, statements_by
from core.reviews.state import About
from core.stats.calibrated import JudgedItem
from core.store.review_records import ReviewSampling


def asks(name: str, points: float = 1, priority: str = "") -> FormQuestion:
    fields = {"id": name, "criterion": f"The doctor asks about {name}.", "points": points, "priority": priority}
    return criterion(fields)


CRITERIA = [asks("fever", 4), asks("cough", 2), asks("job", 2), asks("harm", -2)]


def conversation(model: str, number: int, marks: str, specialty: str = "Cardiology") -> JudgedConversation:
    statuses = {"m": "met", "n": "not met", "u": "unjudged"}
    outcomes = tuple(Outcome(c, statuses[mark]) for c, mark in zip(CRITERIA, marks, strict=False))
    return JudgedConversation(
        f"{model}/{number}", model, model, f"library/{number}", "library", specialty, 500, outcomes
    )


def statements_of(
    conversations: list[JudgedConversation], people: Mapping[str, bool], sampling: ReviewSampling = "random"
) -> Mapping[str, list[JudgedItem]]:
    """Return condition → statements; ``people`` is trial → whether its first criterion is met."""
    asked = CRITERIA[0]
    decided = [
        Judgement(
            subject=f"talk:{trial}", form="rubric:demo", question=asked.id, against=asked.hash, judge=PEOPLE,
            value="met" if met else "not met", at=0.0,
        )
        for trial, met in people.items()
    ]  # fmt: skip
    items = {f"talk:{t.trial_id}": About(t.case_key, (t.model,), t.dataset, t.specialty) for t in conversations}
    samplings = dict.fromkeys((answer.subject for answer in decided), sampling)
    opinions = Opinions("rubric:demo", asked, decided=decided, items=items, samplings=samplings)
    return statements_by(RubricReading(conversations, None, opinions=[opinions]))


def test_a_condition_with_fewer_judged_criteria_keeps_its_own_score() -> None:
    conversations = [
        conversation("a", 1, "mmnn"),
        conversation("a", 2, "mnnm"),
        conversation("b", 1, "mu"),
        conversation("b", 2, "nu"),
    ]
    statements = statements_of(conversations, {})
    for model, score in (("a", (6 / 8 + 2 / 8) / 2), ("b", 1 / 2)):
        (row,) = calibrated_rows({}, statements[model])
        assert row.estimate == pytest.approx(score)
        by_case = case_scores([t for t in conversations if t.model == model], conversation_score)
        assert sum(by_case.values()) / len(by_case) == pytest.approx(score)


def test_labels_of_strata_weigh_as_many_items_as_the_stratum_has() -> None:
    # 8 cardiology conversations with one criterion each, of which 2 are labelled, and 2 of neurology, of which 2 are
    marks = ["m", "m", "m", "m", "n", "n", "n", "n"]
    conversations = [conversation("a", n, mark) for n, mark in enumerate(marks)]
    conversations += [conversation("a", n, "m", "Neurology") for n in (8, 9)]
    items = statements_of(conversations, {"a/0": False, "a/4": False, "a/8": True, "a/9": True}, "specialty")["a"]
    rows = {row["figure"]: row for row in calibrated_rows({}, items)}
    # an unweighted mean would be 1/2; here cardiology (0 met) stands for 8 of 10
    assert rows["experts alone"].estimate == pytest.approx(2 / 10)
    agreement = agreement_with_experts(items)
    assert agreement.n == 4
    assert agreement.share == pytest.approx((8 * 1 / 2 + 2) / 10)  # of the two in cardiology one is equal
    assert agreement.excess == pytest.approx(8 * 1 / 2 / 10)


def labelled(judge: list[int], people: list[int], start: int = 0) -> list[JudgedItem]:
    pairs = enumerate(zip(judge, people, strict=True), start)
    return [JudgedItem(f"case {n}", bool(by_judge), bool(by_people)) for n, (by_judge, by_people) in pairs]


def test_a_judge_that_always_says_no_is_not_calibrated_where_yes_is_rare() -> None:
    always_no = agreement_with_experts(labelled([0] * 100, [1] * 5 + [0] * 95))
    assert always_no.share == pytest.approx(0.95)
    status = status_of(always_no.n, always_no.share, Trust(), of_each=always_no.of_each)
    assert status == "not calibrated"
    assert "0% where people say yes" in in_words(status, always_no)
    sees = agreement_with_experts(labelled([1] * 4 + [0] * 96, [1] * 5 + [0] * 95))
    assert status_of(sees.n, sees.share, Trust(), of_each=sees.of_each) == "calibrated"
    never_tested = agreement_with_experts(labelled([0] * 100, [0] * 100))
    assert status_of(never_tested.n, never_tested.share, Trust(), of_each=never_tested.of_each) == "not calibrated"
    assert "people never say yes" in in_words("not calibrated", never_tested)


def test_errors_that_differ_between_conditions_are_noted_and_equal_errors_are_not() -> None:
    people = [1, 0] * 30
    lenient = [1, 0, 1, 1] * 15  # calls half of the not met met
    strict = people
    alike = differing_errors({"a": labelled(lenient, people), "b": labelled(lenient, people, 100)})
    assert list(alike) == []
    ((text, severity),) = differing_errors({"a": labelled(lenient, people), "b": labelled(strict, people, 100)})
    assert severity == "high"
    assert "a +0.25 (n = 60)" in text
    assert "b +0.00 (n = 60)" in text
    unlabelled = [JudgedItem("case 1", True)]
    ((text, severity),) = differing_errors({"a": labelled(strict, people), "b": unlabelled})
    assert severity == "high"
    assert "errs on b" in text
    assert list(differing_errors({"a": unlabelled, "b": unlabelled})) == []


def condition(rng: np.random.Generator, share: float, false_met: float, by_people: int) -> list[JudgedItem]:
    """100 conversations of which a share is met; the judge calls a share of the others met, too."""
    people = rng.random(100) < share
    judge = people | (rng.random(100) < false_met)
    return [JudgedItem(f"case {n}", bool(judge[n]), bool(people[n]) if n < by_people else None) for n in range(100)]


@pytest.mark.slow
def test_a_lenient_judge_of_one_condition_makes_no_difference_where_there_is_none() -> None:
    rng = np.random.default_rng(4)
    covered, by_judge = 0, []
    for _ in range(60):
        sides = {"a": condition(rng, 0.5, 0.0, 50), "b": condition(rng, 0.5, 0.5, 50)}
        (row,) = calibrated_differences(sides)
        covered += row.low <= 0 <= row.high
        by_judge.append(row["by_judge"])
    assert np.mean(by_judge) == pytest.approx(0.25, abs=0.03)  # what the judge alone would report
    assert covered >= 54


def test_the_difference_is_the_second_condition_minus_the_first() -> None:
    met, not_met = labelled([1] * 10, [1] * 10), labelled([0] * 10, [0] * 10)
    (row,) = calibrated_differences({"a": not_met, "b": met})
    assert (row["first"], row["second"], row.estimate, row.n) == ("a", "b", 1.0, 20)
    assert 0 < row.low < row.high
    (row,) = calibrated_differences({"a": not_met, "b": [JudgedItem("case 1", True)]})
    assert (row.estimate, row["by_judge"]) == (None, 1.0)


def test_a_known_failure_fails_a_conversation_and_an_open_criterion_leaves_it_open() -> None:
    must, other = (asks(name, 1, "must") for name in ("fever", "cough"))

    def state(first: str, second: str) -> str:
        outcomes = (Outcome(must, first), Outcome(other, second))
        return JudgedConversation("t", "m", "m", "c", "d", "s", 1, outcomes).critical

    assert [state("met", "met"), state("not met", "met"), state("not applicable", "not applicable")] == [
        "passed",
        "failed",
        "none",
    ]
    assert [state("not met", "unjudged"), state("met", "unjudged")] == ["failed", "unjudged"]
