"""What a declaration of a stored table says, and the SQL and Arrow schema that follow from it.

A table is a dataclass in ``core.store.tables``: its fields are the columns, its instances are rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

Json = Annotated[str, "JSON"]
Integer = Annotated[int, "INTEGER"]
"""An integer of 32 bits; ``int`` has 64."""
Subject = Literal["run", "trial", "case"]
"""What a row is deleted, hidden and exported with."""

_COLUMNS: dict[Any, tuple[str, pa.DataType]] = {
    str: ("VARCHAR", pa.string()),
    Json: ("JSON", pa.string()),
    int: ("BIGINT", pa.int64()),
    Integer: ("INTEGER", pa.int64()),
    float: ("DOUBLE", pa.float64()),
    bool: ("BOOLEAN", pa.bool_()),
    bytes: ("BLOB", pa.binary()),
    Sequence[str]: ("VARCHAR[]", pa.list_(pa.string())),
    Sequence[float | None]: ("DOUBLE[]", pa.list_(pa.float64())),
}
"""Python type of a field → type of its column in SQL and in Arrow."""


@dataclass(frozen=True)
class People:
    """How people write rows of a table: as journal lines of ``kind`` (``core.store.written``).

    ``at`` and ``by`` are the columns with the time and the author of a row; without ``by`` the author is the visitor.
    ``where`` is the SQL condition of people's rows in a table that also has
    rows of jobs, which stay without a line.
    """

    kind: str
    at: str
    by: str = ""
    where: str = ""


@dataclass(frozen=True)
class Table:
    """A declared table.

    Attributes:
        name: In SQL.
        row: The dataclass of its rows.
        of: What its rows hang on, if anything.
        key: The columns by which a row that is stored already is recognised. Without ``unique`` different rows of one
            insert may share it.
        primary: Whether the key is a primary key.
        unique: Whether no two rows have the same key.
        job: Whether jobs write its rows as journal lines.
        people: How people write its rows, if they do.
        child: Whether its rows come with the events of a trial; they are stored only if the trial is new.
        counted: Whether its rows are counts of other tables (``core.store.tallies``).
        exported: Whether bundles of runs have the rows of jobs.
        texts: The columns with words of a conversation or of a model.
        item: The column that names an item of a review (``core.store.review_records``).
    """

    name: str
    row: type[Row]
    of: Subject | None = None
    key: tuple[str, ...] = ()
    primary: bool = False
    unique: bool = False
    job: bool = False
    people: People | None = None
    child: bool = False
    counted: bool = False
    exported: bool = True
    texts: tuple[str, ...] = ()
    item: str = ""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the declaration; the rows of people have also ``line_id``, the id of their journal line."""
        return tuple(name for name, _, _ in self._described)

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, arrow) for name, _, arrow in self._described])

    def read(self, values: Mapping[str, Any]) -> Row:
        """Return the row with these values; names that are no columns are ignored.

        Raises ``TypeError`` if a value is missing.
        """
        return self.row(**{name: values[name] for name in self.columns if name in values})

    @property
    def create(self) -> str:
        columns = [f"{name} {sql}" for name, sql, _ in self._described]
        columns += ["line_id VARCHAR"] if self.people else []
        columns += [f"PRIMARY KEY ({', '.join(self.key)})"] if self.primary else []
        return f"CREATE TABLE {self.name} ({', '.join(columns)})"

    @property
    def adding(self) -> str:
        """The INSERT of the rows of ``incoming`` that are not stored yet; without a key, of all rows."""
        if self.child:
            return f"INSERT INTO {self.name} BY NAME SELECT * FROM incoming ANTI JOIN trials USING (trial_id)"
        if not self.key:
            return f"INSERT INTO {self.name} BY NAME SELECT * FROM incoming"
        key = ", ".join(self.key)
        distinct = f"DISTINCT ON ({key})" if self.primary or self.unique else "DISTINCT"
        return f"INSERT INTO {self.name} BY NAME SELECT {distinct} * FROM incoming ANTI JOIN {self.name} USING ({key})"

    @cached_property
    def _described(self) -> list[tuple[str, str, pa.DataType]]:
        """(name, type and constraints in SQL, type in Arrow) of each column."""
        hints = get_type_hints(self.row, include_extras=True)
        described = []
        for column in fields(self.row):
            hint, optional = hints[column.name], False
            if get_origin(hint) in (Union, UnionType):
                (hint,) = (part for part in get_args(hint) if part is not type(None))
                optional = True
            sql, arrow = _COLUMNS[hint]
            described.append((column.name, f"{sql}{_constraint(column, optional)}", arrow))
        return described


def _constraint(column: Field[Any], optional: bool) -> str:
    needed = "" if optional else " NOT NULL"
    if column.default is MISSING or column.default is None:
        return needed
    return f"{needed} DEFAULT {repr(column.default) if isinstance(column.default, str) else column.default}"


@dataclass
class Row:
    """A row of a table. A subclass is a dataclass whose class arguments are the facts about its ``Table``.

    Rows are never changed. They are not frozen because that would make a large insert twice as slow.
    """

    stored_in: ClassVar[Table]

    def __init_subclass__(cls, *, table: str, key: str = "", texts: str = "", **facts: Any) -> None:
        """Declare the table; ``key`` and ``texts`` are names of columns, separated by spaces."""
        cls.stored_in = Table(table, cls, key=tuple(key.split()), texts=tuple(texts.split()), **facts)
