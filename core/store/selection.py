"""Which answers may stand behind one figure: selections as SQL, joined with conditions (``core.store.conditions``).

``select`` puts tables beside the database's own, and every query of figures joins them: ``seated`` (run → condition),
``judging`` (whose verdicts count where graders share a run), ``selected`` (the trials), ``repeats`` (their answers that
do not count) and ``chosen`` (the trials without repeats). What it calls ``model`` is the name of a condition.

Trials of one condition are known by case and seed: a case that was played with the same seed in several campaigns is
one trial, and the first one that was finished is it. The others repeat it, arm by arm, so that a campaign that asked
further arms of the same trials adds these.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import duckdb

from core.case import AsksFor
from core.events import EndReason, Format, QuestionType, Rule, Speaker
from core.frameworks.base import frameworks, seat_of
from core.store.conditions import (
    JUDGED,
    Condition,
    Judge,
    JudgedRun,
    Judges,
    Part,
    condition_of,
    counting_judges,
    judged_runs,
    named_conditions,
    pooled,
    who_judged,
    with_missing_parts,
)
from core.store.database import Store
from core.store.queries.runs import CAMPAIGNS, Run, run_records
from core.store.tables import Row, arrow_table, schema_of

McqRule = Literal["usual", "mcq_loose", "mcq_strict"]
"""By which rule answers with choices count. ``usual``: each framework's own (``Usual.mcq_rule``), and of many
choices the grader's verdict; else one for all, where many choices, which the strict rule does not judge, keep the
grader's under ``mcq_strict``."""


@dataclass(frozen=True)
class Selection:
    """Which runs, cases, trials and answers are looked at: the one language of all pages and commands.

    ``None`` is no restriction. ``models`` are doctors; where conditions are told apart (``select``) a doctor's name
    stands for all its conditions, and names of conditions may be given too; ``conditions`` are names of conditions
    alone. ``case_sets`` are data sets as case keys
    begin with them; names of conditions do not repeat a data set or framework that all of them share. ``sources`` are
    campaigns and releases where figures are made, unless ``runs`` or ``trials`` are named. ``personas`` are in their
    canonical form, the empty text for plain patients; ``packs`` are the prompts of a run; ``pictures`` says whether
    doctors were shown them.

    ``cases`` are keys; ``case`` is the id of a case, or else a part of ids or of right answers. ``single_diagnosis``
    and ``asks_for``, what its question asks for, are properties of the case. ``text`` is looked for in the messages, in
    any case of letters, of ``speaker`` where given; the tags in which a doctor speaks are no words.

    ``formats`` and ``question_types`` restrict the answers, never which conversations are looked at. ``verdicts`` keep
    the trials with these in the arm ``arm`` ("format:question_type"); ``rules_differ`` those whose answer in that arm
    is right by one of the two multiple-choice rules only. ``mcq_rule`` judges choices, by default each framework's own.
    ``pooled`` puts a doctor's conditions on one data set together on purpose, under a name that says so.
    """

    runs: Sequence[str] | None = None
    models: Sequence[str] | None = None
    conditions: Sequence[str] | None = None
    case_sets: Sequence[str] | None = None
    frameworks: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    specialties: Sequence[str] | None = None
    formats: Sequence[Format] | None = None
    question_types: Sequence[QuestionType] | None = None
    single_diagnosis: bool | None = None
    asks_for: Sequence[AsksFor] | None = None
    sources: Sequence[str] | None = None
    mcq_rule: McqRule = "usual"
    pooled: bool = False
    patients: Sequence[str] | None = None
    personas: Sequence[str] | None = None
    packs: Sequence[str] | None = None
    pictures: bool | None = None
    trials: Sequence[str] | None = None
    cases: Sequence[str] | None = None
    case: str | None = None
    statuses: Sequence[str] | None = None
    end_reasons: Sequence[EndReason] | None = None
    text: str | None = None
    speaker: Speaker | None = None
    verdicts: Sequence[str] | None = None
    arm: str = "multi_turn:frq"
    rules_differ: bool = False

    @property
    def counted(self) -> Selection:
        """The same, with campaigns and releases alone unless sources, runs or trials are named."""
        named = self.sources is not None or self.runs is not None or self.trials is not None
        return self if named else replace(self, sources=CAMPAIGNS)

    @property
    def of_cases(self) -> bool:
        """Whether it tells runs and cases from one another, and no trials of one case."""
        return all(getattr(self, name) == getattr(Selection, name) for name in _OF_TRIALS)

    @property
    def all_trials(self) -> Selection:
        """The same runs and cases, with all their trials."""
        return replace(self, **{name: getattr(Selection, name) for name in (*_OF_TRIALS, "end_reasons")})

    @property
    def of_conversations(self) -> Selection:
        """The same conversations of all conditions, whichever of their answers count, by whichever rule."""
        return replace(self, conditions=None, formats=None, question_types=None, mcq_rule="usual")

    @property
    def of_all_cases(self) -> bool:
        """Whether it leaves no case of a data set out."""
        return all(getattr(self, name) == getattr(Selection, name) for name in _OF_CASES)

    def where(self) -> str:
        """Return the condition in SQL on a row of ``TRIALS``: what is no restriction costs nothing."""
        asked = [sql for name, sql in _FILTERS.items() if getattr(self, name) != getattr(Selection, name)]
        return (" AND ".join(asked) or "true").format(words=self.words)

    @property
    def words(self) -> str:
        """The words of a message in SQL: without tags if the text may lie in one, for taking them out costs time."""
        text = (self.text or "").lower()
        tags = [tag for framework in frameworks().values() for tag in framework.speech.tags]
        if not text or not any(text in tag.lower() for tag in tags):
            return "text"
        pattern = "|".join(map(re.escape, tags)).replace("'", "''")
        return f"regexp_replace(text, '{pattern}', ' ', 'gi')"

    def parameters(self, sql: str) -> dict[str, Any]:
        """Return the values of this selection that a query names."""
        format_, _, question_type = self.arm.partition(":")
        values = {**vars(self), "format": format_, "question_type": question_type, "strictly": strictly()}
        named = {name: values[name] for name in _PARAMETER.findall(sql) if name in values}
        return {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in named.items()}


