"""What doctors believed in many conversations at once, with what is needed to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from core.events import EndReason, Probed
from core.store.failures import CaseKey
from core.store.selection import NO_ARM, SELECTED, Selection, select


@dataclass(frozen=True)
class Believed:
    """The probes of one conversation, in the order of turns, and why the conversation ended."""

    trial_id: str
    model: str
    case: CaseKey
    end_reason: EndReason | None
    probes: tuple[Probed, ...]


def believed(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[Believed]:
    """Return the conversations of a selection that were probed, in the order of condition, case and trial.

    A belief belongs to no arm, so formats and question types are no matter. AutoMedic's are left out,
    also where its runs are named: what a belief is held against, the ledger, knows a doctor and a patient only.
    """
    chosen = (selection or Selection()).of_talks()
    select(cursor, chosen)
    rows = cursor.execute(_BELIEVED, chosen.parameters()).fetchall()
    probes = probes_of_trials(cursor, [row[0] for row in rows])
    return [
        Believed(trial_id, model, (case_key, content_hash), end_reason, probes[trial_id])
        for trial_id, model, case_key, content_hash, end_reason in rows
    ]


def probes_of_trials(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, tuple[Probed, ...]]:
    """Return trial → its probes in the order of turns; trials without one are left out."""
    found: dict[str, list[Probed]] = {}
    for trial_id, turn, ranked in cursor.execute(_PROBES, {"trials": list(trial_ids)}).fetchall():
        found.setdefault(trial_id, []).append(Probed(turn=turn, differential=ranked))
    return {trial_id: tuple(probes) for trial_id, probes in found.items()}


_BELIEVED = f"""
    SELECT trials.trial_id, model, trials.case_key, trials.content_hash, trials.end_reason
    FROM trials JOIN runs ON runs.run_id = trials.run_id JOIN seated ON seated.run_id = trials.run_id
    LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    {NO_ARM}
    WHERE trials.trial_id IN (SELECT trial_id FROM probes) AND runs.protocol <> 'automedic' AND {SELECTED}
    ORDER BY place, trials.case_key, trials.trial, trials.trial_id"""

_PROBES = """
    SELECT trial_id, turn, list((diagnosis, probability) ORDER BY rank) FROM probes
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY trial_id, turn ORDER BY trial_id, turn"""
