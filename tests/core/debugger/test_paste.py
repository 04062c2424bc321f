"""Pasted cases: parts that are recognised, parts that stay empty with a note, and texts that cannot be a case."""

from __future__ import annotations

import csv
import io
import json
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.case import FINAL_QUESTION, Case
from core.datasets.library import library
from core.debugger.paste import case_of, read_pasted
from core.debugger.stored import set_apart
from core.errors import UsageError
from core.store.database import Store
from core.store.queries.cases import add_cases
from core.text.sections import sections_of

STORY = "A 40-year-old man has scaly plaques on his elbows. He takes lithium and denies fever."
QUESTION = "What is the most likely diagnosis?"
TWO_CHOICES = "A. Eczema\nB. Psoriasis"

# cases of the library in the layouts of real pastes


def letter(case: Case) -> str:
    return "ABCD"[case.choices.index(case.answer)]


def usmle(case: Case) -> str:
    """The layout of question banks: choices in lines."""
    choices = "\n".join(f"{name}. {choice}" for name, choice in case.letters.items())
    return f"{case.vignette}\n\n{case.question}\n\n{choices}\n\nCorrect answer: {letter(case)}. {case.answer}"


def one_line(case: Case) -> str:
    choices = " ".join(f"({name}) {choice}" for name, choice in case.letters.items())
    return f"{case.vignette} {case.question} {choices}\nAnswer: {case.answer}"


def wrapped(case: Case) -> str:
    """The layout of a mail: lines of at most 78 characters with Windows line ends, choices by number."""
    choices = [f"{number}) {choice}" for number, choice in enumerate(case.choices, start=1)]
    lines = [*textwrap.wrap(case.vignette, 78, break_on_hyphens=False), "", case.question, *choices]
    return "\r\n".join([*lines, f"Ans: {case.choices.index(case.answer) + 1}", ""])


def labelled(case: Case) -> str:
    """The layout of a prompt for a model, with Markdown and a non-breaking space."""
    choices = "\n".join(f"{name.lower()}) {choice}" for name, choice in case.letters.items())
    question = f"Question:\u00a0{case.question}\n\nOptions:\n{choices}"
    return f"**Vignette:** {case.vignette}\n\n{question}\n\n**Answer:** {case.answer}"


def json_row(case: Case) -> str:
    row = {"question": f"{case.vignette} {case.question}", "options": case.letters, "answer_idx": letter(case)}
    return json.dumps(row, indent=1)


def csv_row(case: Case) -> str:
    written = io.StringIO()
    writer = csv.writer(written)
    header = (
        "case_vignette",
        "choice_1",
        "choice_2",
        "choice_3",
        "choice_4",
        "answer",
        "category",
        "dataset",
        "case_id",
    )
    writer.writerow(header)
    writer.writerow([f"{case.vignette} {case.question}", *case.choices, case.answer, case.specialty, "d", "17"])
    return written.getvalue()


@pytest.mark.parametrize("layout", [usmle, one_line, wrapped, labelled, json_row, csv_row])
def test_every_case_of_the_library_is_recognised_in_every_layout(layout: Callable[[Case], str]) -> None:
    for case in library():
        pasted = read_pasted(layout(case))

        assert " ".join(pasted.vignette.split()) == case.vignette
        assert pasted.question == case.question
        assert pasted.choices == case.choices
        assert pasted.answer == case.answer
        assert not any("recognised" in note for note in pasted.notes)


def test_a_library_case_pasted_has_its_age_and_sex_and_every_sentence_in_a_section() -> None:
    for case in library():
        pasted = read_pasted(usmle(case))
        made = case_of(replace(pasted, specialty=case.specialty))

        assert (made.sex, made.specialty, made.dataset) == (case.sex, case.specialty, "pasted")
        assert made.age == pytest.approx(case.age, abs=0.02)
        assert " ".join(sentence for _, sentence in sections_of(pasted.vignette)) == case.vignette


