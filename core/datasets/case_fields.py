"""Fields of cases as texts: the values that a case has, and restrictions to cases with a value (``FIELD=VALUE``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from core.case import Case
from core.errors import UsageError
from core.text.questions import question_kind

FIELDS = (
    "dataset", "specialty", "source", "licence", "single_diagnosis", "asks_for", "difficulty", "age", "sex", "speaker",
    "answer", "question", "choices", "synonyms",
)  # fmt: skip
"""The fields by which cases can be chosen."""
Where = Sequence[tuple[str, str]]
"""(field, value) pairs; of several values of one field any fits."""


def values_of(case: Case, field: str) -> tuple[str, ...]:
    """Return the values of a field: several of a list, ``yes`` or ``no``, or the empty text for a missing value."""
    value = question_kind(case) if field == "asks_for" else getattr(case, field)
    if isinstance(value, bool):
        return ("yes" if value else "no",)
    if isinstance(value, float):
        return (f"{value:g}",)
    if isinstance(value, tuple):
        return tuple(map(str, value)) or ("",)
    return ("" if value is None else str(value),)


def fits(case: Case, where: Where) -> bool:
    """Return whether a case has one of the values of each field, ignoring case."""
    allowed: dict[str, set[str]] = {}
    for field, value in where:
        allowed.setdefault(field, set()).add(value.lower())
    return all(any(value.lower() in values for value in values_of(case, field)) for field, values in allowed.items())


def read_where(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Read restrictions; raises ``UsageError`` for a text without ``=`` and for a field that cases do not have."""
    where = []
    for text in texts:
        field, equals, value = (part.strip() for part in text.partition("="))
        if not equals or field not in FIELDS:
            raise UsageError(f"{text!r} restricts no cases: write FIELD=VALUE with a field of {', '.join(FIELDS)}.")
        where.append((field, value))
    return where


def groups_in(cases: Iterable[Case], most: int = 40) -> dict[str, list[str]]:
    """Return field → its values, most frequent first, of the fields with 2 to ``most`` values in these cases."""
    counts: dict[str, Counter[str]] = {field: Counter() for field in FIELDS}
    for case in cases:
        for field, counter in counts.items():
            counter.update(values_of(case, field))
    return {
        field: [value for value, _ in counter.most_common()]
        for field, counter in counts.items()
        if 2 <= len(counter) <= most
    }
