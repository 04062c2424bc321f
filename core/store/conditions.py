"""What two answers must share to be comparable, read from their runs, and how conditions are told apart by name.

Two answers are comparable when framework and version, case set, doctor (model, served model, sampling, prompts, cap),
patient (model, persona), other seats, pictures, and the grader who really judged (model, prompts) are equal; of every
seat the served model counts, the name by which the provider called what it ran. That tuple is a condition; its name
begins with the doctor's and says no more than what tells it from the other ones. ``core.store.selection`` puts
conditions beside the database's tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Literal, get_args

from core.asking.persona import label, parse_persona
from core.errors import AnamnesisError
from core.events import GRADED_TYPES, Rule
from core.frameworks.base import framework, frameworks, seats_at_work, tested_seat, title_of
from core.frameworks.casting import is_model
from core.frameworks.seats import remarks
from core.frameworks.settings import FrameworkSettings, without_credentials
from core.prompts import grader_hash, load_pack
from core.store.queries.runs import Run
from core.store.review_records import order_in_words, order_of_0_4

Part = Literal[
    "study",
    "order",
    "data_set",
    "framework",
    "case_set",
    "doctor_prompt",
    "prompts",
    "sampling",
    "cap",
    "patient",
    "persona",
    "pictures",
    "summariser",
    "solver",
    "staff",
    "openings",
    "grader",
    "reader",
    "version",
    "served",
    "patient_served",
    "summariser_served",
    "solver_served",
    "staff_served",
    "grader_served",
]
"""What makes a condition, in the order in which a name says what differs.

A study that is not one's own always is said, and of people in which order they were asked.
"""
SEPARATOR = " · "
"""Stands between the doctor and what tells its conditions apart."""
PARTS: tuple[Part, ...] = get_args(Part)
FREE_RULES: tuple[Rule, ...] = GRADED_TYPES
"""Rules by which graders judge, each of the question type of its name."""
JUDGED: tuple[Rule, ...] = ("mcq_strict", *FREE_RULES)
"""Rules whose judges may change; the paper's for choices is one for ever."""
DOCTOR = "doctor"
"""The role of who is under test in ``Condition.served`` and ``addresses``, whatever its framework calls it."""
_SERVED: Mapping[Part, Part] = {
    "patient_served": "patient",
    "summariser_served": "summariser",
    "solver_served": "solver",
    "staff_served": "staff",
    "grader_served": "grader",
}
"""Part that says how a seat's model was served → the part that says who sits there."""
_MAY_LACK: tuple[Part, ...] = ("patient", "summariser", "grader", "reader", "served", *_SERVED)
"""Parts that are empty where a run's arms give them nothing to do, or where no provider named a model."""
_HASH = 6
_OWN = "own"
"""Stands for the prompts of a grader that a run had of its own and that are no longer there."""
_ADDRESSES = ("base_url", "own_address", "addresses")
"""Settings of a run by which ``FrameworkSettings.address_of`` knows where a seat's model was reached."""


@dataclass(frozen=True)
class Condition:
    """What stands behind one bar: a doctor with all that shapes its answers, and the runs that hold them.

    ``name`` is unique among the conditions it was found with. ``parts`` are in plain words, the empty text for what is
    as it usually is or not there; ``newest`` is the last of the runs; ``remarks`` say what a reader of a figure should
    know. ``covered`` of ``answers`` carry its grader's verdict, where a re-grading has covered only a part of them.

    ``seats`` say who sits beside the doctor by role, the grader being whose verdicts count, and ``served`` the names
    under which providers served each seat's model, where they gave any: several mean that a provider changed it
    between or within its runs. ``addresses`` are those of servers that were given for a seat, without credentials.
    ``repeats`` counts trials that do not count, because a case was played with the same seed in another of the runs.
    """

    name: str
    doctor: str
    parts: Mapping[Part, str]
    runs: tuple[str, ...]
    newest: Run
    remarks: tuple[str, ...] = ()
    covered: int = 0
    answers: int = 0
    seats: Mapping[str, str] = field(default_factory=dict)
    served: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeats: int = 0

    @property
    def partial(self) -> bool:
        """Whether its grader has judged only a part of its runs' free responses."""
        return self.covered < self.answers


@dataclass(frozen=True)
class Judge:
    """One grader under one set of prompts, or one version of a rule, in one run under one rule.

    ``stored`` are the (grader, prompt hash, rule version) by which its verdicts are found; ``answers`` how many it
    judged, the last at ``newest_at``, both 0 where nobody else judged under that rule.
    """

    grader: str
    prompts: str
    stored: tuple[tuple[str, str, int], ...]
    answers: int
    newest_at: float