# smaller differences of layout


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"Answer: B\n\n{STORY} {QUESTION}\n{TWO_CHOICES}", id="answer first"),
        pytest.param(
            f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: B\nExplanation: Psoriasis has plaques.", id="explanation"
        ),
        pytest.param(
            f"{STORY} {QUESTION}\n{TWO_CHOICES}\nRationale: It is scaly.\nAnswer: B", id="answer after explanation"
        ),
        pytest.param(f"{STORY} {QUESTION} A) Eczema, B) Psoriasis. Ans: Psoriasis", id="all in one line"),
        pytest.param(f"{STORY} {QUESTION} Options: 1. Eczema 2. Psoriasis\nKey: 2", id="numbers in a line"),
        pytest.param(
            f"Case 3: {STORY}\nQuestion 3: {QUESTION}\nAnswer choices:\n(A) Eczema\n(B) Psoriasis\n"
            "Correct answer:\nB) Psoriasis",
            id="labels",
        ),
        pytest.param(f"{STORY}\n{QUESTION}\nA.\nEczema\nB.\nPsoriasis\nAnswer: B", id="letters on separate lines"),
        pytest.param(f"{STORY} {QUESTION}\nA. Eczema.\nB. Psoriasis.\nThe answer is B.", id="full stops"),
        pytest.param(f"{STORY}{QUESTION}\n{TWO_CHOICES}\nAnswer: B", id="no space before the question"),
        pytest.param(f"\ufeff\u00a0{STORY}\r\r\n{QUESTION}\u2028{TWO_CHOICES}\u200b\nANS: (B)\n", id="odd blanks"),
        pytest.param(
            json.dumps(
                {
                    "vignette": f"{STORY} {QUESTION}",
                    "choice_1": "Eczema",
                    "choice_2": "Psoriasis",
                    "answer": "Psoriasis",
                }
            ),
            id="JSON with a column for each choice",
        ),
        pytest.param(
            f"question\toptions\tanswer\n{STORY} {QUESTION}\t{{'A': 'Eczema', 'B': \"Psoriasis\"}}\tB",
            id="spreadsheet with a printed dictionary",
        ),
    ],
)
def test_the_parts_are_recognised(text: str) -> None:
    pasted = read_pasted(text)

    assert pasted.vignette == STORY
    assert pasted.question == QUESTION
    assert pasted.choices == ("Eczema", "Psoriasis")
    assert pasted.answer == "Psoriasis"


def test_without_choices_the_answer_is_free_text() -> None:
    pasted = read_pasted(f"{STORY} {QUESTION}\nAnswer: Psoriasis vulgaris")

    assert (pasted.vignette, pasted.question, pasted.choices) == (STORY, QUESTION, ())
    assert pasted.answer == "Psoriasis vulgaris"
    assert any("No choices were recognised" in note for note in pasted.notes)


def test_a_row_contains_its_specialty() -> None:
    header = "case_vignette,choice_1,choice_2,choice_3,choice_4,answer,category,dataset,case_id"
    pasted = read_pasted(
        f'{header}\n"{STORY} {QUESTION}",Eczema,Psoriasis,Gout,Wart,Psoriasis,Cardiovascular System,d,1'
    )

    assert pasted.choices == ("Eczema", "Psoriasis", "Gout", "Wart")
    assert case_of(pasted).specialty == "Cardiology"


def test_an_unfinished_sentence_before_the_choices_is_the_question() -> None:
    pasted = read_pasted(f"{STORY} The most likely diagnosis is:\n{TWO_CHOICES}\nAnswer: A")

    assert (pasted.vignette, pasted.question) == (STORY, "The most likely diagnosis is:")
    assert pasted.choices == ("Eczema", "Psoriasis")


# uncertain parts are left to the user


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{STORY}\n{QUESTION}\n- Eczema\n- Psoriasis\nAnswer: Psoriasis", id="bullets"),
        pytest.param(f"{STORY}\n{QUESTION}\nEczema\nPsoriasis\nAnswer: Psoriasis", id="lines without letters"),
        pytest.param(f"{STORY}\n{QUESTION}\nOptions: Eczema; Psoriasis\nAnswer: Psoriasis", id="a list in a sentence"),
        pytest.param(f"{STORY}\n{QUESTION}\nA. Eczema\nC. Psoriasis\nAnswer: Psoriasis", id="a letter is missing"),
        pytest.param(
            f"{STORY}\n{QUESTION}\nA. Eczema\nB. Psoriasis (correct)\nAnswer: Psoriasis", id="marked as right"
        ),
        pytest.param(f"{STORY}\n{QUESTION}\n**A.** Eczema\n*B.* Psoriasis\nAnswer: Psoriasis", id="bold letters"),
        pytest.param(f"{STORY}\n{QUESTION}\nA. {'so ' * 50}\nB. Psoriasis\nAnswer: Psoriasis", id="prose with letters"),
    ],
)
def test_uncertain_choices_stay_empty_and_out_of_the_vignette(text: str) -> None:
    pasted = read_pasted(text)

    assert pasted.choices == ()
    assert any("No choices were recognised" in note for note in pasted.notes)
    assert any("was left out" in note for note in pasted.notes)
    assert (pasted.vignette, pasted.question, pasted.answer) == (STORY, QUESTION, "Psoriasis")


@pytest.mark.parametrize(
    "findings",
    [
        "Findings:\n- nail pits\n- no fever",
        "Findings:\nA. nail pits\nB. no fever",
        "Primary survey:\nA: patent\nB: 20 breaths a minute\nC: pulse 80\nD: alert\nE: plaques",
        "He has had: 1. a cough 2. a cold",
    ],
)
def test_lists_within_the_vignette_are_no_choices(findings: str) -> None:
    with_choices = read_pasted(f"{STORY}\n{findings}\n\n{QUESTION}\n{TWO_CHOICES}\nAnswer: psoriasis")
    assert (with_choices.vignette, with_choices.choices) == (f"{STORY}\n{findings}", ("Eczema", "Psoriasis"))

    without = read_pasted(f"{STORY}\n{findings}\n\n{QUESTION}\nAnswer: psoriasis")
    assert (without.vignette, without.choices) == (f"{STORY}\n{findings}", ())


