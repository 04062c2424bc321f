"""Probes of the doctor's belief during conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from core.events import EndReason, Probed
from core.store.queries.cases import CaseKey
from core.store.selection import Selection, select


@dataclass(frozen=True, slots=True)
class ProbedConversation:
    """A conversation with probes, and why it ended; ``probes_of_trials`` returns the probes."""

    trial_id: str
    model: str
    case: CaseKey
    end_reason: EndReason | None


def probed_conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> list[ProbedConversation]:
    """Return the selected conversations with probes, in the order of condition, case and trial.

    A belief belongs to no arm, so formats and question types of the selection are ignored. Conversations with clinical
    staff are always left out: facts, with which beliefs are compared, are judged of only a doctor and a patient.
    """
    select(cursor, selection)
    rows = cursor.execute("""
        SELECT trials.trial_id, model, trials.case_key, trials.content_hash, trials.end_reason
        FROM trials JOIN chosen USING (trial_id) JOIN seated ON seated.run_id = trials.run_id
        WHERE trials.trial_id IN (SELECT trial_id FROM probes) AND NOT staffed
        ORDER BY place, trials.case_key, trials.trial, trials.trial_id""").fetchall()
    return [
        ProbedConversation(trial_id, model, (case_key, hash_), reason)
        for trial_id, model, case_key, hash_, reason in rows
    ]


def probes_of_trials(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, tuple[Probed, ...]]:
    """Return trial → its probes in the order of turns; trials without one are left out."""
    by_trial: dict[str, list[Probed]] = {}
    for trial_id, turn, ranked in cursor.execute(_PROBES, {"trials": list(trial_ids)}).fetchall():
        by_trial.setdefault(trial_id, []).append(Probed.model_construct(turn=turn, differential=tuple(ranked)))
    return {trial_id: tuple(probes) for trial_id, probes in by_trial.items()}


_PROBES = """
    SELECT trial_id, turn, list((diagnosis, probability) ORDER BY rank) FROM probes
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY trial_id, turn ORDER BY trial_id, turn"""
