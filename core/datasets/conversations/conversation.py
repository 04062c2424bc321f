"""A conversation from elsewhere, and how the columns and speakers of a file become conversations.

Nothing here is stored: a file is loaded, its columns and speakers are guessed and may be corrected, then its
conversations are read, with a reason for each that cannot be used.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple, get_args

from core.datasets.reading import PositionUnit, Remark, clipped
from core.errors import UsageError

Field = Literal[
    "messages", "completion", "conversation", "speaker", "text", "time", "case", "version", "outcome"
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

Seat = Literal["doctor", "patient", "staff"]
SEATS: Mapping[Seat, str] = {"doctor": "doctor", "patient": "patient", "staff": "other"}
"""Seat as it is stored → its name for people. Words of other speakers are shown, and are evidence for nobody."""
_SPEAKERS: Mapping[str, Seat] = {
    "doctor": "doctor", "dr": "doctor", "physician": "doctor", "clinician": "doctor", "gp": "doctor", "arzt": "doctor",
    "ärztin": "doctor", "assistant": "doctor", "bot": "doctor", "ai": "doctor", "model": "doctor", "agent": "doctor",
    "patient": "patient", "pt": "patient", "patientin": "patient", "user": "patient", "human": "patient",
    "client": "patient", "caller": "patient",
}  # fmt: skip
"""First word of a speaker's usual name → its seat."""
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

    @property
    def conversation_key(self) -> tuple[str, str]:
        """Version and id: two versions of a case often have one id."""
        return self.version, self.conversation


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

    ``lines`` returns its messages by columns; ``damaged`` are rows that are no record, with the reason. The file is
    ``nested`` if a record is a chat, whose messages have speaker, text and time of their own.
    """

    name: str
    encoding: str
    unit: PositionUnit
    columns: tuple[str, ...]
    nested: bool
    lines: Callable[[Columns], Iterator[Line]]
    damaged: Sequence[Remark] = ()

    @property
    def fields(self) -> list[Field]:
        """What its columns can mean."""
        never = ("speaker", "text", "time") if self.nested else ("messages", "completion")
        return [name for name in FIELDS if name not in never]

    def guess_columns(self) -> dict[Field, str]:
        """Return field → the column with its most likely name, each column once."""
        by_name = {re.sub(r"[\s-]+", "_", name.strip().lower()): name for name in self.columns}
        guessed: dict[Field, str] = {}
        for name in self.fields:
            usual = (by_name.pop(usual) for usual in NAMES[name] if usual in by_name)
            if column := next(usual, ""):
                guessed[name] = column
        return guessed

    def check(self, columns: Columns) -> None:
        """Raise ``UsageError`` unless the columns exist and are enough to read conversations."""
        if unknown := [column for column in columns.values() if column not in self.columns]:
            listed = ", ".join(map(clipped, self.columns[:20]))
            raise UsageError(f"{self.name} has no column {clipped(unknown[0])}: it has {listed}.")
        needed = ["messages"] if self.nested else ["conversation", "speaker", "text"]
        if missing := [name for name in needed if name not in columns]:
            raise UsageError(f"{self.name}: no column is known to have the {missing[0]}. Say which one it is.")

    def guess_speakers(self, columns: Columns) -> dict[str, tuple[Seat, int]]:
        """Return speaker → the likely seat and the number of messages, the most frequent first."""
        self.check(columns)
        counts = Counter(line.speaker for line in self.lines(columns))
        return {
            speaker: (_SPEAKERS.get(re.split(r"[\W_]", speaker.casefold().strip())[0], "staff"), count)
            for speaker, count in counts.most_common()
        }


@dataclass
class ReadConversations:
    """The conversations of a file; ``faults`` are (position, reason) of those that cannot be used.

    ``remarks`` are about conversations that are used.
    """

    conversations: list[ForeignConversation] = field(default_factory=list)
    faults: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def texts(self) -> Iterable[str]:
        return (message.text for conversation in self.conversations for message in conversation.messages)


def read_conversations(loaded: Loaded, columns: Columns, seats: Mapping[str, Seat]) -> ReadConversations:
    """Read the conversations of a file; ``seats`` is speaker → seat. Raises ``UsageError`` as ``Loaded.check`` does."""
    loaded.check(columns)
    reading = ReadConversations(faults=list(loaded.damaged))
    lines = list(loaded.lines(columns))
    at = [line.position for line in lines]
    # a damaged row may be of the conversation before it or after it; a damaged chat is of none
    torn = {
        line.conversation_key: row
        for row, _ in (() if loaded.nested else loaded.damaged)
        for line in lines[max(0, bisect(at, row) - 1) : bisect(at, row) + 1]
    }
    blocks: dict[tuple[str, str], list[list[Line]]] = {}
    for _, grouped in groupby(lines, lambda line: (line.conversation_key, loaded.nested and line.position)):
        block = list(grouped)
        blocks.setdefault(block[0].conversation_key, []).append(block)
    for (version, name), (first, *later) in blocks.items():
        called, position = f"conversation {clipped(name)}", first[0].position
        try:
            if later and "time" not in columns and name:
                raise ValueError(
                    f"begins again at {loaded.unit} {later[0][0].position}: two conversations have this id, or its "
                    "messages do not follow each other"
                )
            if row := torn.get((version, name)):
                raise ValueError(f"may lack the message of {loaded.unit} {row}, which cannot be read")
            messages = [*first, *chain.from_iterable(later)]
            conversation = _conversation(name, version, messages, seats)
        except ValueError as error:
            reading.faults.append((position, f"{called} {error}" if name else "the conversation has no id"))
            continue
        reading.conversations.append(conversation)
        if empty := len(messages) - len(conversation.messages):
            words = f"{empty:,} empty {'message is' if empty == 1 else 'messages are'} left out"
            reading.remarks.append((position, f"{called}: {words}"))
    reading.faults.sort()
    return reading


def _conversation(name: str, version: str, lines: Sequence[Line], seats: Mapping[str, Seat]) -> ForeignConversation:
    """Return a conversation without its empty messages; raises ``ValueError``, in words that follow its name."""
    times = [_seconds(line.time) for line in lines]
    if None not in times:
        lines = [line for _, line in sorted(zip(times, lines, strict=True), key=lambda pair: pair[0] or 0.0)]
    said = [line for line in lines if line.text.strip()]
    if unknown := next((line for line in said if line.speaker not in seats), None):
        raise ValueError(f"has the speaker {clipped(unknown.speaker)!r}, and nobody said who that is")
    messages = tuple(Message(seats[line.speaker], line.text) for line in said)
    for seat in ("doctor", "patient"):
        if not any(message.seat == seat for message in messages):
            raise ValueError(f"has no message of the {seat}")
    stated = {}
    for what in ("case", "outcome"):
        values = sorted({value for line in lines if (value := getattr(line, what))})
        if len(values) > 1:
            raise ValueError(f"has more than one {what} ({' and '.join(map(clipped, values[:2]))})")
        stated[what] = "".join(values)
    ended_at = max((time for time in times if time is not None), default=None)
    return ForeignConversation(name, messages, version=version, ended_at=ended_at, **stated)


def _seconds(time: str) -> float | None:
    """Return seconds since 1970 of a time in ISO 8601, or in these seconds; ``None`` for an empty one."""
    try:
        if not time or re.fullmatch(r"\d{9,11}(\.\d+)?", time):
            return float(time) if time else None
        moment = datetime.fromisoformat(time)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"has the time {clipped(time)!r}, which is not ISO 8601 (2026-05-31T14:05:00): leave the column out"
        ) from error


def in_text(value: Any) -> str:
    """Return the words of a cell, or of a message's content, whose parts that are no text are named in brackets."""
    if isinstance(value, list):
        parts = (part if isinstance(part, Mapping) else {"text": part} for part in value)
        return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in parts)
    return "" if value is None else str(value)
