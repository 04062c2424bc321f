"""The vocabulary of everything that happens: a protocol yields events, and whoever looks decides what they are for.

The live page draws them, the journal keeps them (all but tokens), the store reads them back for playback.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

Speaker = str
"""Who says a message: a seat of the framework."""
RoleName = str
"""Who a model is called for: a seat of the framework, or somebody beside it (``grader``, ``profiler``)."""
Purpose = Literal["dialogue", "answer", "extract", "judge", "summarise", "probe", "profile", "rate", "complete"]
FINAL_DIAGNOSIS = "Final Diagnosis"
"""The words by which a doctor ends a conversation."""
EndReason = Literal["final_diagnosis", "no_question", "turn_cap", "end_tag", "no_tag", "refusal", "error"]
"""Why a conversation ended. Where the doctor says to whom each message goes: ``end_tag``, it closed the conversation,
and ``no_tag``, its message could not be passed on."""
Verdict = Literal[
    "correct",
    "incorrect",
    "no_diagnosis",
    "multiple",
    "refused_in_words",
    "empty",
    "ungradable",
    "refused",
    "cut",
    "provider_error",
    "not_applicable",
]
"""``refused_in_words``: the doctor's own reply declines to answer, as the grader quotes it; ``refused``: there is no
reply, for the provider's filter withheld it. ``empty``: the reply is blank, though the provider reports a normal end;
``cut``: the answer, or the summary that it was to rest on, was stopped at the limit of its length."""
COUNTED: tuple[Verdict, ...] = ("correct", "incorrect", "no_diagnosis", "multiple", "refused_in_words", "empty")
"""Verdicts that count in an accuracy; all others are excluded and shown with their number."""
Rule = Literal["mcq_loose", "mcq_strict", "mcq_many", "frq", "frq_top3"]
"""A question type's name is the rule by which a grader judges it."""

Format = Literal["vignette", "multi_turn", "multi_turn_exam", "single_turn", "summarized", "exam_only"]
FORMATS: tuple[Format, ...] = (
    "vignette", "multi_turn", "multi_turn_exam", "single_turn", "summarized", "exam_only"
)  # fmt: skip
QuestionType = Literal["mcq", "mcq_many", "mcq_answers", "frq", "frq_top3"]
"""``mcq_many`` offers every choice of every question of the data set. ``mcq_answers`` is what version 0.4 asked under
that name: it offered the right answers alone, which is easier, and is asked in no new run."""
QUESTION_TYPES: tuple[QuestionType, ...] = ("mcq", "mcq_many", "mcq_answers", "frq", "frq_top3")
ASKED_TYPES: tuple[QuestionType, ...] = tuple(name for name in QUESTION_TYPES if name != "mcq_answers")
"""The question types of new runs."""
GradedType = Literal["mcq_many", "frq", "frq_top3"]
GRADED_TYPES: tuple[GradedType, ...] = ("mcq_many", "frq", "frq_top3")
"""Question types that a grader judges, each under the rule of its name."""


_ASSESSED_BEFORE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "misused": ({"name": "misuse"}, {"turn": "turn", "kinds": "values", "detail": "words"}),
    "rated": (
        {"name": "empathy", "most": 5},
        {"quality": "name", "rater": "by", "rating": "value", "words": "words", "call_id": "call_id"},
    ),
}
"""Events of versions up to 0.5 → what they said without saying it, and their fields → those of ``Assessed``."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SentPart(_Event):
    """Where a part of what a call was sent stands in ``request["messages"]``, and what it was made of.

    The words are characters ``start`` to ``end`` of message number ``message``. ``role`` is the one that the part was
    written for, which a model without system messages is sent as another. ``prompt`` was filled in with ``values``, of
    which words that stand in the part are kept as their place in it (``core.asking.parts``); ``source`` and
    ``source_hash`` are its file and the hash of that. ``turn`` is the dialogue's message.
    """

    role: str
    part: str
    message: int
    start: int
    end: int
    prompt: str | None = None
    source: str | None = None
    source_hash: str | None = None
    values: dict[str, Any] = Field(default_factory=dict)
    turn: int | None = None
    joined: bool = False

    @model_serializer(mode="wrap")
    def _compact(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what says nothing: a call has tens of parts, and most of them are messages of the dialogue."""
        return {
            name: value
            for name, value in dump(self).items()
            if value is not None and value is not False and value != {}
        }


class CallRecord(_Event):
    """One call of a model as the ledger keeps it: what was sent, what came back, tokens, seconds, US dollars."""

    call_id: str
    role: RoleName
    purpose: Purpose
    model: str
    request: dict[str, Any] = Field(default_factory=dict)
    parts: tuple[SentPart, ...] = ()
    """What the messages of the request were made of, in order; empty where that was not recorded."""
    response: str | None = None
    reasoning: str | None = None
    """What the model thought before or while it replied: kept and shown, never spoken, judged or sent to anyone."""
    finish_reason: str | None = None
    served_by: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    """Of ``prompt_tokens``, those that the provider had read before and charges less for; ``None``: it does not say."""
    cache_write_tokens: int | None = None
    """Of ``prompt_tokens``, those that the provider keeps for the next call, often at a higher price."""
    completion_tokens: int = 0
    reasoning_tokens: int | None = None
    """Of ``completion_tokens``, those of the reasoning; ``None`` where the provider does not say."""
    tokens_estimated: bool = False
    latency_s: float = 0.0
    first_token_s: float | None = None
    attempts: int = 1
    cost_usd: float | None = None
    price_source: str | None = None
    """Whose price that is, with its date or version; ``None`` where none is known, and in calls of before 0.4."""
    error: str | None = None


class Parent(_Event):
    """Where a branch left another conversation: at message ``turn``, the first that may differ, and what changed."""

    trial_id: str
    turn: int
    changes: tuple[str, ...] = ()


