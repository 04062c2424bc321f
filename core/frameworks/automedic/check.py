"""Checks what a model says as the clinical staff against the results that it was given."""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.frameworks.automedic.roles import Facts

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")


def staff_invented(reply: str, results: Facts, query: str) -> tuple[str, ...]:
    """Return the numbers of a reply, as written, that stand neither in the results nor in the query.

    "1,100" and "1100" are one number. A converted unit counts as invented: the staff is to report, not to calculate.
    """
    known = {value for _, value in _numbers([query, *(f"{fact.key} {fact.value}" for fact in results)])}
    return tuple(dict.fromkeys(written for written, value in _numbers([reply]) if value not in known))


def _numbers(texts: Iterable[str]) -> list[tuple[str, float]]:
    return [(found, float(found.replace(",", ""))) for text in texts for found in _NUMBER.findall(text)]
