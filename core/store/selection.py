"""Which answers may stand behind one figure: selections as SQL, and conditions, computed here and nowhere else.

Two answers are comparable when framework and version, case set, doctor (model, sampling, prompts, cap), patient (model,
persona), other seats, pictures, and the grader who really judged (model, prompts) are equal. That tuple is a condition.
``select`` puts three tables beside the database's own, ``seated`` (run → condition), ``judging`` (whose verdicts count
where graders share a run) and ``chosen`` (the trials), and every query of figures joins them. What it calls ``model``
is the name of a condition: it begins with the doctor's and says no more than what tells it from the other ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Literal, get_args

import duckdb
import pyarrow as pa

from core.errors import AnamnesisError
from core.events import EndReason, Format, QuestionType, Rule, Speaker
from core.frameworks.base import framework, frameworks, remarks, title_of
from core.frameworks.casting import is_model
from core.persona import label, parse_persona
from core.prompts import grader_hash, load_pack
from core.questions import AsksFor
from core.store.database import Store
from core.store.runs import CAMPAIGNS, Run, run_records

Part = Literal[
    "data_set", "framework", "case_set", "doctor_prompt", "prompts", "sampling", "cap", "patient", "persona",
    "pictures", "summariser", "solver", "staff", "grader", "reader", "version",
]  # fmt: skip
"""What makes a condition, in the order in which a name says what differs."""
McqRule = Literal["mcq_loose", "mcq_strict"]
SEPARATOR = " · "
"""Stands between the doctor and what tells its conditions apart."""
PARTS: tuple[Part, ...] = get_args(Part)
FREE_RULES: tuple[Rule, ...] = ("frq", "frq_top3")
"""Rules by which graders judge free responses."""
_JUDGED: tuple[Rule, ...] = ("mcq_strict", *FREE_RULES)
"""Rules whose judges may change; the paper's for choices is one for ever."""
_MAY_LACK: tuple[Part, ...] = ("patient", "summariser", "grader", "reader")
"""Parts that are empty where a run's arms give them nothing to do."""
_HASH = 6


@dataclass(frozen=True)
class Selection:
    """Which runs, cases, trials and answers are looked at: the one language of all pages and commands.

    ``None`` is no restriction. ``models`` are doctors; where conditions are told apart (``select``) a doctor's name
    stands for all its conditions, and names of conditions may be given too. ``case_sets`` are data sets as case keys
    begin with them; names of conditions do not repeat a data set or framework that all of them share. ``sources`` are
    campaigns and releases where figures are made, unless ``runs`` or ``trials`` are named. ``personas`` are in their
    canonical form, the empty text for plain patients; ``packs`` are the prompts of a run; ``pictures`` says whether
    doctors were shown them.

    ``cases`` are keys; ``case`` is the id of a case, or else a part of ids or of right answers. ``single_diagnosis``
    and ``asks_for``, what its question asks for, are properties of the case. ``text`` is looked for in the messages, in
    any case of letters, of ``speaker`` where given; the tags in which a doctor speaks are no words.

    ``formats`` and ``question_types`` restrict the answers, never which conversations are looked at. ``verdicts`` keep
    the trials with these in the arm ``arm`` ("format:question_type"); ``rules_differ`` those whose answer in that arm
    is right by one of the two multiple-choice rules only. ``mcq_rule`` judges choices. ``pooled`` puts a doctor's
    conditions on one data set together on purpose, under a name that says so.
    """

    runs: Sequence[str] | None = None
    models: Sequence[str] | None = None
    case_sets: Sequence[str] | None = None
    frameworks: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    specialties: Sequence[str] | None = None
    formats: Sequence[Format] | None = None
    question_types: Sequence[QuestionType] | None = None
    single_diagnosis: bool | None = None
    asks_for: Sequence[AsksFor] | None = None
    sources: Sequence[str] | None = None
    mcq_rule: McqRule = "mcq_loose"
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
    def rules(self) -> list[Rule]:
        """The rules whose verdicts count."""
        return [self.mcq_rule, *FREE_RULES]

    @property
    def counted(self) -> Selection:
        """The same, with campaigns and releases alone unless sources, runs or trials are named."""
        named = self.sources is not None or self.runs is not None or self.trials is not None
        return self if named else replace(self, sources=CAMPAIGNS)

    def where(self) -> str:
        """Return the condition in SQL on a row of ``TRIALS``: what is no restriction costs nothing."""
        asked = [sql for name, sql in _FILTERS.items() if getattr(self, name) != getattr(Selection, name)]
        return (" AND ".join(asked) or "true").format(words=self.words)

    @property
    def words(self) -> str:
        """The words of a message in SQL: without tags where the text asked for may lie in one, which costs its time."""
        asked = (self.text or "").lower()
        in_a_tag = bool(asked) and any(asked in tag for tag in _TAGS)
        return f"regexp_replace(text, '{'|'.join(_TAGS)}', ' ', 'gi')" if in_a_tag else "text"

    def parameters(self, sql: str) -> dict[str, Any]:
        """Return the values of this selection that a query names."""
        format_, _, question_type = self.arm.partition(":")
        values = {**vars(self), "format": format_, "question_type": question_type}
        named = {name: values[name] for name in _PARAMETER.findall(sql) if name in values}
        return {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in named.items()}


