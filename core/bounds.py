"""Types of the numbers that are stored: what the columns of the database, sums over them and a calendar can express.

A line of a journal with any other number is refused when it is read or made, before the database sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

Int = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
"""An integer of a column INTEGER."""
BigInt = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""An integer of a column BIGINT."""
Trials = Annotated[int, Field(ge=0, le=1_000_000)]
"""A number of trials of a case, or the number of one."""
MOST_TOKENS = 2**31 - 1
Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
"""Tokens of one call."""
_REAL, _MOMENT = (-1e18, 1e18), (-62e9, 253e9)
Real = Annotated[float, Field(ge=_REAL[0], le=_REAL[1], allow_inf_nan=False)]
"""A finite number, of which a column can be added up: seconds, US dollars, probabilities, years."""
Moment = Annotated[float, Field(ge=_MOMENT[0], le=_MOMENT[1], allow_inf_nan=False)]
"""Seconds since 1970 (UTC), from the year 5 to the year 9987: in every time zone a date of the calendar."""


def _bounded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in row.items():
        low, high = _MOMENT if name.endswith("_at") else _REAL
        if isinstance(value, int | float) and not low <= value <= high:
            raise ValueError(f"{name} must be from {low:g} to {high:g}")
    return row


Row = Annotated[dict[str, Any], AfterValidator(_bounded)]
"""Column → value of a row of the database; the columns of moments end in ``_at``."""
