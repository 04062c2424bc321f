"""The definition of a format of data sets: how it is recognised, and how its records become cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.datasets.readers.files import FileRows, Record
from core.datasets.reading import ReadCases

SEE_PAGE = "see the data set's own page"
"""The licence if it is not certain."""

CaseFields = dict[str, Any]
"""Fields of ``core.case.Case``, and the ``id`` of the record or ``None``."""


class RowError(Exception):
    """A record cannot be used; the message is the reason, as it follows "line 3: "."""


class LeftOutError(Exception):
    """A valid record that the format leaves out by design; the message is the reason."""


@dataclass
class Work:
    """The state of reading a file: ``at`` is the position of the current record.

    ``columns`` is field of a case → column of the file, as given by the user.
    """

    rows: FileRows
    columns: Mapping[str, str]
    reading: ReadCases
    at: int = 0

    def remark(self, sentence: str, *, whole_file: bool = False) -> None:
        """Add a remark about the current record, or about the complete file."""
        self.reading.remarks.append((0 if whole_file else self.at, sentence))


Start = Callable[[Work], Callable[[Record], CaseFields]]
"""Reads the complete file if necessary, and returns the function that converts a record to fields.

The function raises ``RowError`` or ``LeftOutError`` for a record that does not become a case."""


@dataclass(frozen=True)
class Format:
    """A published format.

    ``reads`` describes in a sentence which files are read, and how. A file has this format if its first record has all
    ``fields``, or all of one of ``also``, and none of ``without``; the format with most fields wins. ``needs`` are the
    columns that a table must have. ``source`` and ``licence`` are those of the published data set: other files have the
    same columns, so a case gets them only where the user says that its file is that set. ``unpack`` returns the records
    of a JSON object in the layout of this format, and ``None`` for other objects. ``takes`` are the names that
    --columns accepts. ``files`` are the file names of the published data set.
    """

    name: str
    title: str
    reads: str
    source: str
    licence: str
    fields: frozenset[str]
    start: Start
    needs: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    unpack: Callable[[Mapping[str, Any]], list[Any] | None] | None = None
    takes: frozenset[str] = field(default=frozenset())
    also: tuple[frozenset[str], ...] = ()
    files: frozenset[str] = frozenset()

    def fitting(self, record: Record) -> int:
        """Return the number of fields of the largest layout that the record has completely, else 0."""
        if self.without & record.keys():
            return 0
        return max((len(fields) for fields in (self.fields, *self.also) if fields <= record.keys()), default=0)


def each(convert: Callable[[Record], CaseFields]) -> Start:
    """Return the start of a format that converts each record independently of the file."""
    return lambda work: convert
