"""What a document shows: messages in rows, answers by arm, usage by role, and the provenance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeVar

from core.case import Case
from core.events import (
    FORMATS,
    QUESTION_TYPES,
    Answered,
    Assessed,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Finished,
    Graded,
    Probed,
    Rule,
    Speaker,
    Started,
    Summarised,
    Utterance,
    reasoning_of,
)
from core.export.document import Document, ExportedConversation
from core.frameworks.base import Framework, framework_of
from core.frameworks.speech import Speech
from core.measures.provenance import UNKNOWN, ComparedRuns, settings_side_by_side, side_of_run
from core.models.prices import total
from core.store.conditions import FREE_RULES
from core.text.unsaid import in_words
from core.words import FORMAT, QUESTION_TYPE, ROLE, arm, how_it_ended

E = TypeVar("E", bound=Event)
LETTERS = "ABCD"
_RULE: dict[Rule, str] = {
    "mcq_loose": "contains the choice",
    "mcq_strict": "strict rule",
    "mcq_graded": "grader",
    "mcq_many": "",
    "frq": "",
    "frq_top3": "",
}
RULES_EXPLAINED = (
    "Substring rule: the right answer occurs in the response. Strict rule: exactly one choice is named, and it is the "
    "right one. Free responses are compared by the grader; of the top three, any may be right. An excluded answer is "
    "not counted as wrong."
)


@dataclass(frozen=True)
class MessageCell:
    """A message in a document.

    If the doctor addresses its messages, ``goes`` is the addressee, ``text`` is the part that was passed on, ``whole``
    is the original message if that is longer. Otherwise these are empty. ``misuse`` says in a sentence which rule of
    the framework the message broke. ``thought`` is the model's reasoning, which is not part of the message.
    """

    role: Speaker
    text: str
    goes: str = ""
    whole: str = ""
    misuse: str = ""
    thought: str = field(default="", compare=False)


@dataclass(frozen=True)
class MessageRow:
    """The n-th message of each conversation; ``same`` if they are all equal."""

    number: int
    cells: tuple[MessageCell | None, ...]
    same: bool


@dataclass(frozen=True)
class ArmOutcome:
    """The answer of one conversation in an arm, and the grades that count; no grades if it could not be graded.

    ``thoughts`` has the reasoning behind the answer and its grades: (role, text).
    """

    answer: Answered
    grades: tuple[Graded, ...]
    thoughts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ArmRow:
    """An arm in words and its outcome in each conversation, ``None`` if the arm was not run."""

    name: str
    cells: tuple[ArmOutcome | None, ...]


@dataclass(frozen=True)
class Use:
    """Usage of a role's calls in the trial itself; ``cost_usd`` is ``None`` if a price is unknown."""

    role: str
    models: str
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    seconds: float
    cost_usd: float | None


@dataclass(frozen=True)
class ProvenanceLine:
    """A line of the provenance with its value in each conversation."""

    name: str
    values: tuple[str, ...]
    compared: bool = True

    @property
    def differs(self) -> bool:
        """Whether the conversations differ in this fact, if it is one that is worth comparing."""
        return self.compared and len(set(self.values)) > 1


def role(name: str) -> str:
    return ROLE.get(name, name[:1].upper() + name[1:].replace("_", " "))


def place(where: str) -> str:
    """Return where a trial failed, in words: the role, and its arm if it was working on one."""
    role_name, _, arm_name = where.partition(" ")
    format_, _, question_type = arm_name.partition(":")
    if format_ in FORMAT and question_type in QUESTION_TYPE:
        return f"{role(role_name)} ({arm(format_, question_type)})"
    return role(where)


def judged(grade: Graded) -> str:
    """Return the rule or the grader of a verdict, and the diagnosis or choice that it read."""
    judge = _RULE[grade.rule] or f"judged by {grade.grader}"
    return f"{judge}, read as “{grade.extracted}”" if grade.extracted else judge


def of_kind(conversation: ExportedConversation, kind: type[E]) -> list[E]:
    return [event for event in conversation.events if isinstance(event, kind)]


