"""A release of published results: imported completely or not at all, and read as its paper counts.

A release file is identified by its digest: an unchanged file is not imported again, a changed file replaces its trials.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from core.case import Case
from core.events import COUNTED
from core.frameworks.base import Arm
from core.journal import RunHeader
from core.store.queries.cases import add_cases
from core.store.rows import run_row
from core.store.tables import ReleaseDocumentRow, ReleaseFileRow, RunCaseRow, delete_trials, insert

FROM_TABLES = "[]"
"""Stored as the events of a trial that are rebuilt from the tables, so that nothing is stored twice."""


@dataclass(frozen=True)
class ReleaseFile:
    """A file of a release; ``fault`` says why it was not imported (``None``: it was)."""

    run_id: str
    path: str
    case_key: str
    digest: str
    prompts: Sequence[str] = ()
    fault: str | None = None


@dataclass(frozen=True)
class ReleaseRun:
    """A run with new trials, and its cases: (case, position in the data set's file)."""

    header: RunHeader
    cases: Sequence[tuple[Case, int]]


@dataclass(frozen=True)
class ReleaseBatch:
    """The additions of one import; ``tables`` has the trials, utterances, answers and grades of all its runs."""

    runs: Sequence[ReleaseRun] = ()
    tables: dict[str, pa.Table] = field(default_factory=dict)
    files: Sequence[ReleaseFile] = ()
    templates: dict[str, str] = field(default_factory=dict)
    documents: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Path → (digest, contents) of files that are stored unchanged."""


def known_files(cursor: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], ReleaseFile]:
    """Return (run, path) → the file at its last import."""
    sql = "SELECT run_id, path, case_key, digest, prompts, fault FROM release_files"
    return {(row[0], row[1]): ReleaseFile(*row) for row in cursor.execute(sql).fetchall()}


def quarantined(cursor: duckdb.DuckDBPyConnection) -> list[ReleaseFile]:
    return sorted((f for f in known_files(cursor).values() if f.fault), key=lambda f: (f.run_id, f.path))


def document(cursor: duckdb.DuckDBPyConnection, path: str) -> bytes | None:
    """Return a stored document of the release by its path (``results/expert_annotations/…``), or ``None``."""
    rows = cursor.execute("SELECT content FROM release_documents WHERE path = ?", [path]).fetchall()
    return bytes(rows[0][0]) if rows else None


def documents(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(cursor.execute("SELECT path, digest FROM release_documents ORDER BY path").fetchall())


def write_release(connection: duckdb.DuckDBPyConnection, batch: ReleaseBatch) -> None:
    """Insert a batch; its files without a fault replace their earlier trials. Needs a write lease.

    Removes each table from the batch when it is stored, to free its memory.
    """
    now = time.time()
    _remove_replaced(connection, batch)
    _insert_runs(connection, batch.runs)
    for name in tuple(batch.tables):
        connection.register("incoming", batch.tables.pop(name))
        try:
            connection.execute(_ADD[name])
        finally:
            connection.unregister("incoming")
    for path, (digest, content) in batch.documents.items():
        connection.execute("DELETE FROM release_documents WHERE path = ?", [path])
        insert(connection, [ReleaseDocumentRow(path, digest, content, now)])
    insert(connection, _file_rows(batch, now))
    for run in batch.runs:
        _describe_prompts(connection, run.header.run_id, batch.templates)


def _remove_replaced(connection: duckdb.DuckDBPyConnection, batch: ReleaseBatch) -> None:
    """Delete the rows of the files of a batch, and the trials of the files that it replaces."""
    if not connection.execute("SELECT 1 FROM release_files LIMIT 1").fetchall():
        return
    if not batch.files:
        return
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE replaced (run_id VARCHAR, path VARCHAR, case_key VARCHAR, fault VARCHAR)"
    )
    insert(
        connection, _file_rows(batch, 0.0), "INSERT INTO replaced SELECT run_id, path, case_key, fault FROM incoming"
    )
    connection.execute(
        "DELETE FROM release_files USING replaced "
        "WHERE release_files.run_id = replaced.run_id AND release_files.path = replaced.path"
    )
    connection.execute(
        """CREATE OR REPLACE TEMP TABLE old_trials AS
            SELECT trial_id FROM trials SEMI JOIN (FROM replaced WHERE fault IS NULL) AS replacing USING (run_id,
            case_key)"""
    )
    delete_trials(connection, "FROM old_trials", calls=True)
    connection.execute(
        """DELETE FROM run_cases USING replaced
            WHERE run_cases.run_id = replaced.run_id AND run_cases.case_key = replaced.case_key AND fault IS NULL"""
    )


def _file_rows(batch: ReleaseBatch, imported_at: float) -> list[ReleaseFileRow]:
    return [
        ReleaseFileRow(f.run_id, f.path, f.case_key, f.digest, list(f.prompts), f.fault, imported_at)
        for f in batch.files
    ]


def _insert_runs(connection: duckdb.DuckDBPyConnection, runs: Sequence[ReleaseRun]) -> None:
    cases = {id(case): case for run in runs for case, _ in run.cases}
    hashes = {number: case.content_hash for number, case in cases.items()}
    add_cases(connection, cases.values())
    insert(connection, [run_row(run.header) for run in runs])
    rows = [RunCaseRow(run.header.run_id, case.case_key, hashes[id(case)], n) for run in runs for case, n in run.cases]
    insert(connection, rows)


def _describe_prompts(connection: duckdb.DuckDBPyConnection, run_id: str, new: Mapping[str, str]) -> None:
    """Store in the settings of a run which prompts its conversations used; ``new`` is hash → template."""
    templates, settings = {**_templates(connection, run_id), **new}, _settings(connection, run_id)
    prompts = {
        hash_: {"conversations": count, "template": templates[hash_]}
        for hash_, count in connection.execute(_PROMPTS_OF_RUN, [run_id]).fetchall()
        if hash_ in templates
    }
    with_prompts = orjson.dumps({**settings, "prompts": prompts}).decode()
    joined = "+".join(sorted(prompts))  # all of them, so that no page treats several prompts as one
    connection.execute("UPDATE runs SET settings = ?, prompt_hash = ? WHERE run_id = ?", [with_prompts, joined, run_id])


_ADD = {
    **{name: f"INSERT INTO {name} BY NAME SELECT * FROM incoming" for name in ("trials", "utterances", "answers")},
    # in a rebuilt database the re-gradings come from the journals before the release is imported: the grades of the
    # release must be older all the same, also those of the trials of a run that were not graded again
    "grades": """
        INSERT INTO grades BY NAME
        SELECT incoming.* REPLACE (least(graded_at, later.first - 1) AS graded_at), []::VARCHAR[] AS call_ids
        FROM incoming
        LEFT JOIN (
            SELECT trial_id, first FROM trials JOIN (
                SELECT run_id, min(graded_at) AS first FROM grades JOIN trials USING (trial_id) GROUP BY run_id
            ) USING (run_id)
        ) AS later USING (trial_id)""",
}

_PROMPTS_OF_RUN = """
    SELECT prompt_hash, count(*) AS n
    FROM (SELECT unnest(prompts) AS prompt_hash FROM release_files WHERE run_id = ? AND fault IS NULL)
    GROUP BY prompt_hash ORDER BY n DESC, prompt_hash"""


def _settings(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    (settings,) = cursor.execute("SELECT settings FROM runs WHERE run_id = ?", [run_id]).fetchall()[0]
    return dict(orjson.loads(settings))


def _templates(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, str]:
    """Return hash → template of the doctor's prompts of a released run, the most frequent first."""
    prompts = _settings(cursor, run_id).get("prompts", {})
    return {prompt_hash: prompt["template"] for prompt_hash, prompt in prompts.items()}


@dataclass(frozen=True)
class ReleasedCase:
    """A case of a released run; ``position`` is its index in the data set's file, from 0."""

    case_key: str
    position: int
    dataset: str
    specialty: str
    single_diagnosis: bool | None


@dataclass(frozen=True)
class ReleasedRun:
    """A released model: its ordered cases, and (arm, case key) → (correct trials, trials that are not missing)."""

    run_id: str
    model: str
    cases: list[ReleasedCase]
    counts: dict[tuple[Arm, str], tuple[int, int]]


def released_runs(cursor: duckdb.DuckDBPyConnection, case_set: str) -> list[ReleasedRun]:
    """Return the runs on a case set that were imported from a release, those with the most cases last.

    The verdicts are those of the release, whatever later gradings say: ``mcq`` by the paper's rule, ``frq`` by the
    release's grader. A trial without a response or with an unreadable evaluation is missing.
    """
    cases: dict[tuple[str, str], list[ReleasedCase]] = {}
    for run_id, model, *fields in cursor.execute(_CASES, {"case_set": case_set}).fetchall():
        cases.setdefault((run_id, model), []).append(ReleasedCase(*fields))
    counts: dict[str, dict[tuple[Arm, str], tuple[int, int]]] = {}
    parameters = {"counting": list(COUNTED), "case_set": case_set}
    for run_id, format_, question_type, key, *pair in cursor.execute(_COUNTS, parameters).fetchall():
        counts.setdefault(run_id, {})[(format_, question_type), key] = (pair[0], pair[1])
    runs = [
        ReleasedRun(run_id, model, cases_of_run, counts.get(run_id, {}))
        for (run_id, model), cases_of_run in cases.items()
    ]
    return sorted(runs, key=lambda run: len(run.cases))


_RELEASED = "runs.source = 'release' AND runs.case_set = $case_set"

_CASES = f"""
    SELECT run_id, doctor, run_cases.case_key, position, cases.dataset, specialty, single_diagnosis
    FROM runs JOIN run_cases USING (run_id) JOIN cases USING (case_key, content_hash)
    WHERE {_RELEASED}
    ORDER BY run_id, position, run_cases.case_key"""

_COUNTS = f"""
    WITH judged AS (
        SELECT trials.run_id, trials.case_key, grades.trial_id, grades.format, grades.question_type, grades.verdict
        FROM grades JOIN trials USING (trial_id) JOIN runs USING (run_id)
        WHERE {_RELEASED}
            AND (grades.rule = 'mcq_loose' OR grades.rule = 'frq' AND grades.grader = runs.grader)
        QUALIFY row_number() OVER (
            PARTITION BY grades.trial_id, grades.format, grades.question_type
            ORDER BY grades.graded_at, grades.rowid) = 1
    )
    SELECT run_id, judged.format, judged.question_type, case_key,
        count(*) FILTER (verdict = 'correct'), count(*) FILTER (list_contains($counting, verdict))
    FROM judged JOIN answers USING (trial_id, format, question_type)
    WHERE answers.status = 'answered'
    GROUP BY ALL"""


@dataclass(frozen=True)
class ReleasePrompts:
    """The doctor's prompt templates of one file of a release (``{specialty}`` marks the specialty).

    ``templates`` are in the order of its conversations; ``trials`` are the numbers of the trials with a conversation.
    """

    templates: tuple[str, ...]
    trials: tuple[int, ...]

    def of_trial(self, number: int) -> str | None:
        """Return the template of a trial, or ``None`` if it is ambiguous."""
        if len(set(self.templates)) == 1 and number in self.trials:
            return self.templates[0]
        by_number = (
            dict(zip(self.trials, self.templates, strict=False)) if len(self.trials) == len(self.templates) else {}
        )
        return by_number.get(number)


def release_prompts(cursor: duckdb.DuckDBPyConnection, run_id: str, case_key: str) -> ReleasePrompts | None:
    """Return the doctor's prompts of a case in a release, or ``None`` if none are stored."""
    sql = "SELECT prompts FROM release_files WHERE run_id = $run_id AND case_key = $case_key AND fault IS NULL"
    parameters, of_run = {"run_id": run_id, "case_key": case_key}, _templates(cursor, run_id)
    files = cursor.execute(sql, parameters).fetchall()
    templates = tuple(of_run[prompt] for (prompts,) in files for prompt in prompts if prompt in of_run)
    trials = tuple(number for (number,) in cursor.execute(_SPOKEN, parameters).fetchall())
    return ReleasePrompts(templates, trials) if templates else None


def templates_of_runs(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (run, hash, template) of the doctor's prompts of released runs, the most frequent of a run first."""
    return [
        (run_id, prompt_hash, template)
        for run_id in run_ids
        for prompt_hash, template in _templates(cursor, run_id).items()
    ]


_SPOKEN = """
    SELECT DISTINCT trial FROM trials SEMI JOIN utterances USING (trial_id)
    WHERE run_id = $run_id AND case_key = $case_key ORDER BY trial"""
