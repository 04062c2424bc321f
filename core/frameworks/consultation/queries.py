"""Measures of history taking by case, and answers of solvers to the beginning of a conversation.

A solver can be asked about conversations that ended regularly and have no clinical
staff. Of several answers of a solver at one share of a dialogue with one grader, the newest without a provider's error
counts, if the content of the case is the same. At the last share, answers with and without the doctor's closing message
are separate, and both count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.events import COUNTED, FINAL_DIAGNOSIS, QuestionType, Verdict
from core.store.queries.answers import OUTCOMES
from core.store.queries.scores import Reader, current_scores, key
from core.store.selection import Selection, select
from core.text.case_items import UNWELL


def vague_openings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> tuple[int, int]:
    """Return the number of selected conversations opened by a patient without a complaint, and of all such openings."""
    select(cursor, selection)
    sql = """
        SELECT count(*) FILTER (contains(text, $vague)), count(*) FROM utterances SEMI JOIN chosen USING (trial_id)
        WHERE turn = 0 AND role = 'patient'"""
    vague, all_ = cursor.execute(sql, {"vague": UNWELL}).fetchall()[0]
    return int(vague), int(all_)


def history_means(
    cursor: duckdb.DuckDBPyConnection,
    measure: Reader,
    scalars: Sequence[str],
    curves: Sequence[str],
    topics: Sequence[str],
    selection: Selection | None = None,
) -> pd.DataFrame:
    """Return a row for each condition and case: means of the measures over its conversations, NaN without values.

    Columns: model, case_key, dataset, specialty, n_items, ``conversations`` (measured), ``excluded`` (broken off by an
    error or refusal, or without a conversation), ``missing`` (not measured yet); a measure's name for its mean and
    ``n_NAME`` for the number of conversations that have it; ``NAME_at_I`` for the I-th point of a curve;
    ``order_TOPIC`` and ``told_TOPIC``.
    """
    select(cursor, selection)
    scores_sql = current_scores(measure)
    table = cursor.execute(_CASES.format(current_scores=scores_sql), key(measure)).df()
    names = [*scalars, *(f"order {topic}" for topic in topics)]
    parameters = {**key(measure), "names": names}
    values: dict[str, Any] = cursor.execute(_VALUES.format(current_scores=scores_sql), parameters).fetchnumpy()
    cell = values["slot"].astype(np.int64) * len(names) + values["of"]
    value = np.ma.filled(values["value"], np.nan)
    shape, present = (len(table), len(names)), ~np.isnan(value)
    rows = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    n = np.bincount(cell[present], minlength=rows.size).reshape(shape)
    sums = np.bincount(cell[present], value[present], minlength=rows.size).reshape(shape)
    with np.errstate(invalid="ignore"):
        means, share_told = sums / n, n / rows
    columns = {name: means[:, names.index(name)] for name in scalars}
    columns |= {f"n_{name}": n[:, names.index(name)].astype(np.float64) for name in scalars}
    columns |= _curves(cursor, measure, curves, len(table)) if curves else {}
    columns |= {f"order_{topic}": means[:, names.index(f"order {topic}")] for topic in topics}
    columns |= {f"told_{topic}": share_told[:, names.index(f"order {topic}")] for topic in topics}
    return pd.concat([table, pd.DataFrame(columns)], axis=1)


def _curves(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, curves: Sequence[str], cases: int
) -> dict[str, NDArray[np.float64]]:
    """Return ``NAME_at_I`` → mean of this point by case; F1 is computed in each conversation."""
    stems = list(dict.fromkeys(name.rpartition("_")[0] for name in curves))
    sides = [f"{stem}_{side}" for stem in stems for side in ("recall", "precision")]
    sql = _SERIES.format(current_scores=current_scores(measure))
    scores = cursor.sql(sql, params={**key(measure), "names": sides}).to_arrow_table()
    slot, side_index, trial = (scores[name].to_numpy() for name in ("slot", "of", "trial"))
    series = scores["series"].combine_chunks()
    lengths = np.diff(series.offsets.to_numpy())
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    points = np.full((len(slot), _POINTS), np.nan)
    points[np.repeat(np.arange(len(slot)), lengths)[place < _POINTS], place[place < _POINTS]] = (
        series.flatten().to_numpy(zero_copy_only=False)[place < _POINTS]
    )
    number, trial = np.unique(trial, return_inverse=True)
    case = np.zeros(len(number), dtype=np.int64)
    case[trial] = slot
    by_side = np.full((len(sides), len(number), _POINTS), np.nan)
    by_side[side_index, trial] = points
    means = {}
    for name in curves:
        stem, _, side = name.rpartition("_")
        recall, precision = by_side[2 * stems.index(stem)], by_side[2 * stems.index(stem) + 1]
        with np.errstate(invalid="ignore", divide="ignore"):
            curve = {
                "recall": recall,
                "precision": precision,
                "f1": np.where(recall > 0, 2 * recall * precision / (recall + precision), recall),
            }[side]
            for i in range(_POINTS):
                present = ~np.isnan(curve[:, i])
                sums = np.bincount(case[present], curve[present, i], minlength=cases)
                means[f"{name}_at_{i}"] = sums / np.bincount(case[present], minlength=cases)
    return means


def recalls_and_answers(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, score: str, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row for each measured conversation whose answer to the question with its choices counts.

    Columns: model, case_key, dataset, specialty, trial_id, ``recall`` (the value of ``score``), ``right`` (by the
    selection's rule).
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    sql = _ANSWERED.format(current_scores=current_scores(measure))
    values = {**key(measure), "score": score, **chosen.parameters(sql), "counting": list(COUNTED)}
    return cursor.execute(sql, values).df()


_POINTS = 11
_ANSWERED = f"""
    WITH {OUTCOMES}, {{current_scores}}
    SELECT current_scores.model, case_key, dataset, specialty, trial_id, value AS recall, verdict = 'correct' AS "right"
    FROM current_scores JOIN outcomes USING (trial_id, model)
    WHERE name = $score AND value IS NOT NULL AND NOT staffed AND format = 'multi_turn' AND question_type = 'mcq'
        AND list_contains($counting, verdict)
    ORDER BY current_scores.place, case_key, trial_id"""
_CASES = """
    WITH {current_scores}
    SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
        any_value(listed) AS n_items, count(*) FILTER (measured) AS conversations,
        count(*) FILTER (NOT whole) AS excluded, count(*) FILTER (whole AND NOT measured) AS missing
    FROM selected_trials WHERE NOT staffed GROUP BY model, place, case_key ORDER BY place, case_key"""
_PLACED = """
    WITH {current_scores}, places AS (
        SELECT model, case_key, (row_number() OVER (ORDER BY place, case_key) - 1)::INTEGER AS slot
        FROM looked WHERE NOT staffed GROUP BY model, place, case_key
    ), trial_places AS (
        SELECT trial_id, slot, (row_number() OVER () - 1)::INTEGER AS trial
        FROM selected_trials JOIN places USING (model, case_key) WHERE measured
    ), asked AS (SELECT unnest($names::VARCHAR[]) AS name, unnest(range(len($names)))::INTEGER AS of)"""
"""Numbers instead of names: the row of ``_CASES`` (``slot``), the conversation (``trial``) and the score (``of``)."""
_VALUES = f"""{_PLACED}
    SELECT slot, of, value FROM own JOIN trial_places USING (trial_id) JOIN asked USING (name)"""
_SERIES = f"""{_PLACED}
    SELECT slot, of, trial, series FROM own JOIN trial_places USING (trial_id) JOIN asked USING (name)
    WHERE len(series) > 0"""


class SolverAndGrader(NamedTuple):
    """Solver and grader with the hashes of their prompts; answers with different values are never pooled.

    Hashes are empty for rules; for choices, grader and its hash are empty.
    """

    question_type: QuestionType
    solver: str
    prompt_hash: str
    grader: str
    grader_prompts: str


class PrefixAnswer(NamedTuple):
    """A row of the table: the answer at a ``share`` (per cent) of a dialogue, from its first ``messages`` messages."""

    trial_id: str
    content_hash: str
    question_type: QuestionType
    share: int
    messages: int
    solver: str
    prompt_hash: str
    grader: str
    grader_prompts: str
    response: str | None
    verdict: Verdict | None
    extracted: str | None
    detail: str
    call_ids: Sequence[str]
    answered_at: float

    @property
    def by(self) -> SolverAndGrader:
        return SolverAndGrader(self.question_type, self.solver, self.prompt_hash, self.grader, self.grader_prompts)


class ConversationToSolve(NamedTuple):
    """A conversation that a solver can be asked about.

    ``grader`` and ``arms`` are those of its run, ``exchanges`` is their approximate number, and ``characters`` the
    length of its messages and of the question with its choices. ``messages`` is their number if the last one is a
    closing message of the doctor, otherwise 0.
    """

    trial_id: str
    case_key: str
    content_hash: str
    number: int
    seed: int
    grader: str
    arms: Sequence[str]
    choices: int
    exchanges: int
    characters: int
    messages: int


def conversations_to_solve(
    cursor: duckdb.DuckDBPyConnection, selection: Selection, limit: int | None = None
) -> list[ConversationToSolve]:
    """Return the selected conversations in a fixed pseudo-random order; only the first ``limit``.

    The first N are a random sample, and a larger limit extends the same sample.
    """
    select(cursor, selection)
    return [ConversationToSolve(*row) for row in cursor.execute(_TO_SOLVE, {"limit": limit}).fetchall()]


def answers_by(
    cursor: duckdb.DuckDBPyConnection, solver: str, prompt_hash: str, trials: Sequence[str]
) -> list[PrefixAnswer]:
    """Return a solver's answers about these conversations that count, by any grader."""
    values = {"solver": solver, "prompt_hash": prompt_hash, "trials": list(trials)}
    return [PrefixAnswer(*row) for row in cursor.execute(_BY, values).fetchall()]


