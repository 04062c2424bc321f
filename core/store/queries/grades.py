"""Verdicts on answers: those of one trial, those of every judge, and the answers that a grader still has to judge.

A judge is a grader, or a rule that reads choices. Its newest verdict on an answer counts, provider errors aside. A
grader with several versions of its prompts is a separate judge for each version, with a name that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import duckdb
import pandas as pd

from core.events import COUNTED, Format, Graded, QuestionType, Rule, Verdict
from core.store.conditions import ACCEPTED, FREE_RULES, SEPARATOR, who_judged
from core.store.queries.answers import OUTCOMES, UNANSWERED
from core.store.queries.cases import CaseKey
from core.store.queries.runs import run_records
from core.store.selection import IN_ARMS, Selection, select
from core.store.tables import records

FREE: tuple[Literal["frq", "frq_top3"], ...] = ("frq", "frq_top3")
"""Question types of free responses, and the rules of their verdicts."""
CHOICE_RULES: tuple[Rule, ...] = ("mcq_loose", "mcq_strict")


class Answers(NamedTuple):
    """Answers to questions of these ``types``, and the ``rules`` under which graders' verdicts on them are stored.

    With ``by_rule`` the rules that read choices are judges, too.
    """

    types: Sequence[QuestionType]
    rules: Sequence[Rule]
    by_rule: Sequence[Rule] = ()


FREE_RESPONSES = Answers(FREE, FREE)
CHOICES = Answers(("mcq", "mcq_many"), ("mcq_graded", "mcq_many"), CHOICE_RULES)


class VerdictCount(NamedTuple):
    """``n`` answers of a run to one case in one arm of one model with the same verdicts.

    ``verdicts`` has one verdict per requested judge, ``None`` if it has not judged. ``invalid`` says why there was
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


def select_judges(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None, of: Answers = FREE_RESPONSES
) -> Selection:
    """Run ``select`` without graders as a part of conditions, because they are compared; create ``verdicts_of``.

    ``verdicts_of`` are the verdicts on ``of`` with the name of the ``judge`` and the number of each row (``place``).
    Names do not depend on the selection: a version of prompts has the same name everywhere.
    """
    chosen = selection or Selection()
    select(cursor, chosen, without=("grader",))
    _name_judges(cursor, of)
    return chosen


def stored_graders(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, of: Answers = FREE_RESPONSES
) -> list[dict[str, Any]]:
    """Return the graders of answers in a selection, those with most answers first.

    Columns: ``grader``; numbers of ``answers`` and ``verdicts``; hashes of its ``prompts``, and the time of the
    ``newest`` verdict in seconds since 1970.
    """
    parameters = select_judges(cursor, selection, of._replace(by_rule=())).parameters(_STORED)
    return list(records(cursor.execute(_STORED, parameters)))


def verdict_counts(
    cursor: duckdb.DuckDBPyConnection,
    judges: Sequence[str],
    selection: Selection | None = None,
    of: Answers = FREE_RESPONSES,
) -> list[VerdictCount]:
    """Count the combinations of these judges' newest verdicts on the answers of a selection."""
    chosen = select_judges(cursor, selection, of)
    names = [f"g{place}" for place in range(len(judges))]
    newest = "".join(f", arg_max(verdict, ROW(graded_at, place)) FILTER (judge = ${name}) AS {name}" for name in names)
    sql = _COUNTS.format(newest=newest, columns="".join(f", verdicts.{name}" for name in names))
    parameters = chosen.parameters(_COUNTS) | {"types": list(of.types)} | dict(zip(names, judges, strict=True))
    before = len(VerdictCount._fields) - 1
    return [VerdictCount._make((*row[:before], row[before:])) for row in cursor.execute(sql, parameters).fetchall()]


