"""Dates that are known to the year, the month or the day: ``2024``, ``2024-10`` or ``2024-10-31``."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Literal, NamedTuple

from core.errors import UsageError

Order = Literal["before", "after", "unclear"]
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


class Days(NamedTuple):
    """The first and the last day that a date can mean: two equal days if it is known to the day."""

    first: date
    last: date


def read_date(text: str) -> Days:
    """Return the days that a date can mean; raises ``UsageError`` for any other text."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text[:40]!r} is no date: write a year, a month or a day, as in 2024, 2024-10 or 2024-10-31."
        )
    year, month, day = (int(part) if part else None for part in match.groups())
    try:
        assert year is not None, "the pattern has a year"
        last_month = month or 12
        last = date(year, last_month, day or calendar.monthrange(year, last_month)[1])
        return Days(date(year, month or 1, day or 1), last)
    except ValueError as error:
        raise UsageError(f"{text[:40]!r} is no date: {error}.") from error


def order(text: str, reference: str) -> Order:
    """Say whether a date is before or after another one; ``unclear`` if the days that they can mean overlap."""
    days, others = read_date(text), read_date(reference)
    if days.last < others.first:
        return "before"
    return "after" if days.first > others.last else "unclear"