def prefix_answers(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each answer about the selected conversations that counts, by condition, case and trial.

    Columns: model, case_key, dataset, specialty, ``trial`` (its number), the fields of ``PrefixAnswer``, ``answer`` and
    ``choices`` of the case, ``closes`` (the dialogue ends with a closing message of the doctor) and ``saw_closing``
    (the solver saw this message).
    """
    select(cursor, selection)
    return cursor.execute(f"""
        WITH {_CONVERSATIONS}, {_COUNTING}
        SELECT model, case_key, dataset, specialty, trial, counting.*, answer, choices
        FROM conversations JOIN counting USING (trial_id, content_hash)
        ORDER BY place, case_key, trial_id, question_type, share""").df()


def solvable(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each condition and case with the number of ``conversations`` that a solver can be asked about.

    Columns: model, case_key, dataset, specialty, ``choices`` of the case, conversations.
    """
    select(cursor, selection)
    return cursor.execute(f"""
        WITH {_CONVERSATIONS}
        SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
            min(len(choices)) AS choices, count(*) AS conversations
        FROM conversations GROUP BY model, place, case_key ORDER BY place, case_key""").df()


_CONVERSATIONS = """conversations AS (
        SELECT chosen.*, model, place, trials.trial, trials.seed, end_reason, cases.question, cases.choices,
            cases.answer
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        WHERE NOT staffed AND end_reason IN ('final_diagnosis', 'no_question', 'turn_cap')
    )"""
_CLOSES = f"""arg_max(role, turn) <> 'patient' AND max(turn) > min(turn) FILTER (role = 'patient') AND (
            contains(lower(arg_max(text, turn)), '{FINAL_DIAGNOSIS.lower()}') OR NOT contains(arg_max(text, turn), '?'))
    """
"""Whether the last message of a dialogue is the doctor's and closes: the rule of ``history_taking.closes``."""
_TO_SOLVE = f"""
    WITH {_CONVERSATIONS}, drawn AS (FROM conversations ORDER BY md5(trial_id), trial_id LIMIT $limit),
    said AS (
        SELECT *, min(turn) FILTER (role = 'patient') OVER (PARTITION BY trial_id) AS opening
        FROM utterances SEMI JOIN drawn USING (trial_id)
    ), counts AS (
        SELECT trial_id, count(*) FILTER (role <> 'patient' AND turn > opening) AS asked, sum(length(text)) AS length,
            CASE WHEN {_CLOSES} THEN count(*) ELSE 0 END AS messages
        FROM said GROUP BY trial_id
    )
    SELECT trial_id, case_key, content_hash, trial, drawn.seed, grader, arms, len(choices),
        greatest(0, asked - (messages > 0)::INT),
        (length + length(question) + length(array_to_string(choices, ' ')))::BIGINT, messages
    FROM drawn JOIN counts USING (trial_id) JOIN runs USING (run_id) ORDER BY md5(trial_id), trial_id"""
_COUNTING = f"""closings AS (
        SELECT trial_id, count(*) AS total, coalesce({_CLOSES}, false) AS closes
        FROM utterances SEMI JOIN prefix_answers USING (trial_id) GROUP BY trial_id
    ), counting AS (
        SELECT prefix_answers.*, closes, closes AND messages = total AS saw_closing
        FROM prefix_answers JOIN closings USING (trial_id)
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, content_hash, question_type, share, solver, prompt_hash, grader, grader_prompts,
                saw_closing
            ORDER BY (verdict IS DISTINCT FROM 'provider_error') DESC, answered_at DESC, prefix_answers.rowid DESC) = 1
    )"""
_BY = f"""
    WITH {_COUNTING} SELECT {", ".join(PrefixAnswer._fields)} FROM counting
    WHERE solver = $solver AND prompt_hash = $prompt_hash AND trial_id IN (SELECT unnest($trials::VARCHAR[]))
    ORDER BY answered_at, trial_id, share"""
