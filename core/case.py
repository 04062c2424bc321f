"""A case: one patient's vignette with its question, choices and answer, and who may know what of it.

The patient never sees question, choices or answer; the doctor sees only what the protocol hands over.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from core.images import Image
from core.questions import AsksFor, asked_for
from core.sections import Section as Section
from core.sections import divided
from core.sections import sentences as sentences
from core.vocabulary import AGED, DAYS, NUMBERS, RelativeKind, people, relatives

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
"""The twelve specialties of Johri et al. 2025 (Methods). Cases of one's own may have others."""

RELEASE_SPECIALTIES = {
    "Cardiovascular System": "Cardiology",
    "Gastrointestinal System": "Gastroenterology",
    "Infectious Diseases": "Infectious Disease",
    "Renal and Genitourinary System": "Urology and Nephrology",
}
"""The four names that the authors' release spells otherwise."""

FINAL_QUESTION = "What is the most likely diagnosis?"
"""Asked where a vignette brings no question of its own."""

Sex = Literal["female", "male"]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _Sparse(BaseModel):
    """Leaves out, when it is stored, what is not set: a field that came later changes no hash of an older case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """What is known of a patient, by who may know it (Oh, Park, Kim, arXiv 2512.10195, profile generator).

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


class Opening(BaseModel):
    """The request with which a patient opens a consultation, and which model made it, under which prompt."""

    model_config = ConfigDict(frozen=True)

    text: str = Field(min_length=1)
    made_by: str = Field(min_length=1)


class ListedItem(BaseModel):
    """A topic of the history by which to ask, what the case says of it, and the part of the history it belongs to."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(min_length=1)
    value: str = Field(min_length=1)
    topic: str = Field(min_length=1)


class ItemList(BaseModel):
    """The items of a history that were imported, edited or made by a model for a case; the others follow by rule."""

    model_config = ConfigDict(frozen=True)

    items: tuple[ListedItem, ...] = Field(min_length=1)
    made_by: str = Field(min_length=1)


class Case(_Sparse):
    """One patient. ``vignette`` never contains the question; ``profile`` is ``None`` where it is unknown.

    ``supertypes`` are broader names that also count as the answer, ``subtypes`` narrower names that do not
    (grading rule of Johri et al. 2025). ``case_key`` is unique over all data sets. ``images`` are for the doctor alone.
    ``specialty`` is one of ``SPECIALTIES``, or what its data set calls it.
    ``asks_for`` is read from the question where a case does not state it (``asked_for``); it is stored only where the
    two differ, so that the rule's own reading changes no hash.
    """

    case_key: str
    dataset: str
    specialty: str = Field(min_length=1)
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
    opening: Opening | None = None
    items: ItemList | None = None

    _later = ("images", "opening", "items")

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

    @property
    def content_hash(self) -> str:
        """A short hash of all that can change a result of this case.

        An opening is left out: it is made for a run, as a prompt is, and runs say who made their openings. Items are
        left out: they are stored by this hash, and the settings of a run whose players use them name them.
        """
        dumped = self.model_dump_json(exclude={"source", "licence", "opening", "items"})
        return hashlib.sha256(dumped.encode()).hexdigest()[:16]

    @property
    def letters(self) -> dict[str, str]:
        """Letter → choice, ``A`` first."""
        return dict(zip(_LETTERS, self.choices, strict=False))

    def examination(self) -> str | None:
        """Return all that only an examiner or a device could state, or ``None`` where the case has none.

        Vital signs, physical examination, laboratory, imaging and other tests: of a profile its optional facts, else
        the vignette's own sentences.
        """
        if self.profile is None:
            return divided(self.vignette).examination or None
        found = self.profile.optional
        return " ".join(f"{f.key[:1].upper()}{f.key[1:]}: {f.value.rstrip('.')}." for f in found) or None

    def demographics(self) -> tuple[float | None, Sex | None]:
        """Return age in years and sex: as the case states them, else as its vignette says."""
        age, sex = read_demographics(self.vignette)
        return self.age if self.age is not None else age, self.sex or sex

    def age_and_sex(self) -> str:
        """Return age and sex as a short phrase, as far as they are known."""
        age, sex = self.demographics()
        words = ""
        if age is not None:
            days, months = f"{age * 365.25:.0f} days old", f"{age * 12:.0f} months old"
            words = f"{age:.0f} years old" if age >= 2 else months if age >= 1 / 6 else days
        return ", ".join(part for part in (words, sex or "") if part)


def data_set_of(case_set: str) -> str:
    """Return the data set of which a case set is all or a part: with it the keys of its cases begin."""
    return case_set.partition(":")[0].partition(" (")[0]


def case_set_hash(cases: Sequence[Case]) -> str:
    """Return a hash of a set of cases that does not depend on their order."""
    joined = "\n".join(sorted(f"{c.case_key} {c.content_hash}" for c in cases))
    return hashlib.sha256(joined.encode()).hexdigest()[:16]


def distinct_choices(cases: Iterable[Case]) -> tuple[str, ...]:
    """Return every choice of the cases once, as it is spelt first: case of letters and white space tell none apart."""
    first: dict[str, str] = {}
    for case in cases:
        for choice in case.choices:
            first.setdefault(" ".join(choice.casefold().split()), choice)
    return tuple(first.values())


def split_question(text: str) -> tuple[str, str]:
    """Cut the question from an exam item and return (vignette, question).

    The question is the first sentence with a question mark, looked for in the last line where there are
    several lines (Johri et al. 2025). Without one, the whole text is the vignette and the final diagnosis is asked for.
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
    """Read age in years and sex from prose; each ``None`` where the text does not say.

    It stands here and not with the readers of persons in ``core.text``, because a case tells its own age and sex.
    """
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
