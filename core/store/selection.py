"""Which answers a figure is computed from: selections as SQL, joined with conditions (``core.store.conditions``).

``select`` creates temporary tables, which every query of figures joins: ``seated`` (run → condition),
``judging`` (whose verdicts count if several graders judged a run), ``selected`` (the trials), ``repeats`` (their
answers that do not count) and ``chosen`` (the trials without repeats). The column ``model`` is the name of a condition.

A trial of a condition is identified by case and seed: if several campaigns played a case with the same seed, only the
trial that finished first counts. The others are repeats of it, arm by arm, so that a campaign that asked further arms
of the same trials adds those.
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
from core.store.condition_parts import ConditionPart
from core.store.conditions import (
    JUDGED,
    Condition,
    JudgedRun,
    RunJudge,
    RunJudges,
    condition_of,
    counting_judges,
    judged_runs,
    named_conditions,
    pooled,
    who_judged,
    with_missing_parts,
)
from core.store.counted_rule import COUNTED_RULE, strictly
from core.store.database import Store
from core.store.lease import while_open
from core.store.queries.runs import CAMPAIGNS, ORIGIN_SQL, ORIGINS, WATCHED, Origin, Run, run_records
from core.store.tables import TableRow, arrow_table, schema_of

McqRule = Literal["usual", "mcq_loose", "mcq_strict"]
"""The rule for answers with choices. ``usual``: the framework's (``Usual.mcq_rule``), and for many choices the grader's
verdict. Else one rule for all frameworks; under ``mcq_strict``, many choices keep the grader's verdict, because the
strict rule does not judge them."""


@dataclass(frozen=True)
class Selection:
    """The runs, cases, trials and answers that a page or command reads; the only filter of the program.

    ``None`` is no restriction. ``models`` are doctors; in ``select`` a doctor's name stands for all its conditions, and
    names of conditions are allowed too; ``conditions`` are only names of conditions. ``case_sets`` are data sets, with
    which case keys begin; names of conditions omit a data set or framework that all of them share. ``sources`` are
    campaigns and releases in figures, unless ``runs`` or ``trials`` are named. ``origins``: who made the runs; printed
    figures count as ``published``. ``personas`` are in their canonical form, the empty text for plain patients;
    ``packs`` are the prompts of a run; ``pictures`` says whether doctors saw pictures.

    ``cases`` are keys; ``case`` is the id of a case, or else a part of ids or of right answers. ``single_diagnosis``
    and ``asks_for`` (what its question asks for) are properties of the case. ``text`` is searched in the messages,
    ignoring case, only in those of ``speaker`` if given; a doctor's tags are not searched. Specialty and single
    diagnosis are those of the case's labels, if it has any. Cases that were used to write prompts are left out unless
    ``development`` is true, or ``trials``, ``cases`` or ``case`` name them.

    ``formats`` and ``question_types`` restrict the answers, never conversations. ``verdicts`` select the trials with
    these verdicts in the arm ``arm`` ("format:question_type"); ``rules_differ`` those whose answer in that arm is right
    by only one of the two multiple-choice rules. ``mcq_rule`` judges choices, by default the framework's rule.
    ``pooled`` merges a doctor's conditions on one data set, under a name that says so.

    ``sample`` is the most trials of each condition: a random sample that is always the same, and part of any larger
    sample of the same selection. It has one trial of each case before a second one, and the same cases for conditions
    that have the same cases.
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
    development: bool = False
    sources: Sequence[str] | None = None
    origins: Sequence[Origin] | None = None
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
    sample: int | None = None

    @property
    def counted(self) -> Selection:
        """The same selection, restricted to campaigns and releases unless sources, runs or trials are given."""
        restricted = self.sources is not None or self.runs is not None or self.trials is not None
        return self if restricted else replace(self, sources=CAMPAIGNS)

    @property
    def has_published(self) -> bool:
        """Whether figures that a publication prints belong to it."""
        return self.origins is None or "published" in self.origins

    @property
    def of_cases(self) -> bool:
        """Whether it filters only runs and cases, not trials of one case."""
        return all(getattr(self, name) == getattr(Selection, name) for name in _OF_TRIALS)

    @property
    def all_trials(self) -> Selection:
        without = {name: getattr(Selection, name) for name in (*_OF_TRIALS, "end_reasons")}
        return replace(self, **without, development=not self.leaves_out_development)

    @property
    def of_conversations(self) -> Selection:
        """The same conversations, without filters on conditions, answers and rules."""
        return replace(self, conditions=None, formats=None, question_types=None, mcq_rule="usual")

    @property
    def leaves_out_development(self) -> bool:
        """Whether cases that were used to write prompts are left out."""
        return not self.development and self.trials is None and self.cases is None and not self.case

    @property
    def of_all_cases(self) -> bool:
        return all(getattr(self, name) == getattr(Selection, name) for name in _OF_CASES)

    def where(self) -> str:
        """Return the SQL condition on a row of ``TRIALS``, with only the filters that are set."""
        filters = [sql for name, sql in _FILTERS.items() if getattr(self, name) != getattr(Selection, name)]
        filters += ["NOT coalesce(cases.development, false)"] if self.leaves_out_development else []
        return (" AND ".join(filters) or "true").format(words=self.words)

    @property
    def words(self) -> str:
        """The words of a message in SQL; tags are removed only if they could contain the text: it is slow."""
        text = (self.text or "").lower()
        tags = [tag for framework in frameworks().values() for tag in framework.speech.tags]
        if not text or not any(text in tag.lower() for tag in tags):
            return "text"
        pattern = "|".join(map(re.escape, tags)).replace("'", "''")
        return f"regexp_replace(text, '{pattern}', ' ', 'gi')"

    def parameters(self, sql: str) -> dict[str, Any]:
        format_, _, question_type = self.arm.partition(":")
        values = {**vars(self), "format": format_, "question_type": question_type, "strictly": strictly()}
        parameters = {name: values[name] for name in _PARAMETER.findall(sql) if name in values}
        return {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in parameters.items()}


