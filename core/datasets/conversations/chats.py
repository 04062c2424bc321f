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
    about = {name: in_text(record.get(column)).strip() for name, column in columns.items()}
    messages = record.get(columns["messages"])
    if not isinstance(messages, list):
        messages = [{"role": "user", "content": messages}]
    if about.pop("completion", ""):
        messages = [*messages, {"role": "assistant", "content": record[columns["completion"]]}]
    about.pop("messages")
    about.setdefault("conversation", str(position))  # without an id the position is one
    for message in messages or [{}]:  # a chat without messages is a conversation that cannot be used
        said: Mapping[str, object] = message if isinstance(message, Mapping) else {"content": message}
        yield Line(position, speaker=in_text(said.get("role")), text=in_text(said.get("content")), **about)
