"""Checking a proposed profile against its case: facts that are kept, and facts that are dropped with a reason."""

from __future__ import annotations

import pytest

from core.case import Case, Fact, FactSection, Profile
from core.errors import UsageError
from core.text.profile_check import check_profile, edited, has_complaint, remarks

CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Rheumatology",
    answer="Gout flare",
    choices=("Gout flare", "Cellulitis", "Diabetic neuropathy", "Alcoholic neuropathy"),
    vignette=(
        "A 52-year-old man comes because of burning pain in his left foot for 3 weeks. He smokes a pack of cigarettes "
        "daily. He has no fever. His pulse is  82/min. Examination shows a swollen big toe. "
        "Laboratory studies show a uric acid of 9 mg/dL."
    ),
)
COMPLAINT = Fact(key="chief complaint", value="burning pain in his left foot", lay="My left foot burns.")


def a_fact(key: str, value: str, lay: str = "So it is.", *, imputed: bool = False) -> Fact:
    return Fact(key=key, value=value, lay=lay, imputed=imputed)


def a_result(value: str, section: FactSection | None = "examination") -> Fact:
    return Fact(key="finding", value=value, lay=value, section=section)


def test_a_result_of_the_vignette_is_kept_in_any_spacing_and_case(subtests: pytest.Subtests) -> None:
    for value in ["a swollen big toe", "His pulse is 82/min", "EXAMINATION shows a swollen big toe."]:
        with subtests.test(value=value):
            checked = check_profile(CASE, Profile(basic=(COMPLAINT,), optional=(a_result(value),)))

            assert [f.value for f in checked.profile.optional] == [value]
            assert checked.dropped == ()


def test_a_result_in_other_words_is_dropped(subtests: pytest.Subtests) -> None:
    for value in ["tophi on both ears", "pulse 82/min", "swollen left big toe", " "]:
        with subtests.test(value=value):
            checked = check_profile(CASE, Profile(basic=(COMPLAINT,), optional=(a_result(value),)))

            assert checked.profile.optional == ()
            assert [(d.part, d.value, d.why) for d in checked.dropped] == [
                ("optional", value, "the vignette does not hold it word for word")
            ]


def test_the_meaning_of_facts_is_not_checked(subtests: pytest.Subtests) -> None:
    table: list[Fact] = [
        a_fact("smoking", "smokes one pack of cigarettes every day"),
        a_fact("family history", "parents are well", imputed=True),
        a_fact("itching", "itches at night"),
        a_fact("smoking", "does not smoke", "I have never smoked."),
        a_fact("smoking", "smokes a pack of cigarettes daily", "No day goes by without a pack."),
    ]
    for fact in table:
        with subtests.test(fact=fact):
            proposed = Profile(demographics=(a_fact("age", "47 years"),), basic=(COMPLAINT, fact), made_by="openai/x")
            checked = check_profile(CASE, proposed)

            assert checked.profile == proposed
            assert checked.dropped == ()


def test_a_fact_that_names_the_answer_is_dropped_unless_the_vignette_names_it(subtests: pytest.Subtests) -> None:
    table: list[Fact] = [
        a_fact("past history", "gout flare last year"),
        a_fact("family history", "father was ill", "My father has had gout flares."),
        a_fact("family history", "father had podagra", imputed=True),
    ]
    for fact in table:
        with subtests.test(fact=fact):
            case = CASE.model_copy(update={"synonyms": ("Podagra",)})
            checked = check_profile(case, Profile(basic=(COMPLAINT, fact)))

            assert checked.profile.basic == (COMPLAINT,)
            assert [(d.part, d.value, d.why) for d in checked.dropped] == [
                ("basic", fact.value, "it names the answer, which the vignette does not")
            ]
            naming_case = case.model_copy(
                update={"vignette": f"{CASE.vignette} His father had gout flares, called podagra."}
            )
            assert check_profile(naming_case, Profile(basic=(COMPLAINT, fact))).dropped == ()


def test_an_edited_profile_is_stored_with_its_author_and_remarks() -> None:
    profile = Profile(basic=(COMPLAINT,), optional=(a_result("tophi on both ears"),))
    word = edited(CASE, profile, " Ada ")

    assert word.made_by == "Ada"
    assert word.profile is not None
    assert word.profile.optional == profile.optional
    assert remarks(CASE, profile) == ("Finding (“tophi on both ears”): the vignette does not hold it word for word.",)
    assert "tophi" in word.note
    assert remarks(CASE, Profile(basic=(COMPLAINT,))) == ()


def test_an_unplayable_profile_is_refused(subtests: pytest.Subtests) -> None:
    table: list[tuple[Profile, str, str]] = [
        (Profile(basic=(COMPLAINT,)), " ", "Say who"),
        (Profile(basic=(a_fact("cough", "no cough"),)), "Ada", "no chief complaint"),
        (Profile(basic=(COMPLAINT, a_fact("cough", "no cough", " "))), "Ada", "“cough” needs"),
        (Profile(basic=(COMPLAINT,), optional=(a_result("a swollen big toe", None),)), "Ada", "needs a section"),
    ]
    for profile, by, why in table:
        with subtests.test(profile=profile, by=by), pytest.raises(UsageError, match=why):
            edited(CASE, profile, by)


def test_an_imputed_complaint_does_not_count() -> None:
    assert has_complaint(Profile(basic=(COMPLAINT,)))
    assert not has_complaint(Profile(basic=(COMPLAINT.model_copy(update={"imputed": True}),)))