_PARAMETER = re.compile(r"\$(\w+)")
# an escaped pattern that ignores case takes a third of the time of lower()
SAID = "($speaker::VARCHAR IS NULL OR role = $speaker) AND regexp_matches({words}, regexp_escape($text), 'i')"
"""The condition on a message with a selection's ``text``; ``{words}`` are its ``words``."""
_ARM = "format = $format AND question_type = $question_type"
_IS_CASE = "lower($case) IN (lower(case_key), lower(split_part(case_key, '/', 2)))"
_FILTERS = {
    **{
        name: f"list_contains(${name}, {column})"
        for name, column in (
            ("runs", "trials.run_id"),
            ("models", "runs.doctor"),
            ("sources", "runs.source"),
            ("origins", f"({ORIGIN_SQL})"),
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
    "trials": "trials.trial_id IN (SELECT unnest($trials::VARCHAR[]))",  # there may be many: a list is searched in full
    "single_diagnosis": "cases.single_diagnosis = $single_diagnosis",
    "pictures": "(coalesce(json_extract_string(runs.settings, '$.images'), '') <> '') = $pictures",
    "case": f"""trials.case_key IN (
        WITH named AS (SELECT case_key, answer FROM cases UNION SELECT case_key, '' FROM run_cases)
        SELECT case_key FROM named WHERE {_IS_CASE} OR (
            NOT EXISTS (FROM named WHERE {_IS_CASE})
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
_OF_TRIALS = ("trials", "statuses", "text", "verdicts", "rules_differ", "sample")
"""Fields that filter trials of one case, except ``end_reasons``, by which the tallies also count."""
_OF_CASES = ("datasets", "specialties", "single_diagnosis", "asks_for", "cases", "case")
"""Fields that filter cases of one data set."""
TRIALS = """
    FROM trials JOIN runs ON runs.run_id = trials.run_id
    LEFT JOIN (
        SELECT case_key, content_hash FROM cases
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
    ) AS last_cases ON last_cases.case_key = trials.case_key
    LEFT JOIN labelled_cases AS cases ON cases.case_key = trials.case_key
        AND cases.content_hash = coalesce(trials.content_hash, last_cases.content_hash)"""
"""Trials with their runs and labelled cases; if a journal had no cases, the newest stored case of the key."""
CONTENT = "coalesce(cases.asked, 0)"
"""A hash of what a row of ``TRIALS`` asks; 0 if no case is stored. Data sets imported again can change a case."""
IN_ARMS = """($formats::VARCHAR[] IS NULL OR list_contains($formats, verdicts.format))
        AND ($question_types::VARCHAR[] IS NULL OR list_contains($question_types, verdicts.question_type))"""
"""The condition of a selection on answers, in a table under the name ``verdicts``."""


def select(
    cursor: duckdb.DuckDBPyConnection,
    selection: Selection | None = None,
    *,
    without: Iterable[ConditionPart] = (),
    only_shared: bool = False,
) -> list[Condition]:
    """Return the conditions of a selection, and create the temporary tables of this module.

    The users' own conditions come first, then those of the sample study, then releases; each by doctor, newest first.

    ``without`` ignores parts of conditions, for figures that compare these parts. The reader of choices is a part also
    under the paper's rule, so that a condition has the same name on every page. ``only_shared`` leaves out the trials
    that only one grader judged, for a figure that reads those from ``tallies``.

    ``seated``: run_id, model (the condition's name), place (its position). ``judging``, for the rules of a run that
    several graders judged: run_id, rule, grader, prompt_hash, rule_version, model, place, whole. ``repeats``: trial_id,
    format, question_type, case_key, model and ``whole``, which is false for runs that a re-grading covers only in part.
    ``selected`` and ``chosen``: see ``choose``.
    """
    chosen = selection or Selection()
    conditions_found, seats_by_name, judges = _found(cursor, chosen, frozenset(without))
    _register(cursor, conditions_found, seats_by_name, judges)
    runs = "SELECT run_id FROM judging" if only_shared else "SELECT run_id FROM seated UNION SELECT run_id FROM judging"
    _choose(
        cursor,
        replace(chosen, models=None),
        f"trials.run_id IN ({runs})",
        "WHERE trial_id NOT IN (FROM repeated_conversations)",
    )
    if chosen.sample is not None:
        cursor.execute(_SAMPLE, {"sample": chosen.sample})
    return conditions_found


def select_all(cursor: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of ``select`` for all stored trials, also for repeats and trials that no figure counts."""
    everything = Selection(sources=(*CAMPAIGNS, *WATCHED), development=True)
    select(cursor, everything)
    choose(cursor, everything)


def sample_size(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> tuple[int, int]:
    """Return the number of trials in the sample of a selection, and in the selection without ``sample``."""
    count = "SELECT count(*) FROM chosen"
    select(cursor, replace(selection, sample=None))
    whole = int(cursor.execute(count).fetchall()[0][0])
    if selection.sample is None:
        return whole, whole
    cursor.execute(_SAMPLE, {"sample": selection.sample})
    return int(cursor.execute(count).fetchall()[0][0]), whole


def choose(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> None:
    """Create ``chosen``, the trials of a selection whatever their conditions.

    Columns: trial_id, run_id, case_key; content_hash, dataset and specialty of the case; ``staffed``: whether clinical
    staff answers in addition to the patient; rules for two speakers do not apply then. After ``select``, ``chosen`` are
    the trials to be measured, and ``selected`` has also their repeats, whose answers count unless they are in
    ``repeats``.
    """
    _choose(cursor, selection, "true", "")


def _choose(cursor: duckdb.DuckDBPyConnection, selection: Selection, more: str, without_repeats: str) -> None:
    sql = _CHOOSE.format(where=selection.where(), more=more)
    cursor.execute(sql, {**selection.parameters(sql), "staffed": staffed()})
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW chosen AS FROM selected {without_repeats}")


def staffed() -> list[str]:
    """Return the frameworks with clinical staff in addition to the patient."""
    return [name for name, framework in frameworks().items() if seat_of(framework, "staff")]


def conditions(
    store: Store, selection: Selection | None = None, *, without: Iterable[ConditionPart] = ()
) -> list[Condition]:
    """Return the conditions of a selection, in the order of ``select``."""
    with store.read() as cursor:
        return _found(cursor, selection or Selection(), frozenset(without))[0]


def _found(
    cursor: duckdb.DuckDBPyConnection, chosen: Selection, without: frozenset[ConditionPart]
) -> tuple[list[Condition], dict[str, list[JudgedRun]], dict[str, dict[Rule, list[RunJudge]]]]:
    """Return the conditions of a selection, their seats by name, and who judged their runs."""
    runs = _runs_of(cursor, chosen)
    key = ("seats", tuple(run.run_id for run in runs), without, chosen.pooled)
    seats_by_name, judges = while_open(cursor, key, lambda: _seats(cursor, runs, without, merged=chosen.pooled))
    repeats = _find_repeats(cursor, seats_by_name if chosen.trials is None else {})
    matching = [condition_of(name, members, repeats.get(name, 0)) for name, members in seats_by_name.items()]
    if chosen.models is not None:
        doctors_or_names = frozenset(chosen.models)
        matching = [
            condition
            for condition in matching
            if condition.doctor in doctors_or_names or condition.name in doctors_or_names
        ]
    if chosen.conditions is not None:
        names = frozenset(chosen.conditions)
        matching = [condition for condition in matching if condition.name in names]
    selected_runs = {
        run.run_id
        for run in runs
        if (
            (chosen.patients is None or run.patient in chosen.patients)
            and (chosen.packs is None or run.prompt_pack in chosen.packs)
            and (chosen.personas is None or str(run.settings.get("persona") or "") in chosen.personas)
            and (chosen.pictures is None or bool(run.settings.get("images")) == chosen.pictures)
            and (chosen.origins is None or run.origin in chosen.origins)
        )
    }  # filtered only now: a name also depends on the conditions that are filtered out
    matching = [condition for condition in matching if not selected_runs.isdisjoint(condition.runs)]
    matching.sort(
        key=lambda condition: (
            ORIGINS.index(condition.newest.origin),
            condition.doctor,
            -condition.newest.created_at,
            condition.name,
        )
    )
    return matching, seats_by_name, judges


def _seats(
    cursor: duckdb.DuckDBPyConnection, runs: Sequence[Run], without: frozenset[ConditionPart], *, merged: bool
) -> tuple[dict[str, list[JudgedRun]], dict[str, dict[Rule, list[RunJudge]]]]:
    """Return the seats of runs by the name of their condition, or of a doctor if ``merged``, and who judged them."""
    judges, served = _judges(cursor, runs), _served(cursor, runs)
    seats = [
        seat
        for run in runs
        for seat in judged_runs(run, judges.get(run.run_id, {}), without, served.get(run.run_id, {}))
    ]
    return (pooled if merged else named_conditions)(with_missing_parts(seats)), judges


def _runs_of(cursor: duckdb.DuckDBPyConnection, chosen: Selection) -> list[Run]:
    run_ids = chosen.runs
    if run_ids is None and chosen.trials is not None:
        sql = "SELECT DISTINCT run_id FROM trials WHERE list_contains(?, trial_id)"
        run_ids = [run_id for (run_id,) in cursor.execute(sql, [list(chosen.trials)]).fetchall()]
    runs = run_records(cursor, run_ids, None if run_ids is not None else chosen.sources or CAMPAIGNS)
    if chosen.case_sets is not None:
        runs = [run for run in runs if run.data_set in chosen.case_sets]
    if chosen.frameworks is not None:
        runs = [run for run in runs if run.protocol in chosen.frameworks]
    return runs


def _served(
    cursor: duckdb.DuckDBPyConnection, runs: Sequence[Run]
) -> dict[str, dict[tuple[str, str], tuple[str, ...]]]:
    """Return run → (role, requested model) → the names of the served models."""
    names_by_run: dict[str, dict[tuple[str, str], tuple[str, ...]]] = defaultdict(dict)
    for run_id, role, model, names in cursor.execute(_SERVED_AS, {"runs": [run.run_id for run in runs]}).fetchall():
        names_by_run[run_id][role, model] = tuple(names)
    return names_by_run


def _find_repeats(
    cursor: duckdb.DuckDBPyConnection, seats_by_name: Mapping[str, Sequence[JudgedRun]]
) -> dict[str, int]:
    """Create ``repeats`` and ``repeated_conversations``; return condition → number of its trials in ``repeats``.

    Only campaigns with the same seed can repeat trials: without any, no trial is read. Releases have no seeds of this
    program, and live conversations and branches are always counted by themselves.
    """
    rivals: list[TableRow] = []
    for series, (name, seats) in enumerate(_of_one_seed(seats_by_name)):
        for seat in seats:
            framework = frameworks().get(seat.run.protocol)
            conversations = framework is None or framework.has_conversation(seat.run.doctor, seat.run.arms)
            rivals.append((seat.run.run_id, series, name, conversations, seat.partly is None))
    if not rivals:
        cursor.execute(_NO_REPEATS)
        return {}
    cursor.register("rivals", arrow_table(_RIVALS, rivals))
    cursor.execute(_REPEATS)
    cursor.execute(_REPEATED_CONVERSATIONS)
    return dict(cursor.execute("SELECT model, count(DISTINCT trial_id) FROM repeats GROUP BY model").fetchall())


def _of_one_seed(seats_by_name: Mapping[str, Sequence[JudgedRun]]) -> Iterator[tuple[str, list[JudgedRun]]]:
    """Yield (name, campaigns) for campaigns of one condition with the same seed; a name may pool several conditions."""
    for name, members in seats_by_name.items():
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


def _judges(cursor: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> dict[str, dict[Rule, list[RunJudge]]]:
    """Return run → rule → judges that count. Judgements are counted only if several judges share a rule."""
    runs_by_id = {run.run_id: run for run in runs}
    stored: dict[tuple[str, Rule], dict[tuple[str, str], list[tuple[str, str, int]]]] = {}
    for run_id, rule, *row in cursor.execute(
        _GRADERS_HELD, {"runs": list(runs_by_id), "rules": list(JUDGED)}
    ).fetchall():
        judge = who_judged(runs_by_id[run_id], rule, *row)
        stored.setdefault((run_id, rule), {}).setdefault(judge, []).append(tuple(row))
    numbered = [
        (place, judge, rows) for place, rows_by_judge in stored.items() for judge, rows in rows_by_judge.items()
    ]
    table = [(*place, *row, n) for n, (place, _, rows) in enumerate(numbered) if len(stored[place]) > 1 for row in rows]
    counts: dict[int, tuple[int, float]] = {}
    if table:
        cursor.register("judges", arrow_table(_JUDGES, table))
        counts = {n: (count, at) for n, count, at in cursor.execute(_JUDGED_BY).fetchall()}
    judges_by_run: dict[str, dict[Rule, list[RunJudge]]] = defaultdict(lambda: defaultdict(list))
    for n, ((run_id, rule), (grader, prompts), rows) in enumerate(numbered):
        judges_by_run[run_id][rule].append(RunJudge(grader, prompts, tuple(rows), *counts.get(n, (0, 0.0))))
    return {
        run_id: {rule: counting_judges(rule_judges) for rule, rule_judges in of_run.items()}
        for run_id, of_run in judges_by_run.items()
    }


def _register(
    cursor: duckdb.DuckDBPyConnection,
    conditions_found: Sequence[Condition],
    seats_by_name: Mapping[str, Sequence[JudgedRun]],
    judges: Mapping[str, RunJudges],
) -> None:
    seated: list[TableRow] = []
    judging: list[TableRow] = []
    for place, condition in enumerate(conditions_found):
        for seat in seats_by_name[condition.name]:
            run_id = seat.run.run_id
            if seat.partly is None:
                seated.append((run_id, condition.name, place))
            counting = (
                [(rule, rule_judges[0]) for rule, rule_judges in judges.get(run_id, {}).items() if len(rule_judges) > 1]
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

_RIVALS = schema_of("run_id:text series:int model:text conversations:bool whole:bool")

_SERVED_AS = """
    SELECT run_id, role, model, list(served_by ORDER BY served_by)
    FROM (
        SELECT run_id, role, model, served_by FROM served WHERE list_contains($runs, run_id)
        GROUP BY ALL HAVING sum(n) > 0
    ) GROUP BY run_id, role, model"""
# Of one seed the first trial counts that came to its end, of those at the same moment the one of the first run; of
# conversations the first with a summary, which is judged with them.
_REPEATED = """
    QUALIFY run_id <> first_value(run_id) OVER (
        PARTITION BY series, case_key, seed, {alike} ORDER BY status = 'failed', {first}finished_at, run_id)"""
_OF_RIVALS = "trials JOIN rivals USING (run_id) JOIN runs USING (run_id)"
_REPEATS = f"""
    CREATE OR REPLACE TEMP TABLE repeats AS
    SELECT trial_id, arm[1] AS format, arm[2] AS question_type, case_key, model, whole
    FROM (
        SELECT trial_id, run_id, case_key, trials.seed, status, finished_at, series, model, whole,
            string_split(unnest(arms), ':') AS arm
        FROM {_OF_RIVALS}
    ) {_REPEATED.format(alike="arm", first="")}"""
_REPEATED_CONVERSATIONS = f"""
    CREATE OR REPLACE TEMP TABLE repeated_conversations AS
    SELECT trial_id FROM (
        SELECT trial_id, run_id, case_key, trials.seed, status, summary, finished_at, series, conversations
        FROM {_OF_RIVALS} WHERE whole
    ) {_REPEATED.format(alike="conversations", first="summary IS NULL, ")}"""
_NO_REPEATS = """
    CREATE OR REPLACE TEMP TABLE repeats (
        trial_id VARCHAR, format VARCHAR, question_type VARCHAR, case_key VARCHAR, model VARCHAR, whole BOOLEAN);
    CREATE OR REPLACE TEMP TABLE repeated_conversations (trial_id VARCHAR)"""
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
# Cases are the unit of figures and of comparisons: conditions get the same cases, and each case one trial first.
_SAMPLE = """
    DELETE FROM selected WHERE trial_id NOT IN (
        SELECT trial_id FROM (
            SELECT trial_id, case_key, place,
                row_number() OVER (PARTITION BY place, case_key ORDER BY md5(trial_id)) AS number
            FROM chosen LEFT JOIN seated USING (run_id)
        ) QUALIFY row_number() OVER (PARTITION BY place ORDER BY number, md5(case_key), case_key) <= $sample)"""
_PLAYED = """
    SELECT split_part(case_key, '/', 1) AS data_set, count(DISTINCT case_key)
    FROM trials JOIN runs USING (run_id) WHERE list_contains($sources, source)
    GROUP BY data_set ORDER BY 2 DESC, 1"""
_GROUPS_PLAYED = f"""
    SELECT split_part(trials.case_key, '/', 1) AS data_set,
        coalesce(list_sort(list(DISTINCT cases.dataset) FILTER (cases.dataset IS NOT NULL)), []),
        coalesce(list_sort(list(DISTINCT cases.specialty) FILTER (cases.specialty IS NOT NULL)), [])
    {TRIALS} WHERE list_contains($sources, runs.source) GROUP BY data_set"""