Judges = Mapping[Rule, Sequence[Judge]]
"""Rule → who counts in a run: first who judged most (of equals the latest), then who judged a part of it later."""
Served = Mapping[tuple[str, str], tuple[str, ...]]
"""(role, model as it was asked for) → the names under which providers served it in a run, in alphabetical order."""


@dataclass(frozen=True)
class JudgedRun:
    """A run under one set of graders, on the way to its condition.

    ``parts``: what must be equal, and how that is said. ``graders`` judged its free responses; ``partly`` is the rule
    and the grader of a re-grading that has covered only a part of the run. ``served`` is by role.
    """

    run: Run
    parts: Mapping[Part, tuple[str, str]]
    covered: int
    answers: int
    graders: tuple[Judge, ...]
    served: Mapping[str, tuple[str, ...]]
    partly: tuple[Rule, Judge] | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What the condition of this run is known by."""
        return (*(key for key, _ in self.parts.values()), "partly" if self.partly else "")


def doctor_of(name: str) -> str:
    """Return the doctor's part of a condition's name."""
    return name.partition(SEPARATOR)[0]


def counting(held: Sequence[Judge]) -> list[Judge]:
    """Return who counts, of those who judged a run under one rule, in the order of ``Judges``."""
    whole = max(held, key=lambda judge: (judge.answers, judge.newest_at))
    later = [judge for judge in held if judge.newest_at > whole.newest_at]
    return [whole, *sorted(later, key=lambda judge: -judge.newest_at)]


def who_judged(run: Run, rule: Rule, grader: str, prompts: str, version: int) -> tuple[str, str]:
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
    return _told_to_grader(place, hash_) or grading or _OWN


@lru_cache(maxsize=256)
def _told_to_grader(place: str, hash_: str) -> str | None:
    try:
        pack = load_pack(place)
        return grader_hash(pack) if pack.hash == hash_ else None
    except (AnamnesisError, OSError, KeyError):
        return None


def judged_runs(
    run: Run, judges: Judges, without: frozenset[Part], served: Served = MappingProxyType({})
) -> list[JudgedRun]:
    """Return a run under the graders that judged it whole, and once more for each that judged a part of it later."""
    whole = {rule: counted[0] for rule, counted in judges.items() if counted}
    free = [whole[rule].answers for rule in FREE_RULES if rule in whole]

    def under(
        by_rule: Mapping[Rule, Judge], covered: int, answers: int, partly: tuple[Rule, Judge] | None
    ) -> JudgedRun:
        graders = {(judge.prompts, judge.grader): judge for rule in FREE_RULES if (judge := by_rule.get(rule))}
        names = _served_by_role(run, tuple(graders.values()), served)
        parts = _parts(run, tuple(graders.values()), by_rule.get("mcq_strict"), names)
        kept = {part: parts[part] for part in PARTS if part not in without and _SERVED.get(part) not in without}
        return JudgedRun(run, kept, covered, answers, tuple(graders.values()), names, partly)

    seats = [under(whole, sum(free), sum(free), None)]
    if "grader" in without:
        return seats
    for rule, counted in judges.items():
        for judge in counted[1:]:
            seats.append(under({**whole, rule: judge}, judge.answers, whole[rule].answers, (rule, judge)))
    return seats


def _served_by_role(run: Run, graders: Sequence[Judge], served: Served) -> dict[str, tuple[str, ...]]:
    """Return role → the names under which its model was served in a run; of the grader's calls, those who count."""
    known = frameworks().get(run.protocol)
    tested = tested_seat(known).role if known else DOCTOR
    judging = {judge.grader for judge in graders}
    names: dict[str, set[str]] = defaultdict(set)
    for (role, model), as_served in served.items():
        if role != "grader" or model in judging:
            names[DOCTOR if role == tested else role].update(as_served)
    return {role: tuple(sorted(as_served)) for role, as_served in names.items()}


def _parts(
    run: Run, graders: Sequence[Judge], reader: Judge | None, served: Mapping[str, tuple[str, ...]]
) -> dict[Part, tuple[str, str]]:
    def as_served(role: str, head: str) -> tuple[str, str]:
        names = served.get(role, ())
        return " + ".join(names), f"{head}served as {' and '.join(names)}" if names else ""

    return {
        **{part: read(run) for part, read in _READ.items()},
        "grader": (
            " + ".join(f"{judge.prompts} {judge.grader}" for judge in graders),
            " and ".join(f"grader {judge.grader}" for judge in graders),
        ),
        "reader": (reader.prompts, f"choice reader {reader.prompts}") if reader else ("", ""),
        "served": as_served(DOCTOR, ""),
        **{part: as_served(role, f"{role} ") for part, role in _SERVED.items()},
    }


