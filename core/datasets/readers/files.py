"""Opens CSV, Excel, JSON, JSON Lines and Parquet alike: records by name, each with the place it stands at.

The kind is told from the contents, not from the file's name. A text file's positions are lines (CSV: the line on which
a record begins), those of a spreadsheet its rows; those of a JSON array and of Parquet are records counted from 1.
"""

from __future__ import annotations

import csv
import datetime
import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, AnyStr, Literal, cast
from xml.etree.ElementTree import ParseError

import orjson

from core.callbacks import Progress, Stop
from core.datasets.reading import Unit, clipped
from core.errors import AnamnesisError, UsageError

Record = Mapping[str, Any]
Kind = Literal["csv", "sheet", "json", "jsonl", "parquet"]
MOST_BYTES, MOST_ROWS, MOST_COLUMNS, MOST_CHARACTERS, MOST_DEPTH = 500_000_000, 200_000, 1_000, 1_000_000, 50
"""How large a list of cases may be, unpacked; at last characters in a cell, and lists or objects in each other."""
MOST_LINE_BYTES = 10_000_000
"""Of one line, which is read as a whole."""
MOST_AT_ONCE_BYTES = 100_000_000
"""Of what can only be read as a whole: JSON that is no JSON Lines, and a workbook, unpacked."""
_MOST_WORDS_OF_A_BOOK = 40_000_000
"""Bytes of a workbook's table of texts, which takes nine times as much memory."""
_MOST_PARTS, _MOST_VALUES = 1_500_000, 4_000_000
"""Lists and objects in a JSON file, and commas: `[[],[],…]` takes twenty times its size."""
LIMITS = (
    f"at most {MOST_BYTES // 1_000_000} MB unpacked, {MOST_ROWS:,} rows, {MOST_COLUMNS:,} columns, {MOST_CHARACTERS:,} "
    f"characters in a cell, {MOST_LINE_BYTES // 1_000_000} MB in a line, {MOST_DEPTH} levels of JSON, and "
    f"{MOST_AT_ONCE_BYTES // 1_000_000} MB of a workbook or of JSON that is no JSON Lines"
)
_TELLS_EVERY = 500
"""Rows between two words on how far a file is read."""
_HEADER_LIMIT = 1_000_000
_MOST_WORDS = 300
_SEPARATORS = ",;\t"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"(\xb5/\xfd")
"""How zip, gzip, bzip2, xz, 7z and zstd files begin."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_UNITS: Mapping[Kind, Unit] = {"csv": "line", "jsonl": "line", "sheet": "row", "json": "record", "parquet": "record"}


@dataclass(frozen=True)
class Damaged:
    """A row that is no record, and why."""

    reason: str


class Rows:
    """The records of a file, which may be read more than once.

    ``root`` is a JSON file's outermost value where that is an object; whoever knows its layout replaces it by
    ``unpacked``. ``told`` is given how far a pass over the file is, in megabytes, and ``asked_to_stop``
    ends it. Raises ``UsageError`` where there is no file, ``AnamnesisError`` where it cannot be read
    as a whole, is larger than ``LIMITS``, or was stopped.
    """

    def __init__(
        self, path: Path, told: Progress = lambda done, planned: None, asked_to_stop: Stop = lambda: False
    ) -> None:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file in it.")
        if not path.is_file():
            raise UsageError(f"There is no file {path}.")
        if path.stat().st_size > MOST_BYTES:
            raise AnamnesisError(
                f"{path.name} has {path.stat().st_size / 1e6:,.0f} MB: a list of cases has {LIMITS}. Split it."
            )
        self.path, self._told, self._asked_to_stop = path, told, asked_to_stop
        self._share: Callable[[], float] = lambda: 0.0
        """Says how much of the file a pass has had."""
        self.kind: Kind = _kind(path)
        self.unit: Unit = _UNITS[self.kind]
        self.root: Any = _json(path) if self.kind == "json" else None
        self._columns: tuple[str, ...] | None = None

    def unpacked(self, records: list[Any]) -> Rows:
        """Return the same file with these records instead of its root."""
        other = copy(self)
        other.root, other._columns = records, None
        return other

    def __iter__(self) -> Iterator[tuple[int, Record | Damaged]]:
        """Yield (position, record or what is wrong with it)."""
        for rows_before, row in enumerate(self._rows()):
            if rows_before >= MOST_ROWS:
                raise AnamnesisError(f"{self.path.name} has more rows than are read: {LIMITS}. Split it.")
            if rows_before % _TELLS_EVERY == 0:
                size = max(1, self.path.stat().st_size // 1_000_000)
                self._told(int(self._share() * size), size)
                if self._asked_to_stop():
                    raise AnamnesisError(
                        f"{self.path.name} was not read to its end, as you asked: nothing was imported."
                    )
            number, record = row
            yield number, record if isinstance(record, Damaged) else _within_limits(record)

    def _rows(self) -> Iterator[tuple[int, Record | Damaged]]:
        match self.kind:
            case "csv":
                return self._csv_rows()
            case "sheet":
                return _sheet_rows(self.path)
            case "jsonl":
                return self._jsonl_rows()
            case "parquet":
                return self._parquet_rows()
            case _:
                return ((number, _record(one)) for number, one in enumerate(self.root, start=1))

    def _csv_rows(self) -> Iterator[tuple[int, Record | Damaged]]:
        path, size = self.path, self.path.stat().st_size
        with _csv_reader(path) as (reader, at):
            self._share = lambda: at() / size
            header = _csv_header(reader, path)
            line = reader.line_num + 1
            try:
                for values in reader:
                    start, line = line, reader.line_num + 1
                    if any(value.strip() for value in values):
                        yield start, _csv_record(values, header)
            except csv.Error as error:
                raise AnamnesisError(
                    f"{path.name}, line {line}: the row that begins here cannot be read ({error}); nothing was "
                    "imported."
                ) from error

    def _jsonl_rows(self) -> Iterator[tuple[int, Record | Damaged]]:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            self._share = lambda: file.tell() / size
            for number, line in enumerate(_lines(file, self.path), start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, _jsonl_record(line)

    def _parquet_rows(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        import pyarrow  # imported late: it takes a moment, and most files are text

        path, file, number = self.path, _opened_parquet(self.path), 0
        if file.metadata.num_rows > MOST_ROWS:
            raise AnamnesisError(f"{path.name} has more rows than are read: {LIMITS}. Split it.")
        self._share = lambda: number / max(number, file.metadata.num_rows)
        try:
            for batch in file.iter_batches(batch_size=_BATCH):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
        # a value that Python has none for, such as broken UTF-8 or a date beyond its years, is one of the last two
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            raise AnamnesisError(
                f"{path.name}, record {number + 1}: the Parquet file is damaged here ({_in_one_line(error)}); "
                "nothing was imported."
            ) from error

    def first(self, count: int = 20) -> list[Record]:
        """Return the first sound records."""
        return [record for _, record in islice(self, count) if not isinstance(record, Damaged)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields: the header's, or those of the first records."""
        if self._columns is None:
            if self.kind == "csv":
                with _csv_reader(self.path) as (reader, _):
                    self._columns = tuple(_csv_header(reader, self.path))
            elif self.kind == "sheet":
                self._columns = tuple(next(_sheet_values(self.path))[1])
            elif self.kind == "parquet":
                # the names of the columns; raise ``AnamnesisError`` where one stands there twice
                names = tuple(_opened_parquet(self.path).schema_arrow.names)
                twice = next((name for name in names if names.count(name) > 1), None)
                if twice is not None:
                    raise AnamnesisError(f"{self.path.name}: the column {clipped(twice)} stands there twice.")
                self._columns = tuple(names)
            else:
                self._columns = tuple(dict.fromkeys(str(name) for record in self.first() for name in record))
        return self._columns

    @property
    def has_header(self) -> bool:
        """Whether every record has the same fields, so that a missing one is missing everywhere."""
        return self.kind in ("csv", "sheet", "parquet")


