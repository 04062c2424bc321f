"""Messages of conversations."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from core.asking.scene import Dialogue, Turn
from core.events import Speaker, Utterance
from core.frameworks.base import frameworks
from core.store.queries.runs import CAMPAIGNS
from core.store.selection import SAID, Selection
from core.store.tables import records


def utterances_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Utterance]:
    sql = "SELECT turn, role, text, call_id FROM utterances WHERE trial_id = ? ORDER BY position"
    return [Utterance(**row) for row in records(cursor.execute(sql, [trial_id]))]


def dialogues(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, Dialogue]:
    """Return trial → its messages in their order; trials without a conversation are omitted.

    A first message without a call is scripted if the framework has an opening. Without any call this is known only of
    releases, and of runs whose doctor is a rule or a person.
    """
    messages: dict[str, list[Turn]] = {}
    addressed = [name for name, framework in frameworks().items() if framework.speech.addresses]
    values = {"trials": list(trial_ids), "addressed": addressed}
    for trial_id, role, text, scripted in cursor.execute(_DIALOGUES, values).fetchall():
        messages.setdefault(trial_id, []).append(Turn(role, text, scripted))
    return {trial_id: tuple(turns) for trial_id, turns in messages.items()}


def last_turns(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, int]:
    """Return trial → the number of its last message, from 0; trials without a conversation are left out."""
    sql = "SELECT trial_id, max(turn) FROM utterances WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY 1"
    return dict(cursor.execute(sql, {"trials": list(trial_ids)}).fetchall())


_DIALOGUES = """
    SELECT trial_id, role, text, turn = 0 AND call_id IS NULL
        AND NOT coalesce(list_contains($addressed, protocol), false)
        AND (count(call_id) OVER (PARTITION BY trial_id) > 0
            OR coalesce(source = 'release' OR split_part(doctor, '/', 1) IN ('reference', 'human'), false)) AS scripted
    FROM utterances LEFT JOIN trials USING (trial_id) LEFT JOIN runs USING (run_id)
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) ORDER BY trial_id, position"""


def first_matches(
    cursor: duckdb.DuckDBPyConnection, trials: Sequence[str], text: str, speaker: Speaker | None = None
) -> dict[str, str]:
    """Return trial → its first message that contains ``text``, of ``speaker`` if given."""
    selection = Selection(trials=trials, text=text, speaker=speaker)
    sql = f"""
        SELECT trial_id, arg_min(text, position) FROM utterances
        WHERE list_contains($trials, trial_id) AND {SAID.format(words=selection.words)} GROUP BY trial_id"""
    return dict(cursor.execute(sql, selection.parameters(sql)).fetchall())


def conversations_on(
    cursor: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, list[str]]]:
    """Return (model, case) → trial → the texts of its messages, for these pairs, in the order of trials."""
    requested = set(pairs)
    models, keys = list({model for model, _ in requested}), list({key for _, key in requested})
    texts_of: dict[tuple[str, str], dict[str, list[str]]] = {}
    for model, case_key, trial_id, texts in cursor.execute(_CONVERSATIONS, [models, keys, list(CAMPAIGNS)]).fetchall():
        if (model, case_key) in requested:
            texts_of.setdefault((model, case_key), {})[trial_id] = texts
    return texts_of


_CONVERSATIONS = """
    SELECT runs.doctor, trials.case_key, trials.trial_id, list(utterances.text ORDER BY position)
    FROM trials JOIN runs USING (run_id) JOIN utterances USING (trial_id)
    WHERE list_contains(?, runs.doctor) AND list_contains(?, trials.case_key) AND list_contains(?, runs.source)
    GROUP BY runs.doctor, trials.case_key, trials.trial_id, trials.trial ORDER BY trials.trial, trials.trial_id"""
