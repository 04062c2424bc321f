"""Continuations of stored conversations, which measure the noise of each speaker's messages.

A message of a stored conversation is drawn. Some continuations keep it, others begin before it, so that it is spoken
again. Only messages of models are drawn. Continuations count in no figure but those of noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import duckdb
import pandas as pd

from core.events import COUNTED, GRADED_TYPES, Format, QuestionType
from core.store.queries.replicates import COUNTING, SAME_JUDGE
from core.store.selection import Selection, select


class ContinuationKey(NamedTuple):
    """A continuation: the drawn message by its number from 0, whether it is spoken ``again``, and a number from 1."""

    trial_id: str
    turn: int
    again: bool
    number: int


class ContinuedAnswer(NamedTuple):
    """The answer of a continuation in one arm; ``response`` is ``None`` if there is none to grade.

    ``graded``: whether it has a verdict of one grader, or needs none. ``dialogue`` is JSON.
    """

    format: Format
    question_type: QuestionType
    response: str | None
    dialogue: str
    graded: bool


class CallsOfARole(NamedTuple):
    """Calls of one role for one purpose, for each trial of a run: their number and mean tokens of a call."""

    role: str
    purpose: str
    calls: float
    prompt_tokens: float
    completion_tokens: float


class SpokenMessages(NamedTuple):
    """The number of models' messages in a conversation by speaker, and whether a rule spoke after the first message.

    A first message that is not a model's is fixed.
    """

    messages: dict[str, int]
    by_rule: bool


def spoken_turns(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return trial → speaker → the numbers, from 0, of the messages that a model wrote."""
    turns: dict[str, dict[str, list[int]]] = {}
    for trial_id, speaker, turn in cursor.execute(_SPOKEN, {"trials": list(trial_ids)}).fetchall():
        turns.setdefault(trial_id, {}).setdefault(speaker, []).append(turn)
    return turns


def continued_answers(
    cursor: duckdb.DuckDBPyConnection, run_id: str, grader: str, prompt_hash: str
) -> dict[ContinuationKey, list[ContinuedAnswer]]:
    """Return the stored continuations of a run's trials, with the verdicts of a grader under these prompts."""
    answers: dict[ContinuationKey, list[ContinuedAnswer]] = {}
    parameters = {"run_id": run_id, "grader": grader, "prompt_hash": prompt_hash, "graded": list(GRADED_TYPES)}
    for trial_id, turn, again, number, *answer in cursor.execute(_CONTINUED, parameters).fetchall():
        key = ContinuationKey(trial_id, turn, again, number)
        answers.setdefault(key, []).append(ContinuedAnswer(*answer))
    return answers


def calls_by_role(cursor: duckdb.DuckDBPyConnection, run_id: str) -> list[CallsOfARole]:
    """Return the calls of a run's finished trials by role and purpose, without graders' calls."""
    return [CallsOfARole(*row) for row in cursor.execute(_CALLS, {"run_id": run_id}).fetchall()]


def continuation_scores(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each continuation and arm of the selected conditions.

    Columns: model (the condition), format, question_type, case_key, trial_id, turn, speaker, again, verdict,
    ``counted`` and ``correct``; ``stored_counted``, ``stored_correct`` and ``stored_verdict`` of the stored
    conversation. In the order of conditions, cases and trials. Verdicts are by the rule and the grader of the verdict
    that counts.
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    parameters = {**chosen.parameters(_SCORES), "counting": list(COUNTED)}
    stored = cursor.execute("SELECT 1 FROM continuations SEMI JOIN chosen USING (trial_id) LIMIT 1").fetchall()
    # the verdicts that count of all answers are computed only if a continuation is compared with them
    return cursor.execute(_SCORES if stored else f"FROM ({_SCORES}) LIMIT 0", parameters).df()


def spoken_messages(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, SpokenMessages]:
    spoken: dict[str, SpokenMessages] = {}
    for trial_id, speaker, messages, by_rule in cursor.execute(_MESSAGES, {"trials": list(trial_ids)}).fetchall():
        before = spoken.get(trial_id, SpokenMessages({}, by_rule=False))
        of_models = {speaker: messages} if messages else {}
        spoken[trial_id] = SpokenMessages({**before.messages, **of_models}, before.by_rule or by_rule)
    return spoken


_SPOKEN = """
    SELECT trial_id, role, turn FROM utterances
    WHERE call_id IS NOT NULL AND trial_id IN (SELECT unnest($trials::VARCHAR[])) ORDER BY trial_id, turn"""

_MESSAGES = """
    SELECT trial_id, role, count(call_id), bool_or(turn > 0 AND call_id IS NULL) FROM utterances
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY trial_id, role ORDER BY trial_id, min(turn)"""

_CONTINUED = """
    SELECT trial_id, turn, again, number, format, question_type, arg_max(response, judged_at),
        arg_max(dialogue, judged_at),
        bool_or(rule = '' OR NOT list_contains($graded, question_type)
            OR continuations.grader = $grader AND continuations.prompt_hash = $prompt_hash)
    FROM continuations JOIN trials USING (trial_id) WHERE run_id = $run_id
    GROUP BY trial_id, turn, again, number, format, question_type
    ORDER BY trial_id, turn, again, number, format, question_type"""

_CALLS = """
    SELECT role, purpose, count(*) / trials.n, avg(prompt_tokens), avg(completion_tokens)
    FROM calls SEMI JOIN (FROM trials WHERE run_id = $run_id AND status = 'finished') AS played USING (trial_id),
        (SELECT count(*) AS n FROM trials WHERE run_id = $run_id AND status = 'finished') AS trials
    WHERE error IS NULL AND role <> 'grader' GROUP BY role, purpose, trials.n ORDER BY role, purpose"""

_SCORES = f"""
    WITH {COUNTING}
    SELECT model, format, question_type, case_key, trial_id, turn, speaker, again, given.verdict,
        list_contains($counting, given.verdict) AS counted, given.verdict = 'correct' AS correct,
        list_contains($counting, counting.verdict) AS stored_counted, counting.verdict = 'correct' AS stored_correct,
        counting.verdict AS stored_verdict
    FROM continuations AS given
    JOIN counting USING (trial_id, format, question_type)
    JOIN judges USING (model, format, question_type)
    WHERE {SAME_JUDGE}
    QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, model, turn, again, given.number
        ORDER BY judged_at DESC) = 1
    ORDER BY place, format, question_type, case_key, counting.number, trial_id, turn, again, given.number"""
