"""Parts read from the text of a case: question, sentences, age and sex, examination; and its hashes."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.case import FINAL_QUESTION, Case, Fact, Profile, case_set_hash
from core.text.demographics import age_and_sex, read_demographics
from core.text.questions import question_kind, split_question, stated_kind
from core.text.sections import examination_of, sentences


def make(**changes: object) -> Case:
    fields = {
        "case_key": "t/1",
        "dataset": "t",
        "specialty": "Other",
        "vignette": "A 40-year-old man has a rash.",
        "answer": "Psoriasis",
    }
    return Case.model_validate({**fields, **changes})


def test_the_question_is_cut_from_the_vignette(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, str | None]] = [
        ("A man coughs. What is the diagnosis?", "A man coughs.", "What is the diagnosis?"),
        ("What is it? A man coughs.", "A man coughs.", "What is it?"),
        ("A man coughs. What is it? And why?", "A man coughs. And why?", "What is it?"),
        ("A man coughs.\nHe sweats. What is it?", "A man coughs.\nHe sweats.", "What is it?"),
        ("Really? A man coughs.\nWhat is it?", "Really? A man coughs.", "What is it?"),
        ("A man coughs.", "A man coughs.", FINAL_QUESTION),
        ("Is it gout? He asks.\nHe has fever.", "Is it gout? He asks.\nHe has fever.", FINAL_QUESTION),
        ("  What is it?  ", "What is it?", FINAL_QUESTION),
        ("The drug (is it safe?) was given. It is 3.5 mg. Which is it?", "It is 3.5 mg. Which is it?", None),
    ]
    for text, vignette, question in table:
        with subtests.test(text=text, vignette=vignette):
            parts = split_question(text)

            assert parts[0] == vignette
            if question is not None:
                assert parts[1] == question


def test_splitting_off_the_question_loses_no_word() -> None:
    text = "A 5-year-old girl coughs.\n\nShe has a fever of 38.5 °C. Which of these is likeliest?"

    vignette, question = split_question(text)

    assert sorted(f"{vignette} {question}".split()) == sorted(text.split())


def test_sentences() -> None:
    table: list[tuple[str, list[str]]] = [
        ("He is ill. She is well.", ["He is ill.", "She is well."]),
        ("The value is 3.5 mg/dL. It rose.", ["The value is 3.5 mg/dL.", "It rose."]),
        ("Dr. Smith came. He left.", ["Dr. Smith came.", "He left."]),
        ("It lasts approx. 30 minutes. Then it goes.", ["It lasts approx. 30 minutes.", "Then it goes."]),
        ('He said "no." Then he left!', ['He said "no.', "Then he left!"]),
        ("One\nTwo.", ["One", "Two."]),
        ("", []),
    ]
    wrong = [(text, got) for text, parts in table if (got := sentences(text)) != parts]
    assert wrong == []


def test_age_and_sex_are_read_from_prose(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, float | None, str | None]] = [
        ("A 45-year-old woman has a cough.", 45, "female"),
        ("A man, aged 68 years, has a rash.", 68, "male"),
        ("A 6-month-old boy vomits.", 0.5, "male"),
        ("A 2-week-old girl is brought by her father.", 14 / 365.25, "female"),
        ("An 18 year old male runs.", 18, "male"),
        ("A 7-year-old boy is brought by his mother.", 7, "male"),
        ("A pregnant student feels sick.", None, "female"),
        ("A newborn girl turns blue.", 0, "female"),
        ("A one-year-old boy falls.", 1, "male"),
        ("A 37‐year‐old woman falls.", 37, "female"),
        ("There is a rash of 3 weeks.", None, None),
        ("A 6-year-old is brought by her mother because he limps.", 6, "male"),
        ("A worried mother comes with her 4-year-old son. She says that he limps.", 4, "male"),
        ("A boy's father brings the 3-week-old infant; his wife says that she vomits.", 21 / 365.25, "male"),
        ("A male newborn weighs 3200 g; his 27-year-old mother is well.", 27, "male"),
        ("A child limps. Her father says that he saw her fall.", None, "female"),
    ]
    for text, age, sex in table:
        with subtests.test(text=text, age=age):
            demographics = read_demographics(text)

            assert demographics[0] == (None if age is None else pytest.approx(age))
            assert demographics[1] == sex


def test_a_specialty_is_free_text_and_not_empty() -> None:
    assert make(specialty="Sleep medicine").specialty == "Sleep medicine"
    with pytest.raises(ValidationError, match="at least 1 character"):
        make(specialty="")


def test_the_hash_depends_on_fields_that_can_change_a_result(subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, object], bool]] = [
        ({"source": "elsewhere"}, True),
        ({"licence": "MIT"}, True),
        ({"vignette": "Another."}, False),
        ({"answer": "Eczema"}, False),
        ({"choices": ("a", "b")}, False),
        ({"synonyms": ("x",)}, False),
    ]
    for changes, same in table:
        with subtests.test(changes=changes, same=same):
            assert (make().content_hash == make(**changes).content_hash) is same


def test_the_hash_of_a_set_does_not_depend_on_its_order_but_on_its_members() -> None:
    first, second = make(), make(case_key="t/2")

    assert case_set_hash([first, second]) == case_set_hash([second, first])
    assert case_set_hash([first]) != case_set_hash([first, second])


def test_a_case_is_immutable_and_refuses_unknown_fields() -> None:
    with pytest.raises(ValidationError):
        make().answer = "Eczema"
    with pytest.raises(ValidationError):
        make(colour="blue")


def test_the_examination_of_a_profile_consists_of_its_optional_facts() -> None:
    facts = (
        Fact(key="pulse", value="72/min", lay="My pulse was fine.", section="vital_signs"),
        Fact(key="skin", value="red plaques.", lay="They saw patches.", section="examination"),
        Fact(key="sodium", value="121 mEq/L", lay="My salt was low.", section="laboratory"),
    )
    symptom = Fact(key="cough", value="cough", lay="I cough.")
    case = make(profile=Profile(basic=(symptom,), optional=facts))

    assert examination_of(case) == "Pulse: 72/min. Skin: red plaques. Sodium: 121 mEq/L."
    assert examination_of(make(profile=Profile(basic=(symptom,)))) is None


def test_the_examination_of_a_vignette_are_its_findings() -> None:
    table: list[tuple[str, str]] = [
        ("He coughs. He smokes.", "On physical examination, the spleen is felt."),
        ("He coughs at night.", "Physical exam reveals a soft belly. There is no edema."),
        ("His knee has ached for a week.", "Examination revealed a warm knee. The other joints are normal."),
        ("She reports a sore throat.", "On exam, the tonsils are red. No nodes are felt."),
        ("She is tired.", "Temperature is 38.4 °C, BP 98/60 mm Hg, and oxygen saturation 93%."),
        ("He is tired.", "He weighs 61 kg; BMI is 31 kg/m2."),
        ("She is pale.", "Hemoglobin is 8 g/dL. A smear shows small red cells."),
        ("He has passed blood.", "Colonoscopy reveals a polyp. A biopsy specimen shows cancer."),
        ("He fainted.", "Electrocardiography shows long pauses. Chest x-ray is clear."),
        ("Her arm itches.", "There is a 2-cm erythematous plaque with a sharp border. It does not blanch."),
        ("He itches.", "You notice a pearly papule next to the nose."),
        ("She shakes.", "Her Glasgow coma scale is 9. She appears anxious."),
    ]
    wrong = [
        (history, examination, got)
        for history, examination in table
        if (got := examination_of(make(vignette=f"A 40-year-old patient comes. {history} {examination}")))
        != examination
    ]
    assert wrong == []


def test_a_history_that_mentions_an_examination_is_none() -> None:
    table: list[str] = [
        "He coughs.",
        "The last physical examination, two years ago, was normal.",
        "His doctor told him of high blood pressure, and he takes a tablet for it.",
        "She says that her skin is red after every shower.",
        "There is no family history of skin cancer.",
    ]
    wrong = [
        (history, got)
        for history in table
        if (got := examination_of(make(vignette=f"A 40-year-old patient comes. {history}"))) is not None
    ]
    assert wrong == []


def test_an_examination_keeps_its_table_without_the_history_after_it() -> None:
    case = make(
        vignette="A man coughs.\nLaboratory tests show:\nSodium 131 mEq/L\nUrinalysis\nBlood 3+\nHe smokes a pipe."
    )

    assert examination_of(case) == "Laboratory tests show:\nSodium 131 mEq/L\nUrinalysis\nBlood 3+"


def test_age_and_sex_in_words(subtests: pytest.Subtests) -> None:
    table: list[tuple[float | None, str | None, str]] = [
        (34, "female", "34 years old, female"),
        (0.5, "male", "6 months old, male"),
        (3 / 365.25, None, "3 days old"),
        (None, None, "40 years old, male"),
    ]
    for age, sex, words in table:
        with subtests.test(age=age, sex=sex):
            case = make(age=age, sex=sex) if age is None or sex else make(age=age, vignette="A rash.")

            assert age_and_sex(case) == words


def test_letters_start_at_a() -> None:
    assert make(choices=("x", "y", "z")).letters == {"A": "x", "B": "y", "C": "z"}


def test_newer_fields_change_no_hash_of_older_cases() -> None:
    fact = Fact(key="smoking", value="does not smoke", lay="I don't smoke.")
    case = Case(
        case_key="x/1", dataset="x", specialty="Other", vignette="A man.", answer="Gout", profile=Profile(basic=(fact,))
    )
    assert '"imputed"' not in case.model_dump_json()
    assert '"made_by"' not in case.model_dump_json()
    imputed = Profile(basic=(fact.model_copy(update={"imputed": True}),), made_by="rules-1")
    changed = case.model_copy(update={"profile": imputed})
    assert changed.content_hash != case.content_hash
    assert Case.model_validate_json(changed.model_dump_json()) == changed


def test_the_kind_of_a_question_is_read_from_it_unless_stated() -> None:
    plain = make()
    treated = make(question="Which of the following is the most appropriate treatment?")
    stated = make(question="What should be done for him now?", asks_for="test")

    assert [question_kind(case) for case in (plain, treated, stated)] == ["diagnosis", "treatment", "test"]
    for case in (plain, treated, stated):
        assert Case.model_validate_json(case.model_dump_json()) == case
    assert "asks_for" not in plain.model_dump_json()
    assert "asks_for" not in treated.model_dump_json()
    with pytest.raises(ValidationError):
        make(asks_for="riddle")


def test_only_a_stated_kind_of_question_changes_the_hash_of_a_case() -> None:
    treated = make(question="Which of the following is the most appropriate treatment?")

    assert make().content_hash == "0ca90adf0c86a4e3"
    assert treated.content_hash == "020890f1e6f9143a"  # as stored before cases had the field
    assert stated_kind(treated.question, "treatment") is None, "a kind that the rule recognises is not stored"
    assert make(question=treated.question, asks_for=stated_kind(treated.question, "other")).content_hash not in (
        treated.content_hash,
        make().content_hash,
    )
