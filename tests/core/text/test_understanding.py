"""What is understood of a question and its reply."""

from __future__ import annotations

import pytest

from core.text.findings import understanding

READER = understanding()


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        ("Have you had a fever?", "Yes.", {"fever": True}),
        ("Have you had a fever?", "No.", {"fever": False}),
        ("Have you had a fever?", "Yeah, since Monday.", {"fever": True}),
        ("Have you had a fever?", "Not that I know of.", {"fever": False}),
        ("Have you had a fever?", "Definitely not.", {"fever": False}),
        ("Have you had a fever?", "I do not.", {"fever": False}),
        ("Have you had a fever?", "I do.", {"fever": True}),
        ("Have you had a fever?", "I have no idea.", {}),
        ("Have you had a fever?", "I'm not sure.", {}),
        ("Have you had a fever?", "My notes do not mention it.", {}),
        ("Have you had a fever?", "No, but I have a cough.", {"fever": False, "cough": True}),
        ("Have you had a fever?", "I have a fever of 39 °C.", {"fever": True}),
        ("Have you had a fever?", "I haven't had a fever or a cough.", {"fever": False, "cough": False}),
        ("Hello, what brings you in?", "I have a fever.", {"fever": True}),
        ("Hello, what brings you in?", "Yes.", {}),
    ],
)
def test_a_reply_is_read_with_its_question(question: str, reply: str, expected: dict[str, bool]) -> None:
    assert dict(READER.reply_findings(question, reply)) == expected


def test_i_have_nothing_there_is_not_taken_for_a_yes() -> None:
    assert READER.reply_findings("Have you had chest pain?", "I have no pain there.").get("chest_pain") is not True


def test_lead_ins_do_not_hide_what_is_asked() -> None:
    assert READER.asked_findings("Thank you. Have you had a fever?")[0] == "fever"


@pytest.mark.parametrize(
    ("exchanges", "age", "sex"),
    [
        ([("How old are you, and are you a man or a woman?", "I'm 45. I'm a woman.")], 45, "female"),
        ([("How old are you?", "45")], 45, None),
        ([("How old are you?", "She is 6 months.")], 0.5, "female"),
        ([("What brings you in?", "I'm a 30-year-old man. I came with a cough.")], 30, "male"),
        ([("What brings you in?", "My 4-year-old daughter has a fever.")], 4, "female"),
        ([("What brings you in?", "My wife says she noticed a mole.")], None, None),
        ([("Has anyone been ill?", "A 3-year-old boy next door was.")], None, None),
        ([("How old are you?", "I'm 20."), ("How old?", "I'm 30.")], 20, None),
        ([("What brings you in?", "I have coughed for 3 weeks.")], None, None),
    ],
)
def test_age_and_sex_are_those_of_the_patient(
    exchanges: list[tuple[str, str]], age: float | None, sex: str | None
) -> None:
    evidence = READER.evidence_of_dialogue(tuple(exchanges))

    assert evidence.age == (None if age is None else pytest.approx(age))
    assert evidence.sex == sex


def test_later_words_win() -> None:
    evidence = READER.evidence_of_dialogue(
        (("Have you had a fever?", "No."), ("Have you had a cough?", "Yes, and a fever since today."))
    )

    assert evidence.findings == {"fever": True, "cough": True}
