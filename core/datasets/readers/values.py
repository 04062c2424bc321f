"""Reads single values of a record, or raises ``RowError`` with the reason in plain words."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from core.datasets.readers.files import Record
from core.datasets.readers.format import LeftOutError, RowError

_LETTERS = string.ascii_uppercase


def text(record: Record, name: str) -> str:
    value = optional(record, name)
    if not value:
        raise RowError(f"{name} is {'empty' if name in record else 'missing'}")
    return value


def optional(record: Record, name: str) -> str:
    return plain(record.get(name), name)


def plain(value: Any, name: str) -> str:
    """Return a text or number as text; empty if the value is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    raise RowError(f"{name} should be text but is {_kind(value)}")


def integer(record: Record, name: str) -> int:
    value = text(record, name)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise RowError(f"{name} should be a whole number but is {value!r}")
    return int(number)


_YES_NO = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False, "0": False}


def yes_or_no(record: Record, name: str) -> bool:
    value = record.get(name)
    stated = value if isinstance(value, bool) else _YES_NO.get(text(record, name).lower())
    if stated is None:
        raise RowError(f"{name} should be yes or no but is {value!r}")
    return stated


def texts(record: Record, name: str) -> list[str]:
    value = record.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise RowError(f"{name} should be a list of texts" if value else f"{name} is empty or missing")
    items = [plain(item, name) for item in value]
    if not all(items):
        raise RowError(f"an entry of {name} is empty")
    return items


def options(record: Record, name: str = "options") -> dict[str, str]:
    """Return letter → option in their order, from an object of letters, a list of pairs, or a list of texts."""
    value = record.get(name)
    if isinstance(value, Mapping):
        pairs = [(str(letter).strip().upper(), option) for letter, option in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        pairs = [_pair(option, letter, name) for letter, option in with_letters(value, name)]
    else:
        raise RowError(f"{name} {'is missing' if value is None else 'should be a list or letters with texts'}")
    return checked_options(without_empty_end(pairs))


def without_empty_end(pairs: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return pairs without empty ones at the end: in tables every record has the letters of the one with most options.

    Some tables write "n/a" instead.
    """
    kept = list(pairs)
    while kept and (kept[-1][1] is None or str(kept[-1][1]).lower() in ("", "n/a", "nan")):
        kept.pop()
    return kept


def single(record: Record, name: str) -> str:
    """Return the text of a field that may be a list of one; raises ``LeftOutError`` if the list has several."""
    value = record.get(name)
    if not isinstance(value, list | tuple):
        return text(record, name)
    if len(value) > 1:
        raise LeftOutError(f"it has several right answers ({name})")
    return text({name: value[0] if value else None}, name)


def with_letters(values: Sequence[Any], name: str) -> list[tuple[str, Any]]:
    """Return values with letters from A; raises ``RowError`` if there are more values than letters."""
    if len(values) > len(_LETTERS):
        raise RowError(f"{name} has {len(values)} entries, more than there are letters")
    return list(zip(_LETTERS, values, strict=False))


def checked_options(pairs: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return letter → option; raises ``RowError`` if there are fewer than two, or one is empty."""
    choices = without_labels({letter: plain(value, f"option {letter}") for letter, value in pairs})
    if len(choices) < 2:
        raise RowError("there are fewer than two options")
    if len(choices) > len(_LETTERS):
        raise RowError(f"there are {len(choices)} options, more than there are letters")
    if len(choices) < len(pairs):
        raise RowError("two options have the same letter")
    empty = [letter for letter, value in choices.items() if not value]
    if empty:
        raise RowError(f"option {' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty")
    return choices


_NUMBER = r"\d{1,2}(?=[)\]]|\.\D|(?::\s*|\s+[-–]\s+)[^\s\d])"
"""The number of "1. Cystitis" and "1 - Cystitis"; not of "1.5 mg", "1:2" and "1 - 2 weeks"."""
_LABEL = re.compile(rf"[(\[]?(?P<label>[A-Za-z]|{_NUMBER})(?:\s?[.):\]]{{1,2}}\s*|\s+[-–]\s+)(?P<text>\S.*)", re.DOTALL)
"""An option or answer with its label: "A. Cystitis", "(a) Cystitis", "A - Cystitis", "1) Cystitis"."""


def without_labels(choices: Mapping[str, str]) -> dict[str, str]:
    """Return letter → option without the labels in the texts.

    Nothing is removed unless all options have labels, which are their letters, or A, B, …, or 1, 2, … in this order.
    """
    labels = [_LABEL.fullmatch(option) for option in choices.values()]
    marks = [label["label"].upper() for label in labels if label]
    if marks not in (list(choices), list(_LETTERS[: len(choices)]), [str(n + 1) for n in range(len(choices))]):
        return dict(choices)
    return {letter: label["text"].strip() for letter, label in zip(choices, labels, strict=True) if label}


def option_of(answer: str, choices: Mapping[str, str]) -> str | None:
    """Return the option with the text of an answer, which may have its label ("B. Gout", "2. Gout")."""
    equal = next((option for option in choices.values() if same(option, answer)), None)
    label = _LABEL.fullmatch(answer)
    if equal is not None or label is None:
        return equal
    mark, words = label["label"].upper(), label["text"]
    numbered = enumerate(choices.items(), start=1)
    return next((o for n, (key, o) in numbered if mark in (key, _LETTERS[n - 1], str(n)) and same(o, words)), None)


_MARKS, _WORDS = ("key", "letter", "label", "id"), ("value", "content", "text", "option")
"""Names of the letter and of the text in a list of options."""


def _pair(value: Any, letter: str, name: str) -> tuple[str, Any]:
    if isinstance(value, Mapping):
        mark, words = (next((part for part in parts if part in value), "") for parts in (_MARKS, _WORDS))
        if not mark or not words:
            raise RowError(f"an entry of {name} has no key and value")
        return str(value[mark]).strip().upper(), value[words]
    if isinstance(value, tuple) and len(value) == 2:  # an entry of a Parquet map
        return str(value[0]).strip().upper(), value[1]
    return letter, value


def by_letter(letter: str, choices: Mapping[str, str], name: str) -> str:
    """Return the option with this letter; raises ``RowError`` if there is none."""
    option = choices.get(letter.strip().strip("().").upper())
    if option is None:
        letters = list(choices)
        raise RowError(f"{name} {letter!r} is none of the options {letters[0]} to {letters[-1]}")
    return option


def same(first: str, second: str) -> bool:
    """Return whether two texts are equal apart from capitals, spaces and a final full stop."""
    return _folded(first) == _folded(second)


def checked_answer(option: str, answer: str, field: str) -> str:
    """Return the ``option`` that ``field`` names; raises ``RowError`` if the text ``answer`` is a different one."""
    label = _LABEL.fullmatch(answer)
    if answer and not same(option, answer) and not (label and same(option, label["text"])):
        raise RowError(f"the answer is {answer!r}, but {field} names {option!r}")
    return option


def _folded(value: str) -> str:
    return " ".join(unicodedata.normalize("NFC", value).casefold().split()).rstrip(".")


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", dict: "an object", list: "a list", bytes: "raw bytes"}
    return kinds.get(type(value), f"of the kind {type(value).__name__}")