class Started(_Event):
    """A trial begins; ``parent`` is the conversation that it branches off, if it is a fork.

    ``framework`` and its version are empty in what was recorded before events named them: the run's header does.
    """

    kind: Literal["started"] = "started"
    trial_id: str
    case_key: str
    trial: int
    seed: int
    parent: Parent | None = None
    framework: str = ""
    """Under which it is played, and its version."""
    framework_version: int = 0
    at: float = Field(default_factory=time.time)


class Token(_Event):
    """A bit of text streams in; ``restart`` means that what came before for this reply is void.

    A ``thought`` is no part of what is said.
    """

    kind: Literal["token"] = "token"
    role: RoleName
    purpose: Purpose
    text: str
    restart: bool = False
    thought: bool = False


class Called(_Event):
    """A model was called, successfully or not."""

    kind: Literal["called"] = "called"
    call: CallRecord


class Waiting(_Event):
    """A human seat is to speak next; of ``choices``, where there are any, one may be picked."""

    kind: Literal["waiting"] = "waiting"
    role: Speaker
    purpose: Purpose = "dialogue"
    prompt: str = ""
    choices: tuple[str, ...] = ()


class Utterance(_Event):
    """A finished message of the dialogue; turn 0 is the greeting."""

    kind: Literal["utterance"] = "utterance"
    turn: int
    role: Speaker
    text: str
    call_id: str | None = None


class Probed(_Event):
    """What the doctor believes after a turn: (diagnosis, probability), likeliest first."""

    kind: Literal["probed"] = "probed"
    turn: int
    differential: tuple[tuple[str, float], ...]


class Assessed(_Event):
    """An assessment of a message, or of the whole conversation, by the framework's rules or by somebody in a seat.

    ``name`` is the framework's own word for it: a rule that a message broke, a quality that was rated. The events
    ``misused`` and ``rated`` of versions up to 0.5 are read as assessments named ``misuse``, and after their quality.
    """

    kind: Literal["assessed", "misused", "rated"] = "assessed"
    name: str
    turn: int | None = None
    """The message that it is about; ``None``: the conversation."""
    values: tuple[str, ...] = ()
    """What holds of it, each in a word of the framework."""
    value: int | None = None
    """How much, from the least, which is 1, to ``most``; ``None`` where it says no number, or none could be read."""
    most: int | None = None
    by: str = ""
    """Who made it; empty for the framework's rules."""
    words: str = ""
    """What shows it, or the maker's own words."""
    call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        """Read the two events of before as what they are now."""
        if not isinstance(values, dict) or (kind := values.get("kind")) not in _ASSESSED_BEFORE:
            return values
        fixed, names = _ASSESSED_BEFORE[kind]
        if missing := [name for name in ("turn", "kinds", "rater") if name in names and name not in values]:
            raise ValueError(f"{', '.join(missing)} is missing")
        return fixed | {new: values[name] for name, new in names.items() if name in values}

    @model_validator(mode="after")
    def _within(self) -> Assessed:
        if self.value is not None and self.most is not None and not 1 <= self.value <= self.most:
            raise ValueError(f"value must be from 1 to {self.most}")
        return self


class Ended(_Event):
    """The conversation is over. ``doctor_turns`` counts the doctor's messages without the greeting."""

    kind: Literal["ended"] = "ended"
    reason: EndReason
    doctor_turns: int
    detail: str = ""


class Summarised(_Event):
    """The summariser's paragraph of the patient's lines."""

    kind: Literal["summarised"] = "summarised"
    text: str
    call_id: str | None = None


class Answered(_Event):
    """The doctor's answer in one arm; ``invalid`` with a reason where there is none to grade."""

    kind: Literal["answered"] = "answered"
    format: Format
    question_type: QuestionType
    response: str | None
    status: Literal["answered", "invalid"] = "answered"
    reason: Verdict | None = None
    detail: str = ""
    call_id: str | None = None


class Graded(_Event):
    """A verdict on one answer under one rule. Verdicts are a history: the newest of a rule counts."""

    kind: Literal["graded"] = "graded"
    format: Format
    question_type: QuestionType
    grader: str
    rule: Rule
    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()
    at: float = Field(default_factory=time.time)
    prompt_hash: str = ""
    """Of the prompts under which a re-grading judged; empty where the run's own prompts did, or none."""
    rule_version: int = 1
    """Of the hand-written rule that judged, or of how a model's words were read (``core.agents.grader``)."""


class Failed(_Event):
    """Something broke; what depended on it is excluded, never wrong."""

    kind: Literal["failed"] = "failed"
    where: str
    failure: str
    message: str


class Finished(_Event):
    """The trial is complete."""

    kind: Literal["finished"] = "finished"
    at: float = Field(default_factory=time.time)


Event = (
    Started
    | Token
    | Called
    | Waiting
    | Utterance
    | Assessed
    | Probed
    | Ended
    | Summarised
    | Answered
    | Graded
    | Failed
    | Finished
)
EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Annotated[Event, Field(discriminator="kind")]])

PASSING = (Token, Waiting)
"""Events that matter only while they happen and are not journaled."""


def grader_rule(question_type: QuestionType | None) -> GradedType | None:
    """Return the rule by which a grader judges a question type; ``None`` where no grader does."""
    return next((name for name in GRADED_TYPES if name == question_type), None)


def reasoning_of(events: Iterable[Event]) -> dict[str, str]:
    """Return call id → what the model thought, of the calls of which it is known."""
    calls = (event.call for event in events if isinstance(event, Called))
    return {call.call_id: call.reasoning for call in calls if call.reasoning}


def new_id() -> str:
    """Return a short random id for a call."""
    return uuid.uuid4().hex[:16]
