"""CSV as a spreadsheet opens it: text that it would take for a formula begins with an apostrophe, and stays text.

What models and people write stands in every table that is taken away, and a cell such as ``=WEBSERVICE(…)`` would be
carried out by whoever opens it (OWASP, CSV injection). Numbers stay as they are, also where they are text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # a command that prints its rows needs neither, and loads faster without
    import pandas as pd
    import pyarrow as pa

_FORMULA = "^'*(?:[\t\n]|\\s*[=+@＝＋－＠-])"
_NUMBER = r"^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$"
_RETURN = "\r\n?"
V = TypeVar("V")


def inert(value: V) -> V | str:
    """Return a cell's value as it can be written: text that begins as a formula does behind an apostrophe.

    A carriage return, which nobody quotes and which begins a row, is a line feed then.
    """
    if not isinstance(value, str):
        return value
    text = re.sub(_RETURN, "\n", value)
    return f"'{text}" if re.match(_FORMULA, text) and not re.match(_NUMBER, text) else text


def as_written(text: str) -> str:
    """Return what ``inert`` was given, up to its carriage returns, for a cell that is read back."""
    return text[1:] if text.startswith("'") and inert(text[1:]) == text else text


def csv_of(table: pd.DataFrame) -> bytes:
    """Return a table as CSV, without its index."""
    return table.map(inert).rename(columns=inert).to_csv(index=False).encode(errors="replace")


def inert_table(table: pa.Table) -> pa.Table:
    """Return an Arrow table as it can be written as CSV."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            held = pc.replace_substring_regex(table.column(place), _RETURN, "\n")
            formula = pc.and_not(pc.match_substring_regex(held, _FORMULA), pc.match_substring_regex(held, _NUMBER))
            marked = pc.replace_substring_regex(held, "^", "'", max_replacements=1)
            table = table.set_column(place, field, pc.if_else(formula, marked, held))
    return table
