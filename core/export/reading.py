"""What a reader of a document is shown: messages in rows, answers by arm, use by role, and where it all comes from."""

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
from core.export.document import Document, Talk
from core.frameworks.base import Framework, framework_of
from core.frameworks.speech import Speech
from core.measures.provenance import UNKNOWN, Side, side_by_side, side_of_run
from core.models.prices import total
from core.store.conditions import FREE_RULES
from core.words import FORMAT, QUESTION_TYPE, ROLE, arm, how_it_ended

E = TypeVar("E", bound=Event)
LETTERS = "ABCD"
_RULE: dict[Rule, str] = {
    "mcq_loose": "paper’s rule",
    "mcq_strict": "strict rule",
    "mcq_many": "",
    "frq": "",
    "frq_top3": "",
}
RULES_EXPLAINED = (
    "Paper’s rule: the right answer occurs in the response. Strict rule: exactly one choice is named, and it is the "
    "right one. Free responses are compared by the grader; of the top three, any may be right. An excluded answer is "
    "not counted as wrong."
)


@dataclass(frozen=True)
class Cell:
    """A message as a reader is shown it.

    Of a doctor that addresses its messages: ``goes`` says to whom, ``text`` is what was passed on, ``whole`` the
    message as it was written where that holds more, ``misuse`` in a sentence how it broke the tag protocol. Elsewhere
    these are empty.
    ``thought`` is what the model thought with it, which is no part of the message.
    """

    role: Speaker
    text: str
    goes: str = ""
    whole: str = ""
    misuse: str = ""
    thought: str = field(default="", compare=False)


@dataclass(frozen=True)
class Row:
    """The n-th message of each conversation; ``same`` where all hold the very same one."""

    number: int
    cells: tuple[Cell | None, ...]
    same: bool


@dataclass(frozen=True)
class Outcome:
    """The answer of one conversation in an arm and the grades that count; no grade where it could not be graded.

    ``thoughts`` are what was thought for the answer and for its grades: by whom, and the words.
    """

    answer: Answered
    grades: tuple[Graded, ...]
    thoughts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ArmRow:
    """An arm in words with the outcome in each conversation, ``None`` where it was not asked."""

    name: str
    cells: tuple[Outcome | None, ...]


@dataclass(frozen=True)
class Use:
    """What the calls of a role used in the trial itself; ``cost_usd`` is ``None`` where a price is unknown."""

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
class Fact:
    """A line of the provenance with its value in each conversation."""

    name: str
    values: tuple[str, ...]
    compared: bool = True

    @property
    def differs(self) -> bool:
        """Whether the conversations differ in it, and that says something about them."""
        return self.compared and len(set(self.values)) > 1


def role(name: str) -> str:
    """Return who speaks or is called, as a heading."""
    return ROLE.get(name, name[:1].upper() + name[1:].replace("_", " "))


def place(where: str) -> str:
    """Return what broke in words: a role, and the arm where it was at work on one."""
    who, _, at = where.partition(" ")
    format_, _, question_type = at.partition(":")
    if format_ in FORMAT and question_type in QUESTION_TYPE:
        return f"{role(who)} ({arm(format_, question_type)})"
    return role(where)


def judged(grade: Graded) -> str:
    """Return by which rule or by whom an answer was judged, and what was read out of it."""
    by = _RULE[grade.rule] or f"judged by {grade.grader}"
    return f"{by}, read as “{grade.extracted}”" if grade.extracted else by


def of_kind(talk: Talk, kind: type[E]) -> list[E]:
    """Return the events of one kind."""
    return [event for event in talk.events if isinstance(event, kind)]


def rows(talks: Sequence[Talk]) -> list[Row]:
    """Return the dialogues message by message, the n-th of each in one row."""
    return [_row(n, cells) for n, cells in enumerate(zip_longest(*map(_cells, talks)), start=1)]


def _row(number: int, cells: tuple[Cell | None, ...]) -> Row:
    """Return a row; a branch that took a message over knows nothing of what was thought with it."""
    thoughts = {cell.thought for cell in cells if cell is not None and cell.thought}
    if len(cells) < 2 or None in cells or len(set(cells)) > 1 or len(thoughts) > 1:
        return Row(number, cells, same=False)
    thought = next(iter(thoughts), "")
    return Row(number, tuple(cell and replace(cell, thought=thought) for cell in cells), same=True)


def _cells(talk: Talk) -> list[Cell]:
    known, thoughts = _framework(talk), reasoning_of(talk.events)
    remarks = {event.turn: event for event in of_kind(talk, Assessed) if event.turn is not None}
    return [
        replace(_cell(known, said, remarks.get(said.turn)), thought=thoughts.get(said.call_id or "", ""))
        for said in of_kind(talk, Utterance)
    ]


