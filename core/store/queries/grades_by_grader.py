"""Graders of free responses: which answers they judged, how often they contradict themselves, where two differ.

The newest verdict of a grader on an answer counts, provider errors aside. A grader with several versions of its prompts
is a separate grader for each version, with a name that says so. Answers with choices are in ``choice_verdicts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import duckdb
import pandas as pd

from core.events import COUNTED, Format, QuestionType, Rule, Verdict
from core.store.conditions import FREE_RULES, SEPARATOR, who_judged
from core.store.queries.answers import UNANSWERED
from core.store.queries.runs import run_records
from core.store.selection import IN_ARMS, Selection, select
from core.store.tables import records

FREE: tuple[Literal["frq", "frq_top3"], ...] = ("frq", "frq_top3")
"""Question types of free responses, and the rules of their verdicts."""


@dataclass(frozen=True)
class StoredGrader:
    """A grader with one version of its prompts, and the numbers of its ``verdicts`` and of the ``answers`` it judged.

    ``prompts`` are the recorded hashes of its prompts; ``newest_at`` is in seconds since 1970.
    """

    grader: str
    answers: int
    verdicts: int
    prompts: tuple[str, ...]
    newest_at: float


class VerdictCount(NamedTuple):
    """``n`` free responses of a run to one case in one arm of one model with the same verdicts.

    ``verdicts`` has one verdict per requested grader, ``None`` if it has not judged. ``invalid`` says why there was
    nothing to judge.
    """

    model: str
    format: Format
    question_type: QuestionType
    case_key: str
    dataset: str | None
    specialty: str | None
    run_id: str
    invalid: Verdict | None
    n: int
    verdicts: tuple[Verdict | None, ...]


def stored_graders(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[StoredGrader]:
    """Return the graders of free responses in a selection, those with most answers first."""
    chosen = selection or Selection()
    select_graders(cursor, chosen)
    parameters = chosen.parameters(_STORED) | {"free": list(FREE)}
    return [
        StoredGrader(grader, answers, verdicts, tuple(prompts or ()), at)
        for grader, answers, verdicts, prompts, at in cursor.execute(_STORED, parameters).fetchall()
    ]


def verdict_counts(
    cursor: duckdb.DuckDBPyConnection, graders: Sequence[str], selection: Selection | None = None
) -> list[VerdictCount]:
    """Count the combinations of these graders' newest verdicts on the free responses of a selection.

    The graders are compared, so they are not part of the conditions here.
    """
    chosen = selection or Selection()
    select_graders(cursor, chosen)
    names = [f"g{place}" for place in range(len(graders))]
    newest = "".join(f", arg_max(verdict, ROW(graded_at, place)) FILTER (grader = ${name}) AS {name}" for name in names)
    columns = "".join(f", newest.{name}" for name in names)
    parameters = chosen.parameters(_COUNTS) | {"free": list(FREE)}
    sql = _COUNTS.format(newest=newest, columns=columns)
    rows = cursor.execute(sql, parameters | dict(zip(names, graders, strict=True)))
    before = len(VerdictCount._fields) - 1
    return [VerdictCount._make((*row[:before], row[before:])) for row in rows.fetchall()]


def free_verdicts(
    cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]
) -> dict[tuple[str, str], list[tuple[str, Verdict]]]:
    """Return (trial, format) → each grader with its newest verdict on the free response, provider errors aside."""
    name_graders(cursor, FREE)
    cursor.execute(_NAMED)
    verdicts: dict[tuple[str, str], list[tuple[str, Verdict]]] = {}
    for trial_id, format_, grader, verdict in cursor.execute(_FREE_VERDICTS, [list(trial_ids)]).fetchall():
        verdicts.setdefault((trial_id, format_), []).append((grader, verdict))
    return verdicts


_FREE_VERDICTS = """
    SELECT trial_id, format, grader, verdict FROM named_grades
    WHERE rule = 'frq' AND verdict <> 'provider_error' AND list_contains(?, trial_id)
    QUALIFY row_number() OVER (PARTITION BY trial_id, format, grader ORDER BY graded_at DESC, place DESC) = 1
    ORDER BY trial_id, format, grader"""


def flip_counts(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return how often each grader contradicted itself when it judged the same pair again.

    A row for each ``grader``, ``model`` (the condition), ``same`` and ``right_answer`` (a hash). A pair is the right
    answer with the ``same`` ``response`` or ``diagnosis`` (as read from it), ignoring case, or one ``answer``.
    ``pairs`` were judged more than once, in ``verdicts`` verdicts; ``both`` of them were judged right and not right
    with the same prompts.
    """
    select_graders(cursor, selection or Selection())
    return cursor.execute(_FLIPS, {"counted": list(COUNTED), "free": list(FREE)}).df()