def rows(conversations: Sequence[ExportedConversation]) -> list[MessageRow]:
    """Return the dialogues as rows: row n has the n-th message of each conversation."""
    return [_message_row(n, cells) for n, cells in enumerate(zip_longest(*map(_cells, conversations)), start=1)]


def _message_row(number: int, cells: tuple[MessageCell | None, ...]) -> MessageRow:
    """Return a row; equal messages share their reasoning, which a branch does not copy from its parent."""
    thoughts = {cell.thought for cell in cells if cell is not None and cell.thought}
    if len(cells) < 2 or None in cells or len(set(cells)) > 1 or len(thoughts) > 1:
        return MessageRow(number, cells, same=False)
    thought = next(iter(thoughts), "")
    return MessageRow(number, tuple(cell and replace(cell, thought=thought) for cell in cells), same=True)


def _cells(conversation: ExportedConversation) -> list[MessageCell]:
    framework, thoughts = _framework(conversation), reasoning_of(conversation.events)
    remarks = {event.turn: event for event in of_kind(conversation, Assessed) if event.turn is not None}
    return [
        replace(
            _message_cell(framework, message, remarks.get(message.turn)),
            thought=thoughts.get(message.call_id or "", ""),
        )
        for message in of_kind(conversation, Utterance)
    ]


def _framework(conversation: ExportedConversation) -> Framework | None:
    """Return the framework of a conversation: that of its run, else the one that its events match."""
    return framework_of(conversation.events, conversation.cast.protocol if conversation.cast else "")


def _message_cell(framework: Framework | None, utterance: Utterance, assessed: Assessed | None) -> MessageCell:
    if framework is None:
        return MessageCell(utterance.role, utterance.text)
    remark = framework.speech.remark(assessed) if assessed else ""
    if not framework.speech.addresses:
        return MessageCell(utterance.role, utterance.text, misuse=remark)
    (message,) = framework.speech.shown(utterance.role, utterance.text, assessed)
    quoted = f"{remark} “{assessed.words}”" if assessed and assessed.words else remark
    return MessageCell(utterance.role, message.text, message.to, message.whole or "", quoted)


def arms(conversations: Sequence[ExportedConversation]) -> list[ArmRow]:
    """Return every arm that any of the conversations has, with its outcomes."""
    outcomes = [_outcomes(conversation) for conversation in conversations]
    return [
        ArmRow(arm(format_, question_type), tuple(side.get((format_, question_type)) for side in outcomes))
        for format_ in FORMATS
        for question_type in QUESTION_TYPES
        if any((format_, question_type) in side for side in outcomes)
    ]


def _outcomes(conversation: ExportedConversation) -> dict[tuple[str, str], ArmOutcome]:
    grades: dict[tuple[str, str], list[Graded]] = {}
    for grade in sorted(conversation.grades, key=lambda grade: grade.rule):
        grades.setdefault((grade.format, grade.question_type), []).append(grade)
    outcomes: dict[tuple[str, str], ArmOutcome] = {}
    for answer in of_kind(conversation, Answered):
        arm_key = (answer.format, answer.question_type)
        counting = () if answer.reason else tuple(grades.get(arm_key, ()))
        outcomes[arm_key] = ArmOutcome(
            answer, counting, _thoughts(conversation, answer.call_id, *(i for g in counting for i in g.call_ids))
        )
    return outcomes


def _thoughts(conversation: ExportedConversation, *call_ids: str | None) -> tuple[tuple[str, str], ...]:
    """Return the reasoning of some calls: (role, text)."""
    roles = {event.call.call_id: role(event.call.role) for event in of_kind(conversation, Called)}
    thoughts = reasoning_of(conversation.events)
    return tuple((roles[i], thoughts[i]) for i in dict.fromkeys(call_ids) if i is not None and i in thoughts)


