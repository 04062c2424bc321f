"""Graders of free responses in the history of grades: who judged what, who contradicted itself, where two differ.

Of one grader the newest verdict on an answer counts that is not only its provider's failure. A grader that judged under
several versions of its prompts is one grader for each of them, and its name says so. Answers with choices are judged by
stated rules and are no matter here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import duckdb
import pandas as pd

from core.events import COUNTED, Format, QuestionType, Verdict
from core.store.conditions import FREE_RULES, SEPARATOR, who_judged
from core.store.queries.runs import run_records
from core.store.selection import IN_ARMS, UNANSWERED, Selection, select
from core.store.tables import records

FREE: tuple[QuestionType, ...] = ("frq", "frq_top3")
"""Question types that graders judge."""


@dataclass(frozen=True)
class GraderHeld:
    """A grader under one version of its prompts, and what is stored of it: ``verdicts`` on ``answers``.

    ``prompts`` are the hashes of its prompts that were noted; ``newest_at`` is in seconds since 1970.
    """

    grader: str
    answers: int
    verdicts: int
    prompts: tuple[str, ...]
    newest_at: float


class VerdictCount(NamedTuple):
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


def graders_held(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[GraderHeld]:
    """Return the graders of free responses of a selection, the one with most answers first."""
    chosen = selection or Selection()
    _select(cursor, chosen)
    parameters = chosen.parameters(_HELD) | {"free": list(FREE)}
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
    _select(cursor, chosen)
    names = [f"g{place}" for place in range(len(graders))]
    newest = "".join(f", arg_max(verdict, ROW(graded_at, place)) FILTER (grader = ${name}) AS {name}" for name in names)
    said = "".join(f", newest.{name}" for name in names)
    parameters = chosen.parameters(_COUNTS) | {"free": list(FREE)}
    rows = cursor.execute(_COUNTS.format(newest=newest, said=said), parameters | dict(zip(names, graders, strict=True)))
    about = len(VerdictCount._fields) - 1
    return [VerdictCount._make((*row[:about], row[about:])) for row in rows.fetchall()]


def flip_counts(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return how often each grader contradicted itself on what it met again in the answers of one ``model``.

    By ``grader``, ``model`` (the condition), ``same`` and ``right_answer``. ``pairs`` were met more than once, in
    ``verdicts`` verdicts; ``both`` of them were judged right at one time and not right at another, under the same
    prompts. A pair is the right answer, known by a number, with the ``same``
    ``response`` or ``diagnosis`` (what was read out of it), in any case of letters, or one and the same ``answer``.
    """
    _select(cursor, selection or Selection())
    return cursor.execute(_FLIPS, {"counted": list(COUNTED), "free": list(FREE)}).df()


