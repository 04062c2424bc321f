"""What a format of data sets is: how it is recognised, and how one of its records becomes the fields of a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.datasets.readers.files import Record, Rows
from core.datasets.reading import Reading

SEE_PAGE = "see the data set's own page"
"""Written where a licence is not certain."""

CaseFields = dict[str, Any]
"""Fields of ``core.case.Case`` and the record's own ``id``, or ``None`` where it has none."""


class RowError(Exception):
    """A record cannot be used; its message is the reason, to follow "line 3: "."""


class LeftOutError(Exception):
    """A sound record that the format leaves out by its nature; its message is the reason."""


@dataclass
class Work:
    """One reading under way: ``at`` is the position of the record in hand.

    ``columns`` is what the user said of the columns: our field → theirs.
    """

    rows: Rows
    columns: Mapping[str, str]
    reading: Reading
    at: int = 0

    def remark(self, sentence: str, *, whole_file: bool = False) -> None:
        """Note what was decided about the record in hand, or the whole file."""
        self.reading.remarks.append((0 if whole_file else self.at, sentence))


Start = Callable[[Work], Callable[[Record], CaseFields]]
"""Looks at the file as a whole where it must, and returns what turns a record into fields.

That raises ``RowError`` or ``LeftOutError`` for a record that becomes no case."""


@dataclass(frozen=True)
class Format:
    """A published format.

    ``reads`` says in a sentence which files are read and what becomes of them. A file is of this format when its first
    record has all of ``fields``, or of one of ``also``, and none of ``without``; the format that asks for the most
    wins. ``needs`` are the columns that a table must have. ``unpack`` finds the records of a JSON file whose outermost
    value is an object of this format's own layout, and returns ``None`` for any other. ``takes`` are the names that
    --columns may give. ``files`` are the names under which the data set itself was published.
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
        """Return how many fields of this format a record has where it has all of one layout, and 0 otherwise."""
        if self.without & record.keys():
            return 0
        return max((len(fields) for fields in (self.fields, *self.also) if fields <= record.keys()), default=0)


def each(convert: Callable[[Record], CaseFields]) -> Start:
    """Return the start of a format whose records stand each for itself."""
    return lambda work: convert
