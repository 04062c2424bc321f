"""Reads a file of any format: record after record, each becoming a case or a reason why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from core.case import Case
from core.datasets.readers.files import Damaged, Record, Rows
from core.datasets.readers.format import CaseFields, Format, LeftOutError, RowError, Work
from core.datasets.readers.registry import PLAIN, chosen_format
from core.datasets.reading import Reading
from core.errors import AnamnesisError, UsageError

NO_COLUMNS: Mapping[str, str] = {}


def read_cases(
    path: Path, dataset: str, format: str = "auto", columns: Mapping[str, str] | None = None
) -> Reading:  # fmt: skip
    """Read a file of cases; a row that cannot be used is rejected by its line or position with the reason.

    ``format`` is the name of one of ``FORMATS`` or ``auto``; ``columns`` says, for formats that ask for it, which
    column holds what (our field → theirs). Raises ``UsageError`` for a format or columns that do not exist, and
    ``AnamnesisError`` where the file cannot be read as a whole.
    """
    given = columns or NO_COLUMNS
    chosen, rows = chosen_format(format, Rows(path), bool(given))
    if format == "auto" and not given.keys() <= chosen.takes:
        chosen = PLAIN
    _check_columns(chosen, given)
    return read_as(chosen, rows, dataset, given)


def read_as(chosen: Format, rows: Rows, dataset: str, columns: Mapping[str, str] = NO_COLUMNS) -> Reading:
    """Read rows of a known format."""
    _check_needs(chosen, rows)
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
                raise RowError(f"the case id {name} stands already in {rows.unit} {seen[case.case_key]}")
        except RowError as error:
            reading.rejected.append((number, str(error)))
        except LeftOutError as error:
            reading.left_out.append((number, str(error)))
        else:
            seen[case.case_key] = number
            reading.cases.append(case)
    return reading


def _case(
    record: Record | Damaged, convert: Callable[[Record], CaseFields], chosen: Format, dataset: str, count: int
) -> Case:
    if isinstance(record, Damaged):
        raise RowError(record.reason)
    fields = convert(record)
    # without an id of its own a record is called by its place among the records, the same in every kind of file
    name = fields.pop("id") or str(count)
    whence = {"dataset": dataset, "source": chosen.source, "licence": chosen.licence}
    try:
        return Case.model_validate({"case_key": f"{dataset}/{name}", **whence, **fields})
    except ValidationError as error:
        first = error.errors()[0]
        raise RowError(f"{'.'.join(str(part) for part in first['loc']) or 'case'}: {first['msg']}") from error


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


def _check_needs(chosen: Format, rows: Rows) -> None:
    """Raise where a table lacks a column: then no row of it could be read."""
    missing = [name for name in chosen.needs if name not in rows.columns] if rows.has_header else []
    if missing:
        where = f"{rows.path.name}, line 1" if rows.kind == "csv" else rows.path.name
        raise AnamnesisError(
            f"{where}: the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing; a {chosen.title} case file has {', '.join(chosen.needs)}."
        )
