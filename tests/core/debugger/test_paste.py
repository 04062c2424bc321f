"""Pasted cases: whole questions that are split, choices one a line, and texts that cannot be a case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.case import FINAL_QUESTION, Case
from core.datasets.library import library
from core.debugger.paste import Pasted, case_of, choices_in, read_pasted
from core.debugger.stored import set_apart
from core.errors import UsageError
from core.store.database import Store
from core.store.queries.cases import add_cases

STORY = "A 40-year-old man has scaly plaques on his elbows. He takes lithium and denies fever."
QUESTION = "What is the most likely diagnosis?"
PARTS = Pasted(STORY, QUESTION, ("Eczema", "Psoriasis"), "B")


def test_library_cases_with_labelled_choices_are_split() -> None:
    for case in library():
        choices = "\n".join(f"{letter}) {choice}" for letter, choice in case.letters.items())
        pasted = read_pasted(f"{case.vignette} {case.question}\r\n{choices}\n\nAnswer: {case.answer}\n")
        assert pasted == Pasted(case.vignette, case.question, case.choices, case.answer)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{STORY}\n{QUESTION}\n\n(a) Eczema\n\n(b) Psoriasis\nCorrect answer: B", PARTS),
        (
            f"{STORY} {QUESTION}\nA. Eczema\nB. Psoriasis\nIt runs in families.",
            replace(PARTS, answer="", left_out="It runs in families."),
        ),
        (
            f"{STORY}\nA. nail pits\nB. no fever\n\n{QUESTION}\nA. Eczema\nB. Psoriasis\nAnswer: B",
            replace(PARTS, vignette=f"{STORY}\nA. nail pits\nB. no fever"),
        ),
    ],
)
def test_a_question_is_split_at_its_labelled_choices(text: str, parts: Pasted) -> None:
    assert read_pasted(text) == parts


@pytest.mark.parametrize(
    "text", ["", STORY, f"{STORY} {QUESTION}", f"{STORY}\n- Eczema\n- Psoriasis", f"{STORY}\nA. one"]
)
def test_any_other_text_is_the_vignette(text: str) -> None:
    assert read_pasted(text) == Pasted(text)


def test_choices_lose_their_letters_only_if_all_lines_have_one() -> None:
    assert choices_in("a) Gout\n\n B. Wart ") == ("Gout", "Wart")
    assert choices_in("Gout\nA. Wart") == ("Gout", "A. Wart")
    assert choices_in("1. Gout\n2. Wart") == ("Gout", "Wart")
    assert choices_in("C. difficile\nE. coli") == ("C. difficile", "E. coli")


def pasted_case(title: str = "", **edited: Any) -> Case:
    return case_of(replace(PARTS, **edited), title=title)


def test_a_case_has_age_sex_and_a_title() -> None:
    case = pasted_case(question=" ")
    assert (case.age, case.sex, case.specialty, case.answer) == (40, "male", "Other", "Psoriasis")
    assert (case.dataset, case.question) == ("pasted", FINAL_QUESTION)
    assert case.case_key == "pasted/A 40-year-old man has scaly plaques on his elbows. He takes lithium and denies"
    assert pasted_case(title=" The clinic: second/visit ").case_key == "pasted/The clinic second visit"
    assert pasted_case(title="/").case_key == "pasted/without a title"
    assert pasted_case(answer="psoriasis vulgaris", choices=()).answer == "psoriasis vulgaris"


def test_two_pasted_cases_of_one_title_get_different_keys() -> None:
    first = pasted_case(title="Rash")
    assert set_apart(first) == first
    with Store().write() as connection:
        add_cases(connection, [first])
    assert set_apart(first) == first
    assert set_apart(pasted_case(title="Rash", answer="Eczema", choices=())).case_key == "pasted/Rash 2"


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ({"vignette": " "}, "There is no vignette"),
        ({"answer": " "}, "There is no answer"),
        ({"answer": "Gout"}, "'Gout' is none of the options"),
        ({"answer": "E"}, "'E' is none of the options"),
        ({"choices": ("Gout",), "answer": "A"}, "fewer than two options"),
        ({"choices": ("Gout", "gout"), "answer": "A"}, "Two choices are equal"),
        ({"vignette": "\ud800"}, "cannot be a case"),
    ],
)
def test_an_impossible_case_is_refused_with_a_sentence(edited: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pasted_case(**edited)