def differences(
    cursor: duckdb.DuckDBPyConnection,
    pair: tuple[str, str] | None = None,
    selection: Selection | None = None,
    of: Answers = FREE_RESPONSES,
) -> Iterator[dict[str, Any]]:
    """Yield the answers on which two judges differ, or the two newest verdicts of any judge, the older one first.

    Verdicts that do not count are no difference. The order is that of case, model, arm and trial.
    """
    chosen = select_judges(cursor, selection, of)
    sql = (_IN_TURN if pair is None else _BY_NAME) + _DIFFERING
    first, second = pair or (None, None)
    parameters = {"counted": list(COUNTED)} | ({"first": first, "second": second} if pair else {})
    yield from records(cursor.execute(sql, chosen.parameters(sql) | parameters))


def free_verdicts(
    cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]
) -> dict[tuple[str, str], list[tuple[str, Verdict]]]:
    """Return (trial, format) → each grader with its newest verdict on the free response."""
    _name_judges(cursor, Answers(("frq",), ("frq",)))
    verdicts: dict[tuple[str, str], list[tuple[str, Verdict]]] = {}
    for trial_id, format_, grader, verdict in cursor.execute(_FREE_VERDICTS, [list(trial_ids)]).fetchall():
        verdicts.setdefault((trial_id, format_), []).append((grader, verdict))
    return verdicts