def _select(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> None:
    """Do what ``select`` does without graders as a part of conditions, and put ``named_grades`` beside the tables.

    ``named_grades`` is ``grades`` with each row's number (``place``) and the name of its ``grader``, which tells
    versions of its prompts apart. Names do not depend on the selection: a version has one name everywhere.
    """
    select(cursor, selection, without=("grader",))
    rows = cursor.execute(_GRADED_UNDER, {"free": list(FREE)}).fetchall()
    runs = {run.run_id: run for run in run_records(cursor, sorted({run_id for run_id, _, _ in rows}))}
    told: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for run_id, grader, noted in rows:
        prompts = who_judged(runs[run_id], FREE_RULES[0], grader, noted, 0)[1]
        if prompts == "own":
            # Unknown, as the run's pack has changed since. A release's hash is that of its doctor's prompt alone, which
            # differs from model to model under one grader.
            prompts = "" if runs[run_id].source == "release" else f"of {runs[run_id].prompt_hash}"
        told.setdefault(grader, {}).setdefault(prompts, []).append((run_id, noted))
    cursor.execute(
        "CREATE OR REPLACE TEMP TABLE graded_under (run_id VARCHAR, grader VARCHAR, noted VARCHAR, name VARCHAR)"
    )
    several = [
        (run_id, grader, noted, f"{grader}{SEPARATOR}prompts {prompts[:_HASH] or 'of the release'}")
        for grader, versions in told.items()
        for prompts, places in versions.items()
        for run_id, noted in places
        if len(versions) > 1
    ]
    if several:
        cursor.executemany("INSERT INTO graded_under VALUES (?, ?, ?, ?)", several)
    cursor.execute(_NAMED)


_HASH = 9


_GRADED_UNDER = """
    SELECT DISTINCT run_id, grader, coalesce(grades.prompt_hash, '') FROM grades JOIN trials USING (trial_id)
    WHERE list_contains($free, rule) ORDER BY ALL"""


_NAMED = """
    CREATE OR REPLACE TEMP VIEW named_grades AS
    SELECT grades.* REPLACE (coalesce(name, grades.grader) AS grader), grades.rowid AS place
    FROM grades JOIN trials USING (trial_id)
    LEFT JOIN graded_under ON graded_under.run_id = trials.run_id AND graded_under.grader = grades.grader
        AND graded_under.noted = coalesce(grades.prompt_hash, '')"""


_HELD = f"""
    SELECT verdicts.grader, count(DISTINCT (verdicts.trial_id, verdicts.format, verdicts.question_type)), count(*),
        list(DISTINCT verdicts.prompt_hash ORDER BY verdicts.prompt_hash) FILTER (verdicts.prompt_hash <> ''),
        max(graded_at)
    FROM named_grades AS verdicts
    JOIN selected USING (trial_id) JOIN seated USING (run_id)
    ANTI JOIN repeats ON repeats.trial_id = verdicts.trial_id AND repeats.format = verdicts.format
        AND repeats.question_type = verdicts.question_type AND repeats.whole
    WHERE list_contains($free, rule) AND verdict <> 'provider_error' AND {IN_ARMS}
    GROUP BY verdicts.grader ORDER BY 2 DESC, verdicts.grader"""


_COUNTS = f"""
    WITH {UNANSWERED}, newest AS (
        SELECT trial_id, format, question_type {{newest}} FROM named_grades
        WHERE list_contains($free, rule) AND verdict <> 'provider_error' GROUP BY ALL
    ), asked AS (
        SELECT trial_id, format, question_type,
            CASE status WHEN 'invalid' THEN coalesce(reason, 'ungradable') END AS invalid FROM answers
        UNION ALL SELECT * FROM unanswered
    )
    SELECT model, verdicts.format, verdicts.question_type, case_key, dataset, specialty,
        invalid, count(*) {{said}}
    FROM asked AS verdicts
    JOIN selected USING (trial_id) JOIN seated USING (run_id)
    ANTI JOIN repeats ON repeats.trial_id = verdicts.trial_id AND repeats.format = verdicts.format
        AND repeats.question_type = verdicts.question_type AND repeats.whole
    LEFT JOIN newest ON newest.trial_id = verdicts.trial_id AND newest.format = verdicts.format
        AND newest.question_type = verdicts.question_type
    WHERE list_contains($free, verdicts.question_type) AND {IN_ARMS}
    GROUP BY ALL
    ORDER BY min(place), verdicts.format, verdicts.question_type, case_key"""


_SAME = {"response": "asking", "diagnosis": "judging", "answer": "asking"}


# Words are compared by their 64-bit hash: long texts would cost seconds. Verdicts with the same calls behind them are
# one judgement, taken over for another answer; of a diagnosis it is the last call that judged it.
_JUDGED = """
    WITH judged AS MATERIALIZED (
        SELECT grader, model, hash(lower(trim(cases.answer))) AS right_answer, hash(prompt_hash, rule) AS prompts,
            hash(lower(trim(answers.response))) AS response,
            CASE WHEN grades.extracted IS NOT NULL THEN hash(lower(trim(grades.extracted))) END AS diagnosis,
            hash(grades.trial_id, grades.format, grades.question_type) AS answer, verdict = 'correct' AS called_right,
            CASE WHEN len(call_ids) > 0 THEN hash(call_ids) ELSE grades.place END AS asking,
            CASE WHEN rule = 'frq' AND len(call_ids) > 0 THEN hash(call_ids[-1]) ELSE asking END AS judging
        FROM named_grades AS grades JOIN answers USING (trial_id, format, question_type)
        JOIN chosen ON chosen.trial_id = grades.trial_id JOIN seated ON seated.run_id = chosen.run_id
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        WHERE list_contains($free, rule) AND list_contains($counted, verdict) AND answers.response IS NOT NULL
    )"""


_PAIRS_OF = """
    SELECT grader, model, '{same}' AS same, right_answer, count(*) AS pairs, count(*) FILTER (flipped) AS both,
        sum(n)::BIGINT AS verdicts FROM (
        SELECT grader, model, right_answer, count(*) AS n, bool_or(ever) AND NOT bool_and(always) AS flipped FROM (
            SELECT grader, model, right_answer, prompts, {same}, bool_or(called_right) AS ever,
                bool_and(called_right) AS always
            FROM judged WHERE {same} IS NOT NULL GROUP BY grader, model, right_answer, prompts, {same}, {by}
        ) GROUP BY grader, model, right_answer, prompts, {same} HAVING count(*) > 1
    ) GROUP BY grader, model, right_answer"""


_FLIPS = (
    f"{_JUDGED} {' UNION ALL '.join(_PAIRS_OF.format(same=same, by=by) for same, by in _SAME.items())} ORDER BY ALL"
)


Direction = Literal["first", "second", "kind"]
"""Only the first verdict says correct, only the second does, or neither does and they name different reasons."""


@dataclass(frozen=True)
class Wanted:
    """Which differences: of two graders, or with ``graders`` empty of every answer's newest verdict and the one before.

    Without ``directions`` all count.
    """

    graders: tuple[str, str] | None = None
    selection: Selection = field(default_factory=Selection)
    directions: Sequence[Direction] = ()


@dataclass(frozen=True)
class Difference:
    """One answer with two verdicts that differ. Without named graders the first is the older one."""

    trial_id: str
    trial: int
    model: str
    case_key: str
    format: Format
    question_type: QuestionType
    answer: str | None
    response: str
    first_grader: str
    first_extracted: str | None
    first_verdict: Verdict
    second_grader: str
    second_extracted: str | None
    second_verdict: Verdict

    @property
    def direction(self) -> Direction:
        """Who says correct."""
        if self.first_verdict == "correct":
            return "first"
        return "second" if self.second_verdict == "correct" else "kind"


def count_differences(cursor: duckdb.DuckDBPyConnection, wanted: Wanted) -> dict[Direction, int]:
    """Return how many differences there are in each direction that is wanted."""
    sql = f"{_PAIRED[wanted.graders is None]} SELECT direction, count(*) FROM differing GROUP BY ALL"
    return dict(cursor.execute(sql, _parameters(cursor, wanted)).fetchall())


def differences(
    cursor: duckdb.DuckDBPyConnection, wanted: Wanted, limit: int | None = None, offset: int = 0
) -> list[Difference]:
    """Return differences in the order of case, model, arm and trial."""
    sql = f"{_PAIRED[wanted.graders is None]} {_READ}"
    found = records(cursor.execute(sql, {**_parameters(cursor, wanted), "limit": limit, "offset": offset}))
    return [Difference(**row) for row in found]


def difference_at(
    cursor: duckdb.DuckDBPyConnection, wanted: Wanted, trial_id: str, format_: str, question_type: str
) -> Difference | None:
    """Return the difference on one answer, ``None`` where there is none."""
    sql = f"""{_PAIRED[wanted.graders is None].replace("/* one answer */", _ONE)} {_READ}"""
    more = {"trial_id": trial_id, "format": format_, "question_type": question_type, "limit": 1, "offset": 0}
    found = records(cursor.execute(sql, {**_parameters(cursor, wanted), **more}))
    return Difference(**found[0]) if found else None


def _parameters(cursor: duckdb.DuckDBPyConnection, wanted: Wanted) -> dict[str, Any]:
    _select(cursor, wanted.selection)
    first, second = wanted.graders or (None, None)
    named = {} if wanted.graders is None else {"first": first, "second": second}
    common = {"free": list(FREE), "counted": list(COUNTED), "directions": list(wanted.directions) or None}
    return {**wanted.selection.parameters(_CHOSEN), **named, **common}


_ONE = "AND trial_id = $trial_id AND format = $format AND question_type = $question_type"


_NEWEST_OF = """
        SELECT trial_id, format, question_type, grader, extracted, verdict FROM named_grades
        WHERE grader = ${who} AND list_contains($free, rule) AND verdict <> 'provider_error' /* one answer */
        QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type
            ORDER BY graded_at DESC, place DESC) = 1"""


_TWO = """
        SELECT f.trial_id, f.format, f.question_type,
            f.grader AS first_grader, f.extracted AS first_extracted, f.verdict AS first_verdict,
            s.grader AS second_grader, s.extracted AS second_extracted, s.verdict AS second_verdict
        FROM f JOIN s ON s.trial_id = f.trial_id AND s.format = f.format AND s.question_type = f.question_type"""


_IN_TURN = """
    WITH ranked AS (
        SELECT *, row_number() OVER (PARTITION BY trial_id, format, question_type
            ORDER BY graded_at DESC, place DESC) AS turn
        FROM named_grades WHERE list_contains($free, rule) AND verdict <> 'provider_error' /* one answer */
    ), f AS (SELECT * FROM ranked WHERE turn = 2), s AS (SELECT * FROM ranked WHERE turn = 1)"""


_BY_NAME = f"""
    WITH f AS ({_NEWEST_OF.format(who="first")}), s AS ({_NEWEST_OF.format(who="second")})"""


_CHOSEN = f""", paired AS ({_TWO}
        WHERE f.verdict <> s.verdict AND list_contains($counted, f.verdict) AND list_contains($counted, s.verdict)
    ), differing AS (
        SELECT verdicts.*, model, trials.trial, selected.case_key, cases.answer,
            CASE WHEN first_verdict = 'correct' THEN 'first' WHEN second_verdict = 'correct' THEN 'second'
                 ELSE 'kind' END AS direction
        FROM paired AS verdicts JOIN trials USING (trial_id) JOIN selected USING (trial_id)
        JOIN seated ON seated.run_id = trials.run_id
        ANTI JOIN repeats ON repeats.trial_id = verdicts.trial_id AND repeats.format = verdicts.format
            AND repeats.question_type = verdicts.question_type AND repeats.whole
        LEFT JOIN cases ON cases.case_key = selected.case_key AND cases.content_hash = selected.content_hash
        WHERE {IN_ARMS} AND ($directions::VARCHAR[] IS NULL OR list_contains($directions, direction))
    )"""


_PAIRED = {True: _IN_TURN + _CHOSEN, False: _BY_NAME + _CHOSEN}
"""By whether the newest verdict is held against the one before it."""


_READ = """
    SELECT differing.trial_id, trial, model, case_key, differing.format, differing.question_type, answer, response,
        first_grader, first_extracted, first_verdict, second_grader, second_extracted, second_verdict
    FROM differing JOIN answers ON answers.trial_id = differing.trial_id AND answers.format = differing.format
        AND answers.question_type = differing.question_type
    ORDER BY length(case_key), case_key, model, differing.format, differing.question_type, trial, differing.trial_id
    LIMIT $limit OFFSET $offset"""
