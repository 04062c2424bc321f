"""What of a proposed profile holds against its case, and what is dropped, each with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.case import Case, Fact, Profile, Section
from core.errors import UsageError
from core.text.persons import speaking_of
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


def shown(value: str, section: Section | None = "examination") -> Fact:
    return Fact(key="finding", value=value, lay=value, section=section)


def whys(profile: Profile) -> dict[str, str]:
    return {d.value: d.why for d in check_profile(CASE, profile).dropped}


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


def test_age_and_sex_are_the_sources() -> None:
    proposed = Profile(
        demographics=(told("age", "47 years"), told("sex", "man", "I'm a man."), told("occupation", "astronaut")),
        basic=(COMPLAINT,),
    )
    checked = check_profile(CASE, proposed)

    assert [(f.key, f.value) for f in checked.profile.demographics] == [("age", "52-year-old"), ("sex", "man")]
    assert {d.value: d.why for d in checked.dropped} == {
        "47 years": "the source says 52-year-old",
        "astronaut": "the source does not say so",
    }


def test_what_the_source_says_in_other_grammar_is_no_invention() -> None:
    profile = Profile(
        basic=(COMPLAINT, told("smoking", "smokes one pack of cigarettes every day"), told("fever", "no fever"))
    )

    checked = check_profile(CASE, profile)

    assert [f.imputed for f in checked.profile.basic] == [False, False, False]
    assert checked.dropped == ()


def test_history_that_the_source_does_not_hold_counts_as_imputed() -> None:
    profile = Profile(basic=(COMPLAINT, told("family history", "parents are well", "My parents are well.")))

    (_, parents) = check_profile(CASE, profile).profile.basic

    assert parents.imputed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("itching", "itches at night"),
        ("onset", "for 6 months"),
        ("symptoms", "pain in the right foot, and knee"),
        ("chief complaint", "hiccups"),
    ],
)
@pytest.mark.parametrize("imputed", [False, True])
def test_symptoms_and_times_are_never_made_up(key: str, value: str, imputed: bool) -> None:
    profile = Profile(basic=(told(key, value, imputed=imputed),))

    assert whys(profile) == {value: "the source does not say so, and only history may be made up"}


def test_a_duration_may_be_made_up_where_the_source_says_nothing_of_time() -> None:
    profile = Profile(basic=(COMPLAINT, told("duration", "for 6 months", "For half a year.", imputed=True)))
    silent = CASE.model_copy(update={"vignette": "A 40-year-old man has itching of the elbows."})
    assert [f.imputed for f in check_profile(silent, profile).profile.basic if f.key == "duration"] == [True]
    timed = CASE.model_copy(update={"vignette": "A 40-year-old man has had itching of the elbows for two days."})
    (dropped,) = [d for d in check_profile(timed, profile).dropped if d.key == "duration"]
    assert dropped.why == "it is made up and the source says how long"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("family history", "father had gout"),
        ("past history", "no diabetes"),
        ("past history", "cellulitis as a child"),
        ("past history", "diabetic since 2010"),
    ],
)
def test_what_is_made_up_must_not_touch_the_answer_or_a_choice(key: str, value: str) -> None:
    profile = Profile(basic=(COMPLAINT, told(key, value, imputed=True)))
    why = whys(profile).get(value)

    assert why == "it is made up and touches the answer or a choice"


@pytest.mark.parametrize("lay", ["I have never smoked.", "I don't smoke."])
def test_what_is_made_up_must_not_say_the_opposite_of_the_vignette(lay: str) -> None:
    profile = Profile(basic=(COMPLAINT, told("smoking", "does not smoke", lay, imputed=True)))

    assert whys(profile) == {"does not smoke": "it is made up and says the opposite of the vignette"}


def test_what_says_the_opposite_is_dropped_also_where_it_claims_to_be_the_source() -> None:
    assert "no cigarettes" in whys(Profile(basic=(COMPLAINT, told("smoking", "no cigarettes", "I don't smoke."))))


def test_a_result_is_nothing_that_the_patient_tells() -> None:
    profile = Profile(basic=(COMPLAINT, told("blood tests", "uric acid of 9 mg/dL", "My uric acid is 9.")))

    assert whys(profile) == {"uric acid of 9 mg/dL": "only examination or tests showed it"}


def test_lay_words_that_give_the_answer_away_are_said_anew() -> None:
    profile = Profile(basic=(COMPLAINT.model_copy(update={"lay": "I think it is a gout flare."}),))

    assert check_profile(CASE, profile).profile.basic[0].lay == "Burning pain in my left foot."


def test_a_carers_words_are_the_third_persons() -> None:
    speaking = replace(speaking_of(CASE), caregiver=True)
    checked = check_profile(CASE, Profile(basic=(COMPLAINT.model_copy(update={"lay": ""}),)), speaking)

    assert checked.profile.basic[0].lay == "Burning pain in his left foot."
    assert checked.profile.demographics[0].lay == "He is 52 years old."


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


def test_a_fact_of_the_source_is_kept_though_rules_on_words_would_call_its_lay_words_the_opposite() -> None:
    smoking = told("smoking", "smokes a pack of cigarettes daily", "No day goes by without a pack.")

    checked = check_profile(CASE, Profile(basic=(COMPLAINT, smoking)))

    assert checked.profile.basic[1:] == (smoking,)
    assert checked.dropped == ()
