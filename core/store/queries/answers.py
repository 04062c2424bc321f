"""Answers: how often each case was right in each arm, what was excluded and why, and how conversations ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from core.events import COUNTED, FINAL_DIAGNOSIS, EndReason, Format, QuestionType, Rule, Verdict
from core.store.conditions import DOCTOR
from core.store.queries.calls import find_served_trials, several_served
from core.store.queries.cases import CaseKey
from core.store.selection import (
    BY_EVERY_RULE,
    BY_STRICT,
    COUNTED_RULE,
    IN_ARMS,
    OUTCOMES,
    McqRule,
    Selection,
    select,
    staffed,
    tally,
)
from core.store.tables import records, shared_texts


class CaseScore(NamedTuple):
    """One case in one arm of one model: ``correct`` of ``counted`` trials were right, others were excluded.

    ``refused_in_words`` of those counted were answered by a refusal, and ``blank`` by nothing. ``rule``
    is the one by which the answers count; several of pooled conditions are joined by " + ". ``repeats`` are trials that
    are left out because the case was played with the same seed before. ``served`` is the name under which the doctor's
    model was served in these trials, where scores are split by it.
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
    if chosen.of_cases:
        counts = _TALLIED_COUNTS.format(tallied=tally(cursor, chosen))
    else:
        select(cursor, chosen)
        counts = _COUNTS.format(trials="selected")
    return _with_repeats(cursor, _read(cursor, chosen, counts))


def _read(cursor: duckdb.DuckDBPyConnection, chosen: Selection, counts: str, **more: str | None) -> list[CaseScore]:
    sql = f"{counts} {_CASE_SCORES}"
    values = {"counting": list(COUNTED), "staffed": staffed(), **more}
    parameters = {**chosen.parameters(sql), **{name: value for name, value in values.items() if f"${name}" in sql}}
    found = cursor.sql(sql, params=parameters).to_arrow_table()
    texts = (shared_texts(found[name]) for name in CaseScore._fields[:6])
    excluded: list[dict[Any, int]] = [{}] * len(found)
    lost = found["excluded"].is_valid().to_numpy()
    for row, reasons in zip(np.flatnonzero(lost), found["excluded"].drop_null().to_pylist(), strict=True):
        excluded[row] = dict(reasons)
    numbers = (found[name].to_pylist() for name in ("correct", "counted"))
    named = (found[name].to_pylist() for name in ("refused_in_words", "blank"))
    rules = shared_texts(found["rule"])
    return list(map(CaseScore, *texts, *numbers, excluded, *named, rules))


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
        counts = _COUNTS.format(trials="(FROM served_trials WHERE served IS NOT DISTINCT FROM $served)")
        for (served,) in cursor.execute("SELECT DISTINCT served FROM served_trials ORDER BY served").fetchall():
            split = _read(cursor, chosen, counts, served=served)
            scores += [score._replace(served=served) for score in split if score.model in names]
    place = {condition.name: number for number, condition in enumerate(conditions)}
    return sorted(scores, key=lambda score: place[score.model])


_COUNTS = f"""
    WITH {OUTCOMES}, counts AS (
        SELECT model, place, verdicts.format, verdicts.question_type, case_key,
            any_value(dataset) AS dataset, any_value(specialty) AS specialty, rule, verdict,
            count(*) AS n
        FROM outcomes AS verdicts JOIN {{trials}} AS selected USING (trial_id)
        WHERE {IN_ARMS}
        GROUP BY ALL
    )"""


_TALLIED_COUNTS = f"""
    WITH {{tallied}}, counts AS (
        SELECT model, place, format, question_type, case_key, any_value(dataset) AS dataset,
            any_value(specialty) AS specialty, rule, verdict, sum(n)::BIGINT AS n
        FROM (
            SELECT model, place, format, question_type, case_key, dataset, specialty, rule, verdict, n FROM tallied
            UNION ALL
            SELECT model, place, format, question_type, selected.case_key, dataset, specialty, rule, verdict, 1
            FROM of_shared JOIN selected USING (trial_id) JOIN runs ON runs.run_id = selected.run_id
            WHERE rule = {COUNTED_RULE}
        ) AS verdicts
        WHERE {IN_ARMS}
        GROUP BY model, place, format, question_type, case_key, rule, verdict HAVING n > 0
    )"""


_CASE_SCORES = """
    SELECT model, format, question_type, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
        coalesce(sum(n) FILTER (verdict = 'correct'), 0)::BIGINT AS correct,
        coalesce(sum(n) FILTER (list_contains($counting, verdict)), 0)::BIGINT AS counted,
        coalesce(sum(n) FILTER (verdict = 'refused_in_words'), 0)::BIGINT AS refused_in_words,
        coalesce(sum(n) FILTER (verdict = 'empty'), 0)::BIGINT AS blank,
        coalesce(if(min(rule) = max(rule), min(rule), min(rule) || ' + ' || max(rule)), '') AS rule,
        map_from_entries(list((verdict, n)) FILTER (NOT list_contains($counting, verdict))) AS excluded
    FROM counts
    GROUP BY model, place, format, question_type, case_key
    ORDER BY place, format, question_type, case_key"""


_REPEATS = """
    SELECT model, format, question_type, case_key, count(*) FROM repeats GROUP BY ALL"""


