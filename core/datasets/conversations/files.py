"""Opens a file of conversations, whatever its encoding, and decides which reader reads it."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from core.datasets.conversations.chats import chat_lines, is_chat
from core.datasets.conversations.conversation import NAMES, Columns, Line, Loaded, in_text
from core.datasets.readers.files import DamagedRow, FileRows, Record, records_within
from core.datasets.reading import Remark
from core.errors import AnamnesisError

MAX_BYTES = 64_000_000
"""Limit of a file, because it is read into memory."""
_ENDS_OF_LINES = b"\t\n\x0b\x0c\r"


def load(path: Path) -> Loaded:
    """Read a file into memory: CSV, Excel or Parquet with a row for each message, or JSON with one for each chat.

    Raises ``AnamnesisError`` if the file is larger than ``MAX_BYTES`` or cannot be read.
    """
    with _in_utf_8(path) as (file, encoding):
        rows = FileRows(file)
        if rows.kind == "json":
            single = isinstance(rows.root, Mapping) and is_chat(rows.root)
            rows = rows.unpacked([rows.root] if single else records_within(rows.root) or [])
        damaged: list[Remark] = []
        records: list[tuple[int, Record]] = []
        for position, record in rows:
            if isinstance(record, DamagedRow):
                damaged.append((position, record.reason))
            else:
                records.append((position, record))
        if not records:
            why = f" ({rows.unit} {damaged[0][0]}: {damaged[0][1]})" if damaged else ""
            raise AnamnesisError(f"{path.name} has no message that can be read{why}.")
        nested = not rows.has_header and any(is_chat(record) for _, record in records)
        fields = rows.columns if rows.has_header else tuple(dict.fromkeys(str(key) for _, r in records for key in r))

    def lines(columns: Columns) -> Iterator[Line]:
        for position, record in records:
            yield from (chat_lines if nested else table_lines)(position, record, columns)

    return Loaded(path.name, rows.unit, fields, nested, lines, damaged, encoding)


def table_lines(position: int, record: Record, columns: Columns) -> Iterator[Line]:
    """Yield the message of a row."""
    inside = ("messages", "completion")
    values = {
        name: in_text(record.get(columns[name])) if name in columns else "" for name in NAMES if name not in inside
    }
    yield Line(position, **{name: text if name == "text" else text.strip() for name, text in values.items()})


@contextmanager
def _in_utf_8(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file, or a copy in UTF-8 with the name of the encoding that was read."""
    if not path.is_file() or (decoded := _decoded(path)) is None:
        yield path, ""  # no file, no text, or UTF-8 already
        return
    text, encoding = decoded
    with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
        copy = Path(folder) / path.name
        copy.write_text(text, encoding="utf-8", newline="")
        yield copy, encoding


def _decoded(path: Path) -> tuple[str, str] | None:
    if path.stat().st_size > MAX_BYTES:
        raise AnamnesisError(
            f"{path.name} has {path.stat().st_size / 1e6:,.0f} MB, and at most {MAX_BYTES // 1_000_000} MB are read at "
            "once: split it by conversations."
        )
    body = path.read_bytes()
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return body.decode("utf-16"), "UTF-16"
        except UnicodeDecodeError as error:
            raise AnamnesisError(f"{path.name} begins as UTF-16 and is damaged: save it as UTF-8.") from error
    try:
        body.decode()
        return None
    except UnicodeDecodeError:
        if any(byte < 32 and byte not in _ENDS_OF_LINES for byte in body[:4096]):
            return None  # binary: the reader of Excel, Parquet and text says what it is
    try:
        return body.decode("cp1252"), "Windows-1252"
    except UnicodeDecodeError:
        return body.decode("latin-1"), "Latin-1"
