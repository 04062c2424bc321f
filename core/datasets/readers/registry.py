"""All formats, found in the folder ``formats``: one module each, with its ``FORMAT``."""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType

from core.datasets.readers import formats
from core.datasets.readers.files import Damaged, Record, Rows, records_within
from core.datasets.readers.format import Format
from core.datasets.readers.formats.plain import guessed, is_told
from core.datasets.reading import clipped
from core.errors import AnamnesisError, UsageError


def _formats() -> dict[str, Format]:
    modules = (
        importlib.import_module(f"{formats.__name__}.{one.name}") for one in pkgutil.iter_modules(formats.__path__)
    )
    found: list[Format] = [module.FORMAT for module in modules]
    return {one.name: one for one in sorted(found, key=lambda one: one.title.lower())}


FORMATS = MappingProxyType(_formats())
"""Name → format."""
PLAIN = FORMATS["plain"]


def chosen_format(name: str, rows: Rows, columns: bool) -> tuple[Format, Rows]:
    """Return the format that was asked for, or that the file's first records show, and the rows as it lays them out.

    ``columns`` says that the user named columns. Raises ``UsageError`` where no format or no such format fits.
    """
    if name != "auto" and name not in FORMATS:
        raise UsageError(f"There is no format {name!r}: choose auto, {', '.join(FORMATS)}.")
    wanted = None if name == "auto" else FORMATS[name]
    laid_out = _laid_out(rows, wanted)
    if wanted is None and laid_out is not None:
        told = columns or is_told(guessed(laid_out[1].columns))
        wanted = laid_out[0] or _recognised(laid_out[1]) or (PLAIN if told else None)
    if wanted is None or laid_out is None:
        raise UsageError(_not_recognised(rows))
    return wanted, laid_out[1]


def _laid_out(rows: Rows, wanted: Format | None) -> tuple[Format | None, Rows] | None:
    """Return the rows of a JSON file by a format's own layout, or by one that any format may have."""
    if rows.kind != "json":
        return None, rows
    if isinstance(rows.root, dict):
        for one in (wanted,) if wanted else FORMATS.values():
            records = one.unpack(rows.root) if one.unpack else None
            if records is not None:
                return one, rows.unpacked(records)
    found = records_within(rows.root)
    if found is None and isinstance(rows.root, dict):
        found = [rows.root]
    return None if found is None else (None, rows.unpacked(found))


def _recognised(rows: Rows) -> Format | None:
    """Return the format with the most fields of those that the header or the first records, one by one, show."""
    records: list[Record] = [dict.fromkeys(rows.columns)] if rows.has_header else rows.first()
    for record in records:
        best = max(FORMATS.values(), key=lambda one: one.fitting(record))
        if best.fitting(record):
            return best
    if not records:
        raise AnamnesisError(_nothing(rows))
    return None


def _nothing(rows: Rows) -> str:
    for number, record in rows:
        if isinstance(record, Damaged):
            return f"{rows.path.name}, {rows.unit} {number}: {record.reason}; nothing was imported."
    return f"{rows.path.name} holds no record; nothing was imported."


def _not_recognised(rows: Rows) -> str:
    try:
        fields = rows.columns if not isinstance(rows.root, dict) else tuple(rows.root)
    except AnamnesisError:
        fields = ()
    shown = ", ".join(map(clipped, fields[:8])) + (", …" if len(fields) > 8 else "")
    return (
        f"The format of {rows.path.name} is not recognised{f' (it has {shown})' if fields else ''}: name it with "
        f"--format ({', '.join(FORMATS)}), or say what its columns hold with --columns vignette=…,options=…,answer=…."
    )
