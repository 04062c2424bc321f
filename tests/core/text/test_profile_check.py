"""What of a proposed profile holds against its case, and what is dropped, each with the reason."""

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


def told(key: str, value: str, lay: str = "So it is.", *, imputed: bool = False) -> Fact:
    return Fact(key=key, value=value, lay=lay, imputed=imputed)


def shown(value: str, section: FactSection | None = "examination") -> Fact:
    return Fact(key="finding", value=value, lay=value, section=section)


@pytest.mark.parametrize("value", ["a swollen big toe", "His pulse is 82/min", "EXAMINATION shows a swollen big toe."])
def test_a_result_of_the_vignette_is_kept_whatever_its_spaces_and_case(value: str) -> None:
    checked = check_profile(CASE, Profile(basic=(COMPLAINT,), optional=(shown(value),)))

    assert [f.value for f in checked.profile.optional] == [value]
    assert checked.dropped == ()


@pytest.mark.parametrize("value", ["tophi on both ears", "pulse 82/min", "swollen left big toe", " "])
def test_a_result_in_other_words_is_dropped_and_named(value: str) -> None:
    checked = check_profile(CASE, Profile(basic=(COMPLAINT,), optional=(shown(value),)))

    assert checked.profile.optional == ()
    assert [(d.part, d.value, d.why) for d in checked.dropped] == [
        ("optional", value, "the vignette does not hold it word for word")
    ]


@pytest.mark.parametrize(
    "fact",
    [
        told("smoking", "smokes one pack of cigarettes every day"),
        told("family history", "parents are well", imputed=True),
        told("itching", "itches at night"),
        told("smoking", "does not smoke", "I have never smoked."),
        told("smoking", "smokes a pack of cigarettes daily", "No day goes by without a pack."),
    ],
    ids=lambda fact: f"{fact.key}: {fact.value}",
)
def test_what_a_fact_means_is_left_to_who_wrote_it(fact: Fact) -> None:
    proposed = Profile(demographics=(told("age", "47 years"),), basic=(COMPLAINT, fact), made_by="openai/x")
    checked = check_profile(CASE, proposed)

    assert checked.profile == proposed
    assert checked.dropped == ()


@pytest.mark.parametrize(
    "fact",
    [
        told("past history", "gout flare last year"),
        told("family history", "father was ill", "My father has had gout flares."),
        told("family history", "father had podagra", imputed=True),
    ],
    ids=lambda fact: fact.lay,
)
def test_a_fact_that_names_the_answer_is_dropped_unless_the_vignette_names_it(fact: Fact) -> None:
    case = CASE.model_copy(update={"synonyms": ("Podagra",)})
    checked = check_profile(case, Profile(basic=(COMPLAINT, fact)))

    assert checked.profile.basic == (COMPLAINT,)
    assert [(d.part, d.value, d.why) for d in checked.dropped] == [
        ("basic", fact.value, "it names the answer, which the vignette does not")
    ]
    named = case.model_copy(update={"vignette": f"{CASE.vignette} His father had gout flares, called podagra."})
    assert check_profile(named, Profile(basic=(COMPLAINT, fact))).dropped == ()


def test_an_edited_profile_is_kept_under_a_name_with_remarks_that_forbid_nothing() -> None:
    profile = Profile(basic=(COMPLAINT,), optional=(shown("tophi on both ears"),))
    word = edited(CASE, profile, " Ada ")

    assert word.made_by == "Ada"
    assert word.profile is not None
    assert word.profile.optional == profile.optional
    assert remarks(CASE, profile) == ("Finding (“tophi on both ears”): the vignette does not hold it word for word.",)
    assert "tophi" in word.note
    assert remarks(CASE, Profile(basic=(COMPLAINT,))) == ()


@pytest.mark.parametrize(
    ("profile", "by", "why"),
    [
        (Profile(basic=(COMPLAINT,)), " ", "Say who"),
        (Profile(basic=(told("cough", "no cough"),)), "Ada", "no chief complaint"),
        (Profile(basic=(COMPLAINT, told("cough", "no cough", " "))), "Ada", "“cough” needs"),
        (Profile(basic=(COMPLAINT,), optional=(shown("a swollen big toe", None),)), "Ada", "needs a section"),
    ],
)
def test_what_cannot_be_played_is_not_saved(profile: Profile, by: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        edited(CASE, profile, by)


def test_an_imputed_complaint_is_none() -> None:
    assert has_complaint(Profile(basic=(COMPLAINT,)))
    assert not has_complaint(Profile(basic=(COMPLAINT.model_copy(update={"imputed": True}),)))
