"""All formats (modules with a ``FORMAT`` in the folder ``formats``), and reading files in any of them.

Each record becomes a case, or a reason why it does not.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from core.callbacks import ProgressCallback, StopCallback
from core.case import Case
from core.datasets.readers import formats
from core.datasets.readers.files import DamagedRow, FileRows, Record, records_within
from core.datasets.readers.format import CaseFields, Format, LeftOutError, RowError, Work
from core.datasets.readers.formats.plain import guess_columns, has_needed_columns
from core.datasets.readers.pictures import remark_on_addresses
from core.datasets.reading import ReadCases, clipped
from core.errors import AnamnesisError, UsageError
from core.text.questions import stated_kind

_MODULES = (
    importlib.import_module(f"{formats.__name__}.{info.name}") for info in pkgutil.iter_modules(formats.__path__)
)
_SORTED: list[Format] = sorted((module.FORMAT for module in _MODULES), key=lambda format_: format_.title.lower())
FORMATS = MappingProxyType({format_.name: format_ for format_ in _SORTED})
"""Name → format."""
PLAIN = FORMATS["plain"]
_MOST_WORDS = 400
"""Most characters of a reason, which may contain values of the file."""
_LONGEST_ID, _MOST_NAMES = 200, 12
_ONE = r"\(?(?:(?:option|choice|answer|opt?)[ _-]?)?(?:[A-Za-z]|\d{1,2})[).]?"
_MARK = re.compile(rf"{_ONE}(?:\s*[,;|&]\s*{_ONE})*", re.IGNORECASE)
"""An answer that refers to an option: "B", "(c)", "3", "option1", "A, C"."""
_FAULTS = {
    "extra_forbidden": "there is no such field",
    "tuple_type": "this should be a list",
    "string_type": "this should be text",
    "string_too_short": "it is empty",
    "missing": "it is missing",
}
"""Pydantic's type of error → our message."""


def chosen_format(name: str, rows: FileRows, columns: bool) -> tuple[Format, FileRows]:
    """Return the requested format, or the one that fits the first records, and the rows in its layout.

    ``columns``: the user has given columns. Raises ``UsageError`` if the format does not exist or none fits.
    """
    if name != "auto" and name not in FORMATS:
        raise UsageError(f"There is no format {name!r}: choose auto, {', '.join(FORMATS)}.")
    chosen = None if name == "auto" else FORMATS[name]
    laid_out = _laid_out(rows, chosen)
    if chosen is None and laid_out is not None:
        plain_fits = columns or has_needed_columns(guess_columns(laid_out[1].columns))
        chosen = laid_out[0] or _recognised(laid_out[1]) or (PLAIN if plain_fits else None)
    if chosen is None or laid_out is None:
        raise UsageError(_not_recognised(rows))
    return chosen, laid_out[1]


def _laid_out(rows: FileRows, chosen: Format | None) -> tuple[Format | None, FileRows] | None:
    """Return the rows of a JSON file by the layout of a format, or by a common layout."""
    if rows.kind != "json":
        return None, rows
    if isinstance(rows.root, dict):
        for format_ in (chosen,) if chosen else FORMATS.values():
            unpacked = format_.unpack(rows.root) if format_.unpack else None
            if unpacked is not None:
                return format_, rows.unpacked(unpacked)
    records = records_within(rows.root)
    if records is None and isinstance(rows.root, dict):
        alone = any(format_.fitting(rows.root) for format_ in FORMATS.values())
        by_id = rows.root and all(isinstance(value, dict) and value for value in rows.root.values())
        records = [{"id": k, **v} for k, v in rows.root.items()] if by_id and not alone else [rows.root]
    return None if records is None else (None, rows.unpacked(records))


def _recognised(rows: FileRows) -> Format | None:
    """Return the format that shares most fields with the header, or with the first record that fits any format."""
    records: list[Record] = [dict.fromkeys(rows.columns)] if rows.has_header else rows.first()
    for record in records:
        best = max(FORMATS.values(), key=lambda format_: format_.fitting(record))
        if best.fitting(record):
            return best
    if records:
        return None
    for number, row in rows:
        if isinstance(row, DamagedRow):
            raise AnamnesisError(f"{rows.path.name}, {rows.unit} {number}: {row.reason}; nothing was imported.")
    raise AnamnesisError(f"{rows.path.name} holds no record; nothing was imported.")


def _not_recognised(rows: FileRows) -> str:
    try:
        fields = rows.columns if not isinstance(rows.root, dict) else tuple(rows.root)
    except AnamnesisError:
        fields = ()
    return (
        f"The format of {rows.path.name} is not recognised{f' (it has {_listed(fields)})' if fields else ''}: name it "
        f"with --format ({', '.join(FORMATS)}), or say what its columns hold with --columns "
        "vignette=…,options=…,answer=…."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(clipped, names[:_MOST_NAMES])) + (", …" if len(names) > _MOST_NAMES else "")