_PARAMETER = re.compile(r"\$(\w+)")
_TAGS = ("<patient>", "</patient>", "<clinical>", "</clinical>", "</end>")
# a pattern with every special character escaped: ignores case at a third of the price of lower()
SAID = "($speaker::VARCHAR IS NULL OR role = $speaker) AND regexp_matches({words}, regexp_escape($text), 'i')"
"""The condition on a message with a selection's ``text``; ``{words}`` are its ``words``."""
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
        SELECT trial_id FROM verdicts WHERE {_ARM} AND (NOT starts_with(rule, 'mcq') OR rule = $mcq_rule)
            AND list_contains($verdicts, verdict))""",
    "rules_differ": f"""trials.trial_id IN (
        SELECT trial_id FROM verdicts WHERE {_ARM} GROUP BY trial_id
        HAVING bool_or(verdict = 'correct') AND NOT bool_and(verdict = 'correct'))""",
    "text": f"trials.trial_id IN (SELECT trial_id FROM utterances WHERE {SAID})",
}
"""Field of a selection → the condition on a row of ``TRIALS``."""
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


@dataclass(frozen=True)
class Condition:
    """What stands behind one bar: a doctor with all that shapes its answers, and the runs that hold them.

    ``name`` is unique among the conditions it was found with. ``parts`` are in plain words, the empty text for what is
    as it usually is or not there; ``newest`` is the last of the runs; ``remarks`` say what a reader of a figure should
    know. ``covered`` of ``answers`` carry its grader's verdict, where a re-grading has covered only a part of them.
    """

    name: str
    doctor: str
    parts: Mapping[Part, str]
    runs: tuple[str, ...]
    newest: Run
    remarks: tuple[str, ...] = ()
    covered: int = 0
    answers: int = 0

    @property
    def partial(self) -> bool:
        """Whether its grader has judged only a part of its runs' free responses."""
        return self.covered < self.answers


@dataclass(frozen=True)
class _Judge:
    """One grader under one set of prompts, or one version of a rule, in one run under one rule.

    ``stored`` are the (grader, prompt hash, rule version) by which its verdicts are found; ``answers`` how many it
    judged, the last at ``newest_at``, both 0 where nobody else judged under that rule.
    """

    grader: str
    prompts: str
    stored: tuple[tuple[str, str, int], ...]
    answers: int
    newest_at: float


Judges = Mapping[Rule, Sequence[_Judge]]
"""Rule → who counts in a run: first who judged most (of equals the latest), then who judged a part of it later."""


@dataclass(frozen=True)
class _Seat:
    """A run under one set of graders, on the way to its condition.

    ``parts``: what must be equal, and how that is said. ``grader`` judged its free responses; ``partly`` is the rule
    and the grader of a re-grading that has covered only a part of the run.
    """

    run: Run
    parts: Mapping[Part, tuple[str, str]]
    covered: int
    answers: int
    grader: str
    partly: tuple[Rule, _Judge] | None = None