def aside_thoughts(conversation: ExportedConversation) -> tuple[tuple[str, str], ...]:
    """Return the reasoning of calls that made no message, answer or grade: (role, text)."""
    attached = {message.call_id for message in of_kind(conversation, Utterance)} | {
        answer.call_id for answer in of_kind(conversation, Answered)
    }
    attached |= {call_id for grade in conversation.grades for call_id in grade.call_ids}
    return _thoughts(
        conversation, *(e.call.call_id for e in of_kind(conversation, Called) if e.call.call_id not in attached)
    )


def ending(conversation: ExportedConversation) -> str:
    """Return a sentence on why the conversation ended, or that it has not ended."""
    ended = next(iter(of_kind(conversation, Ended)), None)
    if ended is not None:
        detail = f" ({ended.detail})" if ended.detail else ""
        framework = _framework(conversation)
        how = framework.speech.ending(ended) if framework else how_it_ended(ended.reason, ended.doctor_turns)
        return f"It ended because {how}{detail}."
    if of_kind(conversation, Finished):
        return "This trial has no conversation."
    return "The trial failed." if of_kind(conversation, Failed) else "It was still running when this document was made."


def ratings(conversation: ExportedConversation) -> list[tuple[str, str]]:
    """Return the ratings of the conversation: (rating in words, the rater's comment)."""
    framework = _framework(conversation)
    speech = framework.speech if framework else Speech()
    return [(speech.remark(event), event.words) for event in of_kind(conversation, Assessed) if event.turn is None]


def staff(conversation: ExportedConversation) -> str:
    """Return the model of the clinical staff, empty if there was none."""
    return str(conversation.cast.settings.get("staff") or "") if conversation.cast else ""


def was_shown(events: Sequence[Event]) -> bool:
    """Return whether a recorded call of this trial sent a picture to a model."""
    calls = (event.call for event in events if isinstance(event, Called) and event.call.attempts)
    return any(message.get("images") for call in calls for message in call.request.get("messages", ()))


def pictures(conversations: Sequence[ExportedConversation], case: Case) -> list[str]:
    """Return a sentence for each picture of a case: its name, and in which conversations the doctor saw it.

    The picture itself is not exported: its owner decides who may have it.
    """
    of_case = [
        conversation
        for conversation in conversations
        if conversation.case and conversation.case.content_hash == case.content_hash
    ]
    seen = [was_shown(conversation.events) for conversation in of_case]
    letters = [
        LETTERS[conversations.index(conversation)]
        for conversation, has_seen in zip(of_case, seen, strict=True)
        if has_seen
    ]
    where = "" if all(seen) else f" in {' and '.join(letters)}"
    remark = f"was shown to the doctor{where}" if letters else "was not shown to the doctor"
    return [
        f"Picture {image.name or image.sha256[:12]} {remark}; it is not part of this document."
        if image.local
        else f"Picture {image.url}: only its address was known, so no model saw it."
        for image in case.images
    ]


def summary(conversation: ExportedConversation) -> str | None:
    return next((event.text for event in of_kind(conversation, Summarised)), None)


def unsaid(conversation: ExportedConversation) -> str:
    """Return a sentence on what the summary states and no message does; empty if there is nothing."""
    return in_words(summary(conversation) or "", [message.text for message in of_kind(conversation, Utterance)])


def failures(conversation: ExportedConversation) -> list[tuple[str, str]]:
    """Return the failures: (place, message). None of them counts as a wrong answer."""
    return [(place(event.where), event.message) for event in of_kind(conversation, Failed)]


def beliefs(conversation: ExportedConversation) -> list[Probed]:
    return of_kind(conversation, Probed)


def use(conversation: ExportedConversation) -> list[Use]:
    """Return tokens, cost and time by role; calls for beliefs and ratings are separate from the dialogue."""
    apart = {"probe": ", probes of belief", "rate": ", rating of the doctor"}
    calls: dict[str, list[CallRecord]] = {}
    for event in of_kind(conversation, Called):
        calls.setdefault(f"{role(event.call.role)}{apart.get(event.call.purpose, '')}", []).append(event.call)
    return [
        Use(
            role=name,
            models=", ".join(dict.fromkeys(call.model for call in role_calls)),
            calls=len(role_calls),
            failed=sum(call.error is not None for call in role_calls),
            prompt_tokens=sum(call.prompt_tokens for call in role_calls),
            completion_tokens=sum(call.completion_tokens for call in role_calls),
            estimated=any(call.tokens_estimated for call in role_calls),
            seconds=sum(call.latency_s for call in role_calls),
            cost_usd=total(call.cost_usd for call in role_calls if call.error is None),
        )
        for name, role_calls in calls.items()
    ]


