"""Probes of the doctor's belief during conversations."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from core.events import Probed


def probes_of_trials(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, tuple[Probed, ...]]:
    """Return trial → its probes in the order of turns; trials without one are left out."""
    by_trial: dict[str, list[Probed]] = {}
    for trial_id, turn, ranked in cursor.execute(_PROBES, {"trials": list(trial_ids)}).fetchall():
        by_trial.setdefault(trial_id, []).append(Probed.model_construct(turn=turn, differential=tuple(ranked)))
    return {trial_id: tuple(probes) for trial_id, probes in by_trial.items()}


_PROBES = """
    SELECT trial_id, turn, list((diagnosis, probability) ORDER BY rank) FROM probes
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY trial_id, turn ORDER BY trial_id, turn"""
