"""Queries for looking at single trials: where a trial belongs, the trials of one case, and a release's prompts."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import orjson

from core.journal import RunHeader
from core.store.records import records


@dataclass(frozen=True)
class TrialPlace:
    """The run, the case with its content, and the number of a trial."""

    trial_id: str
    run_id: str
    case_key: str
    content_hash: str | None
    trial: int
    seed: int


@dataclass(frozen=True)
class ReleasePrompts:
    """The doctor's prompt templates of one file of a release (``{specialty}`` marks the specialty).

    ``templates`` go in the order of its conversations; ``trials`` are the numbers of the trials that have one.
    """

    templates: tuple[str, ...]
    trials: tuple[int, ...]

    def of_trial(self, number: int) -> str | None:
        """Return the template of a trial, or ``None`` where it cannot be told which it was."""
        if len(set(self.templates)) == 1 and number in self.trials:
            return self.templates[0]
        told = dict(zip(self.trials, self.templates, strict=False)) if len(self.trials) == len(self.templates) else {}
        return told.get(number)


def trial_place(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> TrialPlace | None:
    """Return where a trial belongs, or ``None`` where it is not stored."""
    found = records(cursor.execute(f"SELECT {_PLACE} FROM trials WHERE trial_id = ?", [trial_id]))
    return TrialPlace(**found[0]) if found else None


def places_of_run(cursor: duckdb.DuckDBPyConnection, run_id: str, case_key: str | None = None) -> list[TrialPlace]:
    """Return the stored trials of a run about one case (by default its first), by number."""
    sql = f"""
        SELECT {_PLACE} FROM trials WHERE run_id = $run_id AND case_key = coalesce($case_key,
            (SELECT arg_min(case_key, position) FROM run_cases WHERE run_id = $run_id))
        ORDER BY trial"""
    found = records(cursor.execute(sql, {"run_id": run_id, "case_key": case_key}))
    return [TrialPlace(**row) for row in found]


def header_of(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHeader | None:
    """Return what the database has of a run's header: not its cases, nor the choices of ``mcq_many``."""
    sql = "SELECT * FROM runs WHERE run_id = ?"
    rows = records(cursor.execute(sql, [run_id]))
    if not rows:
        return None
    arms = [tuple(arm.split(":", 1)) for arm in rows[0]["arms"]]
    return RunHeader.model_validate({**rows[0], "arms": arms, "settings": orjson.loads(rows[0]["settings"])})


def release_prompts(cursor: duckdb.DuckDBPyConnection, run_id: str, case_key: str) -> ReleasePrompts | None:
    """Return the doctor's prompts of a case in a release, or ``None`` where none are stored."""
    sql = """
        SELECT template FROM (
            SELECT unnest(prompts) AS prompt_hash, generate_subscripts(prompts, 1) AS place FROM release_files
            WHERE run_id = $run_id AND case_key = $case_key AND fault IS NULL)
        JOIN release_prompts USING (prompt_hash) ORDER BY place"""
    parameters = {"run_id": run_id, "case_key": case_key}
    templates = tuple(template for (template,) in cursor.execute(sql, parameters).fetchall())
    trials = tuple(number for (number,) in cursor.execute(_SPOKEN, parameters).fetchall())
    return ReleasePrompts(templates, trials) if templates else None


_PLACE = "trial_id, run_id, case_key, content_hash, trial, seed"
_SPOKEN = """
    SELECT DISTINCT trial FROM trials SEMI JOIN utterances USING (trial_id)
    WHERE run_id = $run_id AND case_key = $case_key ORDER BY trial"""
