"""A review as it is planned: what is looked at, how many items, how they are drawn, and who looks at them."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.errors import UsageError
from core.events import Format, QuestionType
from core.store.review_questions import ASKED_OF, Kind, Question

Sampling = Literal["random", "specialty", "dataset", "disagreement"]
SAMPLINGS: tuple[Sampling, ...] = get_args(Sampling)
"""``specialty`` and ``dataset``: as many of each model and group, of the same cases; ``disagreement``: only items on
which graders or rules disagree."""
THIRD = 1 / 3
"""The share of items that two annotators see (Johri et al. 2025, Methods)."""


class ReviewPlan(BaseModel):
    """What was asked for; kept with the review, so that its items can be drawn again.

    Empty ``runs``, ``models``, ``datasets`` and ``specialties`` are no restriction. ``shared`` is the share of items
    that two annotators see. ``format`` is that of the free responses, ``question_types`` what a baseline asks, in
    that order, ``case_set`` the data set of a baseline.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    number: int = Field(ge=1)
    annotators: tuple[str, ...]
    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    format: Format = "multi_turn"
    case_set: str = "library"
    question_types: tuple[QuestionType, ...] = ("mcq", "frq")
    sampling: Sampling = "random"
    shared: float = Field(default=THIRD, ge=0, le=1)
    seed: int = Field(default=20, ge=0)

    @field_validator("annotators")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        kept = tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))
        if not kept:
            raise ValueError("name at least one annotator")
        return kept

    @model_validator(mode="after")
    def _possible(self) -> ReviewPlan:
        if self.shared and len(self.annotators) < 2 and self.kind != "baseline":
            raise ValueError("items are shared by two annotators: name a second one, or share none")
        if self.kind == "baseline" and not (self.question_types and set(self.question_types) <= {"mcq", "frq"}):
            raise ValueError("a baseline asks mcq, frq or both")
        if self.kind == "baseline" and self.sampling == "disagreement":
            raise ValueError("there is no disagreement on a vignette: draw at random or by specialty")
        return self

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the annotators are asked about each item."""
        return ASKED_OF[self.kind]


def planned(**fields: object) -> ReviewPlan:
    """Return a plan; raise ``UsageError`` with one sentence where it cannot be carried out."""
    try:
        return ReviewPlan.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"This review cannot be planned: {f'{where}: ' if where else ''}{why}.") from error


@dataclass(frozen=True)
class Unblinding:
    """When the models' names were shown, by whom, and why before all was answered (empty: it was)."""

    by: str
    reason: str
    at: float


@dataclass(frozen=True)
class Review:
    """A review as it is stored. ``created_at`` is in seconds since 1970 (UTC)."""

    name: str
    plan: ReviewPlan
    review_id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    created_at: float = field(default_factory=time.time)
    unblinded: Unblinding | None = None


@dataclass(frozen=True)
class ReviewItem:
    """One item: its number in the review, from 1 (before anybody's own order), and who is to judge it."""

    item: str
    number: int
    annotators: tuple[str, ...]
