"""A conversation from elsewhere, and how the columns and speakers of a file become conversations.

Nothing here is stored: a file is loaded, its columns and speakers are guessed and may be corrected, then its
conversations are read, with a reason for each that cannot be used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from core.datasets.reading import PositionUnit, Remark, clipped
from core.errors import UsageError

NO_CASE, NO_INPUT = "(no case is attached)", "(the log has no input)"
WITHOUT_CASE = frozenset({NO_CASE, NO_INPUT})
"""Vignettes of conversations that came without a case: nothing is judged against them."""

Field = Literal[
    "conversation", "speaker", "text", "messages", "completion", "time", "case", "version", "outcome"
]  # fmt: skip
FIELDS: tuple[Field, ...] = get_args(Field)
NAMES: Mapping[Field, tuple[str, ...]] = {
    "messages": ("messages", "conversation", "dialogue", "turns", "prompt", "chat"),
    "completion": ("completion", "response", "reply"),
    "conversation": (
        "conversation", "conversation_id", "dialogue_id", "dialog_id", "session_id", "session", "chat_id", "thread_id",
        "prompt_id", "id",
    ),
    "speaker": ("speaker", "role", "author", "sender", "from", "who"),
    "text": ("text", "message", "content", "utterance", "body"),
    "time": ("time", "timestamp", "created_at", "sent_at", "datetime"),
    "case": ("case", "case_id", "vignette_id", "scenario"),
    "version": ("version", "label", "arm", "model", "release"),
    "outcome": ("outcome", "result", "score", "rating"),
}  # fmt: skip
"""Field → its usual names in files, ignoring case, the most likely first."""
NEEDED: tuple[Field, ...] = ("conversation", "speaker", "text")
"""Fields that a table must have; records of chat messages need only these messages."""

Seat = Literal["doctor", "patient", "staff"]
SEATS: Mapping[Seat, str] = {"doctor": "doctor", "patient": "patient", "staff": "other"}
"""Seat as it is stored → its name for people. Words of other speakers are shown, and are evidence for nobody."""
_SPEAKERS: Mapping[Seat, frozenset[str]] = {
    "doctor": frozenset(
        ["doctor", "dr", "physician", "clinician", "gp", "assistant", "bot", "ai", "model", "agent", "arzt", "ärztin"]
    ),
    "patient": frozenset(["patient", "pt", "user", "human", "client", "caller", "patientin"]),
}
Columns = Mapping[Field, str]


class Line(NamedTuple):
    """A message as its file has it; ``position`` is its line or record."""

    position: int
    conversation: str
    speaker: str
    text: str
    time: str = ""
    case: str = ""
    version: str = ""
    outcome: str = ""


class Message(NamedTuple):
    """A message of a conversation."""

    seat: Seat
    text: str


@dataclass(frozen=True)
class ForeignConversation:
    """A conversation; ``case``, ``version`` and ``outcome`` are empty if the file has none.

    ``ended_at`` is the time of the last message in seconds since 1970; ``None`` if the file has no times.
    """

    id: str
    messages: tuple[Message, ...]
    case: str = ""
    version: str = ""
    outcome: str = ""
    ended_at: float | None = None


@dataclass(frozen=True)
class Loaded:
    """A file that was read into memory, before it is known what its columns mean.

    ``lines`` returns its messages by columns; ``damaged`` are rows that are no record, with the reason. ``encoding`` is
    named if the file is not UTF-8.
    """

    name: str
    unit: PositionUnit
    fields: tuple[str, ...]
    nested: bool
    lines: Callable[[Columns], Iterator[Line]]
    damaged: Sequence[Remark] = ()
    encoding: str = ""

    def check(self, columns: Columns) -> None:
        """Raise ``UsageError`` unless the columns exist and are enough to read conversations."""
        if unknown := [column for column in columns.values() if column not in self.fields]:
            listed = ", ".join(map(clipped, self.fields[:20]))
            raise UsageError(f"{self.name} has no column {clipped(unknown[0])}: it has {listed}.")
        needed: tuple[Field, ...] = ("messages",) if self.nested else NEEDED
        if missing := [name for name in needed if name not in columns]:
            raise UsageError(f"{self.name}: no column is known to have the {missing[0]}. Say which one it is.")


@dataclass
class ReadConversations:
    """The conversations of a file; ``faults`` are (position, reason) of those that cannot be used.

    ``remarks`` are about conversations that are used.
    """

    conversations: list[ForeignConversation] = field(default_factory=list)
    faults: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


def guess_columns(fields: Sequence[str], *, nested: bool) -> dict[Field, str]:
    """Return field → the column with its most likely name, each column once."""
    by_name = {re.sub(r"[\s-]+", "_", name.strip().lower()): name for name in fields}
    guessed: dict[Field, str] = {}
    inside: tuple[Field, ...] = ("speaker", "text", "time") if nested else ("messages", "completion")
    for name in (name for name in NAMES if name not in inside):
        free = (by_name[usual] for usual in NAMES[name] if usual in by_name and by_name[usual] not in guessed.values())
        if column := next(free, ""):
            guessed[name] = column
    return guessed


def guess_speakers(lines: Iterable[Line]) -> dict[str, tuple[Seat, int]]:
    """Return speaker → the likely seat and the number of messages, the most frequent first."""
    counts = Counter(line.speaker for line in lines)

    def seat(speaker: str) -> Seat:
        first = re.split(r"[\W_]", speaker.casefold().strip())[0]
        return next((seat for seat, usual in _SPEAKERS.items() if first in usual), "staff")

    return {speaker: (seat(speaker), count) for speaker, count in counts.most_common()}


def read_conversations(loaded: Loaded, columns: Columns, seats: Mapping[str, Seat]) -> ReadConversations:
    """Read the conversations of a file; ``seats`` is speaker → seat. Raises ``UsageError`` as ``Loaded.check`` does."""
    loaded.check(columns)
    reading = ReadConversations(faults=list(loaded.damaged))
    groups: dict[tuple[str, str], list[tuple[int, Line]]] = {}
    for number, line in enumerate(loaded.lines(columns)):
        groups.setdefault((line.version, line.conversation), []).append((number, line))
    for (version, name), numbered in groups.items():
        lines = [line for _, line in numbered]
        apart = next(
            (b for (m, a), (n, b) in pairwise(numbered) if (a.position != b.position if loaded.nested else n != m + 1)),
            None,
        )
        try:
            if not name:
                raise ValueError("the conversation has no id")
            if apart is not None and "time" not in columns:
                raise ValueError(
                    f"conversation {clipped(name)} begins again at {loaded.unit} {apart.position}: two conversations "
                    "have this id, or its messages do not follow each other"
                )
            conversation, empty = _conversation(name, version, lines, seats)
        except ValueError as error:
            reading.faults.append((lines[0].position, str(error)))
            continue
        reading.conversations.append(conversation)
        if empty:
            words = f"{empty:,} empty {'message is' if empty == 1 else 'messages are'} left out"
            reading.remarks.append((lines[0].position, f"conversation {clipped(name)}: {words}"))
    reading.faults.sort()
    return reading


def _conversation(
    name: str, version: str, lines: list[Line], seats: Mapping[str, Seat]
) -> tuple[ForeignConversation, int]:
    """Return a conversation and the number of its empty messages; raises ``ValueError`` if it cannot be used."""
    times = [_seconds(line) for line in lines]
    if None not in times:
        lines = [line for _, line in sorted(zip(times, lines, strict=True), key=lambda pair: pair[0] or 0.0)]
    said = [line for line in lines if line.text.strip()]
    if unknown := next((line for line in said if line.speaker not in seats), None):
        raise ValueError(f"conversation {clipped(name)}: nobody said who {clipped(unknown.speaker)!r} is")
    messages = tuple(Message(seats[line.speaker], line.text) for line in said)
    for seat in ("doctor", "patient"):
        if not any(message.seat == seat for message in messages):
            raise ValueError(f"conversation {clipped(name)} has no message of the {seat}")

    def only(what: Literal["case", "outcome"]) -> str:
        values = {value for line in lines if (value := getattr(line, what).strip())}
        if len(values) > 1:
            listed = " and ".join(map(clipped, sorted(values)[:2]))
            raise ValueError(f"conversation {clipped(name)} has more than one {what} ({listed})")
        return next(iter(values), "")

    ended_at = max((time for time in times if time is not None), default=None)
    return ForeignConversation(name, messages, only("case"), version, only("outcome"), ended_at), len(lines) - len(said)


def _seconds(line: Line) -> float | None:
    """Return the time of a message in seconds since 1970; raises ``ValueError`` for one that cannot be read."""
    text = line.time.strip()
    if not text:
        return None
    try:
        if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
            return float(text)
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"the time {clipped(text)!r} is not ISO 8601 (2026-05-31T14:05:00); leave the column of times out"
        ) from error


def in_text(value: Any) -> str:
    """Return the words of a cell, or of a message's content, whose parts that are no text are named in brackets."""
    if isinstance(value, list):
        parts = (part if isinstance(part, Mapping) else {"text": part} for part in value)
        return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in parts)
    return "" if value is None else str(value)