def select_graders(cursor: duckdb.DuckDBPyConnection, selection: Selection, rules: Sequence[Rule] = FREE) -> None:
    """Run ``select`` without graders as a part of conditions, and create the view ``named_grades``.

    The view is ``grades`` with the number of each row (``place``) and a name of the ``grader`` that includes the
    version of its prompts among verdicts under ``rules``. Names do not depend on the selection: a version has the same
    name everywhere.
    """
    select(cursor, selection, without=("grader",))
    name_graders(cursor, rules)
    cursor.execute(_NAMED)


def name_graders(cursor: duckdb.DuckDBPyConnection, rules: Sequence[Rule] = FREE) -> None:
    """Create the table ``graded_under``: run, stored grader and hash → name of a grader with several prompts."""
    rows = cursor.execute(_GRADED_UNDER, {"free": list(rules)}).fetchall()
    runs = {run.run_id: run for run in run_records(cursor, sorted({run_id for run_id, _, _ in rows}))}
    versions_of: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for run_id, grader, stored_hash in rows:
        prompts = who_judged(runs[run_id], FREE_RULES[0], grader, stored_hash, 0)[1]
        if prompts == "own":
            # The prompts are unknown, because the run's pack has changed since. The hash of a release is that of the
            # doctor's prompt, which differs between models with the same grader.
            prompts = "" if runs[run_id].source == "release" else f"of {runs[run_id].prompt_hash}"
        versions_of.setdefault(grader, {}).setdefault(prompts, []).append((run_id, stored_hash))
    cursor.execute(
        "CREATE OR REPLACE TEMP TABLE graded_under (run_id VARCHAR, grader VARCHAR, stored_hash VARCHAR, name VARCHAR)"
    )
    several = [
        (run_id, grader, stored_hash, f"{grader}{SEPARATOR}prompts {prompts[:_HASH] or 'of the release'}")
        for grader, versions in versions_of.items()
        for prompts, grades in versions.items()
        for run_id, stored_hash in grades
        if len(versions) > 1
    ]
    if several:
        cursor.executemany("INSERT INTO graded_under VALUES (?, ?, ?, ?)", several)


_HASH = 9


_GRADED_UNDER = """
    SELECT DISTINCT run_id, grader, coalesce(grades.prompt_hash, '') FROM grades JOIN trials USING (trial_id)
    WHERE list_contains($free, rule) ORDER BY ALL"""


_NAMED = """
    CREATE OR REPLACE TEMP VIEW named_grades AS
    SELECT grades.* REPLACE (coalesce(name, grades.grader) AS grader), grades.rowid AS place
    FROM grades JOIN trials USING (trial_id)
    LEFT JOIN graded_under ON graded_under.run_id = trials.run_id AND graded_under.grader = grades.grader
        AND graded_under.stored_hash = coalesce(grades.prompt_hash, '')"""


_STORED = f"""
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
    ), responses AS (
        SELECT trial_id, format, question_type,
            CASE status WHEN 'invalid' THEN coalesce(reason, 'ungradable') END AS invalid FROM answers
        UNION ALL SELECT * FROM unanswered
    )
    SELECT model, verdicts.format, verdicts.question_type, case_key, dataset, specialty,
        run_id, invalid, count(*) {{columns}}
    FROM responses AS verdicts
    JOIN selected USING (trial_id) JOIN seated USING (run_id)
    ANTI JOIN repeats ON repeats.trial_id = verdicts.trial_id AND repeats.format = verdicts.format
        AND repeats.question_type = verdicts.question_type AND repeats.whole
    LEFT JOIN newest ON newest.trial_id = verdicts.trial_id AND newest.format = verdicts.format
        AND newest.question_type = verdicts.question_type
    WHERE list_contains($free, verdicts.question_type) AND {IN_ARMS}
    GROUP BY ALL
    ORDER BY min(place), verdicts.format, verdicts.question_type, case_key, run_id"""


