"""Stored counts of answers by verdict, of verdicts by grader and of calls by served model.

Figures of a whole study read only these counts, which is fast even for a million answers. Every write to the database
updates them at the end of its transaction (``core.store.database.Store.write``): new rows are counted; if an old answer
has a new verdict, a row with a negative ``n`` cancels its old count. Rows are only added; readers sum ``n``. After a
deletion everything is counted again.
"""

from __future__ import annotations

from typing import NamedTuple

import duckdb

from core.events import FINAL_DIAGNOSIS

_COUNTED = ("trials", "utterances", "answers", "grades")
_CALLS = "calls"
TALLY_COLUMNS = (
    "run_id, case_key, content_hash, end_reason, concluded, format, question_type, answered, loose, strict, n"
)


class State(NamedTuple):
    """Number of rows of a table, and its last rowid; together they show whether rows were added or deleted."""

    rows: int
    last: int


States = dict[str, State]


def states(connection: duckdb.DuckDBPyConnection) -> States:
    sql = (f"SELECT '{name}', count(*), coalesce(max(rowid), -1) FROM {name}" for name in (*_COUNTED, _CALLS))
    return {name: State(*row) for name, *row in connection.execute(" UNION ALL ".join(sql)).fetchall()}


def bring_up_to_date(connection: duckdb.DuckDBPyConnection, before: States) -> None:
    """Update the counts for the changes since ``before`` in this transaction."""
    after = states(connection)
    calls_before, calls_after = before[_CALLS], after[_CALLS]
    if calls_after != calls_before:
        if _only_grew(connection, _CALLS, calls_before, calls_after):
            connection.execute(_SERVED.format(which=f"AND calls.rowid > {calls_before.last}", n="count(*)"))
        else:
            recount_served(connection)
    before, after = ({name: state[name] for name in _COUNTED} for state in (before, after))
    if after == before:
        return
    if not all(_only_grew(connection, name, before[name], after[name]) for name in _COUNTED):
        recount(connection)
        return
    lasts = {name: state.last for name, state in before.items()}
    connection.execute(_TOUCHED.format(**lasts))
    # rows of a trial are written with it, but verdicts and later answers may be older, for example if a release is
    # imported again
    new = {name: f"AND {name}.rowid > {last}" for name, last in lasts.items() if name != "grades"}
    new["answers"] = f"AND (answers.rowid > {lasts['answers']} OR answers.format = 'closing')"
    _add(connection, "WHERE NOT old", **new)
    if connection.execute("SELECT 1 FROM touched WHERE old LIMIT 1").fetchall():
        earlier = {name: f"AND {name}.rowid <= {lasts[name]}" for name in ("answers", "grades")}
        _add(connection, "WHERE old", n="-count(*)", **earlier)
        _add(connection, "WHERE old")
    connection.execute(_JUDGED.format(which=_JUDGED_NOW.format(**lasts), n="count(*)"))
    connection.execute("DROP TABLE touched")


def _only_grew(connection: duckdb.DuckDBPyConnection, name: str, before: State, after: State) -> bool:
    """Say whether rows were only added between two states of a table."""
    sql = f"SELECT count(*) FROM {name} WHERE rowid > ?"
    added = connection.execute(sql, [before.last]).fetchall()[0][0] if after.last > before.last else 0
    return bool(before.rows + added == after.rows)