def test_decimals_and_initials_are_no_choices() -> None:
    story = "A 9-year-old boy with hepatitis A. B. He weighs 25. 1. 5 mg of a drug were given."

    assert read_pasted(story).choices == ()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", "No vignette was recognised"),
        (QUESTION, "No vignette was recognised"),
        (f"{QUESTION}\n\n{STORY}\n\n{TWO_CHOICES}\n\nKey: Psoriasis", "No vignette was recognised"),
        (STORY, "No question was recognised"),
        (STORY, "No answer was recognised: name it."),
        (f"{STORY} {QUESTION}\n{TWO_CHOICES}", "No answer was recognised: name it."),
        (f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: Gout", "the answer 'Gout' is none of the options"),
        (f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: D", "the answer 'D' is none of the options A to B"),
        (f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: A. Psoriasis", "'A. Psoriasis' is none of the options"),
        (f"{STORY} {QUESTION}\nAnswer: C", "given as 'C', but there are no choices"),
        (
            f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: B\nExplanation: scales",
            "The text after the answer was left out",
        ),
        (f'{{"question": "{STORY}", "answer": "x"}}\n{{"question": "y z", "answer": "x"}}', "2 rows were pasted"),
        (
            json.dumps({"question": STORY, "options": ["Gout", "Wart"], "answer": "Eczema"}),
            "was not read: the answer 'Eczema' is none of the options",
        ),
        (f"question,options,answer\n{STORY},Gout|Wart,Gout,too many", "was not read: 4 fields instead of 3"),
    ],
)
def test_missing_and_ignored_parts_are_noted(text: str, note: str) -> None:
    assert any(note in line for line in read_pasted(text).notes)


def test_an_explanation_never_reaches_the_vignette() -> None:
    pasted = read_pasted(
        f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: B\n\nPsoriasis runs in families.\nReferences: a book"
    )

    assert "families" not in pasted.vignette
    assert "psoriasis" not in pasted.vignette.lower()


@pytest.mark.parametrize(
    "unit",
    [
        STORY,
        "- \n",
        "A. x\nB. y\n",
        *(
            pytest.param(some, marks=pytest.mark.soak)
            for some in ("a ", "\n", "*", "A. ", "{", "[", "a,", "Answer: ", "?", "What ", "is ", '{"a":', "\t\u00a0")
        ),
    ],
    ids=repr,
)
def test_200_kilobytes_of_hostile_text_are_read_in_linear_time(unit: str) -> None:
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        began = time.process_time()
        assert read_pasted(text).notes
        assert read_pasted(f"{STORY} {QUESTION}\n{text}").notes
        return time.process_time() - began

    assert seconds(200_000) < max(1.0, 16 * seconds(50_000))  # four times as long: linear takes four times


# cases


def pasted_case(title: str = "", **edited: Any) -> Case:
    return case_of(replace(read_pasted(f"{STORY} {QUESTION}\n{TWO_CHOICES}\nAnswer: B"), **edited), title)


def test_a_case_has_age_sex_and_a_title() -> None:
    case = pasted_case()

    assert (case.age, case.sex, case.specialty, case.answer) == (40, "male", "Other", "Psoriasis")
    assert case.dataset == "pasted"
    assert case.case_key == "pasted/A 40-year-old man has scaly plaques on his elbows. He takes lithium and denies"
    assert pasted_case(title=" The clinic: second/visit ").case_key == "pasted/The clinic second visit"
    assert pasted_case(title="/").case_key == "pasted/without a title"


def test_two_pasted_cases_of_one_title_get_different_keys() -> None:
    first = pasted_case(title="Rash")
    assert set_apart(first) == first
    with Store().write() as connection:
        add_cases(connection, [first])
    assert set_apart(first) == first
    assert set_apart(pasted_case(title="Rash", answer="Eczema", choices=())).case_key == "pasted/Rash 2"


def test_edits_replace_recognised_parts_and_the_answer_may_be_a_letter() -> None:
    case = pasted_case(answer="c", choices=("Gout", " Wart ", "Tinea", ""), question=" ")

    assert (case.choices, case.answer, case.question) == (("Gout", "Wart", "Tinea"), "Tinea", FINAL_QUESTION)


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ({"vignette": " "}, "There is no vignette"),
        ({"answer": " "}, "There is no answer"),
        ({"answer": "Gout"}, "'Gout' is none of the options"),
        ({"answer": "E"}, "'E' is none of the options"),
        ({"answer": "E", "choices": ("Gout",)}, "'E' is none of the options"),
        ({"answer": "B)", "choices": ()}, "there are no choices"),
        ({"choices": ("Gout", "gout"), "answer": "A"}, "Two choices are equal"),
        ({"vignette": "\ud800"}, "cannot be a case"),
    ],
)
def test_an_impossible_case_is_refused_with_a_sentence(edited: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pasted_case(**edited)
