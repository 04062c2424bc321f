"""Answers: how often each case was right in each arm, what was excluded and why, and how conversations ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Literal, NamedTuple

import duckdb
import pandas as pd
import pyarrow as pa

from core.events import COUNTED, EndReason, Format, QuestionType, Rule, Verdict
from core.store.condition_parts import DOCTOR
from core.store.counted_rule import BY_STRICT, COUNTED_RULE
from core.store.queries.calls import find_served_trials, several_served
from core.store.queries.cases import CaseKey
from core.store.selection import BY_JUDGE, CONTENT, IN_ARMS, TRIALS, McqRule, Selection, select, staffed
from core.store.tables import records, shared_texts
from core.store.tallies import CONCLUDED, count_selected


class CaseScore(NamedTuple):
    """One case in one arm of one model: ``correct`` of ``counted`` trials were right, others were excluded.

    ``refused_in_words`` of those counted were answered by a refusal, and ``blank`` by nothing. ``rule``
    is the one by which the answers count; several of pooled conditions are joined by " + ". ``repeats`` are trials that
    are left out because the case was played with the same seed before. ``served`` is the name under which the doctor's
    model was served in these trials, where scores are split by it. ``content`` is a hash of the vignette, question,
    choices and answer (``core.store.selection.CONTENT``): cases of one key are compared only if it is equal.
    """

    model: str
    format: Format
    question_type: QuestionType
    case_key: str
    dataset: str | None
    specialty: str | None
    correct: int
    counted: int
    excluded: dict[Verdict | Literal["ungraded"], int]
    refused_in_words: int = 0
    blank: int = 0
    rule: str = ""
    repeats: int = 0
    served: str | None = None
    content: int = 0

    @property
    def score(self) -> float | None:
        """The share of counted trials that were right; ``None`` where none counts."""
        return self.correct / self.counted if self.counted else None


def case_scores(
    cursor: duckdb.DuckDBPyConnection,
    selection: Selection | None = None,
    mcq_rule: McqRule = "usual",
    *,
    by_served: bool = False,
) -> list[CaseScore]:
    """Return every case of every arm and condition: conditions in the order of ``select``, cases in that of their keys.

    Trials of a condition's runs are pooled; ``by_served`` splits them by the name under which the doctor was served.
    """
    chosen = replace(selection or Selection(), mcq_rule=mcq_rule)
    if by_served:
        return _split_by_served(cursor, chosen)
    return _with_repeats(cursor, _case_scores(cursor, chosen, _counts(cursor, chosen)))


def answered_cases(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> dict[str, int]:
    """Return condition → the number of its ``case_scores``, without reading them; in the order of the conditions."""
    sql = f"{_counts(cursor, selection)} {_ANSWERED}"
    return dict(cursor.execute(sql, {**selection.parameters(sql), "staffed": staffed()}).fetchall())


class RuleMeans(NamedTuple):
    """Accuracy (0 to 1) of an arm with choices over cases, by the substring rule and by the strict rule.

    Many choices have no strict rule, but the grader's verdict. ``cases`` is the number of cases that count, by the rule
    with more of them.
    """

    model: str
    format: Format
    question_type: QuestionType
    loose: float
    strict: float
    cases: int


def rule_means(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> list[RuleMeans]:
    """Return the means of arms in which cases count by both rules, in the order of the conditions."""
    rows = _executed(cursor, selection, f"{_counts(cursor, selection)} {_RULE_MEANS}").fetchall()
    return [RuleMeans(*row) for row in rows]


def _counts(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> str:
    """Select what is counted, and return the queries up to ``counts``.

    Answers are counted already (``core.store.tallies``) unless the selection tells trials of one case apart.
    """
    if not selection.of_cases:
        select(cursor, selection)
        return _counts_of_selected(cursor)
    counted = "tallies"
    if any(condition.repeats for condition in select(cursor, selection, only_shared=True)):
        count_selected(cursor, repeats=True)
        counted = "(FROM tallies UNION ALL BY NAME FROM selected_tallies)"
    return _counts_of(cursor, counted, replace(selection, models=None).where())


def _counts_of_selected(cursor: duckdb.DuckDBPyConnection) -> str:
    count_selected(cursor)
    return _counts_of(cursor, "selected_tallies", "true")


def _counts_of(cursor: duckdb.DuckDBPyConnection, tallies: str, where: str) -> str:
    # planning the queries of shared runs takes as long as everything else, and few selections have such runs
    shared = cursor.execute("SELECT 1 FROM judging LIMIT 1").fetchall()
    return (_COUNTS_WITH_SHARED if shared else _COUNTS).format(tallies=tallies, where=where)


def _case_scores(cursor: duckdb.DuckDBPyConnection, chosen: Selection, counts: str) -> list[CaseScore]:
    sql = f"CREATE OR REPLACE TEMP TABLE case_counts AS {counts} {_CASE_COUNTS}"
    cursor.execute(sql, {**chosen.parameters(sql), "staffed": staffed()})
    counting = {"counting": list(COUNTED)}
    by_case: dict[tuple[str, ...], dict[Any, int]] = {}
    for *case, verdict, n in cursor.execute(_EXCLUDED, counting).fetchall():  # few: a map of each case takes longer
        by_case.setdefault(tuple(case), {})[verdict] = n
    rows = cursor.sql(_CASE_SCORES, params=counting).to_arrow_table()
    texts = [shared_texts(rows[name]) for name in CaseScore._fields[:6]]
    nothing_excluded: dict[Any, int] = {}
    excluded = [by_case.get(case, nothing_excluded) for case in zip(*texts[:4], strict=True)]
    numbers = (rows[name].to_pylist() for name in ("correct", "counted"))
    reasons_of_wrong = (rows[name].to_pylist() for name in ("refused_in_words", "blank"))
    rules = shared_texts(rows["rule"])
    nothing = ([0] * len(rows), [None] * len(rows))  # ``repeats`` and ``served``
    contents = rows["content"].to_pylist()
    return list(map(CaseScore, *texts, *numbers, excluded, *reasons_of_wrong, rules, *nothing, contents))


def _executed(cursor: duckdb.DuckDBPyConnection, chosen: Selection, sql: str) -> duckdb.DuckDBPyRelation:
    return cursor.sql(sql, params={**chosen.parameters(sql), "counting": list(COUNTED), "staffed": staffed()})


def _with_repeats(cursor: duckdb.DuckDBPyConnection, scores: list[CaseScore]) -> list[CaseScore]:
    """Return the scores with the number of trials that were left out of each as repeats."""
    counts = {tuple(arm): n for *arm, n in cursor.execute(_REPEATS).fetchall()}
    if not counts:
        return scores
    return [score._replace(repeats=counts.get(score[:4], 0)) for score in scores]


def _split_by_served(cursor: duckdb.DuckDBPyConnection, chosen: Selection) -> list[CaseScore]:
    """Return the scores by served model; trials are looked at only where a doctor was served under several names."""
    whole = case_scores(cursor, chosen, chosen.mcq_rule)
    conditions = select(cursor, chosen)
    several = several_served(conditions)
    names = {condition.name for condition in several}
    only = {condition.name: next(iter(condition.served.get(DOCTOR, ())), None) for condition in conditions}
    scores = [score._replace(served=only[score.model]) for score in whole if score.model not in names]
    if several:
        find_served_trials(cursor, several)
        for (served,) in cursor.execute("SELECT DISTINCT served FROM served_trials ORDER BY served").fetchall():
            cursor.execute(_SELECT_SERVED, [served])
            split = _case_scores(cursor, chosen, _counts_of_selected(cursor))
            scores += [score._replace(served=served) for score in split if score.model in names]
    place = {condition.name: number for number, condition in enumerate(conditions)}
    return sorted(scores, key=lambda score: place[score.model])


# A rule of ``shared`` judges questions of the type it is named after, and the strict rule two types.
OF_ITS_TYPE = """(question_type = shared.rule
                OR shared.rule = 'mcq_strict' AND question_type IN ('mcq', 'mcq_answers'))"""
UNANSWERED = """broken AS (
        SELECT trial_id, string_split(unnest(arms), ':') AS arm,
            CASE failure WHEN 'refused' THEN 'refused' ELSE 'provider_error' END AS verdict
        FROM trials JOIN runs USING (run_id) WHERE trials.status = 'failed'
    ), unanswered AS (
        SELECT trial_id, arm[1] AS format, arm[2] AS question_type, verdict
        FROM broken ANTI JOIN answers
            ON answers.trial_id = broken.trial_id AND format = arm[1] AND question_type = arm[2]
    )"""
"""Queries named ``broken`` and ``unanswered``: the answers that trials which broke off do not have.

