"""A case from pasted text: a whole question with labelled choices, or parts that the user enters one by one."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from textwrap import shorten

from pydantic import ValidationError

from core.case import FINAL_QUESTION, Case
from core.datasets.readers.format import RowError
from core.datasets.readers.formats.plain import right_option
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.values import checked_options, with_letters, without_labels
from core.errors import UsageError

DATASET = "pasted"
LONGEST_TITLE = 80
"""Characters of a pasted case's title."""
_LABELLED = re.compile(r"[ \t]*[(\[]?([A-Za-z])[.):\]]+[ \t]+(\S.*)")
"""A choice with its letter: "A. Gout", "(b) Gout"."""
_ANSWER = re.compile(r"\s*(?:(?:correct|right) )?answer\s*(?::|is)\s*([^\n]+)\n*", re.IGNORECASE)


@dataclass(frozen=True)
class Pasted:
    """The parts of a pasted case; ``left_out`` is text after the answer or the choices, which no part has."""

    vignette: str
    question: str = FINAL_QUESTION
    choices: tuple[str, ...] = ()
    answer: str = ""
    left_out: str = ""


def read_pasted(text: str) -> Pasted:
    """Split a question whose choices are lines with the letters A, B, …; any other text is the vignette."""
    lines = text.strip().splitlines()
    labels = [_LABELLED.fullmatch(line) for line in lines]
    start = max((number for number, label in enumerate(labels) if label and label[1] in "Aa"), default=len(lines))
    choices, end = list[str](), start
    for number, label in enumerate(labels[start:], start):
        if label and label[1].upper() == string.ascii_uppercase[len(choices) % 26]:
            choices.append(label[2].strip())
            end = number + 1
        elif lines[number].strip():
            break
    if start == 0 or len(choices) < 2:
        return Pasted(text.strip())
    vignette, question = split_item("\n".join(lines[:start]))
    after = "\n".join(lines[end:]).strip()
    answer = _ANSWER.match(after)
    left_out = after[answer.end() :] if answer else after
    return Pasted(vignette, question, tuple(choices), answer[1].strip() if answer else "", left_out)


def choices_in(text: str) -> tuple[str, ...]:
    """Return choices, one a line, without their labels (see ``without_labels``)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return tuple(without_labels({str(number): line for number, line in enumerate(lines, start=1)}).values())


def case_of(pasted: Pasted, specialty: str = "Other", title: str = "") -> Case:
    """Build a case from its parts. The answer is a choice, its letter or number, or free text without choices.

    The default ``title`` is the beginning of the vignette. Raises ``UsageError`` if vignette or answer is missing, the
    answer is none of the choices, or two choices are equal.
    """
    vignette, answer = pasted.vignette.strip(), pasted.answer.strip()
    if not vignette:
        raise UsageError("There is no vignette: paste the patient's story, not only the question.")
    if not answer:
        raise UsageError("There is no answer: name the right diagnosis.")
    words = re.sub(r"[/:\x00-\x1f]+", " ", title.strip() or vignette[:200])
    name = shorten(words, LONGEST_TITLE, placeholder="").strip(" .,;")
    question = pasted.question.strip() or FINAL_QUESTION
    if len({choice.lower() for choice in pasted.choices}) < len(pasted.choices):
        raise UsageError("Two choices are equal: name each choice once.")
    try:
        choices = checked_options(with_letters(pasted.choices, "the choices")) if pasted.choices else {}
        answer = right_option(answer, choices, 1) if choices else answer
        fields = item_fields(None, vignette, question, choices, answer, specialty=specialty)
        del fields["id"]
        return Case(case_key=f"{DATASET}/{name or 'without a title'}", dataset=DATASET, source="pasted", **fields)
    except RowError as error:
        raise UsageError(f"The choices and the answer do not fit: {error}.") from error
    except ValidationError as error:
        raise UsageError(f"This cannot be a case: {error.errors()[0]['msg']}.") from error