def provenance(document: Document) -> list[ProvenanceLine]:
    """Return the provenance of each conversation: ids, cast, prompts, settings, case, times."""
    conversations = document.conversations
    settings = settings_side_by_side([_side(conversation) for conversation in conversations])
    return [
        ProvenanceLine("Conversation", tuple(conversation.trial_id for conversation in conversations), compared=False),
        ProvenanceLine(
            "Branched off", tuple(branch(conversation) or "no" for conversation in conversations), compared=False
        ),
        ProvenanceLine(
            "Run",
            tuple(conversation.cast.run_id if conversation.cast else "none" for conversation in conversations),
            compared=False,
        ),
        ProvenanceLine("Doctor", tuple(conversation.doctor for conversation in conversations)),
        ProvenanceLine(
            "Prompts",
            tuple(conversation.cast.prompt_pack if conversation.cast else UNKNOWN for conversation in conversations),
        ),
        ProvenanceLine(
            "Prompt hash",
            tuple(conversation.cast.prompt_hash if conversation.cast else UNKNOWN for conversation in conversations),
        ),
        *(
            ProvenanceLine("Seed of the run" if s.name == "Seed" else s.name, s.values)
            for s in settings
            if not s.name.startswith("Prompts")
        ),
        ProvenanceLine("Case", tuple(conversation.case_key for conversation in conversations)),
        ProvenanceLine("Trial", tuple(str(conversation.trial + 1) for conversation in conversations)),
        ProvenanceLine(
            "Seed of the trial",
            tuple(UNKNOWN if _released(conversation) else str(conversation.seed) for conversation in conversations),
        ),
        ProvenanceLine(
            "Source of the case",
            tuple(
                conversation.case.source or UNKNOWN if conversation.case else UNKNOWN for conversation in conversations
            ),
        ),
        ProvenanceLine(
            "Licence of the case",
            tuple(
                conversation.case.licence or UNKNOWN if conversation.case else UNKNOWN for conversation in conversations
            ),
        ),
        ProvenanceLine("When", tuple(_when(conversation) for conversation in conversations), compared=False),
    ]


def grader(conversation: ExportedConversation) -> str:
    """Return the graders whose verdicts on free responses count; without verdicts, the grader of the run."""
    return " and ".join(_graders(conversation)) or (conversation.cast.grader if conversation.cast else UNKNOWN)


def _graders(conversation: ExportedConversation) -> list[str]:
    return list(dict.fromkeys(grade.grader for grade in conversation.grades if grade.rule in FREE_RULES))


def _side(conversation: ExportedConversation) -> ComparedRuns:
    return side_of_run(conversation.cast, _graders(conversation)) if conversation.cast else ComparedRuns([])


def branch(conversation: ExportedConversation) -> str | None:
    """Return the parent of a branch, the message where it begins and the changes; ``None`` if it is no branch."""
    if conversation.parent is None:
        return None
    changes = f": {'; '.join(conversation.parent.changes)}" if conversation.parent.changes else ""
    return f"{conversation.parent.trial_id} at message {conversation.parent.turn + 1}{changes}"


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _when(conversation: ExportedConversation) -> str:
    began = [moment(event.at) for event in of_kind(conversation, Started)]
    ended = [moment(event.at) for event in of_kind(conversation, Finished)]
    if _released(conversation):  # a release has no times: the stored time is that of its import
        return f"imported {began[0]}" if began else UNKNOWN
    return " to ".join(dict.fromkeys([*began[:1], *ended[-1:]])) or UNKNOWN


def _released(conversation: ExportedConversation) -> bool:
    return conversation.cast is not None and conversation.cast.source == "release"
