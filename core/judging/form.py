"""Forms: the questions that a judge (a person, a model or a rule) answers about a stored item, declared in YAML files.

The files are in ``data/forms``, and in the folder ``forms`` of every extension and of the database (``reviews`` up to
version 0.6). A review stores its form when it is planned, so its answers keep their meaning if the file changes or is
lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.errors import UsageError
from core.paths import FORMS, extensions, local_folder
from core.yaml_text import read_yaml_file

About = Literal["conversation", "answer", "vignette", "case", "profile", "pair"]
"""Of a ``vignette`` the experts answer the case's own question: a question of the form is a question type (``mcq`` or
``frq``). Of a ``pair`` of conversations on one case they choose the better."""
QuestionKind = Literal["choice", "scale", "text", "span"]
"""``scale``: options in order, lowest first; ``span``: words to be marked in a message, any number of places."""
Shown = Literal["dialogue", "summary", "vignette", "question", "answer", "response", "extracted", "profile"]
"""What a judge sees of an item: the conversations, the summary of one, the case's vignette, its question with choices,
the right answer, the free response, the diagnosis that the grader extracted from it, the profile. Never a model's name
or a condition."""
Evidence = Literal["none", "anyone", "doctor", "patient", "told", "case", "vignette", "response"]
"""Whose words may be quoted as evidence; ``told``: the patient's with its scripted opening, which tells the complaint;
``case``: those of what is shown next to a conversation; ``vignette`` and ``response``: those of it alone."""
OF_TEXTS: frozenset[Evidence] = frozenset(("case", "vignette", "response"))
"""Evidence without the number of a message."""
DOCTOR = "doctor"
"""As a judge: the model that was the doctor of the conversation."""
CANNOT_JUDGE = "cannot judge"
"""The answer of a judge who cannot answer a question; it is counted and enters no figure."""
MOST_POINTS = 10_000
RUBRIC = "rubric:"
"""Begins the name of a rubric as a form (``core.judging.rubric``).

A judge's answer to a criterion counts wherever the same words are a criterion: it is identified by their hash, whatever
the rubric and the id of the criterion.
"""
NOT_APPLICABLE = "not applicable"
"""The answer where the condition of a question is not fulfilled."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_SHOWN: dict[About, tuple[Shown, ...]] = {
    "conversation": ("dialogue", "vignette", "question", "answer"),
    "pair": ("dialogue", "vignette", "question", "answer"),
    "answer": ("dialogue", "vignette", "question", "answer", "response"),
    "case": ("vignette", "question", "answer"),
    "profile": ("vignette", "question", "answer", "profile"),
    "vignette": ("vignette", "question"),
}