A trial that broke off has no answer in some of its run's arms: it is excluded there, for its failure.
"""

OF_SHARED = f"""said AS (
        SELECT grades.trial_id, format, question_type, grades.rule, grades.grader, extracted, verdict, model
        FROM grades JOIN trials USING (trial_id) JOIN judging AS judges ON {BY_JUDGE}
        QUALIFY row_number() OVER (PARTITION BY grades.trial_id, format, question_type, grades.rule, model
            ORDER BY graded_at DESC, grades.rowid DESC) = 1
    ), shared AS (SELECT DISTINCT run_id, rule, model, place, whole FROM judging),
    of_shared AS (
        SELECT answers.trial_id, answers.format, answers.question_type, shared.rule,
            CASE WHEN answers.status = 'invalid' THEN coalesce(answers.reason, 'ungradable')
                 ELSE coalesce(said.verdict, 'ungraded') END AS verdict,
            said.grader, said.extracted, shared.model, shared.place, shared.whole, answers.status = 'invalid' AS invalid
        FROM shared JOIN trials ON trials.run_id = shared.run_id JOIN answers ON answers.trial_id = trials.trial_id
            AND {OF_ITS_TYPE}
        LEFT JOIN said ON said.trial_id = answers.trial_id AND said.format = answers.format
            AND said.question_type = answers.question_type AND said.rule = shared.rule AND said.model = shared.model
        ANTI JOIN repeats ON repeats.trial_id = answers.trial_id AND repeats.format = answers.format
            AND repeats.question_type = answers.question_type AND repeats.model = shared.model
        WHERE shared.whole OR said.verdict IS NOT NULL
    )"""
"""Queries up to ``of_shared``: the answers of runs that graders share, once for each condition whose grader judged."""

OUTCOMES = f"""{UNANSWERED}, {OF_SHARED}, outcomes AS (
        FROM (
            SELECT verdicts.trial_id, format, question_type, verdicts.rule, verdict, verdicts.grader, extracted,
                model, place
            FROM verdicts JOIN trials USING (trial_id) JOIN seated USING (run_id) JOIN runs USING (run_id)
            ANTI JOIN shared ON shared.run_id = trials.run_id AND shared.rule = verdicts.rule
            WHERE verdicts.rule = {COUNTED_RULE}
            UNION ALL
            SELECT trial_id, format, question_type, NULL, verdict, NULL, NULL, model, place
            FROM unanswered JOIN trials USING (trial_id) JOIN seated USING (run_id)
        ) ANTI JOIN repeats USING (trial_id, format, question_type, model)
        UNION ALL
        SELECT verdicts.* EXCLUDE (whole, invalid)
        FROM of_shared AS verdicts JOIN trials USING (trial_id) JOIN runs USING (run_id)
        WHERE verdicts.rule = {COUNTED_RULE}
    )"""
"""Queries up to ``outcomes``: every answer of the selected conditions with the verdict that counts.

