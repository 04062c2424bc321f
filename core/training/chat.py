"""A line of a training set: one dialogue as chat messages, checked whenever it is written or read.

The format is what fine-tuning libraries take: ``{"messages": [{"role": …, "content": …}, …], …}``; the doctor is the
assistant, the patient the user.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.asking.scene import Dialogue
from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.text.case_items import Order

Side = Literal["train", "test"]
SIDES: tuple[Side, ...] = ("train", "test")
Role = Literal["system", "user", "assistant"]
SYSTEM = """\
You are a doctor, and a patient has come to you for help. Take the history: one short question in each message, about
one point, and never the same point twice. When you know what you need, write one last message without a question: what
stands out, in a sentence or two, and then, on a line of its own, **Final Diagnosis:** with one single diagnosis."""
"""The system prompt of every dialogue, the same for all, so that it tells nothing of the case."""


class ChatMessage(BaseModel):
    """One message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: str = Field(min_length=1)


class ChatLine(BaseModel):
    """One dialogue: messages, the case they are about, its side, and what the doctor was to ask for.

    ``keys`` are those of the items in M's order, ``items_made_by`` who made the items; ``source`` and ``licence`` are
    the case's own, and empty where it states none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[ChatMessage, ...] = Field(min_length=3)
    case_key: str = Field(min_length=1)
    split: Side
    specialty: str
    keys: tuple[str, ...]
    order: Order
    items_made_by: str
    source: str
    licence: str

    @model_validator(mode="after")
    def _alternates(self) -> ChatLine:
        """Check that user and assistant take turns after the system message, and the assistant has the last word."""
        roles = [message.role for message in self.messages]
        pairs = (len(roles) - 1) // 2
        if roles != ["system", *(["user", "assistant"] * pairs)]:
            raise ValueError(f"the roles are to be system, then user and assistant in turn, not {', '.join(roles)}")
        return self

    def dumped(self) -> list[dict[str, str]]:
        """Return the messages as chat templates take them."""
        return [message.model_dump() for message in self.messages]


def chat_line(case: Case, dialogue: Dialogue, side: Side, keys: Sequence[str], order: Order, made_by: str) -> ChatLine:
    """Return a golden dialogue as a line."""
    said = (ChatMessage(role="assistant" if turn.role == "doctor" else "user", content=turn.text) for turn in dialogue)
    return ChatLine(
        messages=(ChatMessage(role="system", content=SYSTEM), *said),
        case_key=case.case_key,
        split=side,
        specialty=case.specialty,
        keys=tuple(keys),
        order=order,
        items_made_by=made_by,
        source=case.source,
        licence=case.licence,
    )


def to_jsonl(lines: Iterable[ChatLine]) -> bytes:
    """Return the lines as JSON, one a line."""
    return b"".join(line.model_dump_json().encode() + b"\n" for line in lines)


def read_side(folder: Path, side: Side) -> list[ChatLine]:
    """Read train.jsonl or test.jsonl of a folder.

    Raises ``UsageError`` where there is no such file or no dialogue in it, ``AnamnesisError`` with file and line where
    a line is no dialogue of that side.
    """
    path = folder / f"{side}.jsonl"
    if not path.is_file():
        raise UsageError(f"There is no file {path}: make it with `python -m core export training --out {folder}`.")
    lines = [_read(row, side, f"{path}, line {n}") for n, row in enumerate(path.read_bytes().splitlines(), 1) if row]
    if not lines:
        raise UsageError(f"{path} holds no dialogue: export it again, with more cases.")
    return lines


def check_apart(train: Iterable[ChatLine], test: Iterable[ChatLine]) -> None:
    """Raise ``AnamnesisError`` where a case stands on both sides: a figure on test would then be worth nothing."""
    both = sorted({line.case_key for line in train} & {line.case_key for line in test})
    if both:
        raise AnamnesisError(f"{both[0]} stands in train.jsonl and in test.jsonl: export the training set again.")


def sha256(data: bytes) -> str:
    """Return the SHA-256 of a file's bytes in hex."""
    return hashlib.sha256(data).hexdigest()


def _read(row: bytes, side: Side, where: str) -> ChatLine:
    try:
        line = ChatLine.model_validate_json(row)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise AnamnesisError(f"{where} is no dialogue ({f'{place}: ' if place else ''}{first['msg']}).") from error
    if line.split != side:
        raise AnamnesisError(f"{where} belongs to {line.split}, not to {side}: export the training set again.")
    return line
