"""Random samples of cases: specialties in proportion, and the same sample for a seed in every order of the cases."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.case import Case, case_set_hash
from core.datasets.library import library
from core.datasets.select import choose, full_data_set, sampled, select
from core.errors import UsageError


def cases_of(**specialties: int) -> list[Case]:
    return [
        Case(case_key=f"many/{name}-{n}", dataset="many", specialty=name, vignette="A man is ill.", answer="Gout")
        for name, count in specialties.items()
        for n in range(count)
    ]


def counts(cases: list[Case]) -> dict[str, int]:
    return dict(Counter(case.specialty for case in cases))


MANY = cases_of(Cardiology=50, Dermatology=30, Neurology=15, Urology=5)


def test_specialties_have_their_shares_by_the_largest_remainder() -> None:
    assert counts(sampled(MANY, 20, 3)) == {"Cardiology": 10, "Dermatology": 6, "Neurology": 3, "Urology": 1}
    # of 7: 3.5, 2.1, 1.05 and 0.35; the last case goes to the largest remainder, 0.5
    assert counts(sampled(MANY, 7, 3)) == {"Cardiology": 4, "Dermatology": 2, "Neurology": 1}


@given(st.integers(0, 1000), st.integers(1, 99), st.randoms(use_true_random=False))
def test_a_sample_depends_on_cases_and_seed_alone(seed: int, size: int, chance: random.Random) -> None:
    drawn = sampled(MANY, size, seed)
    shuffled = list(MANY)
    chance.shuffle(shuffled)
    assert sampled(shuffled, size, seed) == drawn
    assert len({case.case_key for case in drawn}) == size
    for name, count in counts(MANY).items():
        quota = size * count / 100
        assert int(quota) <= counts(drawn).get(name, 0) <= int(quota) + 1


def test_every_case_is_drawn_as_often_as_any_other_over_many_seeds() -> None:
    drawn = Counter(case.case_key for seed in range(2000) for case in sampled(MANY, 10, seed))
    # each of 100 cases is drawn with probability 0.1: 200 of 2,000 times, with a standard deviation of 13.4
    assert len(drawn) == 100
    assert max(abs(count - 200) for count in drawn.values()) < 5 * 13.4


def test_equal_remainders_do_not_depend_on_the_name_of_a_specialty() -> None:
    alike = cases_of(A=10, B=10, C=10, D=10)
    first = Counter(next(iter(counts(sampled(alike, 1, seed)))) for seed in range(400))
    assert min(first[name] for name in "ABCD") > 60


def test_a_larger_sample_of_the_same_seed_extends_a_smaller_one() -> None:
    small, large = ({case.case_key for case in sampled(MANY, size, 3)} for size in (20, 40))
    assert small < large


def test_a_part_has_a_descriptive_name_and_its_full_data_set() -> None:
    whole = case_set_hash(library())
    sample = choose("library", sample=12, seed=3)
    assert (sample.name, len(sample.cases)) == ("library (sample of 12, seed 3)", 12)
    assert full_data_set(sample.name) == full_data_set("library") == (whole, 60)
    first = choose("library:Cardiology", limit=2)
    assert (first.name, full_data_set(first.name)) == ("library:Cardiology (first 2)", (whole, 60))
    assert first.cases == tuple(select("library:Cardiology"))[:2]
    assert choose("library:Cardiology", sample=2, seed=1).name == "library:Cardiology (sample of 2, seed 1)"
    # a part with all cases is the data set
    assert choose("library", sample=60).name == choose("library", limit=99).name == "library"
    assert choose("library", sample=60).cases == library()


def test_an_impossible_part_is_refused(subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, int], str]] = [
        ({"sample": 0}, "--sample must be at least 1"),
        ({"limit": 0}, "--limit must be at least 1"),
        ({"sample": 3, "limit": 3}, "--sample or --limit, not both"),
    ]
    for part, message in table:
        with subtests.test(part=part, message=message), pytest.raises(UsageError, match=message):
            select("library", **part)
