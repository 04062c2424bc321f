"""Which fields a profile fills, and the suitability and coverage of a set of cases."""

from __future__ import annotations

import math

import pytest

from core.case import Fact, Profile
from core.text.profiles import FIELDS, Generated, coverage, presence


def fact(key: str, value: str = "as it is", **more: object) -> Fact:
    return Fact.model_validate({"key": key, "value": value, "lay": value, **more})


FULL = Profile(
    demographics=(fact("age", "40-year-old"), fact("sex", "male")),
    basic=(
        fact("chief complaint", "cough for two weeks"),
        fact("past history", imputed=True),
        fact("lifestyle"),
        fact("family history", "mother with asthma"),
        fact("family history", imputed=True),
    ),
    optional=(fact("pulse", "80/min", section="vital_signs"), fact("biopsy", section="other_tests")),
)


def test_a_field_is_present_where_the_source_says_it_else_imputed_else_absent() -> None:
    assert presence(FULL) == {
        "age": "present",
        "sex": "present",
        "chief complaint": "present",
        "duration": "present",
        "past history": "imputed",
        "family history": "present",
        "lifestyle": "present",
        "vital signs": "present",
        "physical examination": "absent",
        "laboratory": "absent",
        "imaging": "absent",
    }


def test_an_empty_profile_has_nothing() -> None:
    assert set(presence(Profile()).values()) == {"absent"}


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("smoking", "does not smoke", "lifestyle"),
        ("onset", "sudden", "duration"),
        ("cough", "began 3 days ago", "duration"),
        ("medication", "history of gout, takes allopurinol", "past history"),
        ("vaccinations", "up to date", "past history"),
        ("alcohol", "beer", "lifestyle"),
    ],
)
def test_a_field_is_known_by_key_or_words(key: str, value: str, field: str) -> None:
    assert presence(Profile(basic=(fact(key, value),)))[field] == "present"  # type: ignore[index]


def test_coverage_counts_reasons_and_the_fields_of_the_suitable_alone() -> None:
    bare = Profile(basic=(fact("chief complaint", "cough"),))
    words = [
        Generated(suitable=True, profile=FULL, made_by="m"),
        Generated(suitable=True, profile=bare, made_by="m"),
        Generated(suitable=True, profile=bare, made_by="m"),
        Generated(suitable=False, reason="image_dependent", made_by="m"),
    ]
    found = coverage(words)

    assert (found.n, found.suitable, found.share, found.reasons) == (4, 3, 0.75, {"image_dependent": 1})
    # Wilson's interval of 3 of 4, z = 1.959964: centre (0.75 + z²/8)/(1 + z²/4), by hand
    assert found.interval.low == pytest.approx(0.300642, abs=1e-5)
    assert found.interval.high == pytest.approx(0.954413, abs=1e-5)
    age = found.of("age")
    assert (age.present, age.imputed, age.absent, age.n) == (1, 0, 2, 3)
    assert found.of("past history").share("imputed") == pytest.approx(1 / 3)
    assert [shares.field for shares in found.fields] == list(FIELDS)


def test_nothing_judged_is_no_share() -> None:
    found = coverage([])

    assert found.n == 0
    assert math.isnan(found.share)
    assert math.isnan(found.interval.low)
    assert math.isnan(found.of("age").share("present"))