Columns: trial_id, format, question_type, rule, verdict, grader, extracted, model, place. Needs ``select`` before it,
and the values that ``Selection.parameters`` finds in it. Where graders share a run, each answer stands once for each
condition whose grader judged it.
"""

_TALLIED = f"""
        SELECT model, place, trials.case_key, dataset, specialty, list_contains($staffed, runs.protocol) AS staffed,
            trials.end_reason, concluded, format, question_type, loose, strict, {BY_STRICT} AS by_strict,
            {COUNTED_RULE} AS rule, if(by_strict, strict, loose) AS verdict, n, {CONTENT} AS content
        {TRIALS.replace("FROM trials", "FROM {tallies} AS trials")}
        JOIN seated ON seated.run_id = trials.run_id"""
_COUNTS = f"""
    WITH counts AS ({_TALLIED} WHERE {{where}})"""
_COUNTS_WITH_SHARED = f"""
    WITH {OF_SHARED}, shared_ends AS (
        SELECT trial_id, run_id, end_reason, coalesce(concluded, false) AS concluded
        FROM trials SEMI JOIN of_shared USING (trial_id)
        LEFT JOIN {CONCLUDED.format(trials="of_shared", which="")} AS lasts USING (trial_id)
    ), loosely AS (
        SELECT trial_id, format, question_type, arg_max(verdict, ROW(graded_at, grades.rowid)) AS loose_verdict
        FROM grades SEMI JOIN (FROM of_shared WHERE starts_with(question_type, 'mcq')) AS choices USING (trial_id)
        WHERE rule = 'mcq_loose' GROUP BY trial_id, format, question_type
    ), counts AS (
        {_TALLIED}
        ANTI JOIN shared ON shared.run_id = trials.run_id AND answered AND {OF_ITS_TYPE}
        WHERE {{where}}
        UNION ALL
        SELECT model, place, selected.case_key, selected.dataset, selected.specialty, staffed,
            end_reason, concluded, format, question_type,
            CASE WHEN invalid AND whole OR NOT starts_with(question_type, 'mcq') THEN judged.verdict
                 WHEN whole THEN coalesce(loose_verdict, 'ungraded') END AS loose, judged.verdict AS strict,
            {BY_STRICT} AS by_strict, {COUNTED_RULE} AS rule, if(by_strict, strict, loose) AS verdict, 1 AS n,
            {CONTENT} AS content
        FROM of_shared AS judged JOIN selected USING (trial_id) JOIN shared_ends USING (trial_id)
        JOIN runs ON runs.run_id = selected.run_id
        LEFT JOIN labelled_cases AS cases
            ON cases.case_key = selected.case_key AND cases.content_hash = selected.content_hash
        LEFT JOIN loosely USING (trial_id, format, question_type)
    )"""
"""Queries up to ``counts``: the numbers of answers of a selection, by all that tells them apart.

