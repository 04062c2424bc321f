"""Records of a review by people: its questions, items, plan, and the assignment of items to annotators."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.errors import UsageError
from core.events import FORMATS, Format, QuestionType

ReviewKind = Literal["conversations", "answers", "baseline"]
"""The subject of a review: conversations, free responses, or vignettes that the experts answer themselves."""
ReviewQuestion = Literal[
    "single_diagnosis", "complete_history", "medical_terms", "in_vignette", "complete_answers", "equivalent"
]
QUESTIONS: tuple[ReviewQuestion, ...] = get_args(ReviewQuestion)
ASKED_OF: dict[ReviewKind, tuple[ReviewQuestion, ...]] = {
    "conversations": ("single_diagnosis", "complete_history", "medical_terms", "in_vignette", "complete_answers"),
    "answers": ("equivalent",),
    "baseline": (),
}
"""Kind of review → its questions. Of a conversation two are about the doctor, then three about the patient."""
ASKED: dict[ReviewQuestion, str] = {
    "single_diagnosis": "One most likely diagnosis",
    "complete_history": "Complete medical history",
    "medical_terms": "Patient used medical terms",
    "in_vignette": "Answers based on the vignette",
    "complete_answers": "Complete answers",
    "equivalent": "Same diagnosis",
}
"""Question → its heading in tables."""
WORDING: dict[ReviewQuestion, str] = {
    "single_diagnosis": "When the doctor stopped asking, was there one single most likely diagnosis?",
    "complete_history": "Did the doctor ask for all of the history that matters, examination and tests aside?",
    "medical_terms": "Does the patient use medical terms?",
    "in_vignette": "Is everything that the patient says based on the vignette?",
    "complete_answers": "Does the patient answer every question completely?",
    "equivalent": "Is the diagnosis given the same as the right answer?",
}
"""Question → its wording for annotators."""
GUIDANCE: dict[ReviewQuestion, str] = {
    "complete_history": (
        "Yes if nothing that the patient could have told was left out: the complaint and its course, earlier "
        "illnesses, medication, family and habits, as far as they matter for this case. What only an examination or a "
        "test could show (a finding on the skin, a blood value, an image) need not have been asked for."
    ),
    "medical_terms": (
        "A medical term is a word that people without medical training would not use of themselves, such as dyspnoea, "
        "erythematous or hyperlipidaemia, or an abbreviation such as COPD. Words of everyday life are none, even where "
        "doctors use them too: fever, rash, blood pressure, asthma, the name of a medicine that is taken."
    ),
}
"""Explanations of ambiguous questions, as in the papers' instructions for annotators."""
EQUIVALENCE_RULE = (
    "Yes for the same disease or a synonym, for a broader name of which the right answer is a kind, and for several "
    "diagnoses given together if any of them fits. No for a narrower kind of the right answer, for no diagnosis, and "
    "for several that the doctor could not choose among."
)
"""When a diagnosis counts as the answer (the paper's rule for free responses)."""
YesNo = Literal["yes", "no"]
ANSWERS: tuple[YesNo, ...] = get_args(YesNo)


@dataclass(frozen=True)
class ExpertAnswer:
    """An annotator's answer to one question about one item: a model's conversation or response on one case.

    ``item`` distinguishes several items of a model on a case. ``third``: it was requested because two others differ.
    """

    model: str
    case: str
    question: ReviewQuestion
    annotator: str
    answer: YesNo
    item: str = ""
    third: bool = False


ItemKind = Literal["talk", "answer", "case", "release"]


@dataclass(frozen=True)
class AnnotatedItem:
    """The subject of an annotation.

    ``talk`` and ``answer`` have a stored trial, ``answer`` also the format of its free response; ``case`` has a
    vignette; ``release`` has a model's conversation on a case, which is not stored here.
    """

    kind: ItemKind
    trial_id: str = ""
    format: Format = "multi_turn"
    model: str = ""
    case_key: str = ""

    def __str__(self) -> str:
        if self.kind == "talk":
            return f"talk:{self.trial_id}"
        if self.kind == "answer":
            return f"answer:{self.trial_id}:{self.format}:frq"
        return f"case:{self.case_key}" if self.kind == "case" else f"release:{self.model}:{self.case_key}"


def parse_item(text: str) -> AnnotatedItem:
    """Parse the name of an item; raises ``UsageError`` if it is invalid."""
    kind, _, rest = text.strip().partition(":")
    if kind == "talk" and rest:
        return AnnotatedItem("talk", trial_id=rest)
    if kind == "case" and rest:
        return AnnotatedItem("case", case_key=rest)
    if kind == "release":
        model, _, case_key = rest.rpartition(":")
        if model and case_key:
            return AnnotatedItem("release", model=model, case_key=case_key)
    if kind == "answer":
        trial_id, format_, question_type = [*rest.rsplit(":", 2), "", ""][:3]
        if trial_id and format_ in FORMATS and question_type == "frq":
            return AnnotatedItem("answer", trial_id=trial_id, format=format_)
    raise UsageError(
        f"{text[:80]!r} is no item: write talk:TRIAL, answer:TRIAL:FORMAT:frq, case:CASE or release:MODEL:CASE."
    )


ReviewSampling = Literal["random", "specialty", "dataset", "disagreement"]
SAMPLINGS: tuple[ReviewSampling, ...] = get_args(ReviewSampling)
"""``specialty`` and ``dataset``: the same number for each model and group, on the same cases; ``disagreement``: only
items on which graders or rules disagree."""
ReviewOrder = Literal["own words first", "different people", "choices first"]
ORDERS: tuple[ReviewOrder, ...] = get_args(ReviewOrder)
"""The order of a baseline's two questions about a vignette. ``own words first``: the choices, which give the answer
away, appear after the free answer is saved. ``different people``: every other annotator answers freely, the others
choose. ``choices first``: the default of version 0.4; such reviews can be finished, but not planned any more."""
THIRD = 1 / 3
"""Default share (0 to 1) of items that two annotators see (Johri et al. 2025, Methods)."""


