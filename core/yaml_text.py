"""Reads YAML whose every scalar is a text: the files of rubrics, forms and guidelines, and the headers of prompts.

Files may come from anybody. What makes a small file large in memory, or a value other than it looks, is refused:
aliases, merge keys, tags, keys that occur twice, deep nesting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from core.errors import UsageError

MOST_BYTES = 5_000_000
"""Bytes of a file, or characters of a text."""
MOST_NODES = 500_000
"""Mappings, lists and scalars of a file."""
MOST_DEPTH = 20
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str, place: str) -> Any:
    """Return mappings, lists and texts; raise ``UsageError`` that begins with the ``place`` of the text."""
    if len(text) > MOST_BYTES:
        raise UsageError(f"{place} cannot be read as YAML: it has more than {MOST_BYTES / 1e6:g} MB.")
    try:
        return _value_of(text)
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{place} cannot be read as YAML ({' '.join(str(error).split())}).") from error


def read_yaml_file(path: Path) -> Any:
    """Return the value of a file as ``read_yaml`` does; raises ``UsageError``."""
    try:
        with path.open("rb") as file:
            return read_yaml(file.read(MOST_BYTES + 1).decode("utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as YAML ({error}).") from error


def _value_of(text: str) -> Any:
    whole: list[Any] = []
    open_values: list[list[Any] | dict[str, Any]] = [whole]
    keys: list[str | None] = [None]
    """For each open value the key whose value comes next; ``None``: a key comes next, or the value is a list."""
    nodes = 0

    def add(value: Any, line: int) -> None:
        parent, key = open_values[-1], keys[-1]
        if isinstance(parent, list):
            parent.append(value)
        elif key is not None:
            parent[key], keys[-1] = value, None
        elif not isinstance(value, str):
            raise ValueError(f"line {line}: a key is a text")
        elif value in parent:
            raise ValueError(f"line {line}: the key {value[:60]} occurs twice")
        else:
            keys[-1] = value

    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 0
        match event:
            case yaml.AliasEvent():
                raise ValueError(f"line {line}: write the value again instead of the alias *{str(event.anchor)[:60]}")
            case yaml.ScalarEvent() | yaml.CollectionStartEvent():
                nodes += 1
                if event.tag not in (None, "!"):
                    raise ValueError(f"line {line}: the tag {event.tag[:60]} is not read")
                if nodes > MOST_NODES or len(open_values) > MOST_DEPTH:
                    most = f"{MOST_NODES:,} values, or more than {MOST_DEPTH} inside each other"
                    raise ValueError(f"line {line}: it has more than {most}")
        match event:
            case yaml.ScalarEvent():
                if event.value == "<<" and event.implicit[0]:
                    raise ValueError(f"line {line}: write the fields again instead of the merge key <<")
                if any("\ud800" <= character <= "\udfff" for character in event.value):
                    raise ValueError(f"line {line}: half of a character (a lone surrogate) is no text")
                add(event.value, line)
            case yaml.CollectionStartEvent():
                value: list[Any] | dict[str, Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
                add(value, line)
                open_values.append(value)
                keys.append(None)
            case yaml.CollectionEndEvent():
                open_values.pop()
                keys.pop()
            case yaml.DocumentEndEvent() if len(whole) > 1:
                raise ValueError(f"line {line}: it has more than one document")
    return whole[0] if whole else None
