"""Records of a review by people: its questions, items, plan, and the assignment of items to annotators."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.datasets.case_fields import FIELDS as CASE_FIELDS
from core.errors import UsageError
from core.events import FORMATS, Format, QuestionType
from core.judging.form import RUBRIC, Form, FormQuestion, Option, form_named
from core.store.tables import UnblindingRow


def yes_no_questions() -> dict[str, str]:
    """Return id → title of the questions on conversations and free responses that are answered yes or no, in order."""
    asked = chain.from_iterable(form_named(name).questions for name in ("conversations", "answers"))
    return {question.id: question.title for question in asked if question.values == ("yes", "no")}


ItemKind = Literal["talk", "answer", "case", "profile", "pair", "release"]


@dataclass(frozen=True)
class AnnotatedItem:
    """The subject of a judgement.

    ``talk`` and ``answer`` have a stored trial, ``answer`` also the format of its free response; a ``pair`` has two
    trials on one case, in the order in which they are shown; ``case`` has a vignette; ``profile`` also the ``version``
    of its stored profile; ``release`` has a model's conversation on a case, which is not stored here.
    """

    kind: ItemKind
    trial_id: str = ""
    format: Format = "multi_turn"
    model: str = ""
    case_key: str = ""
    second_trial: str = ""
    version: int = 0

    def __str__(self) -> str:
        return _ITEMS[self.kind].format(**vars(self))

    @property
    def trials(self) -> tuple[str, ...]:
        return tuple(trial for trial in (self.trial_id, self.second_trial) if trial)


_ITEMS: Mapping[str, str] = {
    "talk": "talk:{trial_id}",
    "answer": "answer:{trial_id}:{format}:frq",
    "pair": "pair:{trial_id}|{second_trial}",
    "case": "case:{case_key}",
    "profile": "profile:{version}:{case_key}",
    "release": "release:{model}:{case_key}",
}
"""Kind → how its items are written."""
_PARTS = {"format": "|".join(FORMATS), "version": r"\d+", "trial_id": "[^|]+"}
"""Part → its regular expression; others are any text."""
_READERS = {
    kind: re.compile(
        re.sub(r"\{(\w+)\}", lambda part: f"(?P<{part[1]}>{_PARTS.get(part[1], '.+')})", text.replace("|", r"\|")),
        re.DOTALL,
    )
    for kind, text in _ITEMS.items()
}


def parse_item(text: str) -> AnnotatedItem:
    """Parse the name of an item; raises ``UsageError`` if it is invalid."""
    kind = text.strip().partition(":")[0]
    match = _READERS[kind].fullmatch(text.strip()) if kind in _READERS else None
    if match is None:
        raise UsageError(
            f"{text[:80]!r} is no item: write talk:TRIAL, answer:TRIAL:FORMAT:frq, pair:TRIAL|TRIAL, "
            "case:CASE, profile:VERSION:CASE or release:MODEL:CASE."
        )
    parts: dict[str, Any] = match.groupdict()
    return AnnotatedItem(kind, **parts | {"version": int(parts.get("version") or 0)})  # type: ignore[arg-type]


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

    Empty ``runs``, ``models``, ``datasets``, ``specialties`` and ``where`` (fields of cases and their values) are no
    restriction. ``annotators`` may be given as names with commas between them. ``shared`` is the share of items
    (0 to 1) that several annotators see, as many as ``reviewers`` if there are so many. ``format`` is that of the free
    responses; ``question_types`` and ``order`` are the questions of a baseline and their order; ``case_set`` is the
    data set of reviews of cases and vignettes. ``form`` has the questions as they were when the review was planned;
    reviews of version 0.5 and earlier have none and use the program's form.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    number: int = Field(ge=1)
    annotators: tuple[str, ...]
    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    format: Format = "multi_turn"
    case_set: str = "library"
    question_types: tuple[QuestionType, ...] = ("frq", "mcq")
    order: ReviewOrder = "own words first"
    sampling: ReviewSampling = "random"
    shared: float = Field(default=THIRD, ge=0, le=1)
    seed: int = Field(default=20, ge=0)
    form: Form | None = None

    @field_validator("annotators", mode="before")
    @classmethod
    def _names(cls, names: str | Sequence[str]) -> tuple[str, ...]:
        names = names.split(",") if isinstance(names, str) else names
        unique = tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))
        if not unique:
            raise ValueError("name at least one annotator")
        return unique

    @field_validator("where")
    @classmethod
    def _of_cases(cls, where: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        if unknown := [name for name, _ in where if name not in CASE_FIELDS]:
            raise ValueError(f"cases have no field {unknown[0]}, only {', '.join(CASE_FIELDS)}")
        return where

    @field_validator("question_types")
    @classmethod
    def _once_each(cls, types: tuple[QuestionType, ...]) -> tuple[QuestionType, ...]:
        return tuple(dict.fromkeys(types))

    @model_validator(mode="after")
    def _possible(self) -> ReviewPlan:
        if self.asks.final and self.order == "different people":
            if len(self.question_types) < 2:
                raise ValueError("different people answer in own words and by choices: ask for both")
            if len(self.annotators) < 2:
                raise ValueError("different people answer in own words and by choices: name a second annotator")
        if self.asks.final and not (self.question_types and set(self.question_types) <= {"mcq", "frq"}):
            raise ValueError("a baseline asks mcq, frq or both")
        if self.sampling == "disagreement" and self.asks.about not in ("conversation", "answer"):
            raise ValueError("there is no disagreement on these items: draw at random or by specialty")
        return self

    @property
    def drawn_from(self) -> str:
        """The specialties, data sets and values of fields to which its items are restricted, in words."""
        return ", ".join([*self.specialties, *self.datasets, *(f"{field} {value}" for field, value in self.where)])

    @property
    def asks(self) -> Form:
        """The form of this review; raises ``UsageError`` if neither the plan nor the program has it."""
        return self.form or form_named(self.kind)

    @property
    def questions(self) -> tuple[str, ...]:
        return tuple(question.id for question in self.asks.questions)

    @property
    def ties_in_words(self) -> str:
        return ties_in_words(self.asks, self.reviewers if self.shared else 1)

    @property
    def reviewers(self) -> int:
        return min(self.asks.reviewers, len(self.annotators))

    def asked_of(self, annotator: str) -> tuple[str, ...]:
        """Return the questions of an annotator, in their order."""
        if not self.asks.final:
            return self.questions
        types = [kind for kind in _SEQUENCE[self.order] if kind in self.question_types and kind in self.questions]
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
        return order_in_words(self.order, self.question_types) if self.asks.final else ""


_SEQUENCE: dict[ReviewOrder, tuple[QuestionType, ...]] = {
    "own words first": ("frq", "mcq"),
    "different people": ("frq", "mcq"),
    "choices first": ("mcq", "frq"),
}


def ties_in_words(form: Form, reviewers: int) -> str:
    """Return what happens where the ``reviewers`` of an item differ; empty for a form with final answers."""
    if form.final:
        return ""
    if reviewers < 2:
        return "Each item has one annotator: nothing can be tied, and no agreement is measured."
    if form.decision == "mean":
        return f"Up to {reviewers} annotators answer an item; on a scale their mean counts."
    rule = (
        f"The answer that most of the {reviewers} annotators of an item give counts; without a majority they settle it "
        "together"
        if form.decision == "majority"
        else "Where the two annotators of an item differ, a third person decides, or both settle it together"
    )
    return f"{rule}. Until then figures exclude the item as tied."


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
    form = fields.get("form")
    if form and not form["questions"]:  # a baseline of version 0.5: its questions are those of the program's form
        fields = {**fields, "form": None}
    if "order" not in fields:
        types = list(fields.get("question_types") or ("mcq", "frq"))
        fields = {**fields, "order": order_of_0_4(types)}
    present = {name: value for name, value in fields.items() if name not in ("rubric", "statements")}
    if fields.get("rubric"):
        form = form_of_criteria(fields["rubric"], fields["statements"])
        present |= {"kind": form.name, "form": form, "sampling": "random"}
    return ReviewPlan.model_validate(present)


def form_of_criteria(rubric: str, statements: Mapping[str, str]) -> Form:
    """Return the form of a review of criteria, as versions up to 0.6 planned it: ``statements`` are hash → words.

    Each of its items was one criterion of a conversation (``core.store.former_rows.criterion_of``).
    """
    values = ("met", "not met", "not applicable")
    questions = [
        FormQuestion(
            id=key,
            title=words,
            wording=words,
            options=tuple(Option(value=value, label=value.capitalize()) for value in values),
            yes=("met",),
            against=key,
        )
        for key, words in statements.items()
    ]
    words = [
        FormQuestion(id=f"{q.id}:words", title="Evidence", wording="Which words decide?", kind="span", optional=True)
        for q in questions
    ]
    return Form(
        name=f"{RUBRIC}{rubric}",
        title="Criteria of a rubric",
        about="conversation",
        shows=("dialogue",),
        questions=(*questions, *words),
    )


def planned(**fields: object) -> ReviewPlan:
    """Return a plan, with the present form of its kind if none is given.

    Raises ``UsageError`` with one sentence if it is invalid.
    """
    form = fields.get("form") or form_named(str(fields.get("kind")))
    try:
        return ReviewPlan.model_validate({**fields, "form": form})
    except ValidationError as error:
        first = error.errors()[0]
        field_name = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"This review cannot be planned: {f'{field_name}: ' if field_name else ''}{reason}."
        ) from error


@dataclass(frozen=True)
class ReviewItem:
    """One item: its number in the review, from 1 (each annotator has a different order), and its annotators.

    ``questions`` are the only ones that are asked about it; empty for all of the form.
    """

    item: str
    number: int
    annotators: tuple[str, ...]
    questions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Review:
    """A stored review. ``created_at`` is in seconds since 1970 (UTC)."""

    name: str
    plan: ReviewPlan
    items: tuple[ReviewItem, ...] = ()
    review_id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    created_at: float = field(default_factory=time.time)
    unblinded: UnblindingRow | None = None


@dataclass(frozen=True)
class Candidate:
    """An item that may be drawn; ``disagreement``: graders or rules disagree on it."""

    item: str
    model: str
    case_key: str
    dataset: str
    specialty: str
    disagreement: bool = False
