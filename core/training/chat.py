"""A line of a training set: one dialogue as chat messages, checked whenever it is written or read.

The format is that of fine-tuning libraries: ``{"messages": [{"role": …, "content": …}, …], …}``; the doctor is the
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

SplitName = Literal["train", "test"]
SIDES: tuple[SplitName, ...] = ("train", "test")
ChatRole = Literal["system", "user", "assistant"]
SYSTEM = """\
You are a doctor, and a patient has come to you for help. Take the history: one short question in each message, about
one point, and never the same point twice. When you know what you need, write one last message without a question: what
stands out, in a sentence or two, and then, on a line of its own, **Final Diagnosis:** with one single diagnosis."""
"""The system prompt of all dialogues, which tells nothing about the case."""


class ChatMessage(BaseModel):
    """One message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: ChatRole
    content: str = Field(min_length=1)


class ChatLine(BaseModel):
    """One dialogue: messages, their case, its side, and the items that the doctor was to ask for.

    ``keys`` are the keys of the items in M's order, ``items_made_by`` is the model or rule that made the items;
    ``source`` and ``licence`` are those of the case, and empty if it states none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[ChatMessage, ...] = Field(min_length=3)
    case_key: str = Field(min_length=1)
    split: SplitName
    specialty: str
    keys: tuple[str, ...]
    order: Order
    items_made_by: str
    source: str
    licence: str

    @model_validator(mode="after")
    def _alternates(self) -> ChatLine:
        """Check that user and assistant alternate after the system message, and that the assistant ends."""
        roles = [message.role for message in self.messages]
        pairs = (len(roles) - 1) // 2
        if roles != ["system", *(["user", "assistant"] * pairs)]:
            raise ValueError(f"the roles are to be system, then user and assistant in turn, not {', '.join(roles)}")
        return self

    def dumped(self) -> list[dict[str, str]]:
        return [message.model_dump() for message in self.messages]


def chat_line(
    case: Case, dialogue: Dialogue, side: SplitName, keys: Sequence[str], order: Order, made_by: str
) -> ChatLine:
    turns = (ChatMessage(role="assistant" if turn.role == "doctor" else "user", content=turn.text) for turn in dialogue)
    return ChatLine(
        messages=(ChatMessage(role="system", content=SYSTEM), *turns),
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
    return b"".join(line.model_dump_json().encode() + b"\n" for line in lines)


def read_side(folder: Path, side: SplitName) -> list[ChatLine]:
    """Read train.jsonl or test.jsonl of a folder.

    Raises ``UsageError`` if the file is missing or empty, and ``AnamnesisError`` with file and line for a line that is
    not a dialogue of that side.
    """
    path = folder / f"{side}.jsonl"
    if not path.is_file():
        raise UsageError(f"There is no file {path}: make it with `python -m core export training --out {folder}`.")
    lines = [
        _parsed_line(row, side, f"{path}, line {n}") for n, row in enumerate(path.read_bytes().splitlines(), 1) if row
    ]
    if not lines:
        raise UsageError(f"{path} holds no dialogue: export it again, with more cases.")
    return lines


def check_apart(train: Iterable[ChatLine], test: Iterable[ChatLine]) -> None:
    """Raise ``AnamnesisError`` if a case is on both sides, which would invalidate all figures on the test side."""
    shared_keys = sorted({line.case_key for line in train} & {line.case_key for line in test})
    if shared_keys:
        raise AnamnesisError(
            f"{shared_keys[0]} stands in train.jsonl and in test.jsonl: export the training set again."
        )


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _parsed_line(row: bytes, side: SplitName, place: str) -> ChatLine:
    try:
        line = ChatLine.model_validate_json(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise AnamnesisError(f"{place} is no dialogue ({f'{field}: ' if field else ''}{first['msg']}).") from error
    if line.split != side:
        raise AnamnesisError(f"{place} belongs to {line.split}, not to {side}: export the training set again.")
    return line
