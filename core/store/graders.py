"""Graders of free responses in the history of grades: who judged what, what each says now, who contradicted itself.

Of one grader the newest verdict on an answer counts that is not only its provider's failure. Answers with choices are
judged by stated rules and are no matter here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from core.events import COUNTED, Format, QuestionType, Verdict
from core.store.selection import SELECTED, UNANSWERED, Selection, select

FREE: tuple[QuestionType, ...] = ("frq", "frq_top3")
"""Question types that graders judge."""


@dataclass(frozen=True)
class GraderHeld:
    """A grader and what is stored of it: ``verdicts`` on ``answers``, under so many sets of prompts.

    ``prompts`` are the hashes of those that were noted; ``newest_at`` is in seconds since 1970.
    """

    grader: str
    answers: int
    verdicts: int
    prompts: tuple[str, ...]
    newest_at: float


@dataclass(frozen=True)
class VerdictCount:
    """``n`` free responses to one case in one arm of one model of which the graders said the same.

    ``verdicts`` are in the order in which graders were asked for, ``None`` where one has not judged. ``invalid`` says
    why there was nothing to judge.
    """

    model: str
    format: Format
    question_type: QuestionType
    case_key: str
    dataset: str | None
    specialty: str | None
    invalid: Verdict | None
    n: int
    verdicts: tuple[Verdict | None, ...]


@dataclass(frozen=True)
class Flips:
    """A grader that met the same again: ``pairs`` met more than once, in ``verdicts`` verdicts.

    ``both`` of the pairs were judged right at one time and not right at another, under the same prompts. A pair is the
    right answer with the ``same`` response, or with the same diagnosis read out of it, in any case of letters.
    """

    grader: str
    same: str
    pairs: int
    both: int
    verdicts: int


@dataclass(frozen=True)
class FlipCount:
    """The pairs of a grader that have one right answer, known by a number: what ``Flips`` are summed from."""

    grader: str
    same: str
    right_answer: int
    pairs: int
    both: int
    verdicts: int


def graders_held(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[GraderHeld]:
    """Return the graders of free responses of a selection, the one with most answers first."""
    chosen = selection or Selection()
    select(cursor, chosen, without=("grader",))
    parameters = {**chosen.parameters(), "free": list(FREE)}
    return [
        GraderHeld(grader, answers, verdicts, tuple(prompts or ()), at)
        for grader, answers, verdicts, prompts, at in cursor.execute(_HELD, parameters).fetchall()
    ]


def verdict_counts(
    cursor: duckdb.DuckDBPyConnection, graders: Sequence[str], selection: Selection | None = None
) -> list[VerdictCount]:
    """Return what the named graders say now of every free response of a selection, counted.

    Graders are what is compared, so they are no part of the conditions here.
    """
    chosen = selection or Selection()
    select(cursor, chosen, without=("grader",))
    names = [f"g{place}" for place in range(len(graders))]
    newest = "".join(f", arg_max(verdict, ROW(graded_at, rowid)) FILTER (grader = ${name}) AS {name}" for name in names)
    said = "".join(f", newest.{name}" for name in names)
    parameters = {**chosen.parameters(), "free": list(FREE)}
    rows = cursor.execute(_COUNTS.format(newest=newest, said=said), parameters | dict(zip(names, graders, strict=True)))
    about = len(_ABOUT)
    return [VerdictCount(**dict(zip(_ABOUT, row, strict=False)), verdicts=row[about:]) for row in rows.fetchall()]


def flip_counts(cursor: duckdb.DuckDBPyConnection, runs: Sequence[str] | None = None) -> list[FlipCount]:
    """Return how often each grader contradicted itself on words it met again, by right answer.

    ``same`` is ``response``, ``diagnosis`` (what it read out of the response), or ``answer`` where one and the same
    answer was judged again.
    """
    parameters = {"counted": list(COUNTED), "free": list(FREE), "runs": None if runs is None else list(runs)}
    return [FlipCount(*row) for row in cursor.execute(_FLIPS, parameters).fetchall()]


def flips(cursor: duckdb.DuckDBPyConnection) -> list[Flips]:
    """Return how often each grader contradicted itself on free responses it met more than once."""
    sums: dict[tuple[str, str], list[int]] = {}
    for one in flip_counts(cursor):
        if one.same != "answer":
            held = sums.setdefault((one.grader, one.same), [0, 0, 0])
            sums[one.grader, one.same] = [held[0] + one.pairs, held[1] + one.both, held[2] + one.verdicts]
    return [Flips(grader, same, *numbers) for (grader, same), numbers in sums.items()]


_ABOUT = ("model", "format", "question_type", "case_key", "dataset", "specialty", "invalid", "n")
_HELD = f"""
    SELECT verdicts.grader, count(DISTINCT (verdicts.trial_id, verdicts.format, verdicts.question_type)), count(*),
        list(DISTINCT verdicts.prompt_hash ORDER BY verdicts.prompt_hash) FILTER (verdicts.prompt_hash <> ''),
        max(graded_at)
    FROM grades AS verdicts
    JOIN trials USING (trial_id) JOIN seated ON seated.run_id = trials.run_id
    LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    WHERE list_contains($free, rule) AND verdict <> 'provider_error' AND {SELECTED}
    GROUP BY verdicts.grader ORDER BY 2 DESC, verdicts.grader"""
_COUNTS = f"""
    WITH {UNANSWERED}, newest AS (
        SELECT trial_id, format, question_type {{newest}} FROM grades
        WHERE list_contains($free, rule) AND verdict <> 'provider_error' GROUP BY ALL
    ), asked AS (
        SELECT trial_id, format, question_type,
            CASE status WHEN 'invalid' THEN coalesce(reason, 'ungradable') END AS invalid FROM answers
        UNION ALL SELECT * FROM unanswered
    )
    SELECT model, verdicts.format, verdicts.question_type, trials.case_key, cases.dataset, cases.specialty,
        invalid, count(*) {{said}}
    FROM asked AS verdicts
    JOIN trials USING (trial_id) JOIN seated ON seated.run_id = trials.run_id
    LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    LEFT JOIN newest ON newest.trial_id = verdicts.trial_id AND newest.format = verdicts.format
        AND newest.question_type = verdicts.question_type
    WHERE list_contains($free, verdicts.question_type) AND {SELECTED}
    GROUP BY ALL
    ORDER BY min(place), verdicts.format, verdicts.question_type, trials.case_key"""
_SAME = {"response": "asking", "diagnosis": "judging", "answer": "asking"}
# Words are compared by their 64-bit hash: long texts would cost seconds. Verdicts with the same calls behind them are
# one judgement, taken over for another answer; of a diagnosis it is the last call that judged it.
_JUDGED = """
    WITH judged AS MATERIALIZED (
        SELECT grader, hash(lower(trim(cases.answer))) AS right_answer, hash(prompt_hash, rule) AS prompts,
            hash(lower(trim(answers.response))) AS response,
            CASE WHEN grades.extracted IS NOT NULL THEN hash(lower(trim(grades.extracted))) END AS diagnosis,
            hash(grades.trial_id, grades.format, grades.question_type) AS answer, verdict = 'correct' AS called_right,
            CASE WHEN len(call_ids) > 0 THEN hash(call_ids) ELSE grades.rowid END AS asking,
            CASE WHEN rule = 'frq' AND len(call_ids) > 0 THEN hash(call_ids[-1]) ELSE asking END AS judging
        FROM grades JOIN answers USING (trial_id, format, question_type)
        JOIN trials ON trials.trial_id = grades.trial_id
        JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE list_contains($free, rule) AND list_contains($counted, verdict) AND answers.response IS NOT NULL
            AND ($runs::VARCHAR[] IS NULL OR list_contains($runs, trials.run_id))
    )"""
_PAIRS_OF = """
    SELECT grader, '{same}' AS same, right_answer, count(*), count(*) FILTER (flipped), sum(n)::BIGINT FROM (
        SELECT grader, right_answer, count(*) AS n, bool_or(ever) AND NOT bool_and(always) AS flipped FROM (
            SELECT grader, right_answer, prompts, {same}, bool_or(called_right) AS ever,
                bool_and(called_right) AS always
            FROM judged WHERE {same} IS NOT NULL GROUP BY grader, right_answer, prompts, {same}, {by}
        ) GROUP BY grader, right_answer, prompts, {same} HAVING count(*) > 1
    ) GROUP BY grader, right_answer"""
_FLIPS = (
    f"{_JUDGED} {' UNION ALL '.join(_PAIRS_OF.format(same=same, by=by) for same, by in _SAME.items())} ORDER BY ALL"
)
