"""Paths of the project's data and of the user's local folder (``ANAMNESIS_DB`` moves the database)."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
CASES = DATA / "cases"
KNOWLEDGE = DATA / "knowledge"
FORMS = DATA / "forms"
RUBRICS = DATA / "rubrics"
GUIDELINES = DATA / "guidelines"
URGENCY = DATA / "urgency"
PROMPTS = ROOT / "prompts"


def expanded(path: str | Path) -> Path:
    """Return a path with ``~`` replaced; raises ``UsageError`` if that home folder is unknown."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path} is below the home folder of a user that this machine does not have.") from None


def database_path() -> Path:
    """Return the DuckDB file: ``ANAMNESIS_DB`` or data/local/anamnesis.duckdb."""
    configured = os.environ.get("ANAMNESIS_DB")
    return expanded(configured) if configured else DATA / "local" / "anamnesis.duckdb"


def local_folder() -> Path:
    """Return the folder of the database, with journals and imported cases."""
    return database_path().parent


def journals_folder() -> Path:
    return journals_of(database_path())


def journals_of(database: Path) -> Path:
    return database.parent / f"{database.stem}.journals"


def extensions() -> list[Path]:
    """Return the folders in ``ANAMNESIS_EXTENSIONS``, with frameworks, measures, formats and prompts."""
    return [Path(p) for p in os.environ.get("ANAMNESIS_EXTENSIONS", "").split(os.pathsep) if p]
