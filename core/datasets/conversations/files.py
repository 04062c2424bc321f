"""Opens a file of conversations, whatever its encoding, and decides which reader reads it."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from core.datasets.conversations.chats import chat_lines, is_chat
from core.datasets.conversations.conversation import Columns, Line, Loaded, in_text
from core.datasets.readers.files import DamagedRow, FileRows, Record, records_within
from core.datasets.reading import Remark
from core.errors import AnamnesisError

MAX_BYTES = 64_000_000
"""Limit of a file, because it is read into memory."""
_ENDS_OF_LINES = b"\t\n\x0b\x0c\r"
_ENCODINGS = {"utf-8": "UTF-8", "cp1252": "Windows-1252", "latin-1": "Latin-1"}
"""Encoding of Python → its name for people; the last one reads every text."""


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
        names = rows.columns if rows.has_header else tuple(dict.fromkeys(str(key) for _, r in records for key in r))

    def lines(columns: Columns) -> Iterator[Line]:
        for position, record in records:
            if nested:
                yield from chat_lines(position, record, columns)
            else:
                cells = {name: in_text(record.get(column)) for name, column in columns.items()}
                yield Line(position, **{name: cell if name == "text" else cell.strip() for name, cell in cells.items()})

    return Loaded(path.name, encoding, rows.unit, names, nested, lines, damaged)


@contextmanager
def _in_utf_8(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file, or a copy of it in UTF-8, with the encodings of its lines in words."""
    if not path.is_file():
        yield path, ""  # the reader says so
        return
    if (size := path.stat().st_size) > MAX_BYTES:
        raise AnamnesisError(
            f"{path.name} has {size / 1e6:,.0f} MB, and at most {MAX_BYTES // 1_000_000} MB are read at once: split it "
            "by conversations."
        )
    with path.open("rb") as lines:
        beginning = lines.read(4096)
        lines.seek(0)
        is_wide = beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if not is_wide and any(byte < 32 and byte not in _ENDS_OF_LINES for byte in beginning):
            yield path, "UTF-8"  # Excel, Parquet, or binary: the reader says what it is
            return
        with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
            copy, used = Path(folder) / path.name, dict[str, None]()
            pieces: Iterable[bytes] = [lines.read()] if is_wide else lines
            with copy.open("w", encoding="utf-8", newline="") as file:
                for piece in pieces:
                    text, name = _decoded(piece, is_wide)
                    file.write(text)
                    used |= dict.fromkeys([] if piece.isascii() else [name])
            yield copy, " and ".join(used) or "UTF-8"


def _decoded(line: bytes, is_wide: bool) -> tuple[str, str]:
    """Return the text of a line, and its encoding in words; files that were put together can have several."""
    for encoding, name in {"utf-16": "UTF-16"}.items() if is_wide else _ENCODINGS.items():
        with suppress(UnicodeDecodeError):
            return line.decode(encoding), name
    raise AnamnesisError("The file begins as UTF-16 and is damaged: save it as UTF-8.")
