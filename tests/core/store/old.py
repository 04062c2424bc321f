"""Databases as older programs left them."""

from __future__ import annotations

from pathlib import Path

import duckdb

from core.store import migrations

DATABASES = Path(__file__).with_name("databases")
STEPS = Path(migrations.__file__).with_name("before_0001")


def made_by_steps(path: Path, version: int, *statements: str) -> None:
    """Make an empty database of one of the versions 1 to 9, and run statements in it."""
    steps = [DATABASES / "version_1.sql", *(STEPS / f"to_{n}.sql" for n in range(2, version + 1))]
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        for number, step in enumerate(steps, start=1):
            connection.execute(step.read_text(encoding="utf-8"))
            connection.execute("INSERT INTO meta VALUES (?, 1.0)", [number])
        for statement in statements:
            connection.execute(statement)


def as_0_1_1_made_it(path: Path) -> None:
    """Make the small database of version 0.1.1: one run with one of its two cases played."""
    with duckdb.connect(str(path)) as connection:
        connection.execute((DATABASES / "version_0_1_1.sql").read_text(encoding="utf-8"))
