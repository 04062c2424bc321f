"""Moves an older database to the present schema: everything goes into a new file, which then replaces the old one.

The old file is only read. Rows of people that no journal has are journaled, all journals are folded into the new file,
and rows that no journal has are copied: releases, scores, and whatever a deleted or damaged journal had. The new file
replaces the old one when it has every row of it; the old one stays next to it with its version in its name. Whatever
fails before leaves the old file as it was, and a later opening begins again.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import duckdb

from core.errors import AnamnesisError
from core.journal import DeletedLine, RunDeletedLine, read_lines
from core.store import schema, tallies
from core.store.former import FORMER, RENAMED, RENAMED_IN
from core.store.inserts import POSITIONS, UNSTORABLE, Inserted, grown_since, insert_journals
from core.store.lease import NAME, RENEWED, close_engines, sql_literal, transaction
from core.store.queries.cases import hash_cases
from core.store.stored_table import Row, Table
from core.store.tables import OF_TRIALS, TABLES, insert, records
from core.store.written import StoredLines, insert_lines, is_by_rule, journal_rows

log = logging.getLogger(__name__)
_NEW = "renewed"
_MADE_ANEW = ("migrations", "journal_positions")


def renew(connection: duckdb.DuckDBPyConnection, path: Path, journals: Path, older: tuple[int, str]) -> None:
    """Replace the file at ``path``, which the connection has attached to read, by one with the present schema.

    ``older`` is its schema (``core.store.schema.older``). The caller lets nobody else write to the file meanwhile.
    Raises ``AnamnesisError`` if the new file would not have all rows.
    """
    number, program = older
    draft = path.with_name(f"{path.name}{RENEWED}")
    _remove(draft)
    try:
        stored = journal_rows(connection, path)
        paths = sorted(journal.resolve() for journal in journals.glob("*/journal.jsonl"))
        with _attached(connection, draft):
            with transaction(connection):
                schema.create(connection)
                old = _Old(connection, number, _columns(connection))
                old.copy(TABLES["cases"])  # with the times at which they were added
                hash_cases(connection)
            done = Inserted()
            insert_journals(lambda: _lent(connection), lambda: _new_lines(connection, paths), done)
            with transaction(connection):
                _name_deleted(connection, paths)
                old.copy_all(stored)
                tallies.recount(connection)
                tallies.recount_served(connection)
        with _attached(connection, draft, "(READ_ONLY)"):
            if missing := old.missing():
                raise AnamnesisError(
                    f"The database {path} of version {program} cannot be brought up to date, and is unchanged: the new "
                    f"file would lack {', '.join(f'{count:,} rows of {name}' for name, count in missing.items())}."
                )
        kept = _put_in_place(draft, path, program)
    except UNSTORABLE as error:
        reason = str(error).splitlines()[0]
        raise AnamnesisError(
            f"The database {path} of version {program} cannot be brought up to date ({reason}), and is unchanged: open "
            "it with that version."
        ) from error
    finally:
        _remove(draft)
    for problem in done.damaged.values():
        log.warning("%s Its rows are copied from the database.", problem.message)
    log.warning("Brought the database %s up to date. The file of version %s is %s.", path, program, kept.name)


@contextmanager
def _attached(connection: duckdb.DuckDBPyConnection, draft: Path, mode: str = "") -> Iterator[None]:
    """Attach the new file, to which names without a prefix refer then; the old one is read as ``NAME``."""
    connection.execute(f"ATTACH {sql_literal(draft)} AS {_NEW} {mode}")
    connection.execute(f"USE {_NEW}")
    try:
        yield
    finally:
        try:
            connection.execute(f"USE {NAME}")
            connection.execute(f"DETACH {_NEW}")
        except duckdb.Error:  # the disk is full
            close_engines()
            raise


@contextmanager
def _lent(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    with transaction(connection):
        yield connection


def _new_lines(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    positions = dict(connection.execute(POSITIONS).fetchall())
    return grown_since(positions, {path: path.stat().st_size for path in paths if path.exists()})


def _name_deleted(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> None:
    """Create ``gone``: the trials and runs that journals delete, so that they are not copied from the old file."""
    gone: dict[str, set[str]] = {"trial": set(), "run": set()}
    for path in paths:
        with suppress(AnamnesisError, OSError):  # a damaged journal is reported already
            for _, line in read_lines(path, about=('"type":"deleted"', '"type":"run_deleted"')):
                if isinstance(line, DeletedLine):
                    gone["trial"].add(line.trial_id)
                elif isinstance(line, RunDeletedLine):
                    gone["run"].add(line.run_id)
    for subject, ids in gone.items():
        connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE gone_{subject}s AS
                SELECT {subject}_id FROM (SELECT unnest(?::VARCHAR[]) AS {subject}_id)
                ANTI JOIN {subject}s USING ({subject}_id)""",
            [sorted(ids)],
        )
    connection.execute(
        f"INSERT INTO gone_trials SELECT trial_id FROM {NAME}.trials SEMI JOIN gone_runs USING (run_id) "
        "ANTI JOIN trials USING (trial_id)"
    )


