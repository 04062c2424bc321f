"""Pasted text of odd shape: what is recognised, what is said of the rest, and what cannot be a case."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from core.case import FINAL_QUESTION, Case
from core.debugger.paste import case_of, read_pasted, title_of
from core.debugger.stored import set_apart
from core.errors import UsageError
from core.store.database import Store
from core.store.queries.cases import add_cases

STORY = "A 40-year-old man has scaly plaques on his elbows. He takes lithium and denies fever."
ASKED = "What is the most likely diagnosis?"
TWO = "A. Eczema\nB. Psoriasis"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"Answer: B\n\n{STORY} {ASKED}\n{TWO}", id="answer first"),
        pytest.param(f"{ASKED}\n\n{STORY}\n\n{TWO}\n\nKey: B", id="question first"),
        pytest.param(f"{STORY} {ASKED}\n{TWO}\nAnswer: B\nExplanation: Psoriasis has plaques.", id="explanation"),
        pytest.param(f"{STORY} {ASKED}\n{TWO}\nRationale: It is scaly.\nAnswer: B", id="answer after explanation"),
        pytest.param(f"{STORY} {ASKED}\n{TWO}\nAnswer: B\nScales are typical of psoriasis.", id="prose after answer"),
        pytest.param(f"{STORY}\n{ASKED}\n- A. Eczema\n- **B. Psoriasis**", id="bold choice"),
        pytest.param(f"{STORY}\n{ASKED}\n**A.** Eczema\n**B.** Psoriasis\nAnswer: **B**", id="bold letters"),
        pytest.param(f"{STORY}\n{ASKED}\n- [ ] Eczema\n- [x] Psoriasis", id="ticked box"),
        pytest.param(f"{STORY}\n{ASKED}\nA. Eczema\nB. Psoriasis (correct)", id="marked as correct"),
        pytest.param(f"{STORY} {ASKED} A) Eczema, B) Psoriasis. Ans: Psoriasis", id="one line with commas"),
        pytest.param(f"{STORY}\n{ASKED}\nOptions: Eczema; Psoriasis\nAnswer: psoriasis", id="listed after a header"),
        pytest.param(
            f"Case 3: {STORY}\nQuestion 3: {ASKED}\nAnswer choices:\n(A) Eczema\n(B) Psoriasis\n"
            "Correct answer:\nB) Psoriasis",
            id="labels",
        ),
        pytest.param(f"{STORY}\n{ASKED}\nA\nEczema\nB\nPsoriasis\nAnswer\nB", id="letters on lines of their own"),
        pytest.param(f"{STORY} {ASKED}\nA. Eczema.\nB. Psoriasis.\nThe answer is B.", id="full stops"),
        pytest.param(f"{STORY} {ASKED}\n1. Eczema\n2. Psoriasis\nAnswer: 2", id="numbers"),
        pytest.param(f"\ufeff\u00a0{STORY}\r\r\n{ASKED}\u2028{TWO}\u200b\nANS: (B)\n", id="odd blanks"),
        pytest.param(f"{STORY} {ASKED}\n{TWO}\nAnswer: A. Psoriasis", id="letter and words differ"),
        pytest.param(
            json.dumps(
                {
                    "case_vignette": f"{STORY} {ASKED}",
                    "choice_1": "Eczema",
                    "choice_2": "Psoriasis",
                    "answer": "Psoriasis",
                }
            ),
            id="CRAFT-MD as JSON",
        ),
        pytest.param(
            json.dumps(
                [
                    {
                        "context": STORY[:-1].split(". "),
                        "question": ASKED,
                        "answer_index": 1,
                        "options": ["Eczema", "Psoriasis"],
                    }
                ]
            ),
            id="sentences as a list",
        ),
        pytest.param(
            f"question\toptions\tanswer_idx\n{STORY} {ASKED}\t{{'A': 'Eczema', 'B': \"Psoriasis\"}}\tB",
            id="spreadsheet with a printed dictionary",
        ),
    ],
)
def test_the_parts_are_recognised(text: str) -> None:
    pasted = read_pasted(text)

    assert pasted.vignette == STORY
    assert pasted.question == ASKED
    assert pasted.choices == ("Eczema", "Psoriasis")
    assert pasted.answer == "Psoriasis"


def test_a_row_of_craft_md_without_its_header_brings_its_specialty() -> None:
    pasted = read_pasted(f'17,"{STORY} {ASKED}",Eczema,Psoriasis,Gout,Wart,Psoriasis,Cardiovascular System,d,1')

    assert (pasted.vignette, pasted.answer, pasted.choices[3]) == (STORY, "Psoriasis", "Wart")
    assert case_of(pasted).specialty == "Cardiology"


def test_lists_within_the_vignette_stay_there() -> None:
    findings = f"{STORY}\nFindings:\n- nail pits\n- no fever"
    pasted = read_pasted(f"{findings}\n\n{ASKED}\n- Eczema\n- Psoriasis\nAnswer: psoriasis")

    assert pasted.vignette == findings
    assert pasted.choices == ("Eczema", "Psoriasis")


def test_decimals_and_initials_are_no_choices() -> None:
    story = "A 9-year-old boy with hepatitis A. B. He weighs 25. 1. 5 mg of a drug were given."

    assert read_pasted(story).choices == ()


def test_an_unfinished_sentence_before_the_choices_is_the_question() -> None:
    pasted = read_pasted(f"{STORY} The most likely diagnosis is:\n{TWO}\nAnswer: A")

    assert (pasted.vignette, pasted.question) == (STORY, "The most likely diagnosis is:")


def test_a_vignette_without_its_last_full_stop_is_parted_from_the_question() -> None:
    pasted = read_pasted(f"{STORY} Nails are pitted {ASKED}\n{TWO}")

    assert (pasted.vignette, pasted.question) == (f"{STORY} Nails are pitted", ASKED)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", "Nothing was pasted"),
        (" \n\u00a0\r\n", "Nothing was pasted"),
        (ASKED, "No vignette was recognised"),
        (STORY, "No question was recognised"),
        (STORY, "No answer was recognised: name it."),
        (f"{STORY} {ASKED}\n{TWO}", "No answer was recognised: name it."),
        (f"{STORY} {ASKED}\nAnswer: Psoriasis", "No choices were recognised"),
        (f"{STORY} {ASKED}\n{TWO}\nAnswer: Gout", "The answer 'Gout' is none of the choices"),
        (f"{STORY} {ASKED}\n{TWO}\nAnswer: D", "given as 'D', but no such choice"),
        (f"{STORY} {ASKED}\nAnswer: C", "given as 'C', but no choices"),
        (f"{STORY} {ASKED}\n{TWO}\nAnswer: A. Psoriasis", "Letter and words of the answer differ"),
        (f"{STORY} {ASKED}\n{TWO}\nAnswer: B\nExplanation: scales", "An explanation was left out"),
        (f"{STORY} {ASKED}\nEczema\nPsoriasis\nAnswer: B", "lines after the question were taken for choices"),
        (f'{{"question": "{STORY}", "answer": "x"}}\n{{"question": "y", "answer": "x"}}', "2 rows were pasted"),
        (f"{STORY} " * 200, "has 3,000 words: check that it is one case"),
    ],
)
def test_what_is_missing_or_left_out_is_said(text: str, note: str) -> None:
    assert any(note in said for said in read_pasted(text).notes)


def test_an_explanation_never_reaches_the_vignette() -> None:
    pasted = read_pasted(f"{STORY} {ASKED}\n{TWO}\nAnswer: B\n\nPsoriasis runs in families.\nReferences: a book")

    assert "families" not in pasted.vignette
    assert "psoriasis" not in pasted.vignette.lower()


@pytest.mark.parametrize(
    "text",
    [
        STORY * 2400,
        "- \n" * 70_000,
        *(
            pytest.param(some, marks=pytest.mark.soak)
            for some in (
                "a " * 100_000,
                "\n" * 200_000,
                "*" * 200_000,
                "A. " * 70_000,
                "{" * 200_000,
                "a," * 100_000,
                "Answer: " * 25_000,
                "A. x\nB. y\n" * 20_000,
                "?" * 200_000,
            )
        ),
    ],
    ids=lambda text: repr(text[:10]),
)
def test_200_kilobytes_of_anything_are_read_in_a_moment(text: str) -> None:
    began = time.process_time()
    pasted = read_pasted(text)

    assert pasted.notes
    assert time.process_time() - began < 5


# cases


def pasted_case(title: str = "", **edited: Any) -> Case:
    return case_of(replace(read_pasted(f"{STORY} {ASKED}\n{TWO}\nAnswer: B"), **edited), title)


def test_a_case_is_made_with_age_sex_and_a_title_of_its_own_or_one_that_is_given() -> None:
    case = pasted_case()

    assert (case.age, case.sex, case.specialty, case.answer) == (40, "male", "Other", "Psoriasis")
    assert case.dataset == "pasted"
    assert case.case_key == "pasted/40-year-old man, scaly plaques on his elbows"
    assert pasted_case(title=" The clinic: second/visit ").case_key == "pasted/The clinic second visit"
    assert pasted_case(vignette="Feels odd all day and cannot say why, not even to her.").case_key == (
        "pasted/Feels odd all day and cannot say why"
    )
    girl = pasted_case(vignette="A 6-month-old girl has had a cough for two days.")
    assert girl.case_key == "pasted/6-month-old girl, cough"
    before = case.model_copy(update={"case_key": "pasted/0a1b2c3d"})  # as 0.2.0 kept it
    assert title_of(before) == "40-year-old man, scaly plaques on his elbows"


def test_two_pasted_cases_of_one_title_are_told_apart() -> None:
    first = pasted_case(title="Rash")
    assert set_apart(first) == first
    with Store().write() as connection:
        add_cases(connection, [first])
    assert set_apart(first) == first
    assert set_apart(pasted_case(title="Rash", answer="Eczema", choices=())).case_key == "pasted/Rash 2"


def test_edits_take_the_place_of_what_was_recognised_and_the_answer_may_be_a_letter() -> None:
    case = pasted_case(answer="c", choices=("Gout", " Wart ", "Tinea", ""), question=" ")

    assert (case.choices, case.answer, case.question) == (("Gout", "Wart", "Tinea"), "Tinea", FINAL_QUESTION)


def test_without_choices_any_answer_is_taken() -> None:
    assert pasted_case(choices=(), answer="Psoriasis vulgaris").answer == "Psoriasis vulgaris"


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ({"vignette": " "}, "There is no vignette"),
        ({"answer": " "}, "There is no answer"),
        ({"answer": None}, "There is no answer"),
        ({"answer": "Gout"}, "'Gout' is none of the choices"),
        ({"answer": "E"}, "no such choice"),
        ({"choices": ("Gout", "gout"), "answer": "A"}, "'Gout' stands there twice"),
        ({"specialty": "Surgery"}, "specialty 'Surgery' is unknown: choose one of Dermatology"),
    ],
)
def test_what_cannot_be_a_case_is_refused_in_one_sentence(edited: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pasted_case(**edited)