def _framework(talk: Talk) -> Framework | None:
    """Return under which framework a conversation was held: by its run, or where it has none, by what was said."""
    return framework_of(talk.events, talk.cast.protocol if talk.cast else "")


def _cell(known: Framework | None, said: Utterance, assessed: Assessed | None) -> Cell:
    if known is None or not known.speech.addresses:
        return Cell(said.role, said.text)
    (message,) = known.speech.shown(said.role, said.text)
    remark = known.speech.remark(assessed) if assessed else ""
    quoted = f"{remark} “{assessed.words}”" if assessed and assessed.words else remark
    return Cell(said.role, message.text, message.to, message.whole or "", quoted)


def arms(talks: Sequence[Talk]) -> list[ArmRow]:
    """Return every arm that was asked anywhere, with its outcomes."""
    found = [_outcomes(talk) for talk in talks]
    return [
        ArmRow(arm(format_, question_type), tuple(side.get((format_, question_type)) for side in found))
        for format_ in FORMATS
        for question_type in QUESTION_TYPES
        if any((format_, question_type) in side for side in found)
    ]


def _outcomes(talk: Talk) -> dict[tuple[str, str], Outcome]:
    grades: dict[tuple[str, str], list[Graded]] = {}
    for grade in sorted(talk.grades, key=lambda grade: grade.rule):
        grades.setdefault((grade.format, grade.question_type), []).append(grade)
    found: dict[tuple[str, str], Outcome] = {}
    for answer in of_kind(talk, Answered):
        asked = (answer.format, answer.question_type)
        counting = () if answer.reason else tuple(grades.get(asked, ()))
        found[asked] = Outcome(
            answer, counting, _thoughts(talk, answer.call_id, *(i for g in counting for i in g.call_ids))
        )
    return found


def _thoughts(talk: Talk, *call_ids: str | None) -> tuple[tuple[str, str], ...]:
    """Return what was thought in some calls: by whom, and the words."""
    roles = {event.call.call_id: role(event.call.role) for event in of_kind(talk, Called)}
    thoughts = reasoning_of(talk.events)
    return tuple((roles[i], thoughts[i]) for i in dict.fromkeys(call_ids) if i is not None and i in thoughts)


def aside_thoughts(talk: Talk) -> tuple[tuple[str, str], ...]:
    """Return what was thought in calls that are neither a message nor an answer nor a grade: by whom, and the words."""
    shown = {said.call_id for said in of_kind(talk, Utterance)} | {answer.call_id for answer in of_kind(talk, Answered)}
    shown |= {call_id for grade in talk.grades for call_id in grade.call_ids}
    return _thoughts(talk, *(e.call.call_id for e in of_kind(talk, Called) if e.call.call_id not in shown))


def ending(talk: Talk) -> str:
    """Return in one sentence why the conversation ended, or that it has not."""
    ended = next(iter(of_kind(talk, Ended)), None)
    if ended is not None:
        detail = f" ({ended.detail})" if ended.detail else ""
        known = _framework(talk)
        how = known.speech.ending(ended) if known else how_it_ended(ended.reason, ended.doctor_turns)
        return f"It ended because {how}{detail}."
    if of_kind(talk, Finished):
        return "This trial held no conversation."
    broken = of_kind(talk, Failed)
    return "The trial broke off." if broken else "It was still under way when this was made."


def ratings(talk: Talk) -> list[tuple[str, str]]:
    """Return how the conversation was rated: the rating in words, and the rater's own."""
    known = _framework(talk)
    speech = known.speech if known else Speech()
    return [(speech.remark(event), event.words) for event in of_kind(talk, Assessed) if event.turn is None]


def staff(talk: Talk) -> str:
    """Return who played the clinical staff, or nothing where there was none."""
    return str(talk.cast.settings.get("staff") or "") if talk.cast else ""


def was_shown(events: Sequence[Event]) -> bool:
    """Say whether a model was sent a picture in this trial, by what was recorded of its calls."""
    calls = (event.call for event in events if isinstance(event, Called) and event.call.attempts)
    return any(message.get("images") for call in calls for message in call.request.get("messages", ()))


def pictures(talks: Sequence[Talk], case: Case) -> list[str]:
    """Return of each picture of a case, in a sentence, what it is called and who was shown it.

    Only its name is given: who may be handed the picture itself is for those to say whose it is.
    """
    of_case = [talk for talk in talks if talk.case and talk.case.content_hash == case.content_hash]
    shown = [was_shown(talk.events) for talk in of_case]
    letters = [LETTERS[talks.index(talk)] for talk, seen in zip(of_case, shown, strict=True) if seen]
    where = "" if all(shown) else f" in {' and '.join(letters)}"
    told = f"was shown to the doctor{where}" if letters else "was not shown to the doctor"
    return [
        f"Picture {image.name or image.sha256[:12]} {told}; it is not part of this document."
        if image.local
        else f"Picture {image.url}: only its address was known, so nobody was shown it."
        for image in case.images
    ]


