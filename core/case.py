"""A case: one patient's vignette with its question, choices and answer, and who may know what of it.

The patient never sees question, choices or answer; the doctor sees only what the protocol hands over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from core.bounds import Real
from core.dates import read_date
from core.errors import UsageError
from core.images import Image

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
"""The question of a vignette that has none."""
NO_INPUT, NO_TARGET = "(the log has no input)", "(the log has no target)"
NOT_GIVEN = (NO_INPUT, NO_TARGET)
"""Stand for the vignette and the answer of a case that its file did not have. No judge reads them.

A case with neither is not stored: its trials only name it, as those of a journal without cases do.
"""

FactSection = Literal["vital_signs", "examination", "laboratory", "imaging", "other_tests"]
"""What examination and tests show, by who or what shows it."""

AsksFor = Literal["diagnosis", "test", "treatment", "organism", "mechanism", "finding", "other"]
"""What a question asks for: a disease; a test, or the next step towards a diagnosis; a treatment, or the next step in
management; a pathogen; a mechanism or cause; what goes with the disease (sign, result, risk factor, complication,
association); anything else."""
ASKS_FOR: tuple[AsksFor, ...] = get_args(AsksFor)

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
    section: FactSection | None = None
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
    ``accepted`` are further answers that experts call as right as the answer; they count under a condition of their
    own. ``development``: the case was used to write prompts. ``date`` is when the case was published, to the year, the
    month or the day (``core.dates``). All three are of a file: what counts is stored as a label
    (``core.store.queries.case_labels``).
    ``asks_for`` is stated only if it differs from what the rule of ``core.text.questions`` reads in the question, so
    that a better rule changes no hash.
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
    age: Real | None = None
    sex: Sex | None = None
    speaker: Literal["patient", "caregiver"] = "patient"
    profile: Profile | None = None
    images: tuple[Image, ...] = ()
    source: str = ""
    licence: str = ""
    asks_for: AsksFor | None = None
    opening: Opening | None = None
    items: ItemList | None = None
    accepted: tuple[str, ...] = ()
    development: bool = False
    date: str = ""

    _later = ("images", "asks_for", "opening", "items", "accepted", "development", "date")

    @field_validator("date")
    @classmethod
    def _is_date(cls, value: str) -> str:
        if value:
            try:
                read_date(value)
            except UsageError as error:
                raise ValueError(str(error)) from None
        return value

    @property
    def content_hash(self) -> str:
        """A short hash of all that can change a result of this case.

        An opening is left out: it is made for a run, as a prompt is, and runs say who made their openings. Items are
        left out: they are stored by this hash, and the settings of a run whose players use them name them. Accepted
        answers and the mark of development are left out: no role but a grader sees them, and its condition names them.
        The date is left out, because no role sees it.
        """
        dumped = self.model_dump_json(
            exclude={"source", "licence", "opening", "items", "accepted", "development", "date"}
        )
        return _short_hash(dumped)

    @property
    def text_hash(self) -> str:
        """A short hash of vignette, question and answer: what people and models read when they label a case."""
        return _short_hash("\x1f".join((self.vignette, self.question, self.answer)))

    @property
    def words_hash(self) -> str:
        """A short hash of the set of words of the vignette, ignoring case."""
        return _short_hash(" ".join(sorted(set(self.vignette.lower().split()))))

    @property
    def letters(self) -> dict[str, str]:
        """Letter → choice, ``A`` first."""
        return dict(zip(_LETTERS, self.choices, strict=False))


def data_set_of(case_set: str) -> str:
    """Return the data set of which a case set is all or a part: with it the keys of its cases begin."""
    return case_set.partition(":")[0].partition(" (")[0]


def case_set_hash(cases: Sequence[Case]) -> str:
    """Return a hash of a set of cases that does not depend on their order."""
    return _short_hash("\n".join(sorted(f"{c.case_key} {c.content_hash}" for c in cases)))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def distinct_choices(cases: Iterable[Case]) -> tuple[str, ...]:
    """Return every choice of the cases once, as it is spelt first: case of letters and white space tell none apart."""
    first: dict[str, str] = {}
    for case in cases:
        for choice in case.choices:
            first.setdefault(" ".join(choice.casefold().split()), choice)
    return tuple(first.values())
