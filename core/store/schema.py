"""The schema of the database: the tables of ``core.store.tables`` and the views on them.

A file records the schema that it has in its table ``migrations``, as a number and a hash. Any change of a table or view
changes the hash, and a file with another hash is renewed (``core.store.renewal``). Raise ``NUMBER`` with a release that
changes the schema: it tells the files of newer programs, which are refused, from those of older ones.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import duckdb

from core import __version__
from core.errors import AnamnesisError
from core.store.tables import TABLES, MigrationRow, insert

NUMBER = 28
"""Up to 27 earlier versions counted their migrations."""
OLDEST = 7
"""The number of version 0.4, the oldest whose files are read."""
OLDER = (
    "was written by an Anamnesis before 0.4, which this version does not read: open it once with version 0.5, which "
    "updates it, and then here; or import its releases, data sets and journals of 0.4 into a new database."
)
"""The message for a file that is older than that."""

VIEWS = """
    -- The newest grade of a rule counts; of two with the same time, the one that was stored later. Verdicts that count
    -- further accepted answers have a separate condition and never replace the others.
    CREATE VIEW newest_grades AS
    SELECT trial_id, format, question_type, rule, grader, extracted, verdict, call_ids, graded_at, prompt_hash,
        rule_version
    FROM grades WHERE NOT starts_with(coalesce(prompt_hash, ''), 'accepted-')
    QUALIFY row_number() OVER (
        PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1;

    -- A row for each answer and each rule that applies to it; 'ungraded' without a verdict.
    CREATE VIEW verdicts AS
    SELECT answers.trial_id, answers.format, answers.question_type, rules.rule,
        CASE WHEN answers.status = 'invalid' THEN coalesce(answers.reason, 'ungradable')
             ELSE coalesce(newest.verdict, 'ungraded') END AS verdict,
        newest.grader, newest.extracted, newest.graded_at
    FROM answers
    JOIN (VALUES ('mcq', 'mcq_loose'), ('mcq', 'mcq_strict'), ('mcq_many', 'mcq_many'), ('mcq_many', 'mcq_loose'),
                 ('mcq_answers', 'mcq_loose'), ('mcq_answers', 'mcq_strict'),
                 ('frq', 'frq'), ('frq_top3', 'frq_top3')) AS rules (question_type, rule)
        USING (question_type)
    LEFT JOIN newest_grades AS newest USING (trial_id, format, question_type, rule);

    -- The labels that count: the newest of people, reviews and files, else the newest of a model.
    CREATE VIEW case_labels_in_force AS
    SELECT case_key, text_hash, field, value, origin, made_by, note, made_at
    FROM case_labels
    QUALIFY row_number() OVER (
        PARTITION BY case_key, text_hash, field ORDER BY origin = 'model', made_at DESC, rowid DESC) = 1;

    -- Cases as figures group and filter them; asked is one hash of vignette, question, choices and answer. What a role
    -- is told comes from the table of cases alone.
    CREATE VIEW labelled_cases AS
    SELECT cases.case_key, cases.content_hash, cases.dataset, coalesce(nullif(labels.specialty, ''), cases.specialty) AS
        specialty, cases.answer, cases.asks_for, cases.text_hash, hash(cases.text_hash, cases.choices) AS asked,
        CASE labels.single_diagnosis WHEN 'yes' THEN true WHEN 'no' THEN false ELSE cases.single_diagnosis END
            AS single_diagnosis,
        coalesce(labels.development = 'yes', false) AS development,
        labels.specialty_by, cases.added_at
    FROM cases LEFT JOIN (
        SELECT case_key, text_hash,
            any_value(value) FILTER (field = 'specialty') AS specialty,
            any_value(value) FILTER (field = 'single_diagnosis') AS single_diagnosis,
            any_value(value) FILTER (field = 'development') AS development,
            any_value(made_by) FILTER (field = 'specialty' AND origin = 'model' AND value <> '') AS specialty_by
        FROM case_labels_in_force GROUP BY case_key, text_hash
    ) AS labels ON labels.case_key = cases.case_key AND labels.text_hash = cases.text_hash;
"""
"""Views, which name their columns."""


def present() -> str:
    """Return the name of the present schema."""
    statements = [*(table.create for table in TABLES.values()), VIEWS]
    return f"{NUMBER:04}_{hashlib.sha256(''.join(statements).encode()).hexdigest()[:12]}"


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create all tables and views in an empty database."""
    for table in TABLES.values():
        connection.execute(table.create)
    connection.execute(VIEWS)
    insert(connection, [MigrationRow(present(), time.time(), __version__)])


def older(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[int, str] | None:
    """Return number of the schema of an older file and the program that made it; ``None`` if it is the present one.

    Raises ``AnamnesisError`` for a file of a newer program, or of one before 0.4, and for any other DuckDB file.
    """
    try:
        recorded = connection.execute("SELECT name, program FROM migrations ORDER BY name").fetchall()
    except duckdb.CatalogException as error:
        if connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'meta'").fetchall():
            raise AnamnesisError(f"The database {path} {OLDER}") from error
        raise AnamnesisError(
            f"{path} is a DuckDB file, but not a database of Anamnesis: name another file in ANAMNESIS_DB."
        ) from error
    numbers = {int(name[:4]): program for name, program in recorded if name[:4].isdigit()}
    number = max(numbers, default=0)
    if number > NUMBER:
        raise AnamnesisError(
            f"The database {path} was written by a newer Anamnesis ({numbers[number]}; this is {__version__}): "
            "update Anamnesis, or name another file in ANAMNESIS_DB."
        )
    if number < OLDEST:
        raise AnamnesisError(f"The database {path} {OLDER}")
    return None if present() in dict(recorded) else (number, numbers[number])