_SAME = {"response": "asking", "diagnosis": "judging", "answer": "asking"}


# Texts are compared by their 64-bit hash: comparing long texts takes seconds. Verdicts with the same calls are one
# judgement that was reused for another answer; the last call is the one that judged the diagnosis.
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
"""Only the first verdict is correct, only the second is, or neither is and their reasons differ."""


@dataclass(frozen=True)
class DifferenceFilter:
    """A filter of differences: between two graders, or without ``graders`` between the two newest verdicts of answers.

    Empty ``directions`` are no restriction.
    """

    graders: tuple[str, str] | None = None
    selection: Selection = field(default_factory=Selection)
    directions: Sequence[Direction] = ()


@dataclass(frozen=True)
class VerdictDifference:
    """One answer with two different verdicts. Without graders in the filter the first is the older verdict."""

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


def count_differences(cursor: duckdb.DuckDBPyConnection, filter_: DifferenceFilter) -> dict[Direction, int]:
    sql = f"{_PAIRED[filter_.graders is None]} SELECT direction, count(*) FROM differing GROUP BY ALL"
    return dict(cursor.execute(sql, _parameters(cursor, filter_)).fetchall())


def differences(
    cursor: duckdb.DuckDBPyConnection, filter_: DifferenceFilter, limit: int | None = None, offset: int = 0
) -> list[VerdictDifference]:
    """Return differences in the order of case, model, arm and trial."""
    sql = f"{_PAIRED[filter_.graders is None]} {_READ}"
    rows = records(cursor.execute(sql, {**_parameters(cursor, filter_), "limit": limit, "offset": offset}))
    return [VerdictDifference(**row) for row in rows]


def difference_at(
    cursor: duckdb.DuckDBPyConnection, filter_: DifferenceFilter, trial_id: str, format_: str, question_type: str
) -> VerdictDifference | None:
    sql = f"""{_PAIRED[filter_.graders is None].replace("/* one answer */", _ONE)} {_READ}"""
    more = {"trial_id": trial_id, "format": format_, "question_type": question_type, "limit": 1, "offset": 0}
    rows = records(cursor.execute(sql, {**_parameters(cursor, filter_), **more}))
    return VerdictDifference(**rows[0]) if rows else None


def _parameters(cursor: duckdb.DuckDBPyConnection, filter_: DifferenceFilter) -> dict[str, Any]:
    select_graders(cursor, filter_.selection)
    first, second = filter_.graders or (None, None)
    graders = {} if filter_.graders is None else {"first": first, "second": second}
    common = {"free": list(FREE), "counted": list(COUNTED), "directions": list(filter_.directions) or None}
    return {**filter_.selection.parameters(_CHOSEN), **graders, **common}


_ONE = "AND trial_id = $trial_id AND format = $format AND question_type = $question_type"


_NEWEST_OF = """
        SELECT trial_id, format, question_type, grader, extracted, verdict FROM named_grades
        WHERE grader = ${grader} AND list_contains($free, rule) AND verdict <> 'provider_error' /* one answer */
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
    WITH f AS ({_NEWEST_OF.format(grader="first")}), s AS ({_NEWEST_OF.format(grader="second")})"""


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
"""Keyed by whether the two newest verdicts of any grader are compared, instead of two graders."""


_READ = """
    SELECT differing.trial_id, trial, model, case_key, differing.format, differing.question_type, answer, response,
        first_grader, first_extracted, first_verdict, second_grader, second_extracted, second_verdict
    FROM differing JOIN answers ON answers.trial_id = differing.trial_id AND answers.format = differing.format
        AND answers.question_type = differing.question_type
    ORDER BY length(case_key), case_key, model, differing.format, differing.question_type, trial, differing.trial_id
    LIMIT $limit OFFSET $offset"""