_PARAMETER = re.compile(r"\$(\w+)")
# a pattern with every special character escaped: ignores case at a third of the price of lower()
SAID = "($speaker::VARCHAR IS NULL OR role = $speaker) AND regexp_matches({words}, regexp_escape($text), 'i')"
"""The condition on a message with a selection's ``text``; ``{words}`` are its ``words``."""
BY_STRICT = """CASE $mcq_rule WHEN 'mcq_loose' THEN false WHEN 'mcq_strict' THEN true
            ELSE question_type = 'mcq_many' OR list_contains($strictly, runs.protocol) END"""
"""Whether an answer counts by the second of a question type's rules, on a row with ``runs`` and ``question_type``.

That is the strict rule, or the grader's where there are many choices. Needs ``Selection.parameters``.
"""
COUNTED_RULE = f"""(CASE WHEN NOT starts_with(question_type, 'mcq') THEN question_type
            WHEN NOT ({BY_STRICT}) THEN 'mcq_loose'
            WHEN question_type = 'mcq_many' THEN question_type ELSE 'mcq_strict' END)"""
"""The rule by which an answer counts, on the same row."""
_ARM = "format = $format AND question_type = $question_type"
_IS_CASE = "lower($case) IN (lower(case_key), lower(split_part(case_key, '/', 2)))"
_FILTERS = {
    **{
        name: f"list_contains(${name}, {column})"
        for name, column in (
            ("trials", "trials.trial_id"),
            ("runs", "trials.run_id"),
            ("models", "runs.doctor"),
            ("sources", "runs.source"),
            ("frameworks", "runs.protocol"),
            ("patients", "runs.patient"),
            ("packs", "runs.prompt_pack"),
            ("personas", "coalesce(json_extract_string(runs.settings, '$.persona'), '')"),
            ("cases", "trials.case_key"),
            ("case_sets", "split_part(trials.case_key, '/', 1)"),
            ("datasets", "cases.dataset"),
            ("specialties", "cases.specialty"),
            ("asks_for", "cases.asks_for"),
            ("end_reasons", "trials.end_reason"),
            ("statuses", "trials.status"),
        )
    },
    "single_diagnosis": "cases.single_diagnosis = $single_diagnosis",
    "pictures": "(coalesce(json_extract_string(runs.settings, '$.images'), '') <> '') = $pictures",
    "case": f"""trials.case_key IN (
        SELECT case_key FROM cases WHERE {_IS_CASE} OR (
            NOT EXISTS (FROM cases WHERE {_IS_CASE})
            AND (contains(lower(case_key), lower($case)) OR contains(lower(answer), lower($case)))))""",
    "verdicts": f"""trials.trial_id IN (
        SELECT trial_id FROM verdicts JOIN trials USING (trial_id) JOIN runs USING (run_id)
        WHERE {_ARM} AND rule = {COUNTED_RULE} AND list_contains($verdicts, verdict))""",
    "rules_differ": f"""trials.trial_id IN (
        SELECT trial_id FROM verdicts WHERE {_ARM} GROUP BY trial_id
        HAVING bool_or(verdict = 'correct') AND NOT bool_and(verdict = 'correct'))""",
    "text": f"trials.trial_id IN (SELECT trial_id FROM utterances WHERE {SAID})",
}
"""Field of a selection → the condition on a row of ``TRIALS``."""
_OF_TRIALS = ("trials", "statuses", "text", "verdicts", "rules_differ")
"""The fields that tell trials of one case from one another; how they ended is tallied, too."""
_OF_CASES = ("datasets", "specialties", "single_diagnosis", "asks_for", "cases", "case")
"""The fields that tell cases of one data set from one another."""
TRIALS = """
    FROM trials JOIN runs ON runs.run_id = trials.run_id
    LEFT JOIN (
        SELECT case_key, content_hash FROM cases
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
    ) AS last_cases ON last_cases.case_key = trials.case_key
    LEFT JOIN cases ON cases.case_key = trials.case_key
        AND cases.content_hash = coalesce(trials.content_hash, last_cases.content_hash)"""
