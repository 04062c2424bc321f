"""Train and test: no near-duplicates on both sides."""

from __future__ import annotations

from collections import Counter

import pytest

from core.case import Case
from core.errors import UsageError
from core.training.split import clusters_of, near_duplicates, split_cases
from tests.core.training.golden_cases import RETOLD, a_case, random_vignette


def with_retold(strangers: int = 17) -> list[Case]:
    cases = [a_case(n) for n in range(strangers)]
    for place, text in zip((2, 9, 14), RETOLD, strict=True):
        cases.insert(place, a_case(100 + place, vignette=text))
    return cases


def test_similarity_is_that_of_the_sorted_words() -> None:
    # 11 letters and spaces each, 10 of them common in order: 2 * 10 / 22 = 90.9 per cent
    assert list(near_duplicates(["aa bb cc dd", "aa bb cc dx"], 90.9)) == [(0, 1)]
    assert list(near_duplicates(["aa bb cc dd", "aa bb cc dx"], 91)) == []
    assert list(near_duplicates(["No fever. A cough, at night.", "A cough at night; no FEVER!"], 100)) == [(0, 1)]


@pytest.mark.slow
def test_pairs_are_found_at_every_position() -> None:
    texts = [random_vignette(n) for n in range(1100)]
    for first, second in ((3, 4), (10, 700), (520, 1030), (1060, 1099)):
        texts[second] = f"{texts[first]} more"
    assert sorted(near_duplicates(texts)) == [(3, 4), (10, 700), (520, 1030), (1060, 1099)]


def test_clusters_are_transitive() -> None:
    cases = with_retold()
    pairs = set(near_duplicates([case.vignette for case in cases]))
    assert pairs == {(2, 9), (9, 14)}, "the first and the last are no pair"
    assert [group for group in clusters_of(cases) if len(group) > 1] == [[2, 9, 14]]


def test_near_duplicates_land_on_one_side(subtests: pytest.Subtests) -> None:
    for seed in range(12):
        with subtests.test(seed=seed):
            split = split_cases(with_retold(), 0.5, seed)
            test = {case.case_key for case in split.test}
            assert len(test & {"ours/102", "ours/109", "ours/114"}) in (0, 3)
            assert split.clusters == (("ours/102", "ours/109", "ours/114"),)
            assert len(split.test) == 10
            assert Counter(c.case_key for c in (*split.train, *split.test)) == Counter(
                c.case_key for c in with_retold()
            )


def test_clusters_can_be_on_either_side() -> None:
    sides = {"ours/109" in {c.case_key for c in split_cases(with_retold(), 0.5, seed).test} for seed in range(12)}
    assert sides == {True, False}


def test_each_specialty_gives_its_share() -> None:
    specialties = ["Cardiology"] * 20 + ["Neurology"] * 10 + ["Other"] * 5
    cases = [a_case(n, specialty=specialty) for n, specialty in enumerate(specialties)]
    split = split_cases(cases, 0.2, 1)
    assert Counter(c.specialty for c in split.test) == {"Cardiology": 4, "Neurology": 2, "Other": 1}
    assert split.test == split_cases(cases, 0.2, 1).test
    assert split.test != split_cases(cases, 0.2, 2).test


def test_specialties_of_one_case_each_share_the_test_cases() -> None:
    names = (
        "Cardiology",
        "Neurology",
        "Other",
        "Rheumatology",
        "Dermatology",
        "Endocrinology",
        "Gastroenterology",
        "Infectious Disease",
    )
    cases = [a_case(n, specialty=name) for n, name in enumerate(names)]
    assert len(split_cases(cases, 0.25).test) == 2


def test_impossible_splits_are_refused() -> None:
    alike = [a_case(n, vignette=RETOLD[0]) for n in range(4)]
    with pytest.raises(UsageError, match=r"4 cases \(1 without near-duplicates\) cannot be split"):
        split_cases(alike)
    with pytest.raises(UsageError, match="cannot be split"):
        split_cases([])
    with pytest.raises(UsageError, match="ours/1 was chosen twice"):
        split_cases([a_case(1), a_case(2), a_case(1)])
    for share in (0, 1, -0.1):
        with pytest.raises(UsageError, match="between 0 and 1"):
            split_cases([a_case(1), a_case(2)], share)
    with pytest.raises(UsageError, match="percentage"):
        split_cases([a_case(1), a_case(2)], similar=0)
