"""Turns the text of an exam item into the fields of a case: vignette and question apart, who the patient is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from core.case import FINAL_QUESTION, read_demographics, sentences, split_question
from core.datasets.readers.format import CaseFields
from core.text.persons import CHILD

_STEM = re.compile(r"(?:[:;,–—-]|\.\.\.|…|_|\b(?:is|are|of|by|with|be|the|to|in|for|except))\s*$", re.IGNORECASE)
_TASK = re.compile(
    r"(?:choose|select|identify|name|state|give|determine|pick|indicate|mark|point out)\b[^.]*\.?$", re.IGNORECASE
)


def split_item(whole: str) -> tuple[str, str]:
    """Return (vignette, question) of an exam item.

    The question is the sentence with a question mark (``core.case.split_question``); without one it is a last sentence
    that is left open ("The cause is") or gives a task ("Choose …"), and otherwise the final diagnosis is asked for. An
    item that is nothing but a question has no vignette: the whole of it stands for both.
    """
    whole = whole.strip()
    vignette, question = split_question(whole)
    if question != FINAL_QUESTION or vignette != whole:
        return vignette, question
    parts = sentences(whole)
    if "?" in whole or len(parts) < 2:
        return whole, whole
    last = parts[-1]
    if _STEM.search(last) or _TASK.match(last):
        return whole[: whole.rindex(last)].strip(), last
    return whole, FINAL_QUESTION


def speaker_of(age: float | None) -> Literal["patient", "caregiver"]:
    """Return who speaks to the doctor."""
    return "caregiver" if age is not None and age < CHILD else "patient"


def item_fields(
    record_id: str | None, vignette: str, question: str, choices: Mapping[str, str], answer: str, **more: Any
) -> CaseFields:
    """Return the fields of a case, with age and sex as the vignette tells them; ``more`` adds to them."""
    age, sex = read_demographics(vignette)
    fields: CaseFields = {
        "id": record_id,
        "specialty": "Other",
        "vignette": vignette,
        "question": question,
        "choices": tuple(choices.values()),
        "answer": answer,
        "age": age,
        "sex": sex,
        "speaker": speaker_of(age),
    }
    return {**fields, **more}
