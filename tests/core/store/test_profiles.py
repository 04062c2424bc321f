"""Profiles in the database: versions by case and content, the newest counts, and the cases that a maker has judged."""

from __future__ import annotations

import pytest

from core.case import Case, Fact, Profile
from core.errors import AnamnesisError
from core.store.database import Store
from core.store.queries.profiles import add_profiles, delete_profiles, newest_profiles, profile_versions, profiled_by
from core.text.profiles import Generated

CASE = Case(case_key="t/1", dataset="t", specialty="Other", vignette="A 40-year-old man coughs.", answer="Asthma")
OTHER = CASE.model_copy(update={"case_key": "t/2"})
PROFILE = Profile(
    basic=(Fact(key="chief complaint", value="cough", lay="I cough."),),
    optional=(Fact(key="lungs", value="clear", lay="clear", section="examination"),),
    made_by="m",
)
GOOD = Generated(suitable=True, speaker="caregiver", profile=PROFILE, made_by="m", note="Fine.")
BAD = Generated(suitable=False, reason="image_dependent", note="A picture.", made_by="rules-1")


def add(store: Store, *new: tuple[Case, Generated]) -> int:
    with store.write() as connection:
        return add_profiles(connection, new)


def test_a_profile_is_read_back_as_it_was_saved(store: Store) -> None:
    assert add(store, (CASE, GOOD), (OTHER, BAD)) == 2
    with store.read() as cursor:
        profiles = newest_profiles(cursor)

    assert profiles[CASE.case_key, CASE.content_hash].generated == GOOD
    assert profiles[OTHER.case_key, OTHER.content_hash].generated == BAD


def test_a_second_profile_is_version_two_and_counts(store: Store) -> None:
    add(store, (CASE, BAD))
    add(store, (CASE, GOOD))
    with store.read() as cursor:
        versions = profile_versions(cursor, CASE)
        newest = newest_profiles(cursor, ["t/1"])

    assert [(v.version, v.generated.suitable) for v in versions] == [(2, True), (1, False)]
    assert [v.version for v in newest.values()] == [2]


def test_a_changed_case_has_no_profile_yet(store: Store) -> None:
    add(store, (CASE, GOOD))
    changed = CASE.model_copy(update={"vignette": "A 41-year-old man coughs."})
    with store.read() as cursor:
        assert profile_versions(cursor, changed) == []
        assert (changed.case_key, changed.content_hash) not in newest_profiles(cursor)


def test_a_maker_has_judged_a_case_also_if_another_profile_counts_now(store: Store) -> None:
    add(store, (CASE, BAD))
    add(store, (CASE, GOOD))
    with store.read() as cursor:
        assert profiled_by(cursor, "rules-1") == {(CASE.case_key, CASE.content_hash)}
        assert profiled_by(cursor, "rules-9") == set()


def test_deleting_takes_all_versions_of_some_cases(store: Store) -> None:
    add(store, (CASE, BAD), (OTHER, BAD))
    add(store, (CASE, GOOD))
    with store.write() as connection:
        assert delete_profiles(connection, ["t/1"]) == 2
    with store.read() as cursor:
        assert [key for key, _ in newest_profiles(cursor)] == ["t/2"]


def test_a_profile_that_cannot_be_read_names_the_case(store: Store) -> None:
    add(store, (CASE, GOOD))
    with store.write() as connection:
        connection.execute("UPDATE profiles SET suitable = false")
    with pytest.raises(AnamnesisError, match=r"saved for t/1 cannot be read .*make it again"), store.read() as cursor:
        newest_profiles(cursor)
