"""Converts an exam item to the fields of a case: vignette, question, patient, specialty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from core.case import FINAL_QUESTION, RELEASE_SPECIALTIES, SPECIALTIES
from core.datasets.readers.format import CaseFields
from core.text.demographics import read_demographics
from core.text.persons import CHILD
from core.text.questions import split_question
from core.text.sections import sentences

_STEM = re.compile(r"(?:[:;,–—-]|\.\.\.|…|_|\b(?:is|are|of|by|with|be|the|to|in|for|except))\s*$", re.IGNORECASE)
_TASK = re.compile(
    r"(?:choose|select|identify|name|state|give|determine|pick|indicate|mark|point out)\b[^.]*\.?$", re.IGNORECASE
)


def split_item(item: str) -> tuple[str, str]:
    """Return (vignette, question) of an exam item.

    The question is the sentence with a question mark (``core.text.questions.split_question``), else a last sentence
    that is incomplete ("The cause is") or gives a task ("Choose …"), else the question for the final diagnosis. An item
    that is only a question is returned as both.
    """
    item = item.strip()
    vignette, question = split_question(item)
    if question != FINAL_QUESTION or vignette != item:
        return vignette, question
    parts = sentences(item)
    if "?" in item or len(parts) < 2:
        return item, item
    last = parts[-1]
    if _STEM.search(last) or _TASK.match(last):
        return item[: item.rindex(last)].strip(), last
    return item, FINAL_QUESTION


def speaker_of(age: float | None) -> Literal["patient", "caregiver"]:
    return "caregiver" if age is not None and age < CHILD else "patient"


def item_fields(
    record_id: str | None, vignette: str, question: str, choices: Mapping[str, str], answer: str, **more: Any
) -> CaseFields:
    """Return the fields of a case, with age and sex from the vignette, and ``more`` fields."""
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


_ALIASES = {
    "Dermatology": "skin, integumentary, dermatological, integumentary system",
    "Hematology and Oncology": "haematology, hematology, oncology, hematology & oncology, haematology and oncology, "
    "lymphatic, hematologic, blood",
    "Neurology": "nervous, nervous system, neurological, cns, central nervous system",
    "Gastroenterology": "digestive, digestive system, gastrointestinal, git, hepatology",
    "Pediatrics and Neonatology": "pediatrics, paediatrics, neonatology",
    "Cardiology": "cardiovascular, cardiac, cvs",
    "Infectious Disease": "infection, infections, microbiology",
    "Obstetrics and Gynecology": "gynaecology & obstetrics, obstetrics & gynecology, obstetrics and gynaecology, "
    "gynecology, gynaecology, obstetrics, ob/gyn, obgyn, o&g",
    "Urology and Nephrology": "urinary, urinary system, renal, urology, nephrology, genitourinary, kidney",
    "Endocrinology": "endocrine, endocrine system, endocrinology and metabolism",
    "Rheumatology": "rheumatologic",
}
_KNOWN = {
    **{name.lower(): name for name in SPECIALTIES},
    **{label.lower(): name for label, name in RELEASE_SPECIALTIES.items()},
    **{alias.strip(): name for name, aliases in _ALIASES.items() for alias in aliases.split(",")},
}


def known_specialty(name: str) -> str | None:
    """Return the name of a specialty from a data set's label, or ``None`` if it is not one of the twelve."""
    return _KNOWN.get(re.sub(r"\s+", " ", name).strip().lower())


def specialty_of(name: str) -> str:
    """Return the name of a specialty from a data set's label, or ``Other``."""
    return known_specialty(name) or "Other"