"""Trials with their runs and cases; where a journal brought no cases, the case as it came in last stands for it."""
IN_ARMS = """($formats::VARCHAR[] IS NULL OR list_contains($formats, verdicts.format))
        AND ($question_types::VARCHAR[] IS NULL OR list_contains($question_types, verdicts.question_type))"""
"""The condition of a selection on answers, or what stands for them under the name ``verdicts``."""


def select(
    cursor: duckdb.DuckDBPyConnection,
    selection: Selection | None = None,
    *,
    without: Iterable[Part] = (),
    only_shared: bool = False,
) -> list[Condition]:
    """Find the conditions of a selection and put the tables of this module next to the database's.

    ``without`` leaves parts out, for figures that compare just these. Who read choices is a part also where the paper's
    rule is chosen, so that a condition has one name on every page. In the order of doctors, the newest of each first.
    ``only_shared`` leaves the trials out that graders do not share, for a figure that reads those from ``tallies``.

    ``seated``: run_id, model (the condition's name), place (its position). ``judging``, for the rules of a run that
    graders share: run_id, rule, grader, prompt_hash, rule_version, model, place, whole. ``repeats``: trial_id, format,
    question_type, case_key, model and ``whole``, which is false for what a re-grading has covered only in part.
    ``selected`` and ``chosen``: see ``choose``.
    """
    chosen = selection or Selection()
    found, named, judges = _found(cursor, chosen, frozenset(without))
    _register(cursor, found, named, judges)
    runs = "SELECT run_id FROM judging" if only_shared else "SELECT run_id FROM seated UNION SELECT run_id FROM judging"
    _choose(
        cursor,
        replace(chosen, models=None),
        f"trials.run_id IN ({runs})",
        "WHERE trial_id NOT IN (FROM repeated_talks)",
    )
    return found


