"""Reads records with a chat: a list of messages with roles, or a prompt with its completion, as HealthBench has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from core.datasets.conversations.conversation import NAMES, Columns, Line, in_text
from core.datasets.readers.files import Record


def is_chat(record: Record) -> bool:
    """Return whether a record has a list of messages, or a prompt and a completion."""
    listed = any(isinstance(record.get(name), list) for name in NAMES["messages"])
    return listed or ("prompt" in record and any(name in record for name in NAMES["completion"]))


def chat_lines(position: int, record: Record, columns: Columns) -> Iterator[Line]:
    """Yield the messages of a record; a completion is the last message, of the role ``assistant``."""
    value = record.get(columns["messages"])
    messages = value if isinstance(value, list) else [{"role": "user", "content": value}]
    if "completion" in columns and (completion := record.get(columns["completion"])):
        messages = [*messages, {"role": "assistant", "content": completion}]
    about = {
        name: in_text(record.get(columns[name])).strip() if name in columns else ""
        for name in ("case", "version", "outcome")
    }
    # without an id the position is one
    conversation = in_text(record.get(columns["conversation"])).strip() if "conversation" in columns else str(position)
    for message in messages or [{}]:  # a chat without messages is a conversation that cannot be used
        said: Mapping[str, object] = message if isinstance(message, Mapping) else {"content": message}
        yield Line(position, conversation, in_text(said.get("role")), in_text(said.get("content")), **about)
