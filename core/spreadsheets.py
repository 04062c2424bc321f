"""Makes CSV safe for spreadsheets: text that looks like a formula gets an apostrophe, so that it stays text.

Exports contain text of models and people, and a spreadsheet executes a cell such as ``=WEBSERVICE(…)`` when it opens
the file (OWASP, CSV injection). Numbers stay as they are, also numbers that are text.
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
    """Return a cell's value that is safe to write: text that begins like a formula gets an apostrophe.

    Carriage returns become line feeds, because CSV writers do not quote them and readers begin a new row there.
    """
    if not isinstance(value, str):
        return value
    text = re.sub(_RETURN, "\n", value)
    return f"'{text}" if re.match(_FORMULA, text) and not re.match(_NUMBER, text) else text


def as_written(text: str) -> str:
    """Return the text of a cell before ``inert``; carriage returns are lost."""
    return text[1:] if text.startswith("'") and inert(text[1:]) == text else text


def csv_of(table: pd.DataFrame) -> bytes:
    return table.map(inert).rename(columns=inert).to_csv(index=False).encode(errors="replace")


def inert_table(table: pa.Table) -> pa.Table:
    """Return an Arrow table with ``inert`` applied to all text columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = pc.replace_substring_regex(table.column(index), _RETURN, "\n")
            formula = pc.and_not(pc.match_substring_regex(column, _FORMULA), pc.match_substring_regex(column, _NUMBER))
            marked = pc.replace_substring_regex(column, "^", "'", max_replacements=1)
            table = table.set_column(index, field, pc.if_else(formula, marked, column))
    return table