def summary(talk: Talk) -> str | None:
    """Return the summariser's paragraph."""
    return next((event.text for event in of_kind(talk, Summarised)), None)


def failures(talk: Talk) -> list[tuple[str, str]]:
    """Return what broke: where, and in whose words. None of it counts as a wrong answer."""
    return [(place(event.where), event.message) for event in of_kind(talk, Failed)]


def beliefs(talk: Talk) -> list[Probed]:
    """Return what the doctor believed, message by message."""
    return of_kind(talk, Probed)


def use(talk: Talk) -> list[Use]:
    """Return tokens, cost and time by role; what asked for beliefs or a rating stands apart from the dialogue."""
    apart = {"probe": ", probes of belief", "rate": ", rating of the doctor"}
    calls: dict[str, list[CallRecord]] = {}
    for event in of_kind(talk, Called):
        calls.setdefault(f"{role(event.call.role)}{apart.get(event.call.purpose, '')}", []).append(event.call)
    return [
        Use(
            role=name,
            models=", ".join(dict.fromkeys(call.model for call in made)),
            calls=len(made),
            failed=sum(call.error is not None for call in made),
            prompt_tokens=sum(call.prompt_tokens for call in made),
            completion_tokens=sum(call.completion_tokens for call in made),
            estimated=any(call.tokens_estimated for call in made),
            seconds=sum(call.latency_s for call in made),
            cost_usd=total(call.cost_usd for call in made if call.error is None),
        )
        for name, made in calls.items()
    ]


def provenance(document: Document) -> list[Fact]:
    """Return where each conversation comes from: ids, cast, prompts, settings, case, times."""
    talks = document.talks
    settings = side_by_side([_side(talk) for talk in talks])
    return [
        Fact("Conversation", tuple(talk.trial_id for talk in talks), compared=False),
        Fact("Branched off", tuple(branch(talk) or "no" for talk in talks), compared=False),
        Fact("Run", tuple(talk.cast.run_id if talk.cast else "none" for talk in talks), compared=False),
        Fact("Doctor", tuple(talk.doctor for talk in talks)),
        Fact("Prompt pack", tuple(talk.cast.prompt_pack if talk.cast else UNKNOWN for talk in talks)),
        Fact("Prompt hash", tuple(talk.cast.prompt_hash if talk.cast else UNKNOWN for talk in talks)),
        *(
            Fact("Seed of the run" if s.name == "Seed" else s.name, s.values)
            for s in settings
            if not s.name.startswith("Prompts")
        ),
        Fact("Case", tuple(talk.case_key for talk in talks)),
        Fact("Trial", tuple(str(talk.trial + 1) for talk in talks)),
        Fact("Seed of the trial", tuple(UNKNOWN if _released(talk) else str(talk.seed) for talk in talks)),
        Fact("Source of the case", tuple(talk.case.source or UNKNOWN if talk.case else UNKNOWN for talk in talks)),
        Fact("Licence of the case", tuple(talk.case.licence or UNKNOWN if talk.case else UNKNOWN for talk in talks)),
        Fact("When", tuple(_when(talk) for talk in talks), compared=False),
    ]


def grader(talk: Talk) -> str:
    """Return whose verdicts on free responses count; where there are none yet, who was to judge them."""
    return " and ".join(_graders(talk)) or (talk.cast.grader if talk.cast else UNKNOWN)


def _graders(talk: Talk) -> list[str]:
    return list(dict.fromkeys(grade.grader for grade in talk.grades if grade.rule in FREE_RULES))


def _side(talk: Talk) -> Side:
    return side_of_run(talk.cast, _graders(talk)) if talk.cast else Side([])


def branch(talk: Talk) -> str | None:
    """Return where a fork left its parent and what was changed, or ``None`` for what is no fork."""
    if talk.parent is None:
        return None
    changes = f": {'; '.join(talk.parent.changes)}" if talk.parent.changes else ""
    return f"{talk.parent.trial_id} at message {talk.parent.turn + 1}{changes}"


def moment(seconds: float) -> str:
    """Return a time as date and minute in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _when(talk: Talk) -> str:
    began = [moment(event.at) for event in of_kind(talk, Started)]
    ended = [moment(event.at) for event in of_kind(talk, Finished)]
    if _released(talk):  # a release tells no times: what is stored is when it came in
        return f"imported {began[0]}" if began else UNKNOWN
    return " to ".join(dict.fromkeys([*began[:1], *ended[-1:]])) or UNKNOWN


def _released(talk: Talk) -> bool:
    return talk.cast is not None and talk.cast.source == "release"