def select(
    cursor: duckdb.DuckDBPyConnection,
    selection: Selection | None = None,
    *,
    without: Iterable[Part] = (),
) -> list[Condition]:
    """Find the conditions of a selection and put ``seated``, ``judging`` and ``chosen`` beside the database's tables.

    ``without`` leaves parts out, for figures that compare just these. Who read choices is a part also where the paper's
    rule is chosen, so that a condition has one name on every page. In the order of doctors, the newest of each first.

    ``seated``: run_id, model (the condition's name), place (its position). ``judging``, for the rules of a run that
    graders share: run_id, rule, grader, prompt_hash, rule_version, model, place, whole. ``chosen``: see ``choose``.
    """
    chosen = selection or Selection()
    found, named, judges = _found(cursor, chosen, frozenset(without))
    _register(cursor, found, named, judges)
    seated = "trials.run_id IN (SELECT run_id FROM seated UNION SELECT run_id FROM judging)"
    choose(cursor, replace(chosen, models=None), seated)
    return found


def choose(cursor: duckdb.DuckDBPyConnection, selection: Selection, more: str = "true") -> None:
    """Put ``chosen``, the trials of a selection, beside the database's tables; ``more`` is a further condition in SQL.

    Columns: trial_id, run_id, case_key; content_hash, dataset and specialty of the case; ``staffed``: whether clinical
    staff answers beside the patient, which rules for two speakers do not know.
    """
    sql = _CHOOSE.format(where=selection.where(), more=more)
    cursor.execute(sql, {**selection.parameters(sql), "staffed": staffed()})


def staffed() -> list[str]:
    """Return the frameworks in which clinical staff answers beside the patient."""
    return [name for name, known in frameworks().items() if known.seat("staff")]


def conditions(store: Store, selection: Selection | None = None, *, without: Iterable[Part] = ()) -> list[Condition]:
    """Return the conditions of a selection, by doctor, the newest first."""
    with store.read() as cursor:
        return _found(cursor, selection or Selection(), frozenset(without))[0]


def _found(
    cursor: duckdb.DuckDBPyConnection, chosen: Selection, without: frozenset[Part]
) -> tuple[list[Condition], dict[str, list[_Seat]], dict[str, dict[Rule, list[_Judge]]]]:
    """Return the conditions of a selection, their seats by name, and who judged their runs."""
    runs = _runs_of(cursor, chosen)
    judges = _judges(cursor, runs)
    seats = _completed([seat for run in runs for seat in _seats(run, judges.get(run.run_id, {}), without)])
    named = _pooled(seats) if chosen.pooled else _told_apart(seats)
    found = [_condition(name, members) for name, members in named.items()]
    if chosen.models is not None:
        wanted = frozenset(chosen.models)
        found = [one for one in found if one.doctor in wanted or one.name in wanted]
    kept = {run.run_id for run in runs if _is_kept(run, chosen)}  # named first: others' names stay what they are
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


def _is_kept(run: Run, chosen: Selection) -> bool:
    return (
        (chosen.patients is None or run.patient in chosen.patients)
        and (chosen.packs is None or run.prompt_pack in chosen.packs)
        and (chosen.personas is None or str(run.settings.get("persona") or "") in chosen.personas)
        and (chosen.pictures is None or bool(run.settings.get("images")) == chosen.pictures)
    )