class Option(BaseModel):
    """A possible answer: its stored value, its label on the form, and whose words are evidence for it.

    Without ``quotes`` these are the words that are evidence for the question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str = Field(min_length=1, max_length=60)
    label: str = Field(min_length=1)
    quotes: Evidence | None = None


FactAsked = tuple[str, str]
"""A fact of a case as a form asks about it: the id of its question, and its text."""


class FormQuestion(BaseModel):
    """A question of a form; ``title`` is its heading in tables, ``wording`` and ``guidance`` are for every judge.

    Up to version 0.6 its ``kind`` was called ``form``, and what a form is ``about`` its ``subject``.

    Attributes:
        yes: The values that count as yes where a figure needs two categories.
        cannot_judge: Whether *cannot judge* is an answer; false where a judge is forced to choose.
        optional: People may leave it unanswered.
        fills: The field of a case that the decided answers can fill (``core.store.queries.case_labels.LabelField``).
        when: The condition under which the question applies; with one, ``not applicable`` is an answer.
        points: Points of the answers in ``yes``; negative for something harmful.
        priority: With points ``should`` by default; ``must not`` if and only if they are negative.
        source: The guideline, publication or person behind the question.
        of_case: The answer depends on the case: about a conversation on another case it would be another one.
        quotes: Whose words are evidence, if not those of the form.
        cases: Keys of the only cases that it is asked about; empty, with empty ``specialties``: all.
        specialties: The only specialties that it is asked about.
        denies: Its quotations are denials; words without a negation are dropped, like words that are in no text.
        each: It is asked once for each fact of the case that a patient can tell, with the fact for ``{fact}``.
        against: Hash of the facts that the answer depends on, in a form about one case (``Form.about_facts``).
        text: Hash of what is shown of a case, in a question about this case (``core.judging.request.text_hash``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str = Field(min_length=1)
    wording: str = Field(min_length=1)
    guidance: str = ""
    kind: QuestionKind = Field(default="choice", validation_alias=AliasChoices("kind", "form"))
    options: tuple[Option, ...] = (Option(value="yes", label="Yes"), Option(value="no", label="No"))
    yes: tuple[str, ...] = ("yes",)
    cannot_judge: bool = True
    optional: bool = False
    fills: str = ""
    when: str = ""
    points: float | None = Field(default=None, allow_inf_nan=False, ge=-MOST_POINTS, le=MOST_POINTS)
    axis: str = ""
    priority: Literal["must", "should", "must not"] | None = None
    source: str = ""
    tags: tuple[str, ...] = ()
    of_case: bool = False
    quotes: Evidence | None = None
    cases: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    denies: bool = False
    each: Literal["fact"] | None = None
    against: str = ""
    text: str = ""

    @field_validator("id")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not _ID.fullmatch(name):
            raise ValueError(f"{name!r} is not an id: use letters, digits and - _ . :")
        return name

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, fields: Any) -> Any:
        """Accept ``options: {1: Poor, 2: Good}`` and ``[Good, Poor]``; texts and spans need none."""
        if not isinstance(fields, dict):
            return fields
        options = fields.get("options")
        if isinstance(options, dict):
            listed = [{"value": str(value), "label": str(label)} for value, label in options.items()]
            fields = {**fields, "options": listed, "yes": fields.get("yes", ())}
        elif isinstance(options, list) and all(isinstance(option, str) for option in options):
            listed = [{"value": option, "label": option} for option in options]
            fields = {**fields, "options": listed, "yes": fields.get("yes", ())}
        elif options is None and fields.get("kind", fields.get("form")) in ("text", "span"):
            fields = {**fields, "options": (), "yes": ()}
        if isinstance(priority := fields.get("priority"), str) and priority:
            fields = {**fields, "priority": priority.strip().lower()}
        elif (points := fields.get("points")) is not None:
            harmful = str(points).strip().startswith("-")
            fields = {**fields, "priority": "must not" if harmful else "should"}
        return fields

    @model_validator(mode="after")
    def _possible(self) -> FormQuestion:
        values = [option.value for option in self.options]
        if self.kind in ("text", "span"):
            if values:
                raise ValueError(f"{self.id} is answered in words, so it has no options")
        elif len(values) < 2 or len(set(values)) < len(values):
            raise ValueError(f"{self.id} needs at least two different options")
        if CANNOT_JUDGE in values:
            raise ValueError(f"{CANNOT_JUDGE!r} is no option of {self.id}: write cannot_judge: true")
        if self.each and "{fact}" not in self.wording:
            raise ValueError(f"{self.id} is asked for each fact, so its wording needs {{fact}}")
        if self.points == 0:
            raise ValueError(f"{self.id} has no points: give it some, or remove it")
        if self.points is not None and (self.points < 0) != (self.priority == "must not"):
            raise ValueError(
                f"{self.id} has {self.points:g} points and priority {self.priority!r}: only must not is < 0"
            )
        if not set(self.yes) <= set(values):
            raise ValueError(f"{self.id} counts {', '.join(self.yes)} as yes, which are not all among its options")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """The possible answers in their order; empty if the answer is text."""
        return tuple(option.value for option in self.options)

    @property
    def answers(self) -> tuple[str, ...]:
        """The possible answers with those that are no value; empty if the answer is text."""
        if not self.options:
            return ()
        not_applicable = (NOT_APPLICABLE,) if self.when and NOT_APPLICABLE not in self.values else ()
        return (*self.values, *not_applicable, *((CANNOT_JUDGE,) if self.cannot_judge else ()))

    @property
    def explained(self) -> str:
        """What people read below the wording."""
        return "\n".join(filter(None, (self.guidance, self.when and f"It applies only if: {self.when}")))

    @property
    def hash(self) -> str:
        """Hash of what a judge sees of the question: an answer stays valid if points, axis or priority change."""
        if self.against:
            return self.against
        seen: list[Any] = [self.wording, self.when]
        if self.guidance or self.options != STATEMENT:
            seen += [self.guidance, self.kind, [option.model_dump(exclude_none=True) for option in self.options]]
        return hashlib.sha256(orjson.dumps(seen)).hexdigest()[:16]

    @property
    def against_text(self) -> str:
        """``Judgement.against`` of an answer: the hash of the question, and of the text if it is about a case."""
        return f"{self.hash} {self.text}".strip()

    def needs_words(self, answer: str) -> bool:
        """Return whether an answer needs words as evidence; that something was never said has none."""
        return answer in self.values and (not self.yes or self.kind == "scale" or answer in self.yes)

    def evidence_for(self, answer: str, of_form: Evidence) -> Evidence:
        """Return whose words are evidence for an answer in a form whose evidence is ``of_form``."""
        option = next((option for option in self.options if option.value == answer), None)
        return (option.quotes if option else None) or self.quotes or of_form

    def check(self, value: str) -> str:
        """Return the answer as it is stored; raise ``UsageError`` if it is not an answer to this question."""
        answer = value.strip()
        if (not self.options and answer) or answer in self.answers:
            return answer
        raise UsageError(f"{value!r} is not an answer: enter {', '.join(self.answers) or 'some words'}.")


