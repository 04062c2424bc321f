"""The fields of a profile, and the suitability and coverage of a set of cases."""

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


def test_a_field_is_present_imputed_or_absent() -> None:
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


def test_a_field_is_recognised_by_key_or_words() -> None:
    table: list[tuple[str, str, str]] = [
        ("smoking", "does not smoke", "lifestyle"),
        ("onset", "sudden", "duration"),
        ("cough", "began 3 days ago", "duration"),
        ("medication", "history of gout, takes allopurinol", "past history"),
        ("vaccinations", "up to date", "past history"),
        ("alcohol", "beer", "lifestyle"),
    ]
    wrong = [
        (key, value, field, got)
        for key, value, field in table
        if (got := presence(Profile(basic=(fact(key, value),)))[field]) != "present"
    ]
    assert wrong == []


def test_coverage_counts_reasons_and_the_fields_of_suitable_cases() -> None:
    bare = Profile(basic=(fact("chief complaint", "cough"),))
    judgements = [
        Generated(suitable=True, profile=FULL, made_by="m"),
        Generated(suitable=True, profile=bare, made_by="m"),
        Generated(suitable=True, profile=bare, made_by="m"),
        Generated(suitable=False, reason="image_dependent", made_by="m"),
    ]
    result = coverage(judgements)

    assert (result.n, result.suitable, result.share, result.reasons) == (4, 3, 0.75, {"image_dependent": 1})
    # Wilson's interval of 3 of 4, z = 1.959964: centre (0.75 + z²/8)/(1 + z²/4), by hand
    assert result.interval.low == pytest.approx(0.300642, abs=1e-5)
    assert result.interval.high == pytest.approx(0.954413, abs=1e-5)
    age = result.of("age")
    assert (age.present, age.imputed, age.absent, age.n) == (1, 0, 2, 3)
    assert result.of("past history").share("imputed") == pytest.approx(1 / 3)
    assert [shares.field for shares in result.fields] == list(FIELDS)


def test_without_judgements_there_is_no_share() -> None:
    result = coverage([])

    assert result.n == 0
    assert math.isnan(result.share)
    assert math.isnan(result.interval.low)
    assert math.isnan(result.of("age").share("present"))
