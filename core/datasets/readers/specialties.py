"""Maps what data sets call a subject, body system or category to the twelve specialties."""

from __future__ import annotations

import re

from core.case import RELEASE_SPECIALTIES, SPECIALTIES

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
    **{theirs.lower(): ours for theirs, ours in RELEASE_SPECIALTIES.items()},
    **{alias.strip(): ours for ours, aliases in _ALIASES.items() for alias in aliases.split(",")},
}


def known_specialty(name: str) -> str | None:
    """Return our name of what a data set calls a specialty, or ``None`` where it is none of the twelve."""
    return _KNOWN.get(re.sub(r"\s+", " ", name).strip().lower())


def specialty_of(name: str) -> str:
    """Return our name of what a data set calls a specialty; ``Other`` for any that is none of the rest."""
    return known_specialty(name) or "Other"