def completed(seats: Sequence[JudgedRun]) -> list[JudgedRun]:
    """Return the seats; a run whose arms gave a seat nothing to do takes the one that its doctor's other runs have.

    Vignettes asked in one run and conversations in another are one condition, where all else is equal. Where the others
    differ in who sits there, or in who judged, none of them is taken.
    """
    whole: dict[str, list[JudgedRun]] = defaultdict(list)
    for seat in seats:
        if seat.partly is None:
            whole[seat.run.doctor].append(seat)
    filled = []
    for seat in seats:
        alike = [
            other.parts
            for other in whole[seat.run.doctor]
            if all(
                key == other.parts[part][0] or (part in _MAY_LACK and not (key and other.parts[part][0]))
                for part, (key, _) in seat.parts.items()
            )
        ]
        lacking = [part for part in _MAY_LACK if part in seat.parts and not seat.parts[part][0]]
        found = {part: {parts[part] for parts in alike if parts[part][0]} for part in lacking}
        if seat.partly is None and all(len(values) < 2 for values in found.values()):
            parts = {**seat.parts, **{part: value for part, values in found.items() for value in values}}
            seat = replace(seat, parts=parts)
        filled.append(seat)
    return filled


def told_apart(seats: Sequence[JudgedRun]) -> dict[str, list[JudgedRun]]:
    """Return name → the seats of one condition: the doctor's name, and what tells it from its other conditions."""
    of_doctor: dict[str, dict[tuple[str, ...], list[JudgedRun]]] = defaultdict(dict)
    for seat in seats:
        of_doctor[seat.run.doctor].setdefault(seat.key, []).append(seat)
    named: dict[str, list[JudgedRun]] = {}
    for doctor, shapes in of_doctor.items():
        whole = [members[0] for members in shapes.values() if members[0].partly is None]
        for members in shapes.values():
            first = members[0]
            study = first.run.study
            order = first.parts.get("order", ("", ""))[1]
            words = [study, order, *_words_apart(first, [other for other in whole if other.run.study == study])]
            if first.partly:
                covered, answers = (sum(getattr(seat, name) for seat in members) for name in ("covered", "answers"))
                words.append(f"{_partly(*first.partly)} ({covered:,} of {answers:,} answers)")
            named[_unique(SEPARATOR.join([doctor, *filter(None, words)]), named)] = members
    return named


def _partly(rule: Rule, judge: Judge) -> str:
    return f"choice reader {judge.prompts}" if rule == "mcq_strict" else f"grader {judge.grader}"


def _words_apart(seat: JudgedRun, others: Sequence[JudgedRun]) -> list[str]:
    """Return what tells a seat from a doctor's other ones: the data set, past it the framework, past both the rest.

    Frameworks differ in prompts, caps and seats by design, so that naming them says all of it. How a seat was served
    is said only against those with the same model in it.
    """
    words: list[str] = []
    alike = list(others)
    for part in PARTS:
        judging = ("grader", "reader", "grader_served")
        if part not in seat.parts or part in ("study", "order") or (seat.partly and part in judging):
            continue
        key, said = seat.parts[part]
        model = _SERVED.get(part)
        values = dict(other.parts[part] for other in alike if not model or other.parts[model] == seat.parts[model])
        if any(value != key for value in values):
            same = sum(other == said for other in values.values()) > 1
            words.append(f"{said} {key.partition(' ')[0][:_HASH]}" if said and same else said)
        if part in ("data_set", "framework"):
            alike = [other for other in alike if other.parts[part][0] == key]
    return words


def pooled(seats: Sequence[JudgedRun]) -> dict[str, list[JudgedRun]]:
    """Return name → all seats of a doctor on one data set, under a name that says how many conditions are pooled.

    People who saw the choices before they wrote own words are never pooled with those who did not.
    """
    sets = {seat.run.data_set for seat in seats}
    named: dict[str, list[JudgedRun]] = {}
    whole = [seat for seat in seats if seat.partly is None]
    of: dict[tuple[str, str, str, str], list[JudgedRun]] = defaultdict(list)
    for seat in whole:
        of[seat.run.doctor, seat.run.study, _order(seat.run)[1], seat.run.data_set].append(seat)
    for (doctor, study, order, data_set), members in of.items():
        count = len({seat.key for seat in members})
        several = f"{count} conditions pooled" if count > 1 else ""
        words = [doctor, study, order, data_set if len(sets) > 1 else "", several]
        named[SEPARATOR.join(filter(None, words))] = members
    return named


def _unique(name: str, taken: Mapping[str, object]) -> str:
    candidates = (name, *(f"{name} ({n})" for n in range(2, len(taken) + 3)))
    return next(candidate for candidate in candidates if candidate not in taken)