def flip_counts(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return how often each grader contradicted itself when it judged the same pair again.

    A row for each ``grader``, ``model`` (the condition), ``same`` and ``right_answer`` (a hash). A pair is the right
    answer with the ``same`` ``response`` or ``diagnosis`` (as read from it), ignoring case, or one ``answer``.
    ``pairs`` were judged more than once, in ``verdicts`` verdicts; ``both`` of them were judged right and not right
    with the same prompts.
    """
    select_judges(cursor, selection)
    return cursor.execute(_FLIPS, {"counted": list(COUNTED)}).df()


def trial_gradings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each answer of the selected conditions, in the order of conditions, cases and trials.

    Columns: model (the condition), format, question_type, case_key, verdict, ``counted``, and ``gradings``: whether
    each grading of the answer is right, one for a verdict by rule. Of a model's gradings only those with requests of
    their own count: a verdict that was reused is no second grading.
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    _name_judges(cursor, FREE_RESPONSES)
    parameters = {**chosen.parameters(_GRADINGS), "counting": list(COUNTED), "free": list(FREE)}
    return cursor.execute(_GRADINGS, parameters).df()


def _name_judges(cursor: duckdb.DuckDBPyConnection, of: Answers) -> None:
    """Create ``verdicts_of``, and ``graded_under``: run, grader and hash → name of a grader with several prompts."""
    rows = cursor.execute(_GRADED_UNDER, {"rules": list(of.rules)}).fetchall()
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
        (run_id, grader, stored_hash, f"{grader}{SEPARATOR}prompts {prompts[:9] or 'of the release'}")
        for grader, versions in versions_of.items()
        for prompts, grades in versions.items()
        for run_id, stored_hash in grades
        if len(versions) > 1
    ]
    if several:
        cursor.executemany("INSERT INTO graded_under VALUES (?, ?, ?, ?)", several)
    cursor.execute(f"{_VERDICTS_OF}{[*of.rules, *of.by_rule]}::VARCHAR[], rule)")


def latest_grades(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Graded]:
    """Return the grades that count: the newest of each arm and rule."""
    return _grades(cursor, "newest_grades", trial_id)


def grade_history(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Graded]:
    """Return every grade of the answers of a trial, the oldest first."""
    return _grades(cursor, "grades", trial_id)


def _grades(cursor: duckdb.DuckDBPyConnection, table: str, trial_id: str) -> list[Graded]:
    sql = f"""
        SELECT format, question_type, grader, rule, extracted, verdict, call_ids, graded_at AS at, prompt_hash,
            rule_version
        FROM {table} WHERE trial_id = ? ORDER BY graded_at"""
    return [Graded(**row) for row in records(cursor.execute(sql, [trial_id]))]


@dataclass(frozen=True)
class AnswerToGrade:
    """A stored answer and its current verdict.

    The verdict on a free response is that of ``grader`` with prompts of ``prompt_hash`` (empty: those of the run, or
    none); all are ``None`` if it is not judged yet. An answer with choices is read by the strict rule.
    """

    trial_id: str
    case_key: str
    content_hash: str | None
    format: Format
    question_type: QuestionType
    response: str
    verdict: Verdict | None
    grader: str | None = None
    prompt_hash: str | None = None
    rule_version: int | None = None
    extracted: str | None = None

    @property
    def case(self) -> CaseKey:
        return self.case_key, self.content_hash


class ResponseVerdict(NamedTuple):
    """A grader's verdict on a response, and its calls; a reused verdict keeps them, which marks it as reused."""

    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()


def answers_to_grade(
    cursor: duckdb.DuckDBPyConnection,
    run_id: str,
    rules: Mapping[QuestionType, Rule],
    limit: int | None = None,
    *,
    accepting: str = "",
) -> list[AnswerToGrade]:
    """Return the answers of a run to questions of these types, ordered by trial number, case and trial.

    ``rules`` is question type → the rule under which its present verdict is stored. ``accepting`` is the prompt hash
    of verdicts that count further accepted answers; others have no such verdict.
    """
    parameters: dict[str, Any] = {
        "run_id": run_id, "types": list(rules), "rules": list(rules.values()), "limit": limit,
        "accepting": accepting, "prefix": ACCEPTED,
    }  # fmt: skip
    return [AnswerToGrade(*row) for row in cursor.execute(_TO_GRADE, parameters).fetchall()]


def earlier_verdicts(
    cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str, reading: int = 1
) -> dict[tuple[QuestionType, str, str], ResponseVerdict]:
    """Return (question type, right answer, response) → a model's newest verdict with these prompts.

    Verdicts that a version of the parser before ``reading`` could not read are omitted: they may be readable now. The
    name of a prompt pack after that of the model (``openai/gpt-4o [mine]``) is ignored if the prompts are equal.
    """
    rows = cursor.execute(_EARLIER, {"model": model, "prompt_hash": prompt_hash, "reading": reading}).fetchall()
    return {
        (question_type, answer, response): ResponseVerdict(extracted, verdict, tuple(calls))
        for question_type, answer, response, extracted, verdict, calls in rows
    }


def choices_to_read(cursor: duckdb.DuckDBPyConnection, run_id: str, version: int) -> list[AnswerToGrade]:
    """Return a run's answers that the strict rule read in a version before ``version``, by trial number and case."""
    rows = cursor.execute(_TO_READ, {"run_id": run_id, "version": version}).fetchall()
    return [AnswerToGrade(*row) for row in rows]


def runs_read_before(cursor: duckdb.DuckDBPyConnection, version: int) -> list[str]:
    """Return the ids of the runs for which ``choices_to_read`` returns answers, the oldest first."""
    if not _read_before(cursor, version):
        return []
    return [run_id for (run_id,) in cursor.execute(_READ_BEFORE, {"version": version}).fetchall()]


def count_read_before(cursor: duckdb.DuckDBPyConnection, version: int, selection: Selection | None = None) -> int:
    """Return the number of selected answers that the strict rule read in a version before ``version``."""
    if not _read_before(cursor, version):
        return 0
    chosen = selection or Selection()
    select(cursor, chosen, without=("reader",))
    parameters = chosen.parameters(_COUNT_READ_BEFORE) | {"version": version}
    (count,) = cursor.execute(_COUNT_READ_BEFORE, parameters).fetchone() or (0,)
    return int(count)


def _read_before(cursor: duckdb.DuckDBPyConnection, version: int) -> bool:
    """Return whether any verdict of the strict rule is of a version before ``version``; fast, unlike their newest."""
    sql = """
        SELECT 1 FROM judged WHERE rule = 'mcq_strict' AND rule_version < ?
        GROUP BY run_id, grader, rule_version HAVING sum(n) > 0 LIMIT 1"""
    return bool(cursor.execute(sql, [version]).fetchall())


_MODEL = "split_part(grades.grader, ' [', 1)"
"""The model of a stored grader, whose name may end with that of a prompt pack."""

_TO_GRADE = """
    WITH of_run AS (SELECT trial_id, case_key, content_hash, trial FROM trials WHERE run_id = $run_id),
    newest AS (
        SELECT trial_id, format, question_type, verdict, grader, prompt_hash, rule_version, extracted
        FROM grades SEMI JOIN of_run USING (trial_id)
        WHERE list_contains($rules, rule)
            AND if(starts_with(coalesce(prompt_hash, ''), $prefix), prompt_hash, '') = $accepting
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1
    )
    SELECT trial_id, case_key, content_hash, answers.format, answers.question_type, answers.response,
        newest.verdict, newest.grader, newest.prompt_hash, newest.rule_version, newest.extracted
    FROM of_run JOIN answers USING (trial_id) LEFT JOIN newest USING (trial_id, format, question_type)
    WHERE answers.status = 'answered' AND answers.response IS NOT NULL AND list_contains($types, answers.question_type)
    ORDER BY trial, case_key, trial_id, answers.format, answers.question_type LIMIT $limit"""

_EARLIER = f"""
    SELECT grades.question_type, cases.answer, answers.response, grades.extracted, grades.verdict, grades.call_ids
    FROM grades JOIN answers USING (trial_id, format, question_type)
    JOIN trials ON trials.trial_id = grades.trial_id
    JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    WHERE {_MODEL} = $model AND grades.prompt_hash = $prompt_hash
        AND grades.verdict <> 'provider_error'
        AND (grades.verdict <> 'ungradable' OR coalesce(grades.rule_version, 1) >= $reading)
        AND answers.response IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY grades.question_type, cases.answer, answers.response
        ORDER BY grades.graded_at DESC, grades.rowid DESC) = 1"""

_STRICT = """
    SELECT trial_id, format, question_type, verdict, rule_version FROM grades {where} rule = 'mcq_strict'
    QUALIFY row_number() OVER (
        PARTITION BY trial_id, format, question_type ORDER BY graded_at DESC, rowid DESC) = 1"""
"""The newest verdict of the strict rule."""

_TO_READ = f"""
    WITH of_run AS (SELECT trial_id, case_key, content_hash, trial FROM trials WHERE run_id = $run_id),
    newest AS ({_STRICT.format(where="SEMI JOIN of_run USING (trial_id) WHERE")})
    SELECT trial_id, case_key, content_hash, answers.format, answers.question_type, answers.response, newest.verdict
    FROM of_run JOIN answers USING (trial_id) JOIN newest USING (trial_id, format, question_type)
    WHERE rule_version < $version AND answers.status = 'answered' AND answers.response IS NOT NULL
    ORDER BY trial, case_key, trial_id, answers.format, answers.question_type"""

_READ_BEFORE = f"""
    WITH newest AS ({_STRICT.format(where="WHERE")})
    SELECT run_id FROM newest JOIN trials USING (trial_id) JOIN runs USING (run_id)
    JOIN answers USING (trial_id, format, question_type)
    WHERE rule_version < $version AND answers.status = 'answered' AND answers.response IS NOT NULL
    GROUP BY run_id ORDER BY min(runs.created_at), run_id"""

_COUNT_READ_BEFORE = f"""
    WITH newest AS ({_STRICT.format(where="WHERE")})
    SELECT count(*) FROM newest AS verdicts JOIN selected USING (trial_id) JOIN seated USING (run_id)
    JOIN answers USING (trial_id, format, question_type)
    WHERE rule_version < $version AND answers.status = 'answered' AND answers.response IS NOT NULL AND {IN_ARMS}"""


_GRADED_UNDER = """
    SELECT run_id, grader, prompt_hash FROM judged WHERE list_contains($rules, rule)
    GROUP BY ALL HAVING sum(n) > 0 ORDER BY ALL"""

_VERDICTS_OF = f"""
    CREATE OR REPLACE TEMP VIEW verdicts_of AS
    SELECT grades.*, grades.rowid AS place,
        if(list_contains({[*CHOICE_RULES]}, rule), rule, coalesce(name, grades.grader)) AS judge
    FROM grades JOIN trials USING (trial_id)
    LEFT JOIN graded_under ON graded_under.run_id = trials.run_id AND graded_under.grader = grades.grader
        AND graded_under.stored_hash = coalesce(grades.prompt_hash, '')
    WHERE list_contains("""

_OF_SELECTION = f"""
    JOIN selected USING (trial_id) JOIN seated USING (run_id)
    ANTI JOIN repeats ON repeats.trial_id = verdicts.trial_id AND repeats.format = verdicts.format
        AND repeats.question_type = verdicts.question_type AND repeats.whole
    WHERE {IN_ARMS}"""

_STORED = f"""
    SELECT judge AS grader, count(DISTINCT (verdicts.trial_id, verdicts.format, verdicts.question_type)) AS answers,
        count(*) AS verdicts, coalesce(list(DISTINCT verdicts.prompt_hash ORDER BY verdicts.prompt_hash)
            FILTER (verdicts.prompt_hash <> ''), []) AS prompts, max(graded_at) AS newest
    FROM verdicts_of AS verdicts {_OF_SELECTION} AND verdict <> 'provider_error'
    GROUP BY judge ORDER BY answers DESC, judge"""

_COUNTS = f"""
    WITH {UNANSWERED}, newest AS (
        SELECT trial_id, format, question_type {{newest}} FROM verdicts_of
        WHERE verdict <> 'provider_error' GROUP BY ALL
    ), responses AS (
        SELECT trial_id, format, question_type,
            CASE status WHEN 'invalid' THEN coalesce(reason, 'ungradable') END AS invalid FROM answers
        UNION ALL SELECT * FROM unanswered
    ), verdicts AS (
        FROM responses LEFT JOIN newest USING (trial_id, format, question_type)
        WHERE list_contains($types, question_type)
    )
    SELECT model, verdicts.format, verdicts.question_type, case_key, dataset, specialty,
        run_id, invalid, count(*) {{columns}}
    FROM verdicts {_OF_SELECTION}
    GROUP BY ALL
    ORDER BY min(place), verdicts.format, verdicts.question_type, case_key, run_id"""

_NEWEST = """
    SELECT trial_id, format, question_type, judge, extracted, verdict FROM verdicts_of
    WHERE verdict <> 'provider_error' {of}
    QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type {by}
        ORDER BY graded_at DESC, place DESC) = {turn}"""

_FREE_VERDICTS = f"""
    SELECT trial_id, format, judge, verdict FROM (
        {_NEWEST.format(of="AND list_contains(?, trial_id)", by=", judge", turn=1)}
    ) ORDER BY trial_id, format, judge"""

_BY_NAME = f"""
    WITH f AS ({_NEWEST.format(of="AND judge = $first", by="", turn=1)}),
    s AS ({_NEWEST.format(of="AND judge = $second", by="", turn=1)})"""

_IN_TURN = f"""
    WITH f AS ({_NEWEST.format(of="", by="", turn=2)}), s AS ({_NEWEST.format(of="", by="", turn=1)})"""

_DIFFERING = f""", verdicts AS (
        SELECT f.trial_id, f.format, f.question_type,
            f.judge AS first_grader, f.extracted AS first_read_as, f.verdict AS first_verdict,
            s.judge AS second_grader, s.extracted AS second_read_as, s.verdict AS second_verdict
        FROM f JOIN s USING (trial_id, format, question_type)
        WHERE f.verdict <> s.verdict AND list_contains($counted, f.verdict) AND list_contains($counted, s.verdict)
    ), differing AS (
        SELECT verdicts.*, model, selected.case_key, selected.content_hash FROM verdicts {_OF_SELECTION}
    )
    SELECT model, differing.case_key AS case, trials.trial + 1 AS trial, format, question_type, answer, response,
        first_grader, first_read_as, first_verdict, second_grader, second_read_as, second_verdict, trial_id
    FROM differing JOIN answers USING (trial_id, format, question_type)
    JOIN (SELECT trial_id, trial FROM trials) AS trials USING (trial_id)
    LEFT JOIN cases ON cases.case_key = differing.case_key AND cases.content_hash = differing.content_hash
    ORDER BY length(differing.case_key), differing.case_key, model, format, question_type, trials.trial, trial_id"""

_SAME = {"response": "asking", "diagnosis": "judging", "answer": "asking"}

# Texts are compared by their 64-bit hash: comparing long texts takes seconds. Verdicts with the same calls are one
# judgement that was reused for another answer; the last call is the one that judged the diagnosis.
_JUDGED = """
    WITH judged AS MATERIALIZED (
        SELECT judge AS grader, model, hash(lower(trim(cases.answer))) AS right_answer,
            hash(prompt_hash, rule) AS prompts, hash(lower(trim(answers.response))) AS response,
            CASE WHEN grades.extracted IS NOT NULL THEN hash(lower(trim(grades.extracted))) END AS diagnosis,
            hash(grades.trial_id, grades.format, grades.question_type) AS answer, verdict = 'correct' AS called_right,
            CASE WHEN len(call_ids) > 0 THEN hash(call_ids) ELSE grades.place END AS asking,
            CASE WHEN rule = 'frq' AND len(call_ids) > 0 THEN hash(call_ids[-1]) ELSE asking END AS judging
        FROM verdicts_of AS grades JOIN answers USING (trial_id, format, question_type)
        JOIN chosen ON chosen.trial_id = grades.trial_id JOIN seated ON seated.run_id = chosen.run_id
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        WHERE list_contains($counted, verdict) AND answers.response IS NOT NULL
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

_GRADINGS = f"""
    WITH {OUTCOMES}, asked AS (
        SELECT grades.trial_id, format, question_type, rule, grades.grader, coalesce(name, grades.grader) AS version,
            verdict = 'correct' AS is_right, graded_at
        FROM grades JOIN chosen USING (trial_id)
        LEFT JOIN graded_under ON graded_under.run_id = chosen.run_id AND graded_under.grader = grades.grader
            AND graded_under.stored_hash = coalesce(grades.prompt_hash, '')
        WHERE list_contains($free, rule) AND list_contains($counting, verdict) AND len(call_ids) > 0
        QUALIFY row_number() OVER (PARTITION BY grades.trial_id, format, question_type, rule, grades.grader, version,
            call_ids ORDER BY graded_at) = 1
    ), repeated AS (
        SELECT trial_id, format, question_type, rule, grader, list(is_right ORDER BY graded_at) AS gradings
        FROM asked GROUP BY trial_id, format, question_type, rule, grader, version
        QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, rule, grader
            ORDER BY max(graded_at) DESC) = 1
    )
    SELECT model, format, question_type, trials.case_key, verdict, list_contains($counting, verdict) AS counted,
        coalesce(gradings, [verdict = 'correct']) AS gradings
    FROM outcomes AS verdicts JOIN trials USING (trial_id) JOIN selected USING (trial_id)
    LEFT JOIN repeated USING (trial_id, format, question_type, rule, grader)
    WHERE {IN_ARMS}
    ORDER BY place, format, question_type, trials.case_key, trials.trial, trial_id"""
