"""Whatever layout a case is pasted in, the same vignette, question, choices and answer are recognised."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import replace

import pytest

from core.case import Case
from core.datasets.library import library
from core.debugger.paste import case_of, read_pasted
from core.text.sections import sections_of


def letter(case: Case) -> str:
    return "ABCD"[case.choices.index(case.answer)]


def lettered_lines(case: Case) -> str:
    choices = "\n".join(f"{name}. {choice}" for name, choice in case.letters.items())
    return f"{case.vignette}\n\n{case.question}\n\n{choices}\n\nCorrect answer: {letter(case)}. {case.answer}"


def one_line(case: Case) -> str:
    choices = " ".join(f"({name}) {choice}" for name, choice in case.letters.items())
    return f"{case.vignette} {case.question} {choices}\nAnswer: {case.answer}"


def mail(case: Case) -> str:
    """Broken at 78 columns, Windows line ends, numbered."""
    story = textwrap.wrap(case.vignette, 78)
    choices = [f"{number}) {choice}" for number, choice in enumerate(case.choices, start=1)]
    lines = [*story, "", case.question, *choices, f"Ans: {case.choices.index(case.answer) + 1}", ""]
    return "\r\n".join(lines)


def labelled_bullets(case: Case) -> str:
    choices = "\n".join(f"• {choice}" for choice in case.choices)
    return f"Vignette: {case.vignette}\n\nQuestion: {case.question}\n\nOptions:\n{choices}\n\n**Key:** {case.answer}"


def starred(case: Case) -> str:
    """A non-breaking space before the question, small letters, the right choice starred."""
    choices = [
        f"{'*' if choice == case.answer else ''}{name.lower()}) {choice}" for name, choice in case.letters.items()
    ]
    return "\n".join([f"{case.vignette}\u00a0{case.question}", *choices])


def unmarked(case: Case) -> str:
    choices = "\n".join(case.choices)
    return f"{case.vignette} {case.question}\n{choices}\n\nThe correct answer is {letter(case)}."


def medqa(case: Case) -> str:
    row = {"question": f"{case.vignette} {case.question}", "options": case.letters, "answer_idx": letter(case)}
    return json.dumps(row, indent=1)


def craftmd(case: Case) -> str:
    cells = [f"{case.vignette} {case.question}", *case.choices, case.answer, case.specialty, "d", "17"]
    header = "case_vignette,choice_1,choice_2,choice_3,choice_4,answer,category,dataset,case_id"
    return header + "\r\n" + ",".join(f'"{cell}"' for cell in cells)


@pytest.mark.parametrize(
    "layout", [lettered_lines, one_line, mail, labelled_bullets, starred, unmarked, medqa, craftmd]
)
def test_every_case_of_the_library_comes_back_as_it_was(layout: Callable[[Case], str]) -> None:
    for case in library():
        pasted = read_pasted(layout(case))

        assert pasted.vignette == case.vignette
        assert pasted.question == case.question
        assert pasted.choices == case.choices
        assert pasted.answer == case.answer


def test_a_library_case_pasted_has_its_age_and_sex_and_every_sentence_in_a_section() -> None:
    for case in library():
        pasted = read_pasted(lettered_lines(case))
        made = case_of(replace(pasted, specialty=case.specialty))

        assert (made.sex, made.specialty, made.dataset) == (case.sex, case.specialty, "pasted")
        assert made.age == pytest.approx(case.age, abs=0.02)
        assert " ".join(sentence for _, sentence in sections_of(pasted.vignette)) == case.vignette