_NAMES = ("model", "format", "question_type", "case_key", "case_set", "dataset", "specialty", "end_reason")


def conversation_endings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each trial of a selection's conditions; those with clinical staff end by tags and are left out.

    Columns: model (the condition), case_set (what case keys begin with), case_key, dataset, specialty, end_reason
    (missing where there was no conversation), doctor_turns (without the greeting) and ``concluded``: whether the last
    message holds the words "final diagnosis", in any case of letters.
    """
    select(cursor, selection)
    sql = f"""
        WITH {_LAST.format(trials="chosen")}
        SELECT model, case_set, case_key, dataset, specialty, end_reason, concluded, doctor_turns
        FROM held JOIN seated USING (run_id) ORDER BY place, case_key, trial"""
    return _table(cursor, sql, {})


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
    chosen, values = selection or Selection(), {"counting": list(COUNTED)}
    if chosen.of_cases:
        by_rule = _TALLIED_BY_RULE.format(tallied=tally(cursor, chosen))
        shared = cursor.execute("SELECT 1 FROM judging WHERE rule IN ('mcq_strict', 'mcq_many') LIMIT 1").fetchall()
        if not shared:  # else one answer's two verdicts come from two places
            sql = f"{by_rule} {_OUTCOMES}"
            return _table(cursor, sql, {**chosen.parameters(sql), **values, "staffed": staffed()})
    select(cursor, chosen)
    sql = f"{_BY_RULE} {_OUTCOMES}"
    return _table(cursor, sql, {**chosen.parameters(sql), **values})


def _table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> pd.DataFrame:
    found = cursor.sql(sql, params=parameters).to_arrow_table()
    names = [name for name in found.column_names if name in _NAMES]
    for name in names:  # a text for each row would take most of the time and of the memory
        found = found.set_column(found.column_names.index(name), name, found[name].dictionary_encode())
    table: pd.DataFrame = found.to_pandas()
    return table.assign(
        **{name: table[name].cat.reorder_categories(sorted(table[name].cat.categories)) for name in names}
    )


_LAST = f"""last AS (
        SELECT trial_id, any_value(contains(lower(text), '{FINAL_DIAGNOSIS.lower()}')) AS concluded
        FROM utterances JOIN (SELECT trial_id, max(position) AS position FROM utterances GROUP BY trial_id) AS lasts
            USING (trial_id, position)
        GROUP BY trial_id
    ), held AS (
        SELECT talks.*, trial, end_reason, doctor_turns, split_part(talks.case_key, '/', 1) AS case_set,
            coalesce(concluded, false) AS concluded
        FROM {{trials}} AS talks JOIN trials USING (trial_id) LEFT JOIN last USING (trial_id) WHERE NOT staffed
    )"""
"""Queries up to ``held``: how each of the ``trials`` ended, all that are ``selected`` or those that are ``chosen``."""

_HELD = "model, place, case_key, dataset, specialty, end_reason, concluded, format, question_type, loose, strict"


_BY_RULE = f"""
    WITH {BY_EVERY_RULE}, {_LAST.format(trials="selected")}, judged_by AS (
        SELECT trial_id, format, question_type, model, place,
            any_value(verdict) FILTER (coalesce(rule, '') NOT IN ('mcq_strict', 'mcq_many')) AS loose,
            any_value(verdict) FILTER (coalesce(rule, '') <> 'mcq_loose') AS strict
        FROM outcomes GROUP BY ALL
    ), by_rule AS (
        SELECT {_HELD}, {BY_STRICT} AS by_strict, 1 AS n
        FROM judged_by JOIN held USING (trial_id) JOIN runs ON runs.run_id = held.run_id
    )"""


_TALLIED_BY_RULE = f"""
    WITH {{tallied}}, {_LAST.format(trials="selected")}, by_rule AS (
        SELECT {_HELD}, by_strict, n FROM tallied WHERE NOT staffed
        UNION ALL
        SELECT {_HELD}, false, 1
        FROM (SELECT *, verdict AS loose, verdict AS strict FROM of_shared) JOIN held USING (trial_id)
    )"""


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
    FROM by_rule
    GROUP BY model, place, format, question_type, case_key, end_reason, concluded, by_strict HAVING answers > 0
    ORDER BY place, format, question_type, case_key, end_reason, concluded"""

FAILED: tuple[Verdict, ...] = ("provider_error", "refused", "cut", "ungradable")
"""Verdicts that do not count because somebody else than the doctor failed."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """An answer that is not correct, or that was broken (``FAILED``).

    ``rule`` and ``grader`` gave the verdict that counts; ``called_correct`` are the (rule, grader) pairs that ever
    called the same answer correct. ``on_vignette`` is the verdict of the same trial's answer to the whole vignette
    under the same rule, ``None`` where there is none.
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
        """Whether the answer counts as wrong in an accuracy."""
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
    found = []
    for row in records(cursor.execute(_WRONG, parameters)):
        case = (row.pop("case_key"), row.pop("content_hash"))
        called = tuple((pair["rule"], pair["grader"]) for pair in row.pop("called_correct") or ())
        found.append(WrongAnswer(**row, case=case, called_correct=called))
    return found


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
