"""Kinds of reviews: what people judge and the questions on a form, declared in YAML files.

The files are in ``data/reviews``, and in the folder ``reviews`` of every extension and of the database. A review stores
its form when it is planned, so its answers keep their meaning if the file changes or is lost.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.errors import UsageError
from core.paths import REVIEWS, extensions, local_folder
from core.yaml_text import read_yaml_file

Subject = Literal["conversation", "answer", "vignette", "case", "profile", "pair", "criterion"]
"""Of a ``vignette`` the experts answer the case's own question: a question of the form is a question type (``mcq`` or
``frq``). Of a ``pair`` of conversations on one case they choose the better; of a ``criterion`` of a rubric they say
whether it is met in a conversation."""
QuestionForm = Literal["choice", "scale", "text", "span"]
"""``scale``: options in order, lowest first; ``span``: words to be marked in a message."""
CANNOT_JUDGE = "cannot judge"
"""The answer of an annotator who cannot answer a question; it is counted and enters no figure."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Option(BaseModel):
    """A possible answer: its stored value and its label on the form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str = Field(min_length=1, max_length=60)
    label: str = Field(min_length=1)


class FormQuestion(BaseModel):
    """A question of a form; ``title`` is its heading in tables, ``wording`` and ``guidance`` are for annotators.

    ``yes`` are the values that count as yes where a figure needs two categories. An optional question may stay
    unanswered. ``fills`` names the field of a case that the decided answers can fill
    (``core.store.queries.case_labels.LabelField``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str = Field(min_length=1)
    wording: str = Field(min_length=1)
    guidance: str = ""
    form: QuestionForm = "choice"
    options: tuple[Option, ...] = (Option(value="yes", label="Yes"), Option(value="no", label="No"))
    yes: tuple[str, ...] = ("yes",)
    cannot_judge: bool = False
    optional: bool = False
    fills: str = ""

    @field_validator("id")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("an id has lower-case letters, digits and underscores, and starts with a letter")
        return name

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, fields: Any) -> Any:
        """Accept ``options: {1: Poor, 2: Good}``, and no options for text and spans."""
        if not isinstance(fields, dict):
            return fields
        options = fields.get("options")
        if isinstance(options, dict):
            listed = [{"value": str(value), "label": str(label)} for value, label in options.items()]
            fields = {**fields, "options": listed, "yes": fields.get("yes", ())}
        elif options is None and fields.get("form") in ("text", "span"):
            fields = {**fields, "options": (), "yes": ()}
        return fields

    @model_validator(mode="after")
    def _possible(self) -> FormQuestion:
        values = [option.value for option in self.options]
        if self.form in ("text", "span"):
            if values:
                raise ValueError(f"{self.id} is answered in words, so it has no options")
        elif len(values) < 2 or len(set(values)) < len(values):
            raise ValueError(f"{self.id} needs at least two different options")
        if CANNOT_JUDGE in values:
            raise ValueError(f"{CANNOT_JUDGE!r} is no option of {self.id}: write cannot_judge: true")
        if not set(self.yes) <= set(values):
            raise ValueError(f"{self.id} counts {', '.join(self.yes)} as yes, which are not all among its options")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """The possible answers in their order; empty if the answer is text."""
        return tuple(option.value for option in self.options)

    def check(self, value: str) -> str:
        """Return the answer as it is stored; raise ``UsageError`` if it is not an answer to this question."""
        answer = value.strip()
        if self.form in ("text", "span") and answer:
            return answer
        if answer in self.values or (self.cannot_judge and answer == CANNOT_JUDGE):
            return answer
        allowed = [*self.values, *([CANNOT_JUDGE] if self.cannot_judge else [])]
        raise UsageError(f"{value!r} is not an answer: enter {', '.join(allowed) or 'some words'}.")


class ReviewForm(BaseModel):
    """A kind of review: what is judged, and the questions on it.

    ``decision`` says how several answers to a question become one: ``third``, a third annotator decides where two
    differ; ``majority``; ``mean`` of a scale. ``reviewers`` is the number of annotators of a shared item. With a
    ``framework`` only its conversations are drawn. ``instruction`` is shown next to every item.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = Field(min_length=1)
    subject: Subject
    source: str = ""
    framework: str = ""
    instruction: str = ""
    decision: Literal["third", "majority", "mean"] = "third"
    reviewers: int = Field(default=2, ge=2, le=20)
    questions: tuple[FormQuestion, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> ReviewForm:
        ids = [question.id for question in self.questions]
        if len(set(ids)) < len(ids):
            raise ValueError("two questions have one id")
        if not ids:
            raise ValueError("a form needs a question")
        if self.final and not set(ids) <= {"mcq", "frq"}:
            raise ValueError("a form about vignettes asks mcq, frq or both")
        if self.decision == "third" and self.reviewers != 2:
            raise ValueError("a third annotator decides between two: write decision: majority for more reviewers")
        return self

    def question(self, question_id: str) -> FormQuestion | None:
        return next((question for question in self.questions if question.id == question_id), None)

    @property
    def final(self) -> bool:
        """Whether no answer can be changed, and each question is shown after the one before it is answered.

        The choices of a vignette give its answer away.
        """
        return self.subject == "vignette"

    @property
    def required(self) -> tuple[str, ...]:
        """The ids of the questions without which an item is not complete."""
        return tuple(question.id for question in self.questions if not question.optional)


def read_form(path: Path) -> ReviewForm:
    """Read a form; its name is the file's. Raises ``UsageError`` with one sentence if the file is not a form."""
    try:
        fields = read_yaml_file(path)  # every scalar is a text: yes and no are answers, not booleans
        if not isinstance(fields, dict):
            raise UsageError(f"{path} is not a form: it needs title, subject and questions.")
        return ReviewForm.model_validate({**fields, "name": path.stem})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{path} is not a form: {f'{place}: ' if place else ''}{reason}.") from error


def forms() -> dict[str, ReviewForm]:
    """Return name → form, the program's first. A file of the user does not replace a form of the program."""
    folders = [REVIEWS, *(folder / "reviews" for folder in extensions()), local_folder() / "reviews"]
    stated = [
        (path, path.stat().st_mtime_ns)
        for folder in folders
        for path in sorted(folder.glob("*.yaml"), key=lambda path: path.name)
    ]
    return _forms(tuple(stated))


@lru_cache(maxsize=4)
def _forms(files: tuple[tuple[Path, int], ...]) -> dict[str, ReviewForm]:
    by_name: dict[str, ReviewForm] = {}
    for path, _ in files:
        by_name.setdefault(path.stem, read_form(path))
    return by_name


def form_named(name: str) -> ReviewForm:
    """Return a form; raise ``UsageError`` if there is none of this name."""
    form = forms().get(name)
    if form is None:
        raise UsageError(f"There is no kind of review {name!r}: choose one of {', '.join(forms())}.")
    return form