def recount_served(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("DELETE FROM served")
    connection.execute(_SERVED.format(which="", n="count(*)"))


def count_selected(cursor: duckdb.DuckDBPyConnection, *, repeats: bool = False) -> None:
    """Create ``selected_tallies``: the counts of the ``selected`` trials, without repeats.

    With ``repeats``: the negative counts of all repeats of whole conditions, which added to ``tallies`` remove the
    repeats. Needs ``core.store.selection.select``.
    """
    trials, join, n = ("repeats", "SEMI", "-count(*)") if repeats else ("selected", "ANTI", "count(*)")
    cursor.execute(f"CREATE OR REPLACE TEMP TABLE touched AS SELECT DISTINCT trial_id, false AS old FROM {trials}")
    cursor.execute(f"CREATE OR REPLACE TEMP TABLE selected_tallies AS SELECT {TALLY_COLUMNS} FROM tallies LIMIT 0")
    only = f"{join} JOIN (FROM repeats WHERE whole) AS repeats USING (trial_id, format, question_type)"
    counting = _TALLY.format(**dict.fromkeys(_COUNTED, ""), which="", n=n, only=only)
    cursor.execute(counting.replace("INSERT INTO tallies", "INSERT INTO selected_tallies"))


def recount(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("DELETE FROM tallies")
    connection.execute("DELETE FROM judged")
    connection.execute("CREATE OR REPLACE TEMP TABLE touched AS SELECT trial_id, false AS old FROM trials")
    _add(connection, "")
    connection.execute(_JUDGED.format(which="", n="count(*)"))
    connection.execute("DROP TABLE touched")


def miscounted(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how many stored counts differ from the number of their rows."""
    connection.execute("CREATE OR REPLACE TEMP TABLE touched AS SELECT trial_id, false AS old FROM trials")
    off = 0
    for table, counting in (
        ("tallies", _TALLY.format(**dict.fromkeys(_COUNTED, ""), which="", n="-count(*)", only="")),
        ("judged", _JUDGED.format(which="", n="-count(*)")),
        ("served", _SERVED.format(which="", n="-count(*)")),
    ):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE recounted AS FROM {table}")
        connection.execute(counting.replace(f"INSERT INTO {table}", "INSERT INTO recounted"))
        sql = "SELECT count(*) FROM (SELECT * EXCLUDE n FROM recounted GROUP BY ALL HAVING sum(n) <> 0)"
        off += int(connection.execute(sql).fetchall()[0][0])
    connection.execute("DROP TABLE recounted")
    connection.execute("DROP TABLE touched")
    return off


def _add(connection: duckdb.DuckDBPyConnection, which: str, n: str = "count(*)", **only: str) -> None:
    """Add the counts of the touched trials; ``only`` filters the rows of a table."""
    connection.execute(_TALLY.format(**{**dict.fromkeys(_COUNTED, ""), **only}, which=which, n=n, only=""))


_TOUCHED = """
    CREATE OR REPLACE TEMP TABLE touched AS
    SELECT trial_id, trials.rowid <= {trials} AS old
    FROM trials SEMI JOIN (
        SELECT trial_id FROM trials WHERE rowid > {trials}
        UNION SELECT trial_id FROM answers WHERE rowid > {answers}
        UNION SELECT trial_id FROM grades WHERE rowid > {grades}
    ) AS new USING (trial_id)"""

CONCLUDED = f"""(
            SELECT trial_id, contains(lower(any_value(text)), '{FINAL_DIAGNOSIS.lower()}') AS concluded FROM utterances
            JOIN (
                SELECT trial_id, max(position) AS position FROM utterances SEMI JOIN {{trials}} USING (trial_id)
                WHERE true {{which}} GROUP BY trial_id
            ) AS lasts USING (trial_id, position) WHERE true {{which}} GROUP BY trial_id
        )"""
"""A table in SQL: for each of some ``trials``, whether its last message contains a final diagnosis (ignoring case).

Trials without messages are not in it. ``which`` filters the messages.
"""

# Under one rule the newest verdict on an answer counts, apart from those that count further accepted answers (see
# ``core.store.conditions.ACCEPTED``); of two with the same time, the one stored later.
_TALLY = f"""
    INSERT INTO tallies BY NAME
    WITH mine AS (FROM touched {{which}}), conversations AS (
        SELECT trial_id, run_id, case_key, content_hash, end_reason, status, failure,
            coalesce(concluded, false) AS concluded
        FROM (SELECT * FROM trials SEMI JOIN mine USING (trial_id) WHERE true {{trials}}) AS trials
        LEFT JOIN {CONCLUDED.format(trials="mine", which="{utterances}")} AS lasts USING (trial_id)
    ), given AS (
        SELECT trial_id, format, question_type, status, reason FROM answers SEMI JOIN mine USING (trial_id)
        WHERE true {{answers}}
    ), verdict AS (
        SELECT trial_id, format, question_type,
            arg_max(verdict, ROW(graded_at, grades.rowid)) FILTER (rule NOT IN ('mcq_strict', 'mcq_many')) AS loose,
            arg_max(verdict, ROW(graded_at, grades.rowid)) FILTER (rule IN ('mcq_strict', 'mcq_many')) AS strict
        FROM grades SEMI JOIN mine USING (trial_id)
        WHERE NOT starts_with(coalesce(prompt_hash, ''), 'accepted-')
            AND (rule = question_type OR starts_with(question_type, 'mcq') AND rule = 'mcq_loose'
            OR question_type IN ('mcq', 'mcq_answers') AND rule = 'mcq_strict') {{grades}}
        GROUP BY trial_id, format, question_type
    ), outcome AS (
        SELECT trial_id, format, question_type, true AS answered,
            CASE WHEN status = 'invalid' THEN coalesce(reason, 'ungradable') ELSE coalesce(loose, 'ungraded') END
                AS loose,
            CASE WHEN status = 'invalid' THEN coalesce(reason, 'ungradable')
                 WHEN starts_with(question_type, 'mcq') THEN coalesce(strict, 'ungraded')
                 ELSE coalesce(loose, 'ungraded') END AS strict
        FROM given LEFT JOIN verdict USING (trial_id, format, question_type)
        UNION ALL
        SELECT trial_id, arm[1], arm[2], false, verdict, verdict
        FROM (
            SELECT trial_id, string_split(unnest(arms), ':') AS arm,
                if(failure = 'refused', 'refused', 'provider_error') AS verdict
            FROM conversations JOIN runs USING (run_id) WHERE status = 'failed'
        ) AS broken ANTI JOIN given
            ON given.trial_id = broken.trial_id AND given.format = arm[1] AND given.question_type = arm[2]
    )
    SELECT run_id, case_key, content_hash, end_reason, concluded, format, question_type, answered, loose, strict,
        {{n}} AS n
    FROM outcome JOIN conversations USING (trial_id) {{only}} GROUP BY ALL"""
_JUDGED = """
    INSERT INTO judged BY NAME
    SELECT run_id, rule, grader, coalesce(prompt_hash, '') AS prompt_hash, coalesce(rule_version, 1) AS rule_version,
        {n} AS n
    FROM grades JOIN trials USING (trial_id) {which} GROUP BY ALL"""
_SERVED = """
    INSERT INTO served BY NAME
    SELECT run_id, role, model, served_by, {n} AS n FROM calls
    WHERE run_id IS NOT NULL AND served_by <> '' {which} GROUP BY ALL"""
_JUDGED_NOW = "WHERE grades.rowid > {grades} OR trials.rowid > {trials}"