Columns: model, place, case_key, dataset, specialty, staffed, end_reason, concluded, format, question_type, the verdicts
``loose`` and ``strict`` and the one that counts (``verdict``; by its ``rule``, ``by_strict``), n, which is negative
for repeats, and the ``content`` of the case. Where graders share a run, an answer stands once for each condition whose
grader judged it; a verdict is NULL that another condition of the run has. ``_counts`` fills in which ``tallies`` are
read, and ``where``.
"""
_SELECT_SERVED = """
    CREATE OR REPLACE TEMP TABLE selected AS
    SELECT * EXCLUDE (served) FROM served_trials WHERE served IS NOT DISTINCT FROM ?"""
_CASE_COUNTS = f"""
    SELECT any_value(model) AS model, place, format, question_type, case_key, any_value(dataset) AS dataset,
        any_value(specialty) AS specialty, rule, verdict, sum(n)::BIGINT AS n,
        min(content) AS least, max(content) AS most
    FROM counts AS verdicts WHERE verdict IS NOT NULL AND {IN_ARMS}
    GROUP BY place, format, question_type, case_key, rule, verdict HAVING n > 0"""
_EXCLUDED = """
    SELECT model, format, question_type, case_key, verdict, sum(n)::BIGINT FROM case_counts
    WHERE NOT list_contains($counting, verdict) GROUP BY ALL ORDER BY ALL"""
_CASE_SCORES = """
    SELECT any_value(model) AS model, format, question_type, case_key, any_value(dataset) AS dataset,
        any_value(specialty) AS specialty,
        coalesce(sum(n) FILTER (verdict = 'correct'), 0)::BIGINT AS correct,
        coalesce(sum(n) FILTER (list_contains($counting, verdict)), 0)::BIGINT AS counted,
        coalesce(sum(n) FILTER (verdict = 'refused_in_words'), 0)::BIGINT AS refused_in_words,
        coalesce(sum(n) FILTER (verdict = 'empty'), 0)::BIGINT AS blank,
        coalesce(if(min(rule) = max(rule), min(rule), min(rule) || ' + ' || max(rule)), '') AS rule,
        if(min(least) = max(most), min(least), hash(min(least), max(most))) AS content
    FROM case_counts GROUP BY place, format, question_type, case_key
    ORDER BY place, format, question_type, case_key"""

_ANSWERED = f"""
    SELECT any_value(model), count(DISTINCT (format, question_type, case_key)) FROM (
        SELECT any_value(model) AS model, place, format, question_type, case_key FROM counts AS verdicts
        WHERE verdict IS NOT NULL AND {IN_ARMS}
        GROUP BY place, format, question_type, case_key, rule, verdict HAVING sum(n) > 0
    ) GROUP BY place ORDER BY place"""
_RULE_MEANS = f"""
    SELECT model, format, question_type, avg(loose_correct / loose_counted) AS loose,
        avg(strict_correct / strict_counted) AS strict, greatest(count(loose_counted), count(strict_counted))
    FROM (
        SELECT model, place, format, question_type, case_key,
            coalesce(sum(n) FILTER (loose = 'correct'), 0)::BIGINT AS loose_correct,
            nullif(sum(n) FILTER (list_contains($counting, loose)), 0)::BIGINT AS loose_counted,
            coalesce(sum(n) FILTER (strict = 'correct'), 0)::BIGINT AS strict_correct,
            nullif(sum(n) FILTER (list_contains($counting, strict)), 0)::BIGINT AS strict_counted
        FROM counts AS verdicts WHERE starts_with(question_type, 'mcq') AND {IN_ARMS}
        GROUP BY model, place, format, question_type, case_key
    )
    GROUP BY model, place, format, question_type HAVING loose IS NOT NULL AND strict IS NOT NULL
    ORDER BY place, format, question_type"""


_REPEATS = """
    SELECT model, format, question_type, case_key, count(*) FROM repeats GROUP BY ALL"""


_NAMES = ("model", "format", "question_type", "case_key", "case_set", "dataset", "specialty", "end_reason")


def conversation_endings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each trial of a selection's conditions; not of those with clinical staff, which end by tags.

    Columns: model (the condition), case_set (what case keys begin with), case_key, dataset, specialty, end_reason
    (missing without a conversation), doctor_turns (without the greeting) and ``concluded``: whether the last
    message contains the words "final diagnosis" (ignoring case).
    """
    select(cursor, selection)
    return _table(cursor.sql(_ENDINGS))