def read_cases(
    path: Path,
    dataset: str,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    on_progress: ProgressCallback = lambda done, planned: None,
    should_stop: StopCallback = lambda: False,
) -> ReadCases:
    """Read a file of cases; an unusable row is rejected with its position and the reason.

    ``format`` is one of ``FORMATS`` or ``auto``; ``columns``, for formats that take it, is field of a case → column of
    the file. Raises ``UsageError`` for a format or columns that do not exist, and ``AnamnesisError`` if the file cannot
    be read, or if ``should_stop`` returns true (see ``FileRows``).
    """
    column_of = columns or {}
    try:
        chosen, rows = chosen_format(format, FileRows(path, on_progress, should_stop), bool(column_of))
        if format == "auto" and not column_of.keys() <= chosen.takes:
            chosen = PLAIN
        _check_columns(chosen, column_of)
        return read_as(chosen, rows, dataset, column_of)
    except OSError as error:
        raise AnamnesisError(f"{clipped(path.name, 200)} cannot be read: {error.strerror or error}.") from error


def read_as(chosen: Format, rows: FileRows, dataset: str, columns: Mapping[str, str]) -> ReadCases:
    missing = [name for name in chosen.needs if name not in rows.columns] if rows.has_header else []
    if missing:  # no row could be read
        place = f"{rows.path.name}, line 1" if rows.kind == "csv" else rows.path.name
        raise AnamnesisError(
            f"{place}: the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing; a {chosen.title} case file has {', '.join(chosen.needs)}."
        )
    reading = ReadCases(format=chosen.name, unit=rows.unit)
    work = Work(rows, columns, reading)
    convert = chosen.start(work)
    seen: dict[str, int] = {}
    filled: dict[str, None] = {}
    used: set[str] = set()
    for count, (number, record) in enumerate(rows, start=1):
        work.at = number
        try:
            if isinstance(record, DamagedRow):
                raise RowError(record.reason)
            filled |= {name: None for name, value in record.items() if value not in (None, "")}
            case = _case(_Observed(record, used), convert, dataset, count)
            if not case.choices and _MARK.fullmatch(case.answer):
                raise RowError(
                    f"the answer {clipped(case.answer)!r} is the mark of an option, and no column of options is known: "
                    f"it has {_listed(rows.columns)}; say which with --columns options=…"
                )
            if case.case_key in seen:
                name = case.case_key.partition("/")[2]
                raise RowError(f"the case id {clipped(name)} is already used in {rows.unit} {seen[case.case_key]}")
        except RowError as error:
            reading.rejected.append((number, clipped(str(error), _MOST_WORDS)))
        except LeftOutError as error:
            reading.left_out.append((number, clipped(str(error), _MOST_WORDS)))
        else:
            seen[case.case_key] = number
            reading.cases.append(case)
    reading.sheet = rows.sheet
    if unused := [name or "(no name)" for name in filled if name not in used]:
        work.remark(
            f"{'columns' if rows.has_header else 'fields'} that are not used: {_listed(unused)}", whole_file=True
        )
    remark_on_addresses(reading)
    return reading


class _Observed(Mapping[str, Any]):
    """A record that adds the names of the fields which are read to ``used``."""

    def __init__(self, record: Record, used: set[str]) -> None:
        self._record, self._used = record, used

    def __getitem__(self, name: str) -> Any:
        value = self._record[name]
        self._used.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)


def _case(record: Record, convert: Callable[[Record], CaseFields], dataset: str, count: int) -> Case:
    fields = convert(record)
    # a record without id gets its number among the records, which is the same in every kind of file
    name = fields.pop("id") or str(count)
    if len(name) > _LONGEST_ID or not name.isprintable():
        raise RowError(
            f"the case id {clipped(name)!r} has "
            + (f"{len(name):,} characters, and {_LONGEST_ID} are the most" if name.isprintable() else "line breaks")
        )
    texts = [fields["vignette"], fields.get("question", ""), fields["answer"], *fields.get("choices", ())]
    if any(isinstance(text, str) and "\0" in text for text in texts):
        raise RowError("a text of it holds a NUL character")
    try:
        case = Case.model_validate({"case_key": f"{dataset}/{name}", "dataset": dataset, **fields})
        return case.model_copy(update={"asks_for": stated_kind(case.question, case.asks_for)})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RowError(f"{field}: {_FAULTS.get(first['type'], first['msg'])}" if field else first["msg"]) from error


def _check_columns(chosen: Format, columns: Mapping[str, str]) -> None:
    unknown = [name for name in columns if name not in chosen.takes]
    if unknown and chosen.takes:
        raise UsageError(
            f"--columns cannot say what {unknown[0]!r} is: the format {chosen.name} takes "
            f"{', '.join(sorted(chosen.takes))}."
        )
    if unknown:
        raise UsageError(f"The format {chosen.name} has fixed columns: leave --columns out, or choose --format plain.")
