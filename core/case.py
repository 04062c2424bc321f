"""A case: one patient's vignette with its question, choices and answer, and who may know what of it.

The patient never sees question, choices or answer; the doctor sees only what the protocol hands over.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from core.images import Image
from core.questions import AsksFor, asked_for

SPECIALTIES = (
    "Dermatology",
    "Hematology and Oncology",
    "Neurology",
    "Gastroenterology",
    "Pediatrics and Neonatology",
    "Cardiology",
    "Infectious Disease",
    "Obstetrics and Gynecology",
    "Urology and Nephrology",
    "Endocrinology",
    "Rheumatology",
    "Other",
)
"""The twelve specialties of CRAFT-MD (Johri et al. 2025, Methods)."""

RELEASE_SPECIALTIES = {
    "Cardiovascular System": "Cardiology",
    "Gastrointestinal System": "Gastroenterology",
    "Infectious Diseases": "Infectious Disease",
    "Renal and Genitourinary System": "Urology and Nephrology",
}
"""The four names that the authors' release spells otherwise."""

FINAL_QUESTION = "What is the most likely diagnosis?"
"""Asked where a vignette brings no question of its own."""

Section = Literal["vital_signs", "examination", "laboratory", "imaging", "other_tests"]
Sex = Literal["female", "male"]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Sparse(_Frozen):
    """Leaves out, when it is stored, what is not set: a field that came later changes no hash of an older case."""

    _later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        return {name: value for name, value in dumped.items() if value or name not in self._later}


class Fact(_Sparse):
    """One piece of information: in clinical words and as the patient (or who speaks for them) would say it.

    ``imputed``: the source does not say it; a profile generator made it up so that the patient can answer.
    """

    key: str
    value: str
    lay: str
    section: Section | None = None
    imputed: bool = False

    _later = ("imputed",)


