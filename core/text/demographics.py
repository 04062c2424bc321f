"""The patient's age and sex, from the case or from its vignette."""

from __future__ import annotations

import re
from functools import lru_cache

from core.case import Case, Sex
from core.text.vocabulary import AGED, DAYS, NUMBERS, RelativeKind, people, relatives


def patient_demographics(case: Case) -> tuple[float | None, Sex | None]:
    """Return age in years and sex; each ``None`` if neither the case nor its vignette states it."""
    age, sex = read_demographics(case.vignette)
    return case.age if case.age is not None else age, case.sex or sex


def age_and_sex(case: Case) -> str:
    age, sex = patient_demographics(case)
    words = ""
    if age is not None:
        days, months = f"{age * 365.25:.0f} days old", f"{age * 12:.0f} months old"
        words = f"{age:.0f} years old" if age >= 2 else months if age >= 1 / 6 else days
    return ", ".join(part for part in (words, sex or "") if part)


_AGE = re.compile(rf"{AGED}|\baged? (\d+)\s*(year|month|week|day)?", re.IGNORECASE)
_NEWBORN = re.compile(r"\b(?:newborn|neonate)\b(?! nursery)", re.IGNORECASE)
_HER = f"{people('female')}|{relatives('children', 'siblings', of='female')}"
_HIS = f"{people('male')}|{relatives('children', 'siblings', of='male')}"
_OLD = r"(?:years?|yrs?|months?|weeks?|days?|hours?)[\s\-‐‑–]*old"
_OWN_NOUN = re.compile(
    rf"(?<!to a )(?<!to an )(?<!to the )\b(?:[\w.]+)[\s\-‐‑–]*{_OLD}\b(?:,? [\w'-]+){{0,5}}? (?:(?P<her>{_HER})|"
    rf"(?P<his>{_HIS}))\b|\b(?:(?P<girl>female)|(?P<boy>male)) (?:newborn|infant|neonate|baby|child|toddler)\b",
    re.IGNORECASE,
)
"""The patient's noun after the age, unless "delivered to a" makes it another person's."""
_FEMALE = re.compile(
    rf"\b({people('female')}|(?:{relatives('parents', of='female')}) of|pregnant|\w*gravida)\b", re.IGNORECASE
)
_MALE = re.compile(rf"\b({people('male')})\b", re.IGNORECASE)
_SHE = re.compile(r"\b(?:she|hers?|herself)\b", re.IGNORECASE)
_HE = re.compile(r"\b(?:he|his|him|himself)\b", re.IGNORECASE)
_ELDERS: tuple[RelativeKind, ...] = ("parents", "siblings", "grandparents", "wider", "partners", "companions")
_OF_HERS = re.compile(rf"\b(?:{relatives(*_ELDERS, of='female')})\b", re.IGNORECASE)
_OF_HIS = re.compile(rf"\b(?:{relatives(*_ELDERS, of='male')})\b", re.IGNORECASE)


@lru_cache(maxsize=2048)  # over 0.1 ms per call, and pages repeat it for the same cases
def read_demographics(text: str) -> tuple[float | None, Sex | None]:
    """Return age in years and sex in a text; each ``None`` if the text does not state it."""
    stated = _AGE.search(text)
    age = None
    if stated:
        number, unit = (stated[1], stated[2]) if stated[1] else (stated[3], stated[4] or "year")
        age = (NUMBERS.get(number.lower()) or float(number)) * DAYS[unit.lower().replace("yr", "year")] / DAYS["year"]
    elif _NEWBORN.search(text):
        age = 0.0
    return age, _sex_in(text)


def _sex_in(text: str) -> Sex | None:
    """Return the patient's sex by the noun after the age, otherwise by other nouns, otherwise by pronouns."""
    noun = _OWN_NOUN.search(text)
    if noun:
        return "female" if noun["her"] or noun["girl"] else "male"
    female, male = _FEMALE.search(text), _MALE.search(text)
    if not (female or male):
        female, male = _SHE.search(text), _HE.search(text)
        mother, father = _OF_HERS.search(text), _OF_HIS.search(text)
        if female and male and bool(mother) != bool(father):  # the other pronoun may refer to the relative
            return "male" if mother else "female"
    if female and (not male or female.start() < male.start()):
        return "female"
    return "male" if male else None