@dataclass(frozen=True)
class _Old:
    """The old file: the number of its schema, and its tables with their columns."""

    connection: duckdb.DuckDBPyConnection
    number: int
    columns: Mapping[str, Collection[str]]

    @property
    def tables(self) -> list[Table]:
        """The present tables whose rows the old file may have and the journals not."""
        tables = (TABLES[name] for name in TABLES if name in self.columns and name not in _MADE_ANEW)
        return [table for table in tables if not table.counted]

    def copy_all(self, stored: StoredLines) -> None:
        """Copy what the new file lacks after the fold of the journals; ``stored`` are the rows of people."""
        for table in (table for table in self.tables if table.people is None):
            self.copy(table)
        insert_lines(self.connection, stored.lines)
        for table in (table for table in self.tables if table.people):  # such as rows by rules, which have no lines
            self.copy(table)
        for name in FORMER.keys() & self.columns.keys():
            rows: dict[str, list[Row]] = {}
            for values in records(self.connection.execute(f"FROM {NAME}.{name} ORDER BY rowid")):
                if FORMER[name].people is None or is_by_rule(name, values):  # other rows of people are lines
                    for row in FORMER[name].rows(values):
                        rows.setdefault(row.stored_in.name, []).append(row)
            for of_table in rows.values():
                insert(self.connection, of_table)
        # a line of a job may be folded after the deletion of the trial that it is about
        for name in OF_TRIALS:
            if name != "calls":
                self.connection.execute(f"DELETE FROM {name} WHERE trial_id IN (FROM gone_trials)")

    def copy(self, table: Table) -> None:
        """Copy the rows that the new file lacks, in their order."""
        of_both = (*table.columns, *["line_id"] * (table.people is not None))
        chosen = ", ".join(f"old.{name}" for name in of_both if name in self.columns[table.name])
        self.connection.execute(
            f"INSERT INTO {table.name} BY NAME SELECT {chosen} FROM {self._lacking(table)} ORDER BY place"
        )

    def missing(self) -> dict[str, int]:
        """Return table → number of rows that the new file lacks."""
        counts = {
            table.name: self.connection.execute(f"SELECT count(*) FROM {self._lacking(table)}").fetchall()[0][0]
            for table in self.tables
        }
        return {name: number for name, number in counts.items() if number}

    def _lacking(self, table: Table) -> str:
        """Return SQL of the rows that the new file lacks, apart from those that journals delete."""
        renamed = RENAMED.get(table.name, {}) if self.number < RENAMED_IN else {}
        replaced = f"REPLACE ({', '.join(f'{sql} AS {name}' for name, sql in renamed.items())})" if renamed else ""
        same = " AND ".join(f"new.{name} IS NOT DISTINCT FROM old.{name}" for name in table.key)
        joins = [f"ANTI JOIN {_NEW}.{table.name} AS new ON {same}"]
        if table.name == "trials" or (table.of == "trial" and table.name != "calls"):
            joins.append("ANTI JOIN gone_trials ON gone_trials.trial_id = old.trial_id")
        if table.name == "runs" or table.of == "run":
            joins.append("ANTI JOIN gone_runs ON gone_runs.run_id = old.run_id")
        if table.people and "line_id" in self.columns[table.name]:
            joins.append(f"ANTI JOIN {_NEW}.withdrawn ON withdrawn.line_id = old.line_id")
        return f"(SELECT * {replaced}, rowid AS place FROM {NAME}.{table.name}) AS old {' '.join(joins)}"


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """Return the tables of the old file with their columns."""
    sql = "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE database_name = ? GROUP BY table_name"
    return dict(connection.execute(sql, [NAME]).fetchall())


def _put_in_place(draft: Path, path: Path, program: str) -> Path:
    """Replace the old file, which stays under a name with its version; return that name."""
    names = (f"{path.stem}.{program}{f'.{number}' * (number > 1)}{path.suffix}" for number in count(1))
    kept = next(place for place in map(path.with_name, names) if not place.exists())
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        shutil.copy2(path, kept)
    os.replace(draft, path)
    return kept


def _remove(draft: Path) -> None:
    for path in (draft, draft.with_name(f"{draft.name}.wal")):
        path.unlink(missing_ok=True)
