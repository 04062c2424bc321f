"""The patient's age and sex: as the case states them, else as its vignette says."""

from __future__ import annotations

import re
from functools import lru_cache

from core.case import Case, Sex
from core.text.vocabulary import AGED, DAYS, NUMBERS, RelativeKind, people, relatives


def patient_demographics(case: Case) -> tuple[float | None, Sex | None]:
    """Return age in years and sex; each ``None`` if neither the case nor its vignette says."""
    age, sex = read_demographics(case.vignette)
    return case.age if case.age is not None else age, case.sex or sex


def age_and_sex(case: Case) -> str:
    """Return age and sex as a short phrase, as far as they are known."""
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
"""What the patient is called: a noun after the age that no "delivered to a" makes somebody else's."""
_FEMALE = re.compile(
    rf"\b({people('female')}|(?:{relatives('parents', of='female')}) of|pregnant|\w*gravida)\b", re.IGNORECASE
)
_MALE = re.compile(rf"\b({people('male')})\b", re.IGNORECASE)
_SHE = re.compile(r"\b(?:she|hers?|herself)\b", re.IGNORECASE)
_HE = re.compile(r"\b(?:he|his|him|himself)\b", re.IGNORECASE)
_ELDERS: tuple[RelativeKind, ...] = ("parents", "siblings", "grandparents", "wider", "partners", "companions")
_OF_HERS = re.compile(rf"\b(?:{relatives(*_ELDERS, of='female')})\b", re.IGNORECASE)
_OF_HIS = re.compile(rf"\b(?:{relatives(*_ELDERS, of='male')})\b", re.IGNORECASE)


@lru_cache(maxsize=2048)  # a tenth of a millisecond and more, and pages ask again for the same cases
def read_demographics(text: str) -> tuple[float | None, Sex | None]:
    """Read age in years and sex from prose; each ``None`` where the text does not say."""
    found = _AGE.search(text)
    age = None
    if found:
        number, unit = (found[1], found[2]) if found[1] else (found[3], found[4] or "year")
        age = (NUMBERS.get(number.lower()) or float(number)) * DAYS[unit.lower().replace("yr", "year")] / DAYS["year"]
    elif _NEWBORN.search(text):
        age = 0.0
    return age, _sex_in(text)


def _sex_in(text: str) -> Sex | None:
    """Read the patient's sex: by their own noun, else by pronouns, where a mother or a father may be meant as well."""
    own = _OWN_NOUN.search(text)
    if own:
        return "female" if own["her"] or own["girl"] else "male"
    female, male = _FEMALE.search(text), _MALE.search(text)
    if not (female or male):
        female, male = _SHE.search(text), _HE.search(text)
        mother, father = _OF_HERS.search(text), _OF_HIS.search(text)
        if female and male and bool(mother) != bool(father):  # the pronoun that the relative cannot be
            return "male" if mother else "female"
    if female and (not male or female.start() < male.start()):
        return "female"
    return "male" if male else None