def _kind(path: Path) -> Kind:
    with path.open("rb") as file:
        begins = file.read(4096)
        if begins.startswith(b"PAR1"):
            return "parquet"
        # raise where a file is packed, UTF-16 or binary
        if is_spreadsheet(path):
            return "sheet"
        if begins.startswith(_PACKED):
            raise AnamnesisError(f"{path.name} is packed: unpack it, and import what is in it.")
        if begins.startswith(_OLD_OFFICE):
            raise AnamnesisError(f"{path.name} is a file of an old Excel or Word: save it as .xlsx or as CSV first.")
        if begins.startswith(_UTF16) and path.suffix.lower() != ".parquet":
            raise AnamnesisError(f"{path.name}, line 1: the file is UTF-16 or UTF-32 text; save it as UTF-8 first.")
        # text of another width, or no text at all
        if begins.count(b"\0") * 4 > len(begins) or (b"\0" in begins and b"\n" not in begins):
            raise AnamnesisError(
                f"{path.name} is neither text (CSV, JSON, JSON Lines in UTF-8) nor Parquet; nothing was imported."
            )
        stripped = begins.removeprefix(b"\xef\xbb\xbf").lstrip()
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
    """Say whether the first line is a whole JSON object and another one follows."""
    lines = (line.removeprefix(b"\xef\xbb\xbf").strip() for line in file)
    first, second = (next((line for line in lines if line), b"") for _ in range(2))
    try:
        return bool(second) and isinstance(orjson.loads(first), dict)
    except orjson.JSONDecodeError:
        return False