STATEMENT = (Option(value="met", label="Met"), Option(value="not met", label="Not met"))
"""The options of a question that is a statement, such as a criterion of a rubric."""


class Form(BaseModel):
    """What is judged, and the questions on it.

    Attributes:
        about: What a judge judges.
        shows: What the judge sees of it; empty: what is usual for ``about``.
        quotes: Whose words are evidence; ``None``: anyone's in a conversation, otherwise those of the case.
        by: Who may judge: ``person``, ``model``, ``rule NAME``, or ``doctor``, the conversation's own.
        together: Whether models may answer all questions in one request.
        decision: How several people's answers to a question become one: ``third``, another person decides where two
            differ; ``majority``; ``mean`` of a scale.
        reviewers: Number of people who see a shared item.
        framework: Only its conversations are drawn.
        instruction: Stands above the questions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = Field(min_length=1)
    about: About = Field(validation_alias=AliasChoices("about", "subject"))
    shows: tuple[Shown, ...] = ()
    quotes: Evidence | None = None
    by: tuple[str, ...] = ("person", "model")
    together: bool = True
    source: str = ""
    licence: str = ""
    framework: str = ""
    instruction: str = ""
    decision: Literal["third", "majority", "mean"] = "third"
    reviewers: int = Field(default=2, ge=2, le=20)
    questions: tuple[FormQuestion, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> Form:
        if not self.questions:
            raise ValueError("a form needs a question")
        ids = set[tuple[str, str]]()
        for question in sorted(self.questions, key=lambda question: bool(question.cases)):
            for case in question.cases or ("",):
                if {(question.id, case), (question.id, "")} & ids:
                    raise ValueError(f"two questions for {case or 'all cases'} have the id {question.id!r}")
                ids.add((question.id, case))
        if self.final and not {id_ for id_, _ in ids} <= {"mcq", "frq"}:
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
        return self.about == "vignette"

    @property
    def shown(self) -> tuple[Shown, ...]:
        return self.shows or _SHOWN[self.about]

    @property
    def evidence(self) -> Evidence:
        return self.quotes or ("anyone" if "dialogue" in self.shown else "case")

    @property
    def of_facts(self) -> bool:
        return any(question.each for question in self.questions)

    @property
    def hash(self) -> str:
        """Hash of what a judge sees next to the questions; other words are another judge.

        The answers of a form on facts are valid for these facts, so that the wording of its questions is here.
        """
        seen: list[Any] = [self.instruction, self.shown, self.evidence]
        if self.of_facts:
            seen += [question.hash for question in self.questions]
        return hashlib.sha256(orjson.dumps(seen)).hexdigest()[:16]

    def about_facts(self, facts: Sequence[FactAsked], against: str) -> Form:
        """Return the form about a case with these facts; ``against``, their hash, becomes that of each question."""
        asked: list[FormQuestion] = []
        for question in self.questions:
            of_case = question.model_copy(update={"against": against})
            if question.each:
                worded = [(id_, question.wording.replace("{fact}", text)) for id_, text in facts]
                asked += [of_case.model_copy(update={"id": id_, "wording": wording}) for id_, wording in worded]
            else:
                asked.append(of_case)
        about = self.model_copy(update={"questions": tuple(asked)})
        vars(about).pop("_numbers", None)  # a copy has the numbers of the questions before
        return about

    def questions_for(self, case_key: str, specialty: str) -> tuple[FormQuestion, ...]:
        """Return the questions about an item of a case."""
        scopes = (("", ""), ("case", case_key), ("specialty", specialty))
        numbers = {number for scope in scopes for number in self._numbers.get(scope, ())}
        return tuple(self.questions[number] for number in sorted(numbers))

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], list[int]]:
        """Scope → the numbers of its questions: a rubric may have questions for each of thousands of cases."""
        numbers: dict[tuple[str, str], list[int]] = {}
        for number, question in enumerate(self.questions):
            named = {"case": question.cases, "specialty": question.specialties}
            scopes = [(kind, name) for kind, names in named.items() for name in names]
            for scope in scopes or [("", "")]:
                numbers.setdefault(scope, []).append(number)
        return numbers

    @property
    def required(self) -> tuple[str, ...]:
        """The ids of the questions without which an item is not complete."""
        return tuple(question.id for question in self.questions if not question.optional)


def read_form(path: Path) -> Form:
    """Read a form; its name is the file's. Raises ``UsageError`` with one sentence if the file is not a form.

    A question with ``options_from: FORM`` has the options of the first question of this form of the program, and then
    its own ``options``, so that a scale is worded once.
    """
    try:
        fields = read_yaml_file(path)  # every scalar is a text: yes and no are answers, not booleans
        if not isinstance(fields, dict):
            raise UsageError(f"{path} is not a form: it needs title, about and questions.")
        for question in fields.get("questions") or ():
            if isinstance(question, dict) and (source := question.pop("options_from", "")):
                scale = read_form(FORMS / f"{Path(str(source)).name}.yaml").questions[0]
                if not isinstance(own := question.get("options") or {}, dict):
                    raise UsageError(f"{path} is not a form: write options after options_from as VALUE: LABEL.")
                question["options"] = {**{option.value: option.label for option in scale.options}, **own}
        return Form.model_validate({**fields, "name": path.stem})
    except ValidationError as error:
        raise UsageError(f"{path} is not a form: {reason_of(error)}.") from error


def reason_of(error: ValidationError) -> str:
    """Return the first field that is wrong, with the reason."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason


def forms() -> dict[str, Form]:
    """Return name → form, the program's first. A file of the user does not replace a form of the program."""
    own = (folder / name for folder in (*extensions(), local_folder()) for name in ("forms", "reviews"))
    stated = [
        (path, path.stat().st_mtime_ns)
        for folder in (FORMS, *own)
        for path in sorted(folder.glob("*.yaml"), key=lambda path: path.name)
    ]
    return _forms(tuple(stated))


@lru_cache(maxsize=4)
def _forms(files: tuple[tuple[Path, int], ...]) -> dict[str, Form]:
    by_name: dict[str, Form] = {}
    for path, _ in files:
        by_name.setdefault(path.stem, read_form(path))
    return by_name


def form_named(name: str) -> Form:
    """Return a form; raise ``UsageError`` if there is none of this name."""
    form = forms().get(name)
    if form is None:
        raise UsageError(f"There is no form {name!r}: choose one of {', '.join(forms())}.")
    return form
