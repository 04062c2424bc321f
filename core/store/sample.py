"""The sample study that comes with the program: runs made with its own commands, added and removed as one.

Its runs have ``study: sample`` in their settings, by which conditions tell them from other runs (``conditions``).
Branches of them have it, too, and are removed with them.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import orjson

from core import access
from core.errors import AnamnesisError
from core.journal import RunHeader, journal_path, read_lines, writable
from core.paths import DATA
from core.store.database import Store
from core.store.fold import fold
from core.store.former_rows import answers_of_people
from core.store.queries.reviews import withdraw_review
from core.store.queries.run_labels import labels
from core.store.tables import TABLES, delete_runs, records
from core.store.written import remove_study, withdraw, write

SAMPLE = "sample"
"""The study of its runs (``Run.study``)."""
PACKED = DATA / "sample" / "study.tar.xz"
_ROWS = "rows.json"
_REMOVED = "the sample study was removed"
_OF_PEOPLE = {
    "reviews": "true", "judgements": "judge_kind = 'person'", "unblindings": "true", "run_labels": "true",
}  # fmt: skip
"""Table → the condition of its rows that people wrote, which are in no journal of a run."""


def sample_runs(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    sql = "SELECT run_id FROM runs WHERE json_extract_string(settings, '$.study') = ? ORDER BY created_at, run_id"
    return [run_id for (run_id,) in cursor.execute(sql, [SAMPLE]).fetchall()]


def add_sample(store: Store, packed: Path = PACKED) -> int:
    """Add the sample study, and return the number of its runs; stored runs and reviews do not change.

    Raises ``AnamnesisError`` if the file is damaged or the journals cannot be written.
    """
    access.require("local")
    try:
        with writable(store.journals):
            store.journals.mkdir(parents=True, exist_ok=True)
            unpacking = tempfile.TemporaryDirectory(dir=store.journals, prefix=".sample-")
        with unpacking as folder:
            with tarfile.open(packed) as file:
                file.extractall(folder, filter="data")
            run_folders = [path for path in Path(folder).iterdir() if path.is_dir()]
            for path in run_folders:
                if not (store.journals / path.name).exists():
                    path.replace(store.journals / path.name)
            rows: dict[str, list[dict[str, Any]]] = orjson.loads((Path(folder) / _ROWS).read_bytes())
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise AnamnesisError(
            f"The sample study {packed} could not be unpacked ({error}): install Anamnesis again."
        ) from error
    fold(store)
    with store.write() as connection:
        reviewed = {review for (review,) in connection.execute("SELECT review_id FROM reviews").fetchall()}
        labelled = labels(connection)
        new = [row for row in rows["reviews"] if row["review_id"] not in reviewed]
        for row in new:
            # up to version 0.7 the items had a table of their own
            items = [item for item in rows.get("review_items", ()) if item["review_id"] == row["review_id"]]
            write(connection, "review", [{**row, "items": items or orjson.loads(row["items"])}], study=SAMPLE)
        former = [dict(row) for old in rows.pop("annotations", ()) for row in answers_of_people(old)]
        rows["judgements"] = [*rows.get("judgements", ()), *former]
        for kind, table in (("judgement", "judgements"), ("unblinding", "unblindings")):
            write(connection, kind, [row for row in rows[table] if row["review_id"] not in reviewed], study=SAMPLE)
        write(connection, "label", [row for row in rows["run_labels"] if row["run_id"] not in labelled], study=SAMPLE)
    return len(run_folders)


def remove_sample(store: Store) -> int:
    """Remove the sample study with its branches and reviews; return the number of removed runs."""
    access.require("local")
    fold(store)
    with store.write() as connection:
        run_ids = sample_runs(connection)
        reviewed = connection.execute(_REVIEWS_OF, [run_ids]).fetchall()
        journals = [remove_study(connection, SAMPLE), *(journal_path(run_id, store.journals) for run_id in run_ids)]
        # answers in its reviews and labels of its runs that people added here
        for (review,) in reviewed:
            withdraw_review(connection, review, _REMOVED)
        withdraw(connection, "label", "run_id", run_ids, _REMOVED)
        of_runs = "list_contains($runs, run_id)"
        of_study = f"{of_runs} OR trial_id IN (SELECT trial_id FROM trials WHERE {of_runs})"
        connection.execute(f"DELETE FROM calls WHERE {of_study}", {"runs": run_ids})
        delete_runs(connection, run_ids)
        paths = [str(path.resolve()) for path in journals]
        connection.execute("DELETE FROM journal_positions WHERE list_contains(?, path)", [paths])
    for path in journals:
        shutil.rmtree(path.parent, ignore_errors=True)
    return len(run_ids)


def pack(store: Store, packed: Path) -> int:
    """Write all runs and reviews of a store as a sample study; return the size of the file in bytes."""
    with store.read() as cursor:
        rows = {
            table: records(cursor.execute(f"SELECT {', '.join(TABLES[table].columns)} FROM {table} WHERE {condition}"))
            for table, condition in _OF_PEOPLE.items()
        }
    with tarfile.open(packed, "w:xz", preset=9) as file:
        for journal in sorted(store.journals.glob("*/journal.jsonl")):
            header = next((line for _, line in read_lines(journal) if isinstance(line, RunHeader)), None)
            if header is None:  # the journal of a job, which has no run
                continue
            marked = header.model_copy(update={"settings": {**header.settings, "study": SAMPLE}})
            # models next to the database are named by their folders: the path on this machine is private
            _, _, rest = journal.read_bytes().replace(f"{store.path.parent}/".encode(), b"").partition(b"\n")
            _add(
                file,
                f"{journal.parent.name}/{journal.name}",
                orjson.dumps(marked.model_dump(mode="json")) + b"\n" + rest,
            )
        _add(file, _ROWS, orjson.dumps(rows))
    return packed.stat().st_size


def _add(file: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    file.addfile(entry, io.BytesIO(content))


_REVIEWS_OF = """
    SELECT DISTINCT review_id
    FROM (SELECT review_id, unnest(json_extract_string(items, '$[*].item')) AS item FROM reviews) AS of_reviews
    JOIN trials ON split_part(item, ':', 2) = trial_id WHERE list_contains(?, run_id)"""
