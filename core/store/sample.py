"""The sample study that comes with the program: runs made by its own commands, taken in and away as a whole.

Its runs say ``study: sample`` in their settings, by which conditions tell them from everybody's own (``conditions``).
What is made of them, such as a fork, says so too, and goes with them.
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
from core.store.queries.reviews import withdraw_review
from core.store.queries.run_labels import labels
from core.store.tables import SCHEMAS, delete_runs, records
from core.store.written import remove_study, withdraw, write

SAMPLE = "sample"
"""What a run of the sample study notes as its study (``Run.study``)."""
PACKED = DATA / "sample" / "study.tar.xz"
_ROWS = "rows.json"
_TAKEN_AWAY = "the sample study was taken away"
_BESIDE_RUNS = ("reviews", "review_items", "annotations", "unblindings", "run_labels")
"""Tables with rows that no run's journal holds, because people wrote them."""


def sample_runs(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the ids of the runs of the sample study that are here."""
    sql = "SELECT run_id FROM runs WHERE json_extract_string(settings, '$.study') = ? ORDER BY created_at, run_id"
    return [run_id for (run_id,) in cursor.execute(sql, [SAMPLE]).fetchall()]


def take_in(store: Store, packed: Path = PACKED) -> int:
    """Put the sample study beside what is there, and return how many runs it has; what is here already stays as it is.

    Raises ``AnamnesisError`` where the file is not whole or the journals cannot be written.
    """
    access.require("manage", "take in the sample study")
    try:
        with writable(store.journals):
            store.journals.mkdir(parents=True, exist_ok=True)
            unpacking = tempfile.TemporaryDirectory(dir=store.journals, prefix=".sample-")
        with unpacking as folder:
            with tarfile.open(packed) as file:
                file.extractall(folder, filter="data")
            found = [path for path in Path(folder).iterdir() if path.is_dir()]
            for path in found:
                if not (store.journals / path.name).exists():
                    path.replace(store.journals / path.name)
            beside: dict[str, list[dict[str, Any]]] = orjson.loads((Path(folder) / _ROWS).read_bytes())
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise AnamnesisError(
            f"The sample study {packed} could not be unpacked ({error}): get the program anew."
        ) from error
    fold(store)
    with store.write() as connection:
        reviewed = {review for (review,) in connection.execute("SELECT review_id FROM reviews").fetchall()}
        named = labels(connection)
        new = [row for row in beside["reviews"] if row["review_id"] not in reviewed]
        for row in new:
            of_review = [one for one in beside["review_items"] if one["review_id"] == row["review_id"]]
            write(connection, "review", [{**row, "items": of_review}], study=SAMPLE)
        for kind, table in (("annotation", "annotations"), ("unblinding", "unblindings")):
            write(connection, kind, [one for one in beside[table] if one["review_id"] not in reviewed], study=SAMPLE)
        write(connection, "label", [one for one in beside["run_labels"] if one["run_id"] not in named], study=SAMPLE)
    return len(found)


def take_away(store: Store) -> int:
    """Take the sample study out, with what was made of it and its reviews; return how many runs went."""
    access.require("manage", "take out the sample study")
    fold(store)
    with store.write() as connection:
        gone = sample_runs(connection)
        reviewed = connection.execute(_REVIEWS_OF, [gone]).fetchall()
        journals = [remove_study(connection, SAMPLE), *(journal_path(run_id, store.journals) for run_id in gone)]
        # what somebody here said in its reviews and called its runs
        for (review,) in reviewed:
            withdraw_review(connection, review, _TAKEN_AWAY)
        withdraw(connection, "label", "run_id", gone, _TAKEN_AWAY)
        of_runs = "list_contains($runs, run_id)"
        its = f"{of_runs} OR trial_id IN (SELECT trial_id FROM trials WHERE {of_runs})"
        connection.execute(f"DELETE FROM calls WHERE {its}", {"runs": gone})
        delete_runs(connection, gone)
        paths = [str(path.resolve()) for path in journals]
        connection.execute("DELETE FROM journal_positions WHERE list_contains(?, path)", [paths])
    for path in journals:
        shutil.rmtree(path.parent, ignore_errors=True)
    return len(gone)


def pack(store: Store, packed: Path) -> int:
    """Write all runs and reviews of a store as a sample study; return the bytes of the file."""
    with store.read() as cursor:
        rows = {
            table: records(cursor.execute(f"SELECT {', '.join(SCHEMAS[table].names)} FROM {table}"))
            for table in _BESIDE_RUNS
        }
    with tarfile.open(packed, "w:xz", preset=9) as file:
        for journal in sorted(store.journals.glob("*/journal.jsonl")):
            header = next((line for _, line in read_lines(journal) if isinstance(line, RunHeader)), None)
            if header is None:  # what a job left that belongs to no run
                continue
            marked = header.model_copy(update={"settings": {**header.settings, "study": SAMPLE}})
            # models that lie beside the database are named by their folders: where these are is nobody's business
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
    SELECT DISTINCT review_id FROM review_items JOIN trials ON split_part(item, ':', 2) = trial_id
    WHERE list_contains(?, run_id)"""
