"""What tests of release imports ask: import everything, one run, and every row of the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.frameworks.craftmd.release import RELEASE
from core.jobs.release.importing import ImportReport, import_release
from core.store.database import Store
from core.store.queries.runs import RunProgress, run


def import_all(root: Path, models: list[str] | None = None) -> ImportReport:
    layout = RELEASE.find(root, root.name)
    return import_release(Store(), layout, layout.chosen(models))


def dump() -> dict[str, list[Any]]:
    """Return the sorted rows of every table of the database, by the table's name."""
    with Store().read() as cursor:
        names = [name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: sorted(cursor.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def a_run(run_id: str) -> RunProgress:
    with Store().read() as cursor:
        progress = run(cursor, run_id)
    assert progress is not None
    return progress