def case_sets_played(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return data set → how many of its cases campaigns and releases have played, the largest first."""
    return dict(cursor.execute(_PLAYED, {"sources": list(CAMPAIGNS)}).fetchall())


def conditions_of(runs: Sequence[Run]) -> list[Condition]:
    """Return the conditions of runs by what is written of them, whoever judged their answers; the newest first."""
    seats = _completed([seat for run in runs for seat in _seats(run, {}, frozenset())])
    found = [_condition(name, members) for name, members in _told_apart(seats).items()]
    return sorted(found, key=lambda one: (one.doctor, -one.newest.created_at, one.name))


def doctor_of(name: str) -> str:
    """Return the doctor's part of a condition's name."""
    return name.partition(SEPARATOR)[0]


def _judges(cursor: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> dict[str, dict[Rule, list[_Judge]]]:
    """Return run → rule → who counts. Judgements are counted only where several judged under one rule."""
    of = {run.run_id: run for run in runs}
    stored: dict[tuple[str, Rule], dict[tuple[str, str], list[tuple[str, str, int]]]] = {}
    for run_id, rule, *row in cursor.execute(_GRADERS_HELD, {"runs": list(of), "rules": list(_JUDGED)}).fetchall():
        who = _who(of[run_id], rule, *row)
        stored.setdefault((run_id, rule), {}).setdefault(who, []).append(tuple(row))
    numbered = [(place, who, rows) for place, held in stored.items() for who, rows in held.items()]
    table = [(*place, *row, n) for n, (place, _, rows) in enumerate(numbered) if len(stored[place]) > 1 for row in rows]
    counts: dict[int, tuple[int, float]] = {}
    if table:
        _table(cursor, "judges", _JUDGES, table)
        counts = {n: (count, at) for n, count, at in cursor.execute(_JUDGED_BY).fetchall()}
    found: dict[str, dict[Rule, list[_Judge]]] = defaultdict(lambda: defaultdict(list))
    for n, ((run_id, rule), (grader, prompts), rows) in enumerate(numbered):
        found[run_id][rule].append(_Judge(grader, prompts, tuple(rows), *counts.get(n, (0, 0.0))))
    return {run_id: {rule: _counting(held) for rule, held in of_run.items()} for run_id, of_run in found.items()}


def _counting(held: Sequence[_Judge]) -> list[_Judge]:
    whole = max(held, key=lambda judge: (judge.answers, judge.newest_at))
    later = [judge for judge in held if judge.newest_at > whole.newest_at]
    return [whole, *sorted(later, key=lambda judge: -judge.newest_at)]


def _who(run: Run, rule: Rule, grader: str, prompts: str, version: int) -> tuple[str, str]:
    """Return a grader and its prompts: the name of a pack behind a grader's makes no other one of equal prompts."""
    if rule == "mcq_strict":
        return "choice reader", str(version)
    if not is_model(grader):
        return grader, ""  # rules, and people, judge without prompts
    return grader.partition(" [")[0], prompts or _own_prompts(run)


def _own_prompts(run: Run) -> str:
    """Return the hash of what a run's own pack told its grader, or what stands for it where the pack has changed.

    Runs under different packs are told apart by these in any case.
    """
    grading = str(run.settings.get("grading_prompts") or "")
    place, hash_ = (framework().name, grading) if grading else (run.prompt_pack, run.prompt_hash)
    return _told_to_grader(place, hash_) or grading or "own"


@lru_cache(maxsize=256)
def _told_to_grader(place: str, hash_: str) -> str | None:
    try:
        pack = load_pack(place)
        return grader_hash(pack) if pack.hash == hash_ else None
    except (AnamnesisError, OSError, KeyError):
        return None


def _seats(run: Run, judges: Judges, without: frozenset[Part]) -> list[_Seat]:
    """Return a run under the graders that judged it whole, and once more for each that judged a part of it later."""
    whole = {rule: held[0] for rule, held in judges.items() if held}
    free = [whole[rule].answers for rule in FREE_RULES if rule in whole]
    judged_by = next((whole[rule].grader for rule in FREE_RULES if rule in whole), "")
    seats = [_Seat(run, _parts(run, whole, without), sum(free), sum(free), judged_by)]
    if "grader" in without:
        return seats
    for rule, held in judges.items():
        for judge in held[1:]:
            parts = _parts(run, {**whole, rule: judge}, without)
            seats.append(_Seat(run, parts, judge.answers, whole[rule].answers, judge.grader, (rule, judge)))
    return seats


def _parts(run: Run, judges: Mapping[Rule, _Judge], without: frozenset[Part]) -> dict[Part, tuple[str, str]]:
    graders = {f"{judges[rule].prompts} {judges[rule].grader}": judges[rule] for rule in FREE_RULES if rule in judges}
    reader = judges.get("mcq_strict")
    found = {
        **{part: read(run) for part, read in _READ.items()},
        "grader": (" + ".join(graders), " and ".join(f"grader {judge.grader}" for judge in graders.values())),
        "reader": (reader.prompts, f"choice reader {reader.prompts}") if reader else ("", ""),
    }
    return {part: found[part] for part in PARTS if part not in without}


def _completed(seats: Sequence[_Seat]) -> list[_Seat]:
    """Return the seats; a run whose arms gave a seat nothing to do takes the one that its doctor's other runs have.

    Vignettes asked in one run and conversations in another are one condition, where all else is equal. Where the others
    differ in who sits there, or in who judged, none of them is taken.
    """
    whole: dict[str, list[_Seat]] = defaultdict(list)
    for seat in seats:
        if seat.partly is None:
            whole[seat.run.doctor].append(seat)
    return [_filled(seat, whole[seat.run.doctor]) if seat.partly is None else seat for seat in seats]


def _filled(seat: _Seat, others: Sequence[_Seat]) -> _Seat:
    lacking = [part for part in _MAY_LACK if part in seat.parts and not seat.parts[part][0]]
    alike = [other.parts for other in others if _nothing_differs(seat.parts, other.parts)]
    found = {part: {parts[part] for parts in alike if parts[part][0]} for part in lacking}
    if any(len(values) > 1 for values in found.values()):
        return seat
    return replace(seat, parts={**seat.parts, **{part: value for part, values in found.items() for value in values}})


def _nothing_differs(one: Mapping[Part, tuple[str, str]], other: Mapping[Part, tuple[str, str]]) -> bool:
    """Whether two runs are alike in all that both of them have."""
    return all(
        key == other[part][0] or (part in _MAY_LACK and not (key and other[part][0])) for part, (key, _) in one.items()
    )


def _told_apart(seats: Sequence[_Seat]) -> dict[str, list[_Seat]]:
    """Return name → the seats of one condition: the doctor's name, and what tells it from its other conditions."""
    of_doctor: dict[str, dict[tuple[str, ...], list[_Seat]]] = defaultdict(dict)
    for seat in seats:
        key = (*(key for key, _ in seat.parts.values()), "partly" if seat.partly else "")
        of_doctor[seat.run.doctor].setdefault(key, []).append(seat)
    named: dict[str, list[_Seat]] = {}
    for doctor, shapes in of_doctor.items():
        whole = [members[0] for members in shapes.values() if members[0].partly is None]
        for members in shapes.values():
            first = members[0]
            words = _words_apart(first, whole)
            if first.partly:
                covered, answers = (sum(getattr(seat, name) for seat in members) for name in ("covered", "answers"))
                words.append(f"{_partly(*first.partly)} ({covered:,} of {answers:,} answers)")
            named[_unique(SEPARATOR.join([doctor, *filter(None, words)]), named)] = members
    return named


def _partly(rule: Rule, judge: _Judge) -> str:
    return f"choice reader {judge.prompts}" if rule == "mcq_strict" else f"grader {judge.grader}"


def _words_apart(seat: _Seat, others: Sequence[_Seat]) -> list[str]:
    """Return what tells a seat from a doctor's other ones: the data set, past it the framework, past both the rest.

    Frameworks differ in prompts, caps and seats by design, so that naming them says all of it.
    """
    words: list[str] = []
    alike = list(others)
    for part in PARTS:
        if part not in seat.parts or (seat.partly and part in ("grader", "reader")):
            continue
        key, said = seat.parts[part]
        values = dict(other.parts[part] for other in alike)
        if any(value != key for value in values):
            same = sum(other == said for other in values.values()) > 1
            words.append(f"{said} {key.partition(' ')[0][:_HASH]}" if said and same else said)
        if part in ("data_set", "framework"):
            alike = [other for other in alike if other.parts[part][0] == key]
    return words


def _pooled(seats: Sequence[_Seat]) -> dict[str, list[_Seat]]:
    """Return name → all seats of a doctor on one data set, under a name that says how many conditions are pooled."""
    sets = {seat.run.data_set for seat in seats}
    named: dict[str, list[_Seat]] = {}
    whole = [seat for seat in seats if seat.partly is None]
    for doctor, data_set in dict.fromkeys((seat.run.doctor, seat.run.data_set) for seat in whole):
        members = [seat for seat in whole if (seat.run.doctor, seat.run.data_set) == (doctor, data_set)]
        count = len({tuple(key for key, _ in seat.parts.values()) for seat in members})
        words = [doctor, data_set if len(sets) > 1 else "", f"{count} conditions pooled" if count > 1 else ""]
        named[SEPARATOR.join(filter(None, words))] = members
    return named


def _unique(name: str, taken: Mapping[str, object]) -> str:
    candidates = (name, *(f"{name} ({n})" for n in range(2, len(taken) + 3)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _condition(name: str, members: Sequence[_Seat]) -> Condition:
    newest = max(members, key=lambda seat: seat.run.created_at)
    return Condition(
        name,
        newest.run.doctor,
        {part: words for part, (_, words) in newest.parts.items()},
        tuple(sorted({seat.run.run_id for seat in members})),
        newest.run,
        remarks(newest.run.doctor, {**_beside(newest.run), "grader": newest.grader}),
        covered=sum(seat.covered for seat in members),
        answers=sum(seat.answers for seat in members),
    )


def _register(
    cursor: duckdb.DuckDBPyConnection,
    found: Sequence[Condition],
    named: Mapping[str, Sequence[_Seat]],
    judges: Mapping[str, Judges],
) -> None:
    seated: list[tuple[Any, ...]] = []
    judging: list[tuple[Any, ...]] = []
    for place, condition in enumerate(found):
        for seat in named[condition.name]:
            run_id = seat.run.run_id
            if seat.partly is None:
                seated.append((run_id, condition.name, place))
            counting = [
                (rule, held[0]) for rule, held in judges.get(run_id, {}).items() if len(held) > 1
            ] if seat.partly is None else [seat.partly]  # fmt: skip
            judging += [
                (run_id, rule, *stored, condition.name, place, seat.partly is None)
                for rule, judge in counting
                for stored in judge.stored
            ]
    _table(cursor, "seated", _SEATED, seated)
    _table(cursor, "judging", _JUDGING, judging)


def _table(cursor: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, held.type) for column, held in zip(columns, schema, strict=True)]
    cursor.register(name, pa.Table.from_arrays(arrays, schema=schema))


# ---------------------------------------------------------------- parts, read from a run


def _seat(role: str) -> Callable[[Run], tuple[str, str]]:
    """Read who sits beside the doctor; nobody where the run's arms give that seat nothing to do."""

    def read(run: Run) -> tuple[str, str]:
        name = _beside(run).get(role, "")
        return name, f"{role} {name}" if name else ""

    return read


def _beside(run: Run) -> dict[str, str]:
    """Return role → who plays it, of those that have anything to do in a run; the grader is whoever judged."""
    known = frameworks().get(run.protocol)
    seats = {
        "patient": run.patient, "summariser": run.summariser, "grader": run.grader,
        **{role: str(run.settings.get(role) or "") for role in ("solver", "staff")},
    }  # fmt: skip
    at_work = known.at_work(run.doctor, run.arms) if known and run.arms else tuple(seats)
    return {role: name for role, name in seats.items() if role in at_work and name}


def _setting(name: str, words: str) -> Callable[[Run], tuple[str, str]]:
    def read(run: Run) -> tuple[str, str]:
        value = str(run.settings.get(name) or "")
        return value, words.format(value) if value else ""

    return read


def _sampling(run: Run) -> tuple[str, str]:
    named = {"temperature": "temperature {}", "max_tokens": "at most {} tokens", "model_seed": "model seed {}",
             "reasoning_effort": "effort {}"}  # fmt: skip
    set_ = {name: run.settings.get(name) for name in named}
    words = ", ".join(named[name].format(value) for name, value in set_.items() if value not in (None, ""))
    return words, words


def _cap(run: Run) -> tuple[str, str]:
    turns = run.settings.get("max_questions") or run.settings.get("max_turns")
    if turns:
        return str(turns), f"cap {turns}"
    if "max_messages" not in run.settings:
        return "", ""
    messages = run.settings["max_messages"]
    return (str(messages), f"cap {messages}") if messages else ("none", "no cap")


def _persona(run: Run) -> tuple[str, str]:
    value = str(run.settings.get("persona") or "")
    return value, f"persona {label(parse_persona(value))}" if value else ""


def _case_set(run: Run) -> tuple[str, str]:
    return run.case_set_hash, run.case_set if run.case_set != run.data_set else f"{run.cases:,} cases"


_READ: dict[Part, Callable[[Run], tuple[str, str]]] = {
    "data_set": lambda run: (run.data_set, run.data_set),
    "framework": lambda run: (run.protocol, title_of(run.protocol)),
    "case_set": _case_set,
    "doctor_prompt": _setting("doctor_prompt", "{} prompt"),
    "prompts": lambda run: (run.prompt_hash, f"prompts {PurePath(run.prompt_pack).name}"),
    "sampling": _sampling,
    "cap": _cap,
    "patient": _seat("patient"),
    "persona": _persona,
    "pictures": lambda run: ("with", "with pictures") if run.settings.get("images") else ("", ""),
    "summariser": _seat("summariser"),
    "solver": _seat("solver"),
    "staff": _seat("staff"),
    "version": lambda run: ("", "") if run.source == "release" else (run.code_version, f"version {run.code_version}"),
}

_STORED: list[tuple[str, pa.DataType]] = [
    ("run_id", pa.string()),
    ("rule", pa.string()),
    ("grader", pa.string()),
    ("prompt_hash", pa.string()),
    ("rule_version", pa.int64()),
]
_NAMED: list[tuple[str, pa.DataType]] = [("model", pa.string()), ("place", pa.int64())]
_SEATED = pa.schema([_STORED[0], *_NAMED])
_JUDGES = pa.schema([*_STORED, ("judge", pa.int64())])
_JUDGING = pa.schema([*_STORED, *_NAMED, ("whole", pa.bool_())])

_GRADERS_HELD = """
    SELECT DISTINCT run_id, rule, grader, coalesce(prompt_hash, ''), coalesce(rule_version, 1)
    FROM grades JOIN trials USING (trial_id)
    WHERE list_contains($rules, rule) AND list_contains($runs, run_id) ORDER BY ALL"""
_BY = """judges.run_id = trials.run_id AND judges.rule = grades.rule AND judges.grader = grades.grader
            AND judges.prompt_hash = coalesce(grades.prompt_hash, '')
            AND judges.rule_version = coalesce(grades.rule_version, 1)"""
_JUDGED_BY = f"""
    SELECT judge, count(DISTINCT hash(trial_id, format, question_type)), max(graded_at)
    FROM grades JOIN trials USING (trial_id) JOIN judges ON {_BY} GROUP BY judge"""

_CHOOSE = f"""
    CREATE OR REPLACE TEMP TABLE chosen AS
    SELECT trials.trial_id, trials.run_id, trials.case_key, cases.content_hash, cases.dataset, cases.specialty,
        list_contains($staffed, runs.protocol) AS staffed
    {TRIALS} WHERE {{where}} AND {{more}}"""
_PLAYED = """
    SELECT split_part(case_key, '/', 1) AS data_set, count(DISTINCT case_key)
    FROM trials JOIN runs USING (run_id) WHERE list_contains($sources, source)
    GROUP BY data_set ORDER BY 2 DESC, 1"""

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

OUTCOMES = f"""{UNANSWERED}, said AS (
        SELECT grades.trial_id, format, question_type, grades.rule, grades.grader, extracted, verdict, model
        FROM grades JOIN trials USING (trial_id) JOIN judging AS judges ON {_BY}
        QUALIFY row_number() OVER (PARTITION BY grades.trial_id, format, question_type, grades.rule, model
            ORDER BY graded_at DESC, grades.rowid DESC) = 1
    ), shared AS (SELECT DISTINCT run_id, rule, model, place, whole FROM judging),
    outcomes AS (
        SELECT verdicts.trial_id, format, question_type, verdicts.rule, verdict, grader, extracted, model, place
        FROM verdicts JOIN trials USING (trial_id) JOIN seated USING (run_id)
        ANTI JOIN shared ON shared.run_id = trials.run_id AND shared.rule = verdicts.rule
        WHERE list_contains($rules, verdicts.rule)
        UNION ALL
        SELECT answers.trial_id, answers.format, answers.question_type, shared.rule,
            CASE WHEN answers.status = 'invalid' THEN coalesce(answers.reason, 'ungradable')
                 ELSE coalesce(said.verdict, 'ungraded') END, said.grader, said.extracted, shared.model, shared.place
        FROM shared JOIN trials ON trials.run_id = shared.run_id JOIN answers ON answers.trial_id = trials.trial_id
            AND (answers.question_type = shared.rule
                OR shared.rule = 'mcq_strict' AND answers.question_type IN ('mcq', 'mcq_many'))
        LEFT JOIN said ON said.trial_id = answers.trial_id AND said.format = answers.format
            AND said.question_type = answers.question_type AND said.rule = shared.rule AND said.model = shared.model
        WHERE shared.whole OR said.verdict IS NOT NULL
        UNION ALL
        SELECT trial_id, format, question_type, NULL, verdict, NULL, NULL, model, place
        FROM unanswered JOIN trials USING (trial_id) JOIN seated USING (run_id)
    )"""
"""Queries up to ``outcomes``: every answer of the selected conditions with the verdict that counts under ``$rules``.

Columns: trial_id, format, question_type, rule, verdict, grader, extracted, model, place. Needs ``select`` with the same
rules before it. Where graders share a run, each answer stands once for each condition whose grader judged it.
"""