def _record(value: Any) -> Record | Damaged:
    if isinstance(value, Mapping):
        return value
    return Damaged("this is no record with named fields")


def _within_limits(record: Record) -> Record | Damaged:
    for name, value in record.items():
        if (isinstance(value, str) and len(value) > MOST_CHARACTERS) or isinstance(value, list | dict | tuple):
            beyond = _beyond(value)
            if beyond:
                return Damaged(f"{clipped(str(name))} has {beyond}")
    return record


def _beyond(value: Any, depth: int = 1) -> str:
    """Say what of a value is more than may be; empty where nothing is."""
    if isinstance(value, str):
        return (
            f"{len(value):,} characters, and {MOST_CHARACTERS:,} are the most" if len(value) > MOST_CHARACTERS else ""
        )
    if not isinstance(value, list | dict | tuple):
        return ""
    if depth > MOST_DEPTH:
        return f"more than {MOST_DEPTH} lists or objects in each other"
    inner = value.values() if isinstance(value, dict) else value
    return next((words for one in inner if (words := _beyond(one, depth + 1))), "")


def _lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """Yield a file's lines; raise ``AnamnesisError`` for one that is too long, before all of it is in memory."""
    for number in count(1):
        if not (line := file.readline(MOST_LINE_BYTES)):
            return
        if len(line) >= MOST_LINE_BYTES:
            raise AnamnesisError(f"{path.name}, line {number}: the line is longer than is read ({LIMITS}).")
        yield line


# CSV


@contextmanager
def _csv_reader(path: Path) -> Iterator[tuple[csv._reader, Callable[[], int]]]:  # type: ignore[name-defined]
    """Read a UTF-8 file as it comes, with the separator of its header; a line that is no UTF-8 is named.

    Yields the reader, and what tells how many bytes of the file it has had.
    """
    csv.field_size_limit(MOST_CHARACTERS)  # more is mostly a quote that was never closed
    try:
        with path.open(encoding="utf-8-sig", newline="") as text:
            header = next((line for line in iter(lambda: text.readline(_HEADER_LIMIT), "") if line.strip()), "")
            if header.count(",") >= MOST_COLUMNS:
                raise AnamnesisError(f"{path.name} has more columns than are read: {LIMITS}.")
            text.seek(0)
            separator = "," if "," in header else max(_SEPARATORS, key=header.count)
            lines = _lines(text, path)
            yield csv.reader(lines, strict=True, delimiter=separator), cast(io.BufferedReader, text.buffer).tell
    except UnicodeDecodeError:
        decoded(path)  # says which line it is
        raise


def decoded(path: Path) -> str:
    """Return the text of a UTF-8 file; raise ``AnamnesisError`` with the line that is none."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise AnamnesisError(
            f"{path.name}, line {line}: the file is not UTF-8 text; save it as UTF-8 first."
        ) from error


def _csv_header(reader: csv._reader, path: Path) -> list[str]:  # type: ignore[name-defined]
    """Return the names of the columns: the first line that is not blank."""
    try:
        found: list[str] = next((values for values in reader if any(value.strip() for value in values)), [])
    except csv.Error as error:
        raise AnamnesisError(f"{path.name}, line 1: the header cannot be read ({error}).") from error
    return _header(found, f"{path.name}, line {reader.line_num}")


def _header(values: Sequence[str], where: str) -> list[str]:
    header = [name.strip() for name in values]
    twice = next((name for name, count in Counter(header).items() if name and count > 1), None)
    if twice is not None:
        raise AnamnesisError(f"{where}: the column {clipped(twice)} stands there twice.")
    return header


def _csv_record(values: list[str], header: list[str]) -> Record | Damaged:
    # spreadsheets write empty fields at the end of rows; MedBullets' files have them
    while len(values) > len(header) and not values[-1].strip():
        values.pop()
    if len(values) != len(header):
        return Damaged(f"{len(values)} fields instead of {len(header)}")
    return dict(zip(header, values, strict=True))


# Spreadsheets


def is_spreadsheet(path: Path) -> bool:
    """Say whether a file is a workbook of Excel's (.xlsx), by what it packs."""
    try:
        with zipfile.ZipFile(path) as packed:
            return "xl/workbook.xml" in packed.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):  # none, or damaged: unpacking it says so
        return False


def _sheet_rows(path: Path) -> Iterator[tuple[int, Record | Damaged]]:
    rows = _sheet_values(path)
    header = next(rows)[1]
    return ((number, _csv_record(values, header)) for number, values in rows)


