"""Opens CSV, Excel, JSON, JSON Lines and Parquet files in the same way: records by name, with their positions.

The contents decide on the kind, not the name of the file. Positions are lines in a text file (CSV: the line on which a
record begins), rows in a spreadsheet, and records counted from 1 in a JSON array and in Parquet.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, AnyStr, Literal
from xml.etree.ElementTree import ParseError

import orjson

from core.callbacks import ProgressCallback, StopCallback
from core.datasets.reading import PositionUnit, clipped
from core.errors import AnamnesisError, UsageError

Record = Mapping[str, Any]
FileKind = Literal["csv", "sheet", "json", "jsonl", "parquet"]
MAX_BYTES, MAX_ROWS, MAX_COLUMNS, MAX_CHARACTERS, MAX_DEPTH = 500_000_000, 200_000, 1_000, 1_000_000, 50
"""Limits of an unpacked list of cases; the last two are characters in a cell and nested lists or objects."""
MAX_LINE_BYTES = 10_000_000
"""Limit of one line, which is read into memory."""
MAX_IN_MEMORY_BYTES = 100_000_000
"""Limit of files that are read into memory: JSON other than JSON Lines, and an unpacked workbook."""
_MOST_WORDS_OF_A_BOOK = 40_000_000
"""Most bytes of a workbook's table of texts, which takes nine times as much memory."""
_MOST_PARTS, _MOST_VALUES = 1_500_000, 4_000_000
"""Most lists and objects, and most commas, in a JSON file: `[[],[],…]` takes twenty times its size in memory."""
LIMITS = (
    f"at most {MAX_BYTES // 1_000_000} MB unpacked, {MAX_ROWS:,} rows, {MAX_COLUMNS:,} columns, {MAX_CHARACTERS:,} "
    f"characters in a cell, {MAX_LINE_BYTES // 1_000_000} MB in a line, {MAX_DEPTH} levels of JSON, and "
    f"{MAX_IN_MEMORY_BYTES // 1_000_000} MB of a workbook or of JSON that is no JSON Lines"
)
_FIRST = 20
"""Rows that show the fields of a file."""
_PROGRESS_EVERY = 500
"""Rows between two reports of progress."""
_MAX_SHEET_ROWS = 1_048_576
"""Rows of a sheet in Excel; before a row with a larger number openpyxl would yield as many blank rows."""
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as Python's error handler ``surrogateescape`` reads them."""
_MOST_WORDS = 300
_SEPARATORS = ",;\t"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"(\xb5/\xfd")
"""First bytes of zip, gzip, bzip2, xz, 7z and zstd files."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_UNITS: Mapping[FileKind, PositionUnit] = {
    "csv": "line",
    "jsonl": "line",
    "sheet": "row",
    "json": "record",
    "parquet": "record",
}


@dataclass(frozen=True)
class DamagedRow:
    """A row that is no record, with the reason."""

    reason: str


class FileRows:
    """The records of a file, which may be read more than once.

    ``root`` is the outermost value of a JSON file; the format that knows its layout replaces it by ``unpacked``.
    ``on_progress`` gets the position of an iteration in megabytes, and ``should_stop`` ends it. Raises ``UsageError``
    if the file does not exist, ``AnamnesisError`` if it cannot be read, exceeds ``LIMITS``, or was stopped.
    """

    def __init__(
        self,
        path: Path,
        on_progress: ProgressCallback = lambda done, planned: None,
        should_stop: StopCallback = lambda: False,
    ) -> None:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file in it.")
        if not path.is_file():
            raise UsageError(f"There is no file {path}.")
        if path.stat().st_size > MAX_BYTES:
            raise AnamnesisError(
                f"{path.name} has {path.stat().st_size / 1e6:,.0f} MB: a list of cases has {LIMITS}. Split it."
            )
        self.path, self._on_progress, self._should_stop = path, on_progress, should_stop
        self._share: Callable[[], float] = lambda: 0.0
        """Returns the share of the file (0 to 1) that the current iteration has read."""
        self.kind: FileKind = _kind(path)
        self.unit: PositionUnit = _UNITS[self.kind]
        self.root: Any = _json(path) if self.kind == "json" else None
        self._columns: tuple[str, ...] | None = None
        self.sheet = ""
        """The title of the sheet of a workbook, once it was read."""

    def unpacked(self, records: list[Any]) -> FileRows:
        other = copy(self)
        other.root, other._columns = records, None
        return other

    def __iter__(self) -> Iterator[tuple[int, Record | DamagedRow]]:
        for rows_before, row in enumerate(self._rows()):
            if rows_before >= MAX_ROWS:
                raise AnamnesisError(f"{self.path.name} has more rows than are read: {LIMITS}. Split it.")
            if rows_before % _PROGRESS_EVERY == 0:
                size = max(1, self.path.stat().st_size // 1_000_000)
                self._on_progress(int(self._share() * size), size)
                if self._should_stop():
                    raise AnamnesisError(
                        f"{self.path.name} was not read to its end, as you asked: nothing was imported."
                    )
            number, record = row
            yield number, record if isinstance(record, DamagedRow) else _within_limits(record)

    def _rows(self) -> Iterator[tuple[int, Record | DamagedRow]]:
        match self.kind:
            case "csv" | "sheet":
                return self._table_rows()
            case "jsonl":
                return self._jsonl_rows()
            case "parquet":
                return self._parquet_rows()
            case _:
                return ((number, _record(value)) for number, value in enumerate(self.root, start=1))

    def _table_rows(self) -> Iterator[tuple[int, Record | DamagedRow]]:
        cells = self._cells()
        _, header = next(cells)
        for number, values in cells:
            # spreadsheets write empty fields at the end of rows; MedBullets' files have them
            while len(values) > len(header) and not values[-1].strip():
                values.pop()
            if len(values) == len(header):
                yield number, dict(zip(header, values, strict=True))
            else:
                yield number, DamagedRow(f"{len(values)} fields instead of {len(header)}")

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (position, cells) of the rows that are not blank, first the names of the columns."""
        rows = self._csv_cells() if self.kind == "csv" else self._sheet_cells()
        number, values = next(rows, (1, []))
        where = f"{self.path.name}, {f'sheet {clipped(self.sheet)}, ' if self.sheet else ''}{self.unit} {number}"
        header = [name.strip() for name in values]
        if len(header) > MAX_COLUMNS:
            raise AnamnesisError(f"{self.path.name} has more columns than are read: {LIMITS}.")
        if twice := next((name for name, times in Counter(header).items() if name and times > 1), ""):
            raise AnamnesisError(f"{where}: the column {clipped(twice)} occurs twice.")
        yield number, header
        yield from rows

    def _csv_cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (line on which a record begins, cells) of a UTF-8 file; the header shows the separator."""
        path, size, line = self.path, self.path.stat().st_size, 1
        csv.field_size_limit(MAX_CHARACTERS)  # a longer field mostly has a quote that is not closed
        try:
            with (
                path.open("rb") as file,
                io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="") as text,
            ):
                self._share = lambda: file.tell() / size
                header = next((line for line in _lines(text, path) if line.strip()), "")
                text.seek(0)
                separator = "," if "," in header else max(_SEPARATORS, key=header.count)
                reader = csv.reader(_lines(text, path), strict=True, delimiter=separator)
                for values in reader:
                    start, line = line, reader.line_num + 1
                    if any(value.strip() for value in values):
                        yield start, values
        except csv.Error as error:
            raise AnamnesisError(
                f"{path.name}, line {line}: the row that begins here cannot be read ({error}); nothing was imported."
            ) from error

    def _sheet_cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (row, cells as text) of the only sheet with contents."""
        with opened_workbook(self.path, self.path.name) as book:
            filled = [sheet for sheet in book.worksheets if next(_filled_rows(sheet), None)]
            if len(filled) != 1:
                names = ", ".join(clipped(sheet.title) for sheet in filled)
                raise AnamnesisError(
                    f"{self.path.name} has {len(filled)} sheets with contents ({names}): keep the one with the cases."
                    if filled
                    else f"{self.path.name} has no sheet with contents."
                )
            self.sheet, width = str(filled[0].title), 0
            for number, values in _filled_rows(filled[0]):
                width = width or max(column for column, value in enumerate(values, start=1) if value.strip())
                yield number, [*values[:width], *([""] * (width - len(values))), *filter(None, values[width:])]

    def _jsonl_rows(self) -> Iterator[tuple[int, Record | DamagedRow]]:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            self._share = lambda: file.tell() / size
            for number, line in enumerate(_lines(file, self.path), start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, _jsonl_record(line)

    def _parquet_rows(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        import pyarrow  # imported here: it is slow, and most files are text

        path, file, number = self.path, _opened_parquet(self.path), 0
        if file.metadata.num_rows > MAX_ROWS:
            raise AnamnesisError(f"{path.name} has more rows than are read: {LIMITS}. Split it.")
        self._share = lambda: number / max(number, file.metadata.num_rows)
        try:
            for batch in file.iter_batches(batch_size=_BATCH):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
        # ValueError and OverflowError: values without a Python equivalent, such as broken UTF-8 or dates out of range
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            raise AnamnesisError(
                f"{path.name}, record {number + 1}: the Parquet file is damaged here ({_in_one_line(error)}); "
                "nothing was imported."
            ) from error

    def first(self, count: int = _FIRST) -> list[Record]:
        return [record for _, record in islice(self, count) if not isinstance(record, DamagedRow)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields: the header's, or those of the first records."""
        if self._columns is None:
            if self.kind in ("csv", "sheet"):
                (_, names), *_ = islice(self._cells(), _FIRST)  # a damaged beginning raises its own error
            elif self.kind == "parquet":
                names = _opened_parquet(self.path).schema_arrow.names
                twice = next((name for name in names if names.count(name) > 1), None)
                if twice is not None:
                    raise AnamnesisError(f"{self.path.name}: the column {clipped(twice)} occurs twice.")
            else:
                names = list(dict.fromkeys(str(name) for record in self.first() for name in record))
            self._columns = tuple(names)
        return self._columns

    @property
    def has_header(self) -> bool:
        return self.kind in ("csv", "sheet", "parquet")


def _kind(path: Path) -> FileKind:
    with path.open("rb") as file:
        beginning = file.read(4096)
        if beginning.startswith(b"PAR1"):
            return "parquet"
        if is_spreadsheet(path):
            return "sheet"
        if beginning.startswith(_PACKED):
            raise AnamnesisError(f"{path.name} is packed: unpack it, and import the file in it.")
        if beginning.startswith(_OLD_OFFICE):
            raise AnamnesisError(f"{path.name} is a file of an old Excel or Word: save it as .xlsx or as CSV first.")
        if beginning.startswith(_UTF16) and path.suffix.lower() != ".parquet":
            raise AnamnesisError(f"{path.name}, line 1: the file is UTF-16 or UTF-32 text; save it as UTF-8 first.")
        # UTF-16 without a byte order mark, or a binary file
        if beginning.count(b"\0") * 4 > len(beginning) or (b"\0" in beginning and b"\n" not in beginning):
            raise AnamnesisError(
                f"{path.name} is neither text (CSV, JSON, JSON Lines in UTF-8) nor Parquet; nothing was imported."
            )
        stripped = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not stripped:
            raise AnamnesisError(f"{path.name}, line 1: the file is empty.")
        suffix = path.suffix.lower()
        if stripped[:1] == b"[":
            return "json"
        if suffix in (".jsonl", ".ndjson"):
            return "jsonl"
        if stripped[:1] == b"{":
            file.seek(0)
            return "jsonl" if _one_object_a_line(file) else "json"
        if suffix == ".parquet":
            raise AnamnesisError(f"{path.name} is no Parquet file or is damaged; nothing was imported.")
        if suffix == ".json":
            raise AnamnesisError(f"{path.name}, line 1: this is not JSON; nothing was imported.")
        return "csv"


def _one_object_a_line(file: io.BufferedReader) -> bool:
    """Return whether the first line is a complete JSON object and another line follows."""
    read = iter(lambda: file.readline(MAX_LINE_BYTES), b"")
    lines = filter(None, (line.removeprefix(b"\xef\xbb\xbf").strip() for line in read))
    first, second = next(lines, b""), next(lines, b"")
    try:
        return bool(second) and isinstance(orjson.loads(first), dict)
    except orjson.JSONDecodeError:
        return False


def _record(value: Any) -> Record | DamagedRow:
    if isinstance(value, Mapping):
        return value
    return DamagedRow("this is no record with named fields")


def _within_limits(record: Record) -> Record | DamagedRow:
    for name, value in record.items():
        if excess := _excess(value):
            return DamagedRow(f"{clipped(str(name))} has {excess}")
    # NaN is an empty cell in Parquet
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in record.items()}


def _excess(value: Any, depth: int = 1) -> str:
    """Return what in a value exceeds the limits, in words; empty if nothing does."""
    if isinstance(value, str):
        return f"{len(value):,} characters, and {MAX_CHARACTERS:,} are the most" if len(value) > MAX_CHARACTERS else ""
    if not isinstance(value, list | dict | tuple):
        return ""
    if depth > MAX_DEPTH:
        return f"more than {MAX_DEPTH} lists or objects in each other"
    inner = value.values() if isinstance(value, dict) else value
    return next((words for item in inner if (words := _excess(item, depth + 1))), "")


def _lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """Yield a file's lines; raises ``AnamnesisError`` for one that is not UTF-8, or too long to be in memory."""
    for number in count(1):
        if not (line := file.readline(MAX_LINE_BYTES)):
            return
        if len(line) >= MAX_LINE_BYTES:
            raise AnamnesisError(f"{path.name}, line {number}: the line is longer than is read ({LIMITS}).")
        if isinstance(line, str) and _NOT_UTF8.search(line):
            raise AnamnesisError(f"{path.name}, line {number}: the file is not UTF-8 text; save it as UTF-8 first.")
        yield line


# Spreadsheets


def is_spreadsheet(path: Path) -> bool:
    """Return whether a file is an Excel workbook (.xlsx), by its contents."""
    try:
        with zipfile.ZipFile(path) as packed:
            return "xl/workbook.xml" in packed.namelist()
    # no archive, or damaged: unpacking it raises the error
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        return False


@contextmanager
def opened_workbook(file: Path | IO[bytes], name: str) -> Iterator[Any]:
    """Yield a workbook, whose formulas have the values of when it was last saved.

    Raises ``AnamnesisError`` if it is damaged, or too large to be unpacked; ``name`` is the workbook in the message.
    """
    import openpyxl  # type: ignore[import-untyped]  # slow to load

    try:
        with zipfile.ZipFile(file) as packed:
            sizes = {part.filename: part.file_size for part in packed.infolist()}
        texts = sum(size for part, size in sizes.items() if part.endswith("sharedStrings.xml"))
        if sum(sizes.values()) > MAX_IN_MEMORY_BYTES or texts > _MOST_WORDS_OF_A_BOOK:
            raise AnamnesisError(f"{name} unpacks to more than is read of a workbook: save it as CSV.")
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as book:
            yield book
    except _BROKEN_BOOK as error:
        raise AnamnesisError(
            f"{name} cannot be read as a spreadsheet ({_in_one_line(error)}): it is not an Excel file, or is damaged. "
            "Save it again, or as CSV."
        ) from error


_BROKEN_BOOK = (
    *(zipfile.BadZipFile, zlib.error, ParseError, EOFError, OSError, LookupError, ValueError, TypeError),
    *(AttributeError, NotImplementedError, RuntimeError),  # the last two: unknown compression, or a password
)


def _filled_rows(sheet: Any) -> Iterator[tuple[int, list[str]]]:
    sheet.reset_dimensions()  # the stated size of a sheet may be too small, and cells outside would be lost
    for number, row in enumerate(sheet.iter_rows(values_only=True, max_row=_MAX_SHEET_ROWS + 1), start=1):
        if number > _MAX_SHEET_ROWS:
            raise ValueError(f"it has a row after row {_MAX_SHEET_ROWS:,}")
        values = [_in_text(value) for value in row]
        if any(value.strip() for value in values):
            yield number, values


def _in_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


# JSON


def _parsed(body: bytes) -> Any:
    """Return the value of JSON; NaN and Infinity, which Python writes though JSON has none, are ``None``."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            if b"NaN" in body or b"Infinity" in body:
                return orjson.loads(orjson.dumps(json.loads(body.decode())))
        except (ValueError, TypeError, RecursionError):
            pass
        raise


def _json(path: Path) -> Any:
    if path.stat().st_size > MAX_IN_MEMORY_BYTES:
        raise AnamnesisError(f"{path.name} is more JSON than is read at once ({LIMITS}): save it as JSON Lines.")
    try:
        body = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        if body.count(b"[") + body.count(b"{") > _MOST_PARTS or body.count(b",") > _MOST_VALUES:
            raise AnamnesisError(
                f"{path.name} holds more lists and values than are read at once: save it as JSON Lines."
            )
        return _parsed(body)
    except orjson.JSONDecodeError as error:
        raise AnamnesisError(
            f"{path.name}, line {error.lineno}: this is not JSON or it ends early ({_why(error)}); "
            "nothing was imported."
        ) from error


def _jsonl_record(line: bytes) -> Record | DamagedRow:
    try:
        return _record(_parsed(line))
    except orjson.JSONDecodeError as error:
        return DamagedRow(f"this is not JSON ({_why(error)})")


def _why(error: orjson.JSONDecodeError) -> str:
    if "UTF-8" in error.msg:
        return "it is not UTF-8 text"
    return f"{error.msg}, at character {error.colno}"


def records_within(root: Any) -> list[Any] | None:
    """Return the records in the outermost value of a JSON file; ``None`` if the layout is unknown.

    Known layouts: an array, an object of columns (as pandas writes it), and an object with a single list of records.
    """
    if isinstance(root, list):
        return root
    if not isinstance(root, dict) or not root:
        return None
    values = list(root.values())
    if all(isinstance(v, list) for v in values) and len(values) > 1 and len({len(v) for v in values}) == 1:
        return [dict(zip(root, row, strict=True)) for row in zip(*values, strict=True)]
    if all(isinstance(v, dict) for v in values) and len({tuple(v) for v in values}) == 1:
        keys = list(values[0])
        # in the layout by columns the inner keys are row numbers
        if keys and all(str(key).isdecimal() for key in keys):
            return [{name: column[key] for name, column in root.items()} for key in keys]
    lists = [v for v in values if isinstance(v, list) and v and all(isinstance(item, dict) for item in v)]
    return lists[0] if len(lists) == 1 and len(root) <= 3 else None


_BATCH = 100
"""Records of a Parquet file in one batch."""


def _opened_parquet(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(path)
        _ = file.schema_arrow.names  # raises if a name is not text
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > MAX_BYTES:
            raise AnamnesisError(f"{path.name} unpacks to more than is read: {LIMITS}.")
        return file
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise AnamnesisError(
            f"{path.name} cannot be read as Parquet ({_in_one_line(error)}): it may be damaged or not whole; "
            "nothing was imported."
        ) from error


def _in_one_line(error: Exception) -> str:
    """Return a library's error message in one line; it may contain bytes of the file."""
    return clipped(" ".join(str(error).split()).rstrip("."), _MOST_WORDS)