def ending_outcomes(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return how often each case was right in each arm, apart by how its conversations ended.

    Columns: those of ``conversation_endings`` but the turns, format, question_type, and numbers of answers: ``answers``
    in all, ``counted`` and ``correct`` by the substring rule, ``strict_counted`` and ``strict_correct`` by the strict
    one, or by the grader where there are many choices, ``differ`` where just one of these rules says correct. Other
    question types have one rule. ``by_strict`` says by which of both a row counts, by the selection's rule. Of answers
    that do not count, ``excluded`` are all to questions that the case allows, ``refused`` among them, and the same by
    the strict rule. ``refused_in_words`` of those that count by both rules, and are right by none, were refusals, and
    ``blank`` were blank.
    """
    chosen = selection or Selection()
    return _table(_executed(cursor, chosen, f"{_counts(cursor, chosen)} {_OUTCOMES}"))


def _table(rows: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    columns = rows.to_arrow_table()
    names = [name for name in columns.column_names if name in _NAMES]
    for name in names:  # a text for each row would take most of the time and of the memory
        columns = columns.set_column(columns.column_names.index(name), name, columns[name].dictionary_encode())
    table: pd.DataFrame = columns.to_pandas()
    return table.assign(
        **{name: table[name].cat.reorder_categories(sorted(table[name].cat.categories)) for name in names}
    )


_ENDINGS = f"""
    SELECT model, split_part(case_key, '/', 1) AS case_set, case_key, dataset, specialty, end_reason,
        coalesce(concluded, false) AS concluded, doctor_turns
    FROM chosen JOIN seated USING (run_id) JOIN (SELECT trial_id, trial, end_reason, doctor_turns FROM trials)
        USING (trial_id)
    LEFT JOIN {CONCLUDED.format(trials="chosen", which="")} AS lasts USING (trial_id)
    WHERE NOT staffed ORDER BY place, case_key, trial"""
_OUTCOMES = """
    SELECT model, format, question_type, split_part(case_key, '/', 1) AS case_set, case_key,
        any_value(dataset) AS dataset, any_value(specialty) AS specialty, end_reason, concluded, by_strict,
        sum(n)::BIGINT AS answers,
        coalesce(sum(n) FILTER (list_contains($counting, loose)), 0)::BIGINT AS counted,
        coalesce(sum(n) FILTER (loose = 'correct'), 0)::BIGINT AS correct,
        coalesce(sum(n) FILTER (list_contains($counting, strict)), 0)::BIGINT AS strict_counted,
        coalesce(sum(n) FILTER (strict = 'correct'), 0)::BIGINT AS strict_correct,
        coalesce(sum(n) FILTER ((loose = 'correct') <> (strict = 'correct')), 0)::BIGINT AS differ,
        coalesce(sum(n) FILTER (NOT list_contains($counting, loose) AND loose <> 'not_applicable'), 0)::BIGINT
            AS excluded,
        coalesce(sum(n) FILTER (loose = 'refused'), 0)::BIGINT AS refused,
        coalesce(sum(n) FILTER (strict = 'refused_in_words' AND (by_strict OR loose IN ('incorrect', strict))),
            0)::BIGINT AS refused_in_words,
        coalesce(sum(n) FILTER (loose = 'empty'), 0)::BIGINT AS blank,
        coalesce(sum(n) FILTER (NOT list_contains($counting, strict) AND strict <> 'not_applicable'), 0)::BIGINT
            AS strict_excluded,
        coalesce(sum(n) FILTER (strict = 'refused'), 0)::BIGINT AS strict_refused
    FROM counts WHERE NOT staffed
    GROUP BY model, place, format, question_type, case_key, end_reason, concluded, by_strict HAVING answers > 0
    ORDER BY place, format, question_type, case_key, end_reason, concluded"""


class TrialOutcome(NamedTuple):
    """The verdict that counts, or that says why the answer does not, on a trial's answer in one arm."""

    trial_id: str
    case_key: str
    verdict: Verdict | Literal["ungraded"]


def trial_outcomes(
    cursor: duckdb.DuckDBPyConnection, selection: Selection, model: str, arm: tuple[Format, QuestionType]
) -> list[TrialOutcome]:
    """Return the answers behind the ``case_scores`` of one arm of one condition of a selection, one for each trial."""
    select(cursor, selection)
    of_arm = {"model": model, "format": arm[0], "question_type": arm[1]}
    rows = cursor.execute(_OF_ARM, {**selection.parameters(_OF_ARM), **of_arm}).fetchall()
    return list(starmap(TrialOutcome, rows))


_OF_ARM = f"""
    WITH {OUTCOMES}
    SELECT trial_id, selected.case_key, verdict FROM outcomes AS verdicts JOIN selected USING (trial_id)
    WHERE model = $model AND format = $format AND question_type = $question_type AND {IN_ARMS}"""


class EndedTrial(NamedTuple):
    """A trial with a conversation; ``concluded`` and ``doctor_turns`` as in ``conversation_endings``."""

    trial_id: str
    case_key: str
    end_reason: EndReason
    concluded: bool
    doctor_turns: int | None


def ended_trials(
    cursor: duckdb.DuckDBPyConnection, selection: Selection, model: str, *, staffed: bool = False
) -> list[EndedTrial]:
    """Return the conversations of one condition of a selection; ``staffed`` includes those with clinical staff."""
    select(cursor, selection)
    return list(starmap(EndedTrial, cursor.execute(_ENDED, {"model": model, "with_staffed": staffed}).fetchall()))


_ENDED = f"""
    SELECT trial_id, chosen.case_key, end_reason, coalesce(concluded, false), doctor_turns
    FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)
    LEFT JOIN {CONCLUDED.format(trials="chosen", which="")} AS lasts USING (trial_id)
    WHERE model = $model AND end_reason IS NOT NULL AND ($with_staffed OR NOT staffed)"""

FAILED: tuple[Verdict, ...] = ("provider_error", "refused", "cut", "ungradable")
"""Verdicts that do not count because somebody else than the doctor failed."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """An answer that is not correct, or that failed (``FAILED``).

    ``rule`` and ``grader`` gave the verdict that counts; ``called_correct`` are all (rule, grader) pairs that called
    the same answer correct. ``on_vignette`` is the verdict of the same trial's answer to the whole vignette
    under the same rule, ``None`` without one.
    """

    trial_id: str
    model: str
    case: CaseKey
    format: Format
    question_type: QuestionType
    response: str | None
    verdict: Verdict
    rule: Rule | None
    grader: str | None
    extracted: str | None
    called_correct: tuple[tuple[Rule, str], ...]
    end_reason: EndReason | None
    on_vignette: Verdict | None

    @property
    def counted(self) -> bool:
        return self.verdict in COUNTED


def wrong_answers(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, mcq_rule: McqRule = "usual"
) -> list[WrongAnswer]:
    """Return the answers of a selection that are wrong or broken, those of one trial together.

    Those of conversations with clinical staff are left out, also where their runs are named: the rules that attribute
    them know a doctor and a patient only, and CARE names what failed there.
    """
    chosen = replace(selection or Selection(), mcq_rule=mcq_rule)
    select(cursor, chosen)
    wrong = [verdict for verdict in COUNTED if verdict != "correct"]
    parameters = chosen.parameters(_WRONG) | {"wrong": [*wrong, *FAILED]}
    answers = []
    for row in records(cursor.execute(_WRONG, parameters)):
        case = (row.pop("case_key"), row.pop("content_hash"))
        called = tuple((pair["rule"], pair["grader"]) for pair in row.pop("called_correct") or ())
        answers.append(WrongAnswer(**row, case=case, called_correct=called))
    return answers


_WRONG = f"""
    WITH {OUTCOMES}, praised AS (
        SELECT trial_id, format, question_type, list(DISTINCT {{'rule': rule, 'grader': grader}}) AS pairs
        FROM grades WHERE verdict = 'correct' GROUP BY ALL
    )
    SELECT trial_id, verdicts.model, trials.case_key, trials.content_hash, verdicts.format,
        verdicts.question_type, answers.response, verdicts.verdict, verdicts.rule, verdicts.grader,
        verdicts.extracted, list_sort(praised.pairs) AS called_correct, trials.end_reason,
        whole.verdict AS on_vignette
    FROM outcomes AS verdicts
    JOIN trials USING (trial_id)
    JOIN selected USING (trial_id)
    LEFT JOIN answers USING (trial_id, format, question_type)
    LEFT JOIN praised USING (trial_id, format, question_type)
    LEFT JOIN (FROM outcomes WHERE format = 'vignette') AS whole USING (trial_id, question_type, model)
    WHERE list_contains($wrong, verdicts.verdict) AND NOT staffed AND {IN_ARMS}
    ORDER BY verdicts.place, trials.case_key, trial_id, verdicts.format, verdicts.question_type"""


def results(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pa.Table:
    """Return a row for each answer and rule, with all that tells rows apart: ready for CSV or Parquet.

    ``repeat``: figures leave the answer out, because the case was played with the same seed in an earlier run.
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    table: pa.Table = cursor.sql(_RESULTS, params=chosen.parameters(_RESULTS)).to_arrow_table()
    return table


_RESULTS = f"""
    SELECT runs.run_id, runs.doctor AS model, seated.model AS condition,
        runs.patient, runs.grader AS run_grader, runs.summariser, runs.protocol,
        runs.prompt_pack, runs.prompt_hash, runs.source, selected.dataset, selected.specialty, trials.case_key,
        trials.content_hash, trials.trial_id, trials.trial, trials.status, trials.end_reason, trials.doctor_turns,
        verdicts.format, verdicts.question_type, verdicts.rule, answers.response, cases.answer,
        verdicts.grader, verdicts.extracted, verdicts.verdict, answers.detail, trials.finished_at,
        repeats.trial_id IS NOT NULL AS repeat
    FROM verdicts
    JOIN answers USING (trial_id, format, question_type)
    JOIN trials ON trials.trial_id = verdicts.trial_id
    JOIN selected ON selected.trial_id = trials.trial_id
    JOIN runs ON runs.run_id = trials.run_id
    JOIN seated ON seated.run_id = trials.run_id
    LEFT JOIN cases ON cases.case_key = selected.case_key AND cases.content_hash = selected.content_hash
    LEFT JOIN (FROM repeats WHERE whole) AS repeats ON repeats.trial_id = verdicts.trial_id
        AND repeats.format = verdicts.format AND repeats.question_type = verdicts.question_type
    WHERE {IN_ARMS}
    ORDER BY runs.run_id, trials.case_key, trials.trial, verdicts.format, verdicts.question_type, verdicts.rule"""