class ReviewPlan(BaseModel):
    """The plan of a review, stored with it, so that its items can be drawn again.

    Empty ``runs``, ``models``, ``datasets`` and ``specialties`` are no restriction. ``shared`` is the share of items
    (0 to 1) that two annotators see. ``format`` is that of the free responses; ``question_types``, ``order`` and
    ``case_set`` are the questions, their order and the data set of a baseline.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ReviewKind
    number: int = Field(ge=1)
    annotators: tuple[str, ...]
    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    format: Format = "multi_turn"
    case_set: str = "library"
    question_types: tuple[QuestionType, ...] = ("frq", "mcq")
    order: ReviewOrder = "own words first"
    sampling: ReviewSampling = "random"
    shared: float = Field(default=THIRD, ge=0, le=1)
    seed: int = Field(default=20, ge=0)

    @field_validator("annotators")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        unique = tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))
        if not unique:
            raise ValueError("name at least one annotator")
        return unique

    @field_validator("question_types")
    @classmethod
    def _once_each(cls, types: tuple[QuestionType, ...]) -> tuple[QuestionType, ...]:
        return tuple(dict.fromkeys(types))

    @model_validator(mode="after")
    def _possible(self) -> ReviewPlan:
        if self.kind == "baseline" and self.order == "different people":
            if len(self.question_types) < 2:
                raise ValueError("different people answer in own words and by choices: ask for both")
            if len(self.annotators) < 2:
                raise ValueError("different people answer in own words and by choices: name a second annotator")
        if self.shared and len(self.annotators) < 2 and self.kind != "baseline":
            raise ValueError("items are shared by two annotators: name a second one, or share none")
        if self.kind == "baseline" and not (self.question_types and set(self.question_types) <= {"mcq", "frq"}):
            raise ValueError("a baseline asks mcq, frq or both")
        if self.kind == "baseline" and self.sampling == "disagreement":
            raise ValueError("there is no disagreement on a vignette: draw at random or by specialty")
        return self

    @property
    def questions(self) -> tuple[ReviewQuestion, ...]:
        return ASKED_OF[self.kind]

    def asked_of(self, annotator: str) -> tuple[str, ...]:
        """Return the questions (or question types of a baseline) of an annotator, in their order."""
        if self.kind != "baseline":
            return self.questions
        types = [kind for kind in _SEQUENCE[self.order] if kind in self.question_types]
        if self.order == "different people" and annotator in self.annotators:
            return (types[self.annotators.index(annotator) % len(types)],)
        return tuple(types)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The annotators grouped by their questions; every item goes to each group."""
        by_questions: dict[tuple[str, ...], list[str]] = {}
        for annotator in self.annotators:
            by_questions.setdefault(self.asked_of(annotator), []).append(annotator)
        return tuple(tuple(names) for names in by_questions.values())

    @property
    def order_in_words(self) -> str:
        """The order of a baseline's questions in words; empty for other reviews."""
        return order_in_words(self.order, self.question_types) if self.kind == "baseline" else ""


_SEQUENCE: dict[ReviewOrder, tuple[QuestionType, ...]] = {
    "own words first": ("frq", "mcq"),
    "different people": ("frq", "mcq"),
    "choices first": ("mcq", "frq"),
}


def order_in_words(order: ReviewOrder, question_types: Collection[str]) -> str:
    """Return the order of questions in words, or the only question type."""
    if len(question_types) > 1 or order == "different people":
        return order
    return "own words only" if "frq" in question_types else "choices only"


def order_of_0_4(question_types: Sequence[str]) -> ReviewOrder:
    """Return the order of a baseline of version 0.4, which follows from the sequence of its question types.

    The default of that version is choices first.
    """
    return "own words first" if question_types[:1] == ["frq"] else "choices first"


def stored_plan(fields: Mapping[str, Any]) -> ReviewPlan:
    """Return a stored plan; raises pydantic's ``ValidationError`` if it is invalid."""
    if "order" not in fields:
        types = list(fields.get("question_types") or ("mcq", "frq"))
        fields = {**fields, "order": order_of_0_4(types)}
    return ReviewPlan.model_validate(fields)


def planned(**fields: object) -> ReviewPlan:
    """Return a plan; raises ``UsageError`` with one sentence if it is invalid."""
    try:
        return ReviewPlan.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field_name = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"This review cannot be planned: {f'{field_name}: ' if field_name else ''}{reason}."
        ) from error


@dataclass(frozen=True)
class Unblinding:
    """When and by whom the models' names were revealed, and the reason if not all questions were answered."""

    by: str
    reason: str
    at: float


@dataclass(frozen=True)
class Review:
    """A stored review. ``created_at`` is in seconds since 1970 (UTC)."""

    name: str
    plan: ReviewPlan
    review_id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    created_at: float = field(default_factory=time.time)
    unblinded: Unblinding | None = None


@dataclass(frozen=True)
class ReviewItem:
    """One item: its number in the review, from 1 (each annotator has a different order), and its annotators."""

    item: str
    number: int
    annotators: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """An item that may be drawn; ``disagreement``: graders or rules disagree on it."""

    item: str
    model: str
    case_key: str
    dataset: str
    specialty: str
    disagreement: bool = False