def condition_of(name: str, members: Sequence[JudgedRun], repeats: int = 0) -> Condition:
    """Return the condition of runs that are alike in all its parts; ``repeats`` of their trials are left out."""
    newest = max(members, key=lambda seat: seat.run.created_at)
    in_order = sorted(members, key=lambda seat: seat.run.created_at)
    judge = newest.graders[0].grader if newest.graders else ""
    return Condition(
        name,
        newest.run.doctor,
        {part: words for part, (_, words) in newest.parts.items()},
        tuple(sorted({seat.run.run_id for seat in members})),
        newest.run,
        remarks(newest.run.doctor, {**seats_beside(newest.run), "grader": judge}),
        covered=sum(seat.covered for seat in members),
        answers=sum(seat.answers for seat in members),
        seats={
            role: " / ".join(names)
            for role, names in _merged([{role: (name,) for role, name in seats_of(seat).items()} for seat in in_order])
        },
        served=dict(_merged([seat.served for seat in in_order])),
        addresses=dict(
            _merged([addresses_of(seat.run, [judge.grader for judge in seat.graders]) for seat in in_order])
        ),
        repeats=repeats,
    )


def seats_of(seat: JudgedRun) -> dict[str, str]:
    """Return role → who sits beside the doctor of a run; the grader, with its prompts, is whose verdicts count."""
    found = {**seats_beside(seat.run), "grader": " and ".join(map(_with_prompts, seat.graders))}
    return {role: name for role, name in found.items() if name}


def _with_prompts(judge: Judge) -> str:
    return judge.grader if judge.prompts in ("", _OWN) else f"{judge.grader} (prompts {judge.prompts[:_HASH]})"


def addresses_of(run: Run, graders: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return role → the address that was given for the model of a seat, without its credentials.

    The grader's is left out unless it is among ``graders``, whose verdicts count: a re-grading stores no address.
    """
    given = {name: value for name in _ADDRESSES if (value := run.settings.get(name))}
    if not given:
        return {}
    settings = FrameworkSettings.model_construct(**given)
    known = frameworks().get(run.protocol)
    tested = tested_seat(known).role if known else DOCTOR
    names = {tested: run.doctor, **seats_beside(run)}
    if run.grader not in graders:
        names.pop("grader", None)
    found = {role: settings.address_of(role) for role, name in names.items() if is_model(name)}
    return {
        DOCTOR if role == tested else role: (without_credentials(address),)
        for role, address in found.items()
        if address
    }


def _merged(by_role: Sequence[Mapping[str, tuple[str, ...]]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each role with the values that any of several mappings has for it, in their order."""
    for role in dict.fromkeys(role for values in by_role for role in values):
        yield role, tuple(dict.fromkeys(value for values in by_role for value in values.get(role, ())))


def _seat(role: str) -> Callable[[Run], tuple[str, str]]:
    """Read who sits beside the doctor; nobody where the run's arms give that seat nothing to do."""

    def read(run: Run) -> tuple[str, str]:
        name = seats_beside(run).get(role, "")
        return name, f"{role} {name}" if name else ""

    return read


def _setting(name: str, words: str) -> Callable[[Run], tuple[str, str]]:
    """Read what a run noted under a name; nothing is said where it noted nothing."""

    def read(run: Run) -> tuple[str, str]:
        value = str(run.settings.get(name) or "")
        return value, words.format(value) if value else ""

    return read


def seats_beside(run: Run) -> dict[str, str]:
    """Return role → who was planned to play it, of the seats that have anything to do in a run; without the doctor."""
    known = frameworks().get(run.protocol)
    seats = {
        "patient": run.patient,
        "summariser": run.summariser,
        "grader": run.grader,
        **{role: str(run.settings.get(role) or "") for role in ("solver", "staff")},
    }
    at_work = seats_at_work(known, run.doctor, run.arms) if known and run.arms else tuple(seats)
    return {role: name for role, name in seats.items() if role in at_work and name}


def _sampling(run: Run) -> tuple[str, str]:
    named = {
        "temperature": "temperature {}",
        "max_tokens": "at most {} tokens",
        "model_seed": "model seed {}",
        "reasoning_effort": "effort {}",
    }
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


def _order(run: Run) -> tuple[str, str]:
    """Read in which order a person was asked; runs of version 0.4 noted it only by the sequence of their arms."""
    if not run.doctor.startswith("human/"):
        return "", ""
    types = [question_type for _, question_type in run.arms]
    words = str(run.settings.get("order") or order_in_words(order_of_0_4(types), types))
    return words, words


def _case_set(run: Run) -> tuple[str, str]:
    return run.case_set_hash, run.case_set if run.case_set != run.data_set else f"{run.cases:,} cases"


_READ: dict[Part, Callable[[Run], tuple[str, str]]] = {
    "study": lambda run: (run.study, run.study),
    "order": _order,
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
    "openings": _setting("openings", "openings by {}"),
    "version": lambda run: ("", "") if run.source == "release" else (run.code_version, f"version {run.code_version}"),
}
