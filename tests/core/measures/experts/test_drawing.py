"""Drawing the items of a review: what is equal, what is shared, what is reproducible."""

from __future__ import annotations

from collections import Counter

import pytest

from core.errors import UsageError
from core.reviews.drawing import draw, order_for
from core.store.review_records import Candidate, ReviewPlan, planned


def a_pool(cases: int = 12, models: str = "ab", trials: int = 2) -> list[Candidate]:
    return [
        Candidate(
            f"talk:{model}-{case}-{trial}",
            model,
            f"ours/{case}",
            "ours",
            "Dermatology" if case % 2 else "Other",
            disagreement=case < 3,
        )
        for case in range(cases)
        for model in models
        for trial in range(trials)
    ]


def a_plan(**changes: object) -> ReviewPlan:
    return planned(**{"kind": "conversations", "number": 12, "annotators": ("Ada", "Ben", "Cyd"), **changes})


def parts(item: str) -> tuple[str, str]:
    model, case, _ = item.removeprefix("talk:").split("-")
    return model, case


def test_the_same_seed_draws_the_same_whatever_the_order_of_the_pool() -> None:
    pool = a_pool()
    first, again, other = draw(pool, a_plan()), draw(pool[::-1], a_plan()), draw(pool, a_plan(seed=21))
    assert first == again
    assert [entry.item for entry in first] != [entry.item for entry in other]
    assert [entry.number for entry in first] == list(range(1, 13))
    assert len({entry.item for entry in first}) == 12


def test_strata_are_equal_and_every_model_is_judged_on_the_same_cases() -> None:
    items = [entry.item for entry in draw(a_pool(), a_plan(sampling="specialty"))]
    by_model = {model: {case for m, case in map(parts, items) if m == model} for model in "ab"}
    assert by_model["a"] == by_model["b"]
    assert len(by_model["a"]) == 6  # one trial a case while there are other cases
    odd = Counter(int(case) % 2 for _, case in map(parts, items))
    assert odd == {0: 6, 1: 6}


def test_a_second_trial_of_a_case_comes_only_once_there_is_no_other_case() -> None:
    items = draw(a_pool(cases=2), a_plan(number=8, sampling="dataset"))
    assert Counter(map(parts, (entry.item for entry in items))) == {(m, c): 2 for m in "ab" for c in "01"}


def test_only_what_is_disagreed_on_is_drawn_for_disagreement() -> None:
    items = draw(a_pool(), a_plan(sampling="disagreement"))
    assert {int(parts(entry.item)[1]) for entry in items} == {0, 1, 2}
    with pytest.raises(UsageError, match="There are only 12 items on which graders or rules disagree"):
        draw(a_pool(), a_plan(number=13, sampling="disagreement"))


def test_a_third_is_shared_by_two_and_the_rest_is_dealt_out_evenly() -> None:
    items = draw(a_pool(), a_plan())
    assert Counter(len(entry.annotators) for entry in items) == {2: 4, 1: 8}
    load = Counter(name for entry in items for name in entry.annotators)
    assert sum(load.values()) == 16
    assert max(load.values()) - min(load.values()) <= 1
    assert {len(entry.annotators) for entry in draw(a_pool(), a_plan(shared=1))} == {2}


def test_everybody_has_an_order_of_their_own_that_stays() -> None:
    items = draw(a_pool(), a_plan(shared=1, annotators=("Ada", "Ben")))
    ada, ben = order_for(items, "Ada", 20), order_for(items, "Ben", 20)
    assert sorted(entry.number for entry in ada) == sorted(entry.number for entry in ben) == list(range(1, 13))
    assert [entry.number for entry in ada] != [entry.number for entry in ben]
    assert ada == order_for(items[::-1], "Ada", 20)
    assert order_for(items, "Cyd", 20) == []


def test_what_cannot_be_planned_is_said(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({"annotators": (" ",)}, "annotators: name at least one annotator"),
        ({"number": 0}, "number: .*greater than or equal to 1"),
        ({"kind": "baseline", "question_types": ("frq_top3",)}, "a baseline asks mcq, frq or both"),
        ({"kind": "baseline", "sampling": "disagreement"}, "no disagreement on these items"),
    ]
    for changes, says in rows:
        with subtests.test(changes=changes, says=says), pytest.raises(UsageError, match=says):
            a_plan(**changes)
