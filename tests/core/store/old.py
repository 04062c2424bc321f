"""A database and its journals as version 0.4 left them: one run with one of its two cases played, graded and named."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from core.paths import journals_of

DATABASES = Path(__file__).with_name("databases")


def make_database_of_0_4(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute((DATABASES / "version_0_4.sql").read_text(encoding="utf-8"))


def copy_journals_of_0_4(path: Path) -> None:
    shutil.copytree(DATABASES / "version_0_4.journals", journals_of(path))
