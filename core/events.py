"""The events of a trial, as a protocol yields them.

The live page draws them, the journal stores them (except ``PASSING`` ones), the store reads them for playback.
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

from core.bounds import BigInt, Int, Moment, Real, Tokens, Trials

Speaker = str
"""The speaker of a message: a seat of the framework."""
RoleName = str
"""The role of a model call: a seat of the framework, or another role (``grader``, ``profiler``)."""
Purpose = Literal["dialogue", "answer", "extract", "judge", "summarise", "probe", "profile", "rate", "complete"]
FINAL_DIAGNOSIS = "Final Diagnosis"
"""The words by which a doctor ends a conversation."""
EndReason = Literal[
    "final_diagnosis", "no_question", "turn_cap", "end_tag", "no_tag", "refusal", "error", "not_recorded"
]  # fmt: skip
"""Why a conversation ended. If the doctor addresses its messages: ``end_tag``, it closed the conversation, and
``no_tag``, its message could not be passed on. ``not_recorded``: an imported log does not say."""
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
"""``refused_in_words``: the doctor's reply declines to answer, as quoted by the grader; ``refused``: there is no reply,
because the provider's filter withheld it. ``empty``: the reply is blank, although the provider reports a normal end;
``cut``: the answer, or the summary it depends on, was stopped at the limit of its length."""
COUNTED: tuple[Verdict, ...] = ("correct", "incorrect", "no_diagnosis", "multiple", "refused_in_words", "empty")
"""Verdicts that count in an accuracy; all others are excluded and shown with their number."""
Rule = Literal["mcq_loose", "mcq_strict", "mcq_graded", "mcq_many", "frq", "frq_top3"]
"""The rule of a grader has the name of its question type, except ``mcq_graded``: a grader's opinion on one of four
choices, which is stored next to the verdicts of the rules and counts in no accuracy."""

Format = Literal["vignette", "multi_turn", "multi_turn_exam", "single_turn", "summarized", "exam_only", "closing"]
FORMATS: tuple[Format, ...] = (
    "vignette", "multi_turn", "multi_turn_exam", "single_turn", "summarized", "exam_only", "closing"
)  # fmt: skip
"""``closing``: the doctor is not asked again; the message that ended the conversation is its answer."""
QuestionType = Literal["mcq", "mcq_many", "mcq_answers", "frq", "frq_top3"]
"""``mcq_many`` offers every choice of every question of the data set. ``mcq_answers`` is ``mcq_many`` of version 0.4:
it offered only the right answers, which is easier, and is not available in new runs."""
QUESTION_TYPES: tuple[QuestionType, ...] = ("mcq", "mcq_many", "mcq_answers", "frq", "frq_top3")
ASKED_TYPES: tuple[QuestionType, ...] = tuple(name for name in QUESTION_TYPES if name != "mcq_answers")
"""The question types of new runs."""
GradedType = Literal["mcq_many", "frq", "frq_top3"]
GRADED_TYPES: tuple[GradedType, ...] = ("mcq_many", "frq", "frq_top3")
"""Question types that a grader judges, each under the rule of its name."""


IMPORTED_SCORE = "imported_score"
"""Name of an assessment that is a score of another program: ``values`` are its name and its value."""
_OLD_ASSESSMENTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "misused": ({"name": "misuse"}, {"turn": "turn", "kinds": "values", "detail": "words"}),
    "rated": (
        {"name": "empathy", "most": 5},
        {"quality": "name", "rater": "by", "rating": "value", "words": "words", "call_id": "call_id"},
    ),
}
"""Events of versions up to 0.5 → implied fields, and their fields → those of ``Assessed``."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SentPart(_Event):
    """The position of a part of a request in ``request["messages"]``, and its origin.

    The text is characters ``start`` to ``end`` of message number ``message``. ``role`` is the intended role, which
    changes for models without system messages. ``prompt`` is the template that was filled with ``values``; values that
    occur in the part are stored as their position in it (``core.asking.parts``). ``source`` and ``source_hash`` are the
    file of the template and its hash. ``turn`` is the message of the dialogue.
    """

    role: str
    part: str
    message: Int
    start: Int
    end: Int
    prompt: str | None = None
    source: str | None = None
    source_hash: str | None = None
    values: dict[str, Any] = Field(default_factory=dict)
    turn: Int | None = None
    joined: bool = False

    @model_serializer(mode="wrap")
    def _compact(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit default values: a call has tens of parts, and most of them are messages of the dialogue."""
        return {
            name: value
            for name, value in dump(self).items()
            if value is not None and value is not False and value != {}
        }


class CallRecord(_Event):
    """One call of a model: its request, response, tokens, seconds, and cost in US dollars."""

    call_id: str
    role: RoleName
    purpose: Purpose
    model: str
    request: dict[str, Any] = Field(default_factory=dict)
    parts: tuple[SentPart, ...] = ()
    """The parts of the messages of the request, in order; empty if they were not recorded."""
    response: str | None = None
    reasoning: str | None = None
    """The reasoning of the model: stored and shown, never part of a message, judged, or sent to a model."""
    finish_reason: str | None = None
    served_by: str | None = None
    prompt_tokens: Tokens = 0
    cached_tokens: Tokens | None = None
    """The part of ``prompt_tokens`` that the provider has cached, at a lower price; ``None`` if it is not reported."""
    cache_write_tokens: Tokens | None = None
    """The part of ``prompt_tokens`` that the provider writes to its cache, often at a higher price."""
    completion_tokens: Tokens = 0
    reasoning_tokens: Tokens | None = None
    """The part of ``completion_tokens`` for reasoning; ``None`` if it is not reported."""
    tokens_estimated: bool = False
    latency_s: Real = 0.0
    first_token_s: Real | None = None
    attempts: Int = 1
    cost_usd: Real | None = None
    price_source: str | None = None
    """The source of the price with its date or version; ``None`` without a price and in calls before version 0.4."""
    error: str | None = None


class Parent(_Event):
    """The parent of a branch: ``turn`` is the first message that may differ, ``changes`` what was changed."""

    trial_id: str
    turn: Int
    changes: tuple[str, ...] = ()


class Started(_Event):
    """A trial begins; ``parent`` is the conversation that it branches off, if it is a branch.

    ``framework`` and its version are empty in older recordings; then the header of the run has them.
    """

    kind: Literal["started"] = "started"
    trial_id: str
    case_key: str
    trial: Trials
    seed: BigInt
    parent: Parent | None = None
    framework: str = ""
    """Name of the framework."""
    framework_version: Int = 0
    at: Moment = Field(default_factory=time.time)


class Token(_Event):
    """A piece of streamed text; ``restart`` discards the earlier pieces of this reply.

    A ``thought`` is part of the reasoning, not of the message.
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
    """A human seat speaks next; if there are ``choices``, one of them may be selected."""

    kind: Literal["waiting"] = "waiting"
    role: Speaker
    purpose: Purpose = "dialogue"
    prompt: str = ""
    choices: tuple[str, ...] = ()


class Utterance(_Event):
    """A finished message of the dialogue; turn 0 is the greeting."""

    kind: Literal["utterance"] = "utterance"
    turn: Int
    role: Speaker
    text: str
    call_id: str | None = None


class Probed(_Event):
    """The doctor's belief after a turn: (diagnosis, probability from 0 to 1), most likely first."""

    kind: Literal["probed"] = "probed"
    turn: Int
    differential: tuple[tuple[str, Real], ...]


class Assessed(_Event):
    """An assessment of a message or of the conversation, by the framework's rules or by a seat.

    ``name`` is a term of the framework: a rule that a message broke, or a quality that was rated. The events
    ``misused`` and ``rated`` of versions up to 0.5 are read as assessments with the name ``misuse`` or the name of the
    quality.
    """

    kind: Literal["assessed", "misused", "rated"] = "assessed"
    name: str
    turn: Int | None = None
    """The assessed message; ``None``: the conversation."""
    values: tuple[str, ...] = ()
    """The findings, as terms of the framework."""
    value: Int | None = None
    """The rating, from 1 to ``most``; ``None`` if there is none or it could not be read."""
    most: Int | None = None
    by: str = ""
    """The rater; empty for the framework's rules."""
    words: str = ""
    """The evidence, or the comment of the rater."""
    call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_old_events(cls, values: Any) -> Any:
        if not isinstance(values, dict) or (kind := values.get("kind")) not in _OLD_ASSESSMENTS:
            return values
        fixed, names = _OLD_ASSESSMENTS[kind]
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
    doctor_turns: Int
    detail: str = ""


class Summarised(_Event):
    """The summariser's paragraph of the patient's lines."""

    kind: Literal["summarised"] = "summarised"
    text: str
    call_id: str | None = None


class Answered(_Event):
    """The doctor's answer in one arm; ``invalid``, with a reason, if there is nothing to grade."""

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
    at: Moment = Field(default_factory=time.time)
    prompt_hash: str = ""
    """Hash of the prompts of a re-grading; empty if the prompts of the run were used, or none."""
    rule_version: Int = 1
    """Version of the rule that judged, or of the parser of a model's reply (``core.agents.grader``)."""


class Failed(_Event):
    """A failure; results that depend on it are excluded, never counted as wrong."""

    kind: Literal["failed"] = "failed"
    where: str
    failure: str
    message: str


class Finished(_Event):
    """The trial is complete."""

    kind: Literal["finished"] = "finished"
    at: Moment = Field(default_factory=time.time)


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
    """Return the rule by which a grader judges a question type; ``None`` if graders do not judge it."""
    return next((name for name in GRADED_TYPES if name == question_type), None)


def reasoning_of(events: Iterable[Event]) -> dict[str, str]:
    """Return call id → reasoning, for calls with reasoning."""
    calls = (event.call for event in events if isinstance(event, Called))
    return {call.call_id: call.reasoning for call in calls if call.reasoning}


def new_id() -> str:
    return uuid.uuid4().hex[:16]
