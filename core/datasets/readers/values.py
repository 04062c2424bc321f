"""Takes single values out of a record, or says in plain words why they cannot be used."""

from __future__ import annotations

import math
import string
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from core.datasets.readers.files import Record
from core.datasets.readers.format import RowError

_LETTERS = string.ascii_uppercase


def text(record: Record, name: str) -> str:
    """Return a text that must be there."""
    found = optional(record, name)
    if not found:
        raise RowError(f"{name} is {'empty' if name in record else 'missing'}")
    return found


def optional(record: Record, name: str) -> str:
    """Return a text, empty where there is none."""
    return plain(record.get(name), name)


def plain(value: Any, name: str) -> str:
    """Return a value as text; numbers are written out, an empty or missing one is empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    raise RowError(f"{name} should be text but is {_kind(value)}")


def integer(record: Record, name: str) -> int:
    """Return a whole number that must be there."""
    value = text(record, name)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise RowError(f"{name} should be a whole number but is {value!r}")
    return int(number)


def texts(record: Record, name: str) -> list[str]:
    """Return a list of texts that must be there, none of them empty."""
    value = record.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise RowError(f"{name} should be a list of texts" if value else f"{name} is empty or missing")
    found = [plain(one, name) for one in value]
    if not all(found):
        raise RowError(f"an entry of {name} is empty")
    return found


def options(record: Record, name: str = "options") -> dict[str, str]:
    """Return letter → option, in their order: from letters with texts, a list of such pairs, or a list of texts."""
    value = record.get(name)
    if isinstance(value, Mapping):
        pairs = [(str(letter).strip().upper(), one) for letter, one in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        pairs = [_pair(one, letter, name) for letter, one in lettered(value, name)]
    else:
        raise RowError(f"{name} {'is missing' if value is None else 'should be a list or letters with texts'}")
    # tables give every record the letters of the longest one
    while pairs and pairs[-1][1] is None:
        pairs.pop()
    return checked_options(pairs)


def lettered(values: Sequence[Any], name: str) -> list[tuple[str, Any]]:
    """Return values with their letters; raise ``RowError`` where the letters do not suffice."""
    if len(values) > len(_LETTERS):
        raise RowError(f"{name} has {len(values)} entries, more than there are letters")
    return list(zip(_LETTERS, values, strict=False))


def checked_options(pairs: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return letter → option; raise ``RowError`` where there are fewer than two or one is empty."""
    found = {letter: plain(value, f"option {letter}") for letter, value in pairs}
    if len(found) < 2:
        raise RowError("there are fewer than two options")
    if len(found) > len(_LETTERS):
        raise RowError(f"there are {len(found)} options, more than there are letters")
    if len(found) < len(pairs):
        raise RowError("two options have the same letter")
    empty = [letter for letter, value in found.items() if not value]
    if empty:
        raise RowError(f"option {' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty")
    return found


def _pair(value: Any, letter: str, name: str) -> tuple[str, Any]:
    if isinstance(value, Mapping):
        if "key" not in value or "value" not in value:
            raise RowError(f"an entry of {name} has no key and value")
        return str(value["key"]).strip().upper(), value["value"]
    if isinstance(value, tuple) and len(value) == 2:  # an entry of a Parquet map
        return str(value[0]).strip().upper(), value[1]
    return letter, value


def by_letter(letter: str, choices: Mapping[str, str], name: str) -> str:
    """Return the option that a letter names."""
    found = choices.get(letter.strip().strip("().").upper())
    if found is None:
        letters = list(choices)
        raise RowError(f"{name} {letter!r} is none of the options {letters[0]} to {letters[-1]}")
    return found


def same(one: str, other: str) -> bool:
    """Say whether two texts are the same but for capitals, spaces and a final full stop."""
    return _folded(one) == _folded(other)


def agreed(by_mark: str, said: str, mark: str) -> str:
    """Return the right option where letter or number and the answer's text agree, or there is only the former."""
    if said and not same(by_mark, said):
        raise RowError(f"the answer is {said!r}, but {mark} names {by_mark!r}")
    return by_mark


def _folded(value: str) -> str:
    return " ".join(unicodedata.normalize("NFC", value).casefold().split()).rstrip(".")


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", dict: "an object", list: "a list", bytes: "raw bytes"}
    return kinds.get(type(value), f"of the kind {type(value).__name__}")