def choose(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> None:
    """Put ``chosen``, the trials of a selection whatever their conditions, beside the database's tables.

    Columns: trial_id, run_id, case_key; content_hash, dataset and specialty of the case; ``staffed``: whether clinical
    staff answers beside the patient, which rules for two speakers do not know. Under conditions, ``chosen`` are the
    trials to be measured, and ``selected`` has those that repeat one of them besides: of their answers, those count
    that are not among ``repeats``.
    """
    _choose(cursor, selection, "true", "")


def _choose(cursor: duckdb.DuckDBPyConnection, selection: Selection, more: str, without_repeats: str) -> None:
    sql = _CHOOSE.format(where=selection.where(), more=more)
    cursor.execute(sql, {**selection.parameters(sql), "staffed": staffed()})
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW chosen AS FROM selected {without_repeats}")


def strictly() -> list[str]:
    """Return the frameworks whose answers with choices count by the strict rule unless another one is asked for."""
    return [name for name, known in frameworks().items() if known.usual.mcq_rule == "mcq_strict"]


def staffed() -> list[str]:
    """Return the frameworks in which clinical staff answers beside the patient."""
    return [name for name, known in frameworks().items() if seat_of(known, "staff")]


def conditions(store: Store, selection: Selection | None = None, *, without: Iterable[Part] = ()) -> list[Condition]:
    """Return the conditions of a selection, by doctor, the newest first."""
    with store.read() as cursor:
        return _found(cursor, selection or Selection(), frozenset(without))[0]


def _found(
    cursor: duckdb.DuckDBPyConnection, chosen: Selection, without: frozenset[Part]
) -> tuple[list[Condition], dict[str, list[JudgedRun]], dict[str, dict[Rule, list[Judge]]]]:
    """Return the conditions of a selection, their seats by name, and who judged their runs."""
    runs = _runs_of(cursor, chosen)
    judges = _judges(cursor, runs)
    served = _served(cursor, runs)
    seats = with_missing_parts(
        [
            seat
            for run in runs
            for seat in judged_runs(run, judges.get(run.run_id, {}), without, served.get(run.run_id, {}))
        ]
    )
    named = pooled(seats) if chosen.pooled else named_conditions(seats)
    repeats = _find_repeats(cursor, named if chosen.trials is None else {})
    found = [condition_of(name, members, repeats.get(name, 0)) for name, members in named.items()]
    if chosen.models is not None:
        wanted = frozenset(chosen.models)
        found = [one for one in found if one.doctor in wanted or one.name in wanted]
    if chosen.conditions is not None:
        exactly = frozenset(chosen.conditions)
        found = [one for one in found if one.name in exactly]
    kept = {
        run.run_id
        for run in runs
        if (
            (chosen.patients is None or run.patient in chosen.patients)
            and (chosen.packs is None or run.prompt_pack in chosen.packs)
            and (chosen.personas is None or str(run.settings.get("persona") or "") in chosen.personas)
            and (chosen.pictures is None or bool(run.settings.get("images")) == chosen.pictures)
        )
    }  # named first: others' names stay what they are
    found = [one for one in found if not kept.isdisjoint(one.runs)]
    found.sort(key=lambda one: (one.doctor, -one.newest.created_at, one.name))
    return found, named, judges


def _runs_of(cursor: duckdb.DuckDBPyConnection, chosen: Selection) -> list[Run]:
    named = chosen.runs
    if named is None and chosen.trials is not None:
        sql = "SELECT DISTINCT run_id FROM trials WHERE list_contains(?, trial_id)"
        named = [run_id for (run_id,) in cursor.execute(sql, [list(chosen.trials)]).fetchall()]
    runs = run_records(cursor, named, None if named is not None else chosen.sources or CAMPAIGNS)
    if chosen.case_sets is not None:
        runs = [run for run in runs if run.data_set in chosen.case_sets]
    if chosen.frameworks is not None:
        runs = [run for run in runs if run.protocol in chosen.frameworks]
    return runs


def _served(
    cursor: duckdb.DuckDBPyConnection, runs: Sequence[Run]
) -> dict[str, dict[tuple[str, str], tuple[str, ...]]]:
    """Return run → (role, model as it was asked for) → the names under which it was served."""
    found: dict[str, dict[tuple[str, str], tuple[str, ...]]] = defaultdict(dict)
    for run_id, role, model, names in cursor.execute(_SERVED_AS, {"runs": [run.run_id for run in runs]}).fetchall():
        found[run_id][role, model] = tuple(names)
    return found


def _find_repeats(cursor: duckdb.DuckDBPyConnection, named: Mapping[str, Sequence[JudgedRun]]) -> dict[str, int]:
    """Put ``repeats`` and ``repeated_talks`` beside the tables; return condition → how many trials are among them.

    Only campaigns with one seed can repeat one another: where there are none, no trial is looked at. A release has no
    seeds of ours, and what was played live or branched off is looked at by itself.
    """
    rivals: list[Row] = []
    for series, (name, seats) in enumerate(_of_one_seed(named)):
        for seat in seats:
            known = frameworks().get(seat.run.protocol)
            talks = known is None or known.talks(seat.run.doctor, seat.run.arms)
            rivals.append((seat.run.run_id, series, name, talks, seat.partly is None))
    cursor.register("rivals", arrow_table(_RIVALS, rivals))
    cursor.execute(_REPEATS)
    cursor.execute(_REPEATED_TALKS)
    return dict(cursor.execute("SELECT model, count(DISTINCT trial_id) FROM repeats GROUP BY model").fetchall())


def _of_one_seed(named: Mapping[str, Sequence[JudgedRun]]) -> Iterator[tuple[str, list[JudgedRun]]]:
    """Yield the campaigns of one condition, of those that may be pooled under a name, that have the same seed."""
    for name, members in named.items():
        by_seed: dict[tuple[tuple[str, ...], int], list[JudgedRun]] = defaultdict(list)
        for seat in members:
            if seat.run.source == "local":
                by_seed[seat.key, seat.run.seed].append(seat)
        yield from ((name, seats) for seats in by_seed.values() if len(seats) > 1)


def case_sets_played(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return data set → how many of its cases campaigns and releases have played, the largest first."""
    return dict(cursor.execute(_PLAYED, {"sources": list(CAMPAIGNS)}).fetchall())


def case_groups_played(cursor: duckdb.DuckDBPyConnection) -> dict[str, tuple[list[str], list[str]]]:
    """Return data set → the sources and the specialties of its cases that campaigns and releases have played."""
    rows = cursor.execute(_GROUPS_PLAYED, {"sources": list(CAMPAIGNS)}).fetchall()
    return {data_set: (sources, specialties) for data_set, sources, specialties in rows}


def _judges(cursor: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> dict[str, dict[Rule, list[Judge]]]:
    """Return run → rule → who counts. Judgements are counted only where several judged under one rule."""
    of = {run.run_id: run for run in runs}
    stored: dict[tuple[str, Rule], dict[tuple[str, str], list[tuple[str, str, int]]]] = {}
    for run_id, rule, *row in cursor.execute(_GRADERS_HELD, {"runs": list(of), "rules": list(JUDGED)}).fetchall():
        who = who_judged(of[run_id], rule, *row)
        stored.setdefault((run_id, rule), {}).setdefault(who, []).append(tuple(row))
    numbered = [(place, who, rows) for place, held in stored.items() for who, rows in held.items()]
    table = [(*place, *row, n) for n, (place, _, rows) in enumerate(numbered) if len(stored[place]) > 1 for row in rows]
    counts: dict[int, tuple[int, float]] = {}
    if table:
        cursor.register("judges", arrow_table(_JUDGES, table))
        counts = {n: (count, at) for n, count, at in cursor.execute(_JUDGED_BY).fetchall()}
    found: dict[str, dict[Rule, list[Judge]]] = defaultdict(lambda: defaultdict(list))
    for n, ((run_id, rule), (grader, prompts), rows) in enumerate(numbered):
        found[run_id][rule].append(Judge(grader, prompts, tuple(rows), *counts.get(n, (0, 0.0))))
    return {run_id: {rule: counting_judges(held) for rule, held in of_run.items()} for run_id, of_run in found.items()}


def _register(
    cursor: duckdb.DuckDBPyConnection,
    found: Sequence[Condition],
    named: Mapping[str, Sequence[JudgedRun]],
    judges: Mapping[str, Judges],
) -> None:
    seated: list[Row] = []
    judging: list[Row] = []
    for place, condition in enumerate(found):
        for seat in named[condition.name]:
            run_id = seat.run.run_id
            if seat.partly is None:
                seated.append((run_id, condition.name, place))
            counting = (
                [(rule, held[0]) for rule, held in judges.get(run_id, {}).items() if len(held) > 1]
                if seat.partly is None
                else [seat.partly]
            )
            judging += [
                (run_id, rule, *stored, condition.name, place, seat.partly is None)
                for rule, judge in counting
                for stored in judge.stored
            ]
    cursor.register("seated", arrow_table(_SEATED, seated))
    cursor.register("judging", arrow_table(_JUDGING, judging))


_STORED = "run_id:text rule:text grader:text prompt_hash:text rule_version:int"
_SEATED = schema_of("run_id:text model:text place:int")
_JUDGES = schema_of(f"{_STORED} judge:int")
_JUDGING = schema_of(f"{_STORED} model:text place:int whole:bool")

_RIVALS = schema_of("run_id:text series:int model:text talks:bool whole:bool")

_SERVED_AS = """
    SELECT run_id, role, model, list(served_by ORDER BY served_by)
    FROM (
        SELECT run_id, role, model, served_by FROM served WHERE list_contains($runs, run_id)
        GROUP BY ALL HAVING sum(n) > 0
    ) GROUP BY run_id, role, model"""
# Of one seed the first trial counts that came to its end, of those at the same moment the one of the first run.
_REPEATED = """
    QUALIFY run_id <> first_value(run_id) OVER (
        PARTITION BY series, case_key, seed, {alike} ORDER BY status = 'failed', finished_at, run_id)"""
_OF_RIVALS = "trials JOIN rivals USING (run_id) JOIN runs USING (run_id)"
_REPEATS = f"""
    CREATE OR REPLACE TEMP TABLE repeats AS
    SELECT trial_id, arm[1] AS format, arm[2] AS question_type, case_key, model, whole
    FROM (
        SELECT trial_id, run_id, case_key, trials.seed, status, finished_at, series, model, whole,
            string_split(unnest(arms), ':') AS arm
        FROM {_OF_RIVALS}
    ) {_REPEATED.format(alike="arm")}"""
_REPEATED_TALKS = f"""
    CREATE OR REPLACE TEMP TABLE repeated_talks AS
    SELECT trial_id FROM (
        SELECT trial_id, run_id, case_key, trials.seed, status, finished_at, series, talks FROM {_OF_RIVALS} WHERE whole
    ) {_REPEATED.format(alike="talks")}"""
_GRADERS_HELD = """
    SELECT run_id, rule, grader, prompt_hash, rule_version FROM judged
    WHERE list_contains($rules, rule) AND list_contains($runs, run_id)
    GROUP BY ALL HAVING sum(n) > 0 ORDER BY ALL"""
BY_JUDGE = """judges.run_id = trials.run_id AND judges.rule = grades.rule AND judges.grader = grades.grader
            AND judges.prompt_hash = coalesce(grades.prompt_hash, '')
            AND judges.rule_version = coalesce(grades.rule_version, 1)"""
_JUDGED_BY = f"""
    SELECT judge, count(DISTINCT hash(trial_id, format, question_type)), max(graded_at)
    FROM grades JOIN trials USING (trial_id) JOIN judges ON {BY_JUDGE} GROUP BY judge"""

_CHOOSE = f"""
    CREATE OR REPLACE TEMP TABLE selected AS
    SELECT trials.trial_id, trials.run_id, trials.case_key, cases.content_hash, cases.dataset, cases.specialty,
        list_contains($staffed, runs.protocol) AS staffed
    {TRIALS} WHERE {{where}} AND {{more}}"""
_PLAYED = """
    SELECT split_part(case_key, '/', 1) AS data_set, count(DISTINCT case_key)
    FROM trials JOIN runs USING (run_id) WHERE list_contains($sources, source)
    GROUP BY data_set ORDER BY 2 DESC, 1"""
_GROUPS_PLAYED = f"""
    SELECT split_part(trials.case_key, '/', 1) AS data_set,
        coalesce(list_sort(list(DISTINCT cases.dataset) FILTER (cases.dataset IS NOT NULL)), []),
        coalesce(list_sort(list(DISTINCT cases.specialty) FILTER (cases.specialty IS NOT NULL)), [])
    {TRIALS} WHERE list_contains($sources, runs.source) GROUP BY data_set"""
