"""Databases and journals as earlier versions left them (databases/README.md).

That of 0.4 is one run with one of its two cases played, graded and named; those of 0.5 are golden stores with every
kind of journal line.
"""

from __future__ import annotations

import functools
import shutil
import tarfile
import tempfile
from pathlib import Path

import duckdb

from core.paths import journals_of
from core.store.database import Store
from core.store.lease import gate_of

DATABASES = Path(__file__).with_name("databases")


def make_database_of_0_4(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_database_of_0_4())


@functools.cache
def _database_of_0_4() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "anamnesis.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute((DATABASES / "version_0_4.sql").read_text(encoding="utf-8"))
        return path.read_bytes()


def copy_journals_of_0_4(path: Path) -> None:
    shutil.copytree(DATABASES / "version_0_4.journals", journals_of(path))


def unpack_golden(name: str, folder: Path) -> Path:
    """Unpack a golden store into a folder, and return its database; its journals are folded up to their ends."""
    shutil.copytree(_unpacked(name).name, folder, dirs_exist_ok=True)
    database = folder / "anamnesis.duckdb"
    with duckdb.connect(str(database)) as connection:  # the packed paths are relative to the folder of the journals
        connection.execute(
            "UPDATE journal_positions SET path = replace(path, 'JOURNALS', ?)", [str(journals_of(database).resolve())]
        )
    return database


@functools.cache
def _unpacked(name: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    with tarfile.open(DATABASES / f"{name}.tar.xz") as packed:
        packed.extractall(folder.name, filter="data")
    return folder


def make_older(store: Store, number: int, *statements: str) -> None:
    """Make the database that of an older program, whose last migration had this number; ``statements`` change it."""
    gate_of(store.path).close_idle()
    with duckdb.connect(str(store.path)) as connection:
        connection.execute("DELETE FROM migrations")
        connection.execute("INSERT INTO migrations VALUES (?, 0, '0.4.9')", [f"{number:04}_older"])
        for statement in statements:
            connection.execute(statement)