class Profile(_Sparse):
    """What is known of a patient, by who may know it (AutoMedic, profile generator).

    demographics: doctor and patient; basic: what the patient can tell; optional: what only examination and
    tests show. ``made_by`` is the generator: a model, rules with their version, a person; empty where it came with
    the case.
    """

    demographics: tuple[Fact, ...] = ()
    basic: tuple[Fact, ...] = ()
    optional: tuple[Fact, ...] = ()
    made_by: str = ""

    _later = ("made_by",)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, in the order demographics, basic, optional."""
        return self.demographics + self.basic + self.optional


class Case(_Sparse):
    """One patient. ``vignette`` never contains the question; ``profile`` is ``None`` where it is unknown.

    ``supertypes`` are broader names that also count as the answer, ``subtypes`` narrower names that do not
    (grading rule of CRAFT-MD). ``case_key`` is unique over all data sets. ``images`` are for the doctor alone.
    ``asks_for`` is read from the question where a case does not state it (``asked_for``); it is stored only where the
    two differ, so that the rule's own reading changes no hash.
    """

    case_key: str
    dataset: str
    specialty: str
    vignette: str = Field(min_length=1)
    question: str = FINAL_QUESTION
    choices: tuple[str, ...] = ()
    answer: str = Field(min_length=1)
    synonyms: tuple[str, ...] = ()
    supertypes: tuple[str, ...] = ()
    subtypes: tuple[str, ...] = ()
    single_diagnosis: bool | None = None
    difficulty: Literal["easy", "medium", "hard"] | None = None
    age: float | None = None
    sex: Sex | None = None
    speaker: Literal["patient", "caregiver"] = "patient"
    profile: Profile | None = None
    images: tuple[Image, ...] = ()
    source: str = ""
    licence: str = ""
    asks_for: AsksFor = "diagnosis"

    _later = ("images",)

    @model_validator(mode="before")
    @classmethod
    def _read_what_is_asked(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("asks_for") is None:
            return {**data, "asks_for": asked_for(str(data.get("question", FINAL_QUESTION)))}
        return data

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped = super()._without_unset(handler)
        if dumped.get("asks_for") == asked_for(self.question):
            del dumped["asks_for"]
        return dumped

    @model_validator(mode="after")
    def _known_specialty(self) -> Case:
        if self.specialty not in SPECIALTIES:
            raise ValueError(f"specialty {self.specialty!r} is not one of the twelve: {', '.join(SPECIALTIES)}")
        return self

    @property
    def content_hash(self) -> str:
        """A short hash of all that can change a result of this case."""
        dumped = self.model_dump_json(exclude={"source", "licence"})
        return hashlib.sha256(dumped.encode()).hexdigest()[:16]

    @property
    def letters(self) -> dict[str, str]:
        """Letter → choice, ``A`` first."""
        return dict(zip(_LETTERS, self.choices, strict=False))

    def examination(self) -> str | None:
        """Return vital signs and physical examination in words, or ``None`` where the case has none."""
        if self.profile is None:
            return _examination_sentences(self.vignette)
        found = [f for f in self.profile.optional if f.section in ("vital_signs", "examination")]
        if not found:
            return None
        return " ".join(f"{f.key[:1].upper()}{f.key[1:]}: {f.value.rstrip('.')}." for f in found)

    def age_and_sex(self) -> str:
        """Return age and sex as a short phrase, as far as they are known."""
        age, sex = self.age, self.sex
        if age is None or sex is None:
            read_age, read_sex = read_demographics(self.vignette)
            age, sex = age if age is not None else read_age, sex or read_sex
        return ", ".join(part for part in (_age_words(age), sex or "") if part)


def case_set_hash(cases: list[Case]) -> str:
    """Return a hash of a set of cases that does not depend on their order."""
    joined = "\n".join(sorted(f"{c.case_key} {c.content_hash}" for c in cases))
    return hashlib.sha256(joined.encode()).hexdigest()[:16]


_ABBREVIATION = "".join(
    rf"(?<!\b{word}\.)" for word in ("Dr", "Mr", "Mrs", "Ms", "St", "vs", "approx", "e\\.g", "i\\.e")
)
_SENTENCE = re.compile(rf"(?<=[.!?]){_ABBREVIATION}[\"')\]”]*\s+(?=[A-Z0-9\"'(“])")


def sentences(text: str) -> list[str]:
    """Split prose into sentences; decimals and units stay whole."""
    return [piece.strip() for line in text.splitlines() for piece in _SENTENCE.split(line) if piece.strip()]


def split_question(text: str) -> tuple[str, str]:
    """Cut the question from an exam item and return (vignette, question).

    The question is the first sentence with a question mark, looked for in the last line where there are
    several lines (CRAFT-MD). Without one, the whole text is the vignette and the final diagnosis is asked for.
    """
    stripped = text.strip()
    body, _, last = stripped.rpartition("\n")
    scope = last if body else stripped
    for sentence in sentences(scope):
        if "?" in sentence:
            rest = scope.replace(sentence, " ", 1)
            vignette = "\n".join(part for part in (body.strip(), " ".join(rest.split())) if part)
            return (vignette, sentence) if vignette else (stripped, FINAL_QUESTION)
    return stripped, FINAL_QUESTION


_AGE = re.compile(
    r"(\d+(?:\.\d+)?|one|two|three)[\s\-‐‑–]*(year|yr|month|week|day|hour)s?[\s\-‐‑–]*(?:old|of age)|"
    r"\baged? (\d+)\s*(year|month|week|day)?",
    re.IGNORECASE,
)
_NEWBORN = re.compile(r"\b(?:newborn|neonate)\b(?! nursery)", re.IGNORECASE)
_WORDED = {"one": 1.0, "two": 2.0, "three": 3.0}
_UNIT_YEARS = {"year": 1.0, "yr": 1.0, "month": 1 / 12, "week": 1 / 52.18, "day": 1 / 365.25, "hour": 1 / 8766}
_FEMALE = re.compile(r"\b(woman|female|girl|lady|she|her|mother of|pregnant|gravida)\b", re.IGNORECASE)
_MALE = re.compile(r"\b(man|male|boy|gentleman|he|his|him)\b", re.IGNORECASE)


def read_demographics(text: str) -> tuple[float | None, Sex | None]:
    """Read age in years and sex from prose; each ``None`` where the text does not say."""
    found = _AGE.search(text)
    age = None
    if found:
        number, unit = (found[1], found[2]) if found[1] else (found[3], found[4] or "year")
        age = (_WORDED.get(number.lower()) or float(number)) * _UNIT_YEARS[unit.lower()]
    elif _NEWBORN.search(text):
        age = 0.0
    female, male = _FEMALE.search(text), _MALE.search(text)
    if female and (not male or female.start() < male.start()):
        return age, "female"
    return age, "male" if male else None


def _age_words(age: float | None) -> str:
    if age is None:
        return ""
    if age >= 2:
        return f"{age:.0f} years old"
    if age >= 1 / 6:
        return f"{age * 12:.0f} months old"
    return f"{age * 365.25:.0f} days old"


_EXAMINATION = re.compile(
    r"physical examination|on examination|on exam\b|examination (?:shows|reveals|demonstrates|is)|vital signs|"
    r"temperature (?:is|of)|blood pressure|pulse (?:is|of)|heart rate|respirat|auscultat|palpat|percussion|"
    r"\btender|inspection|reflexes|murmur|there (?:is|are) \w+ (?:tenderness|erythema|swelling)",
    re.IGNORECASE,
)


def _examination_sentences(vignette: str) -> str | None:
    found = [s for s in sentences(vignette) if _EXAMINATION.search(s)]
    return " ".join(found) or None
