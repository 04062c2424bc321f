"""All formats, found in the folder ``formats``, one module each with its ``FORMAT``; and files read in any of them.

Record after record becomes a case or a reason why not.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from core.callbacks import Progress, Stop
from core.case import Case
from core.datasets.readers import formats
from core.datasets.readers.files import Damaged, Record, Rows, records_within
from core.datasets.readers.format import CaseFields, Format, LeftOutError, RowError, Work
from core.datasets.readers.formats.plain import guessed, is_told
from core.datasets.readers.pictures import tell_of_addresses
from core.datasets.reading import Reading, clipped
from core.errors import AnamnesisError, UsageError
from core.text.questions import stated_kind

_MODULES = (importlib.import_module(f"{formats.__name__}.{one.name}") for one in pkgutil.iter_modules(formats.__path__))
_FOUND: list[Format] = sorted((module.FORMAT for module in _MODULES), key=lambda one: one.title.lower())
FORMATS = MappingProxyType({one.name: one for one in _FOUND})
"""Name → format."""
PLAIN = FORMATS["plain"]
_MOST_WORDS = 400
"""Characters of a reason: values of the file stand in it."""
_LONGEST_ID = 200
_AMISS = {
    "extra_forbidden": "there is no such field",
    "tuple_type": "this should be a list",
    "string_type": "this should be text",
    "string_too_short": "it is empty",
    "missing": "it is missing",
}
"""Our words for what pydantic finds amiss, by its type of error."""


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
    if records:
        return None
    for number, row in rows:
        if isinstance(row, Damaged):
            raise AnamnesisError(f"{rows.path.name}, {rows.unit} {number}: {row.reason}; nothing was imported.")
    raise AnamnesisError(f"{rows.path.name} holds no record; nothing was imported.")


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


def read_cases(
    path: Path,
    dataset: str,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    told: Progress = lambda done, planned: None,
    asked_to_stop: Stop = lambda: False,
) -> Reading:
    """Read a file of cases; a row that cannot be used is rejected by its line or position with the reason.

    ``format`` is the name of one of ``FORMATS`` or ``auto``; ``columns`` says, for formats that ask for it, which
    column holds what (our field → theirs). Raises ``UsageError`` for a format or columns that do not exist, and
    ``AnamnesisError`` where the file cannot be read as a whole, or was asked to stop (``Rows``).
    """
    given = columns or {}
    try:
        chosen, rows = chosen_format(format, Rows(path, told, asked_to_stop), bool(given))
        if format == "auto" and not given.keys() <= chosen.takes:
            chosen = PLAIN
        _check_columns(chosen, given)
        return read_as(chosen, rows, dataset, given)
    except OSError as error:
        raise AnamnesisError(f"{clipped(str(path), 200)} cannot be read: {error.strerror or error}.") from error


def read_as(chosen: Format, rows: Rows, dataset: str, columns: Mapping[str, str]) -> Reading:
    """Read rows of a known format."""
    missing = [name for name in chosen.needs if name not in rows.columns] if rows.has_header else []
    if missing:  # then no row of it could be read
        where = f"{rows.path.name}, line 1" if rows.kind == "csv" else rows.path.name
        raise AnamnesisError(
            f"{where}: the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing; a {chosen.title} case file has {', '.join(chosen.needs)}."
        )
    reading = Reading(format=chosen.name, unit=rows.unit)
    work = Work(rows, columns, reading)
    convert = chosen.start(work)
    seen: dict[str, int] = {}
    for count, (number, record) in enumerate(rows, start=1):
        work.at = number
        try:
            case = _case(record, convert, chosen, dataset, count)
            if case.case_key in seen:
                name = case.case_key.partition("/")[2]
                raise RowError(f"the case id {clipped(name)} stands already in {rows.unit} {seen[case.case_key]}")
        except RowError as error:
            reading.rejected.append((number, clipped(str(error), _MOST_WORDS)))
        except LeftOutError as error:
            reading.left_out.append((number, clipped(str(error), _MOST_WORDS)))
        else:
            seen[case.case_key] = number
            reading.cases.append(case)
    tell_of_addresses(reading)
    return reading


def _case(
    record: Record | Damaged, convert: Callable[[Record], CaseFields], chosen: Format, dataset: str, count: int
) -> Case:
    if isinstance(record, Damaged):
        raise RowError(record.reason)
    fields = convert(record)
    # without an id of its own a record is called by its place among the records, the same in every kind of file
    name = fields.pop("id") or str(count)
    # raise where an id or the options cannot be used, whatever the format
    if len(name) > _LONGEST_ID or not name.isprintable():
        raise RowError(
            f"the case id {clipped(name)!r} has "
            + (f"{len(name):,} characters, and {_LONGEST_ID} are the most" if name.isprintable() else "line breaks")
        )
    texts = [fields["vignette"], fields.get("question", ""), fields["answer"], *fields.get("choices", ())]
    if any(isinstance(text, str) and "\0" in text for text in texts):
        raise RowError("a text of it holds a NUL character")
    whence = {"dataset": dataset, "source": chosen.source, "licence": chosen.licence}
    try:
        case = Case.model_validate({"case_key": f"{dataset}/{name}", **whence, **fields})
        return case.model_copy(update={"asks_for": stated_kind(case.question, case.asks_for)})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RowError(f"{field}: {_AMISS.get(first['type'], first['msg'])}" if field else first["msg"]) from error


def _check_columns(chosen: Format, columns: Mapping[str, str]) -> None:
    unknown = [name for name in columns if name not in chosen.takes]
    if unknown and chosen.takes:
        raise UsageError(
            f"--columns cannot say what {unknown[0]!r} is: the format {chosen.name} takes "
            f"{', '.join(sorted(chosen.takes))}."
        )
    if unknown:
        raise UsageError(
            f"The format {chosen.name} has columns of its own: leave --columns out, or choose --format plain."
        )