def _sheet_values(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (row, cells as text), blank rows left out, the header first, of the one sheet that holds anything.

    A formula stands for what it came to when the workbook was last saved. Raises ``AnamnesisError`` where none or
    several sheets hold something, or the workbook is damaged or unpacks to more than may be read.
    """
    import openpyxl  # type: ignore[import-untyped]  # slow to load

    try:
        check_workbook_size(path, path.name)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            filled = [sheet for sheet in book.worksheets if any(True for _ in _filled(sheet))]
            if len(filled) != 1:
                names = ", ".join(clipped(sheet.title) for sheet in filled)
                raise AnamnesisError(
                    f"{path.name} has {len(filled)} sheets that hold something ({names}): keep the one with the cases."
                    if filled
                    else f"{path.name} has no sheet with anything in it."
                )
            rows = _filled(filled[0])
            number, values = next(rows)
            width = max(column for column, value in enumerate(values, start=1) if value)
            if width > MOST_COLUMNS:
                raise AnamnesisError(f"{path.name} has more columns than are read: {LIMITS}.")
            header = _header(values[:width], f"{path.name}, row {number}")
            yield number, header
            for number, values in rows:
                yield number, values[:width] + [value for value in values[width:] if value]
        finally:
            book.close()
    except BROKEN_BOOK as error:
        raise AnamnesisError(
            f"{path.name} cannot be read as a spreadsheet ({_in_one_line(error)}): it may be damaged. Save it anew, or "
            "as CSV."
        ) from error


def check_workbook_size(book: Path | IO[bytes], name: str) -> None:
    """Raise ``AnamnesisError`` if a workbook unpacks to more than may be read, before any of it is unpacked."""
    with zipfile.ZipFile(book) as packed:
        parts = packed.infolist()
    texts = sum(part.file_size for part in parts if part.filename.endswith("sharedStrings.xml"))
    if sum(part.file_size for part in parts) > MOST_AT_ONCE_BYTES or texts > _MOST_WORDS_OF_A_BOOK:
        raise AnamnesisError(f"{name} unpacks to more than is read of a workbook: save it as CSV.")


BROKEN_BOOK = (
    *(
        zipfile.BadZipFile,
        zlib.error,
        ParseError,
        EOFError,
        OSError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
    ),
    *(NotImplementedError, RuntimeError),  # packed in ways that are not known, or with a password
)


def _filled(sheet: Any) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
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


def _json(path: Path) -> Any:
    if path.stat().st_size > MOST_AT_ONCE_BYTES:
        raise AnamnesisError(f"{path.name} is more JSON than is read at once ({LIMITS}): save it as JSON Lines.")
    try:
        body = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        if body.count(b"[") + body.count(b"{") > _MOST_PARTS or body.count(b",") > _MOST_VALUES:
            raise AnamnesisError(
                f"{path.name} holds more lists and values than are read at once: save it as JSON Lines."
            )
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise AnamnesisError(
            f"{path.name}, line {error.lineno}: this is not JSON or it ends early ({_why(error)}); "
            "nothing was imported."
        ) from error


def _jsonl_record(line: bytes) -> Record | Damaged:
    try:
        return _record(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        return Damaged(f"this is not JSON ({_why(error)})")


def _why(error: orjson.JSONDecodeError) -> str:
    if "UTF-8" in error.msg:
        return "it is not UTF-8 text"
    return f"{error.msg}, at character {error.colno}"


def records_within(root: Any) -> list[Any] | None:
    """Return the records of a JSON file's outermost value; ``None`` where its layout is not known.

    Known are an array, an object of columns (as pandas writes it), and an object whose only list holds the records.
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
        # of two ways to nest records, columns are those whose inner keys are only numbers
        if keys and all(str(key).isdecimal() for key in keys):
            return [{name: column[key] for name, column in root.items()} for key in keys]
    lists = [v for v in values if isinstance(v, list) and v and all(isinstance(one, dict) for one in v)]
    return lists[0] if len(lists) == 1 and len(root) <= 3 else None


_BATCH = 100
"""Records of a Parquet file that are read at once."""


def _opened_parquet(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(path)
        _ = file.schema_arrow.names  # which may be no text
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > MOST_BYTES:
            raise AnamnesisError(f"{path.name} unpacks to more than is read: {LIMITS}.")
        return file
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise AnamnesisError(
            f"{path.name} cannot be read as Parquet ({_in_one_line(error)}): it may be damaged or not whole; "
            "nothing was imported."
        ) from error


def _in_one_line(error: Exception) -> str:
    """Return what a library says of a fault, without its line breaks: bytes of the file may stand in it."""
    return clipped(" ".join(str(error).split()).rstrip("."), _MOST_WORDS)
