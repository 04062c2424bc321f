"""Conditions: what two answers must share to be comparable, and how conditions are told apart by name.

Two answers are comparable if they have the same framework and version, case set, doctor (model, served model, sampling,
prompts, cap), patient (model, persona), other seats, pictures, and actual grader (model, prompts). Served model: the
name by which the provider called the model that it ran, for every seat. This tuple is a condition; its name begins with
that of the doctor and adds only what distinguishes it from the others. ``core.store.selection`` makes conditions
available in SQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from core.events import GRADED_TYPES, Rule
from core.frameworks.base import frameworks, tested_seat
from core.frameworks.casting import is_model
from core.frameworks.seats import remarks
from core.store.condition_parts import DOCTOR, PARTS, READERS, ConditionPart, addresses_of, other_seats, prompts_hash
from core.store.queries.runs import Run

SEPARATOR = " · "
"""Separates the doctor from the differences in the name of a condition."""
FREE_RULES: tuple[Rule, ...] = GRADED_TYPES
"""Rules by which graders judge; each has the name of its question type."""
JUDGED: tuple[Rule, ...] = ("mcq_strict", *FREE_RULES)
"""Rules with verdicts that can be made again; the paper's rule for choices never changes."""
_SERVED: Mapping[ConditionPart, ConditionPart] = {
    "patient_served": "patient",
    "summariser_served": "summariser",
    "solver_served": "solver",
    "staff_served": "staff",
    "grader_served": "grader",
}
"""Part with the served model of a seat → part with the model of the seat."""
UNDER_TEST: tuple[ConditionPart, ...] = ("doctor_prompt", "belief", "sampling", "served")
"""The parts that belong to the tested model, and that a comparison of two models or settings is about."""
_MAY_LACK: tuple[ConditionPart, ...] = ("belief", "patient", "summariser", "grader", "reader", "served", *_SERVED)
"""Parts that are empty if the arms of a run do not use them, or if no provider named a model."""
ACCEPTED = "accepted-"
"""Beginning of the prompt hash of verdicts that count further accepted answers of cases; the rest is a hash of the
grader's prompts and of these answers. The view ``newest_grades`` leaves such verdicts out."""
_HASH = 6
_OWN = "own"
"""Placeholder for the prompts of a run's own pack that are no longer available."""


@dataclass(frozen=True)
class Condition:
    """A doctor with everything that shapes its answers, and the runs with these answers: one bar of a figure.

    ``name`` is unique among the conditions of one query. ``parts`` are in words, empty for defaults and missing parts;
    ``newest`` is the latest run; ``remarks`` are for readers of a figure. ``covered`` of ``answers`` have a verdict of
    the grader, if a re-grading has judged only a part of them.

    ``seats`` is role → model without the doctor; the grader is the one with the verdicts that count. ``served`` has the
    names under which providers served each seat's model, if they named it; several mean that a provider changed it
    between or within the runs. ``addresses`` are the configured servers of seats, without credentials. ``repeats``
    is the number of trials that do not count, because another run has the same case with the same seed. ``keys`` are
    what ``parts`` are compared by. ``accepting``: further accepted answers count; the answers are those of the
    condition without them.
    """

    name: str
    doctor: str
    parts: Mapping[ConditionPart, str]
    runs: tuple[str, ...]
    newest: Run
    remarks: tuple[str, ...] = ()
    covered: int = 0
    answers: int = 0
    seats: Mapping[str, str] = field(default_factory=dict)
    served: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeats: int = 0
    keys: Mapping[ConditionPart, str] = field(default_factory=dict)
    accepting: bool = False

    @property
    def partial(self) -> bool:
        """Whether another condition has all answers of its runs, of which its grader has judged all or a part again."""
        return self.accepting or self.incomplete

    @property
    def incomplete(self) -> bool:
        """Whether its grader has judged only a part of the free responses."""
        return self.covered < self.answers


@dataclass(frozen=True)
class RunJudge:
    """A grader with one set of prompts, or one version of a rule, in one run under one rule.

    ``stored`` has the (grader, prompt hash, rule version) of its rows in ``grades``; ``answers`` is the number of
    answers it judged, the last at ``newest_at``; both are 0 if it is the only judge under this rule.
    """

    grader: str
    prompts: str
    stored: tuple[tuple[str, str, int], ...]
    answers: int
    newest_at: float

    @property
    def accepting(self) -> bool:
        """Whether further accepted answers count."""
        return self.prompts.startswith(ACCEPTED)


RunJudges = Mapping[Rule, Sequence[RunJudge]]
"""Rule → the judges that count in a run: first the one with most answers (then the latest), then later ones, each time
first those that count the right answer alone, then those that count further accepted answers."""
Served = Mapping[tuple[str, str], tuple[str, ...]]
"""(role, requested model) → the names under which providers served it in a run, in alphabetical order."""


@dataclass(frozen=True)
class JudgedRun:
    """A run with one set of graders; runs with equal parts form a condition.

    ``parts`` is part → (key to compare, words for it). ``graders`` judged the free responses; ``partly`` is the rule
    and the grader of a re-grading that has covered only a part of the run. ``served`` is by role.
    """

    run: Run
    parts: Mapping[ConditionPart, tuple[str, str]]
    covered: int
    answers: int
    graders: tuple[RunJudge, ...]
    served: Mapping[str, tuple[str, ...]]
    partly: tuple[Rule, RunJudge] | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return (*(key for key, _ in self.parts.values()), "partly" if self.partly else "")


def doctor_of(name: str) -> str:
    return name.partition(SEPARATOR)[0]


def counting_judges(judges: Sequence[RunJudge]) -> list[RunJudge]:
    """Return the judges that count, of those of a run under one rule, in the order of ``RunJudges``.

    A judge that counts further accepted answers never replaces one that does not, whichever judged later.
    """
    groups = [[judge for judge in judges if judge.accepting is accepting] for accepting in (False, True)]
    return [judge for group in groups if group for judge in _latest(group)]


def _latest(judges: Sequence[RunJudge]) -> list[RunJudge]:
    main = max(judges, key=lambda judge: (judge.answers, judge.newest_at))
    later = [judge for judge in judges if judge.newest_at > main.newest_at]
    return [main, *sorted(later, key=lambda judge: -judge.newest_at)]


def who_judged(run: Run, rule: Rule, grader: str, prompts: str, version: int) -> tuple[str, str]:
    """Return a grader and its prompts; a pack's name after that of the grader is dropped, the prompts identify it."""
    if rule == "mcq_strict":
        return "choice reader", str(version)
    if prompts.startswith(ACCEPTED):
        return grader.partition(" [")[0], prompts
    if not is_model(grader):
        return grader, ""  # rules and people have no prompts
    # the placeholder is safe: runs with different packs differ in another part anyway
    own = prompts_hash(run, "grader") or str(run.settings.get("grading_prompts") or _OWN)
    return grader.partition(" [")[0], prompts or own


def judged_runs(
    run: Run, judges: RunJudges, without: frozenset[ConditionPart], served: Served = MappingProxyType({})
) -> list[JudgedRun]:
    """Return a run with its main graders, and once more for each grader that judged a part of it later."""
    main = {rule: counted[0] for rule, counted in judges.items() if counted}
    free = [main[rule].answers for rule in FREE_RULES if rule in main]

    def under(
        by_rule: Mapping[Rule, RunJudge], covered: int, answers: int, partly: tuple[Rule, RunJudge] | None
    ) -> JudgedRun:
        graders = {(judge.prompts, judge.grader): judge for rule in FREE_RULES if (judge := by_rule.get(rule))}
        names = _served_by_role(run, tuple(graders.values()), served)
        parts = _condition_parts(run, tuple(graders.values()), by_rule.get("mcq_strict"), names)
        compared = {part: parts[part] for part in PARTS if part not in without and _SERVED.get(part) not in without}
        return JudgedRun(run, compared, covered, answers, tuple(graders.values()), names, partly)

    judged = [under(main, sum(free), sum(free), None)]
    if "grader" in without:
        return judged
    for rule, counted in judges.items():
        for judge in counted[1:]:
            judged.append(under({**main, rule: judge}, judge.answers, main[rule].answers, (rule, judge)))
    return judged


def _served_by_role(run: Run, graders: Sequence[RunJudge], served: Served) -> dict[str, tuple[str, ...]]:
    """Return role → the served names of its model in a run; for the grader only those of ``graders``."""
    framework_ = frameworks().get(run.protocol)
    tested = tested_seat(framework_).role if framework_ else DOCTOR
    judging = {judge.grader for judge in graders}
    names: dict[str, set[str]] = defaultdict(set)
    for (role, model), as_served in served.items():
        if role != "grader" or model in judging:
            names[DOCTOR if role == tested else role].update(as_served)
    return {role: tuple(sorted(as_served)) for role, as_served in names.items()}


def _condition_parts(
    run: Run, graders: Sequence[RunJudge], reader: RunJudge | None, served: Mapping[str, tuple[str, ...]]
) -> dict[ConditionPart, tuple[str, str]]:
    def as_served(role: str, head: str) -> tuple[str, str]:
        names = served.get(role, ())
        return " + ".join(names), f"{head}served as {' and '.join(names)}" if names else ""

    return {
        **{part: read(run) for part, read in READERS.items()},
        "grader": (
            " + ".join(f"{judge.prompts} {judge.grader}" for judge in graders),
            " and ".join(f"grader {_with_accepted(judge)}" for judge in graders),
        ),
        "reader": (reader.prompts, f"choice reader {reader.prompts}") if reader else ("", ""),
        "served": as_served(DOCTOR, ""),
        **{part: as_served(role, f"{role} ") for part, role in _SERVED.items()},
    }


def with_missing_parts(judged: Sequence[JudgedRun]) -> list[JudgedRun]:
    """Return the runs; a run that does not use a seat gets the part of its doctor's other, otherwise equal runs.

    Vignettes in one run and conversations in another run are therefore one condition. If the other runs differ in the
    missing part, it stays empty.
    """
    of_doctor: dict[str, list[JudgedRun]] = defaultdict(list)
    for judged_run in judged:
        if judged_run.partly is None:
            of_doctor[judged_run.run.doctor].append(judged_run)
    filled = []
    for judged_run in judged:
        equal = [
            other.parts
            for other in of_doctor[judged_run.run.doctor]
            if all(
                key == other.parts[part][0] or (part in _MAY_LACK and not (key and other.parts[part][0]))
                for part, (key, _) in judged_run.parts.items()
            )
        ]
        missing = [part for part in _MAY_LACK if part in judged_run.parts and not judged_run.parts[part][0]]
        candidates = {part: {parts[part] for parts in equal if parts[part][0]} for part in missing}
        if judged_run.partly is None and all(len(values) < 2 for values in candidates.values()):
            parts = {**judged_run.parts, **{part: value for part, values in candidates.items() for value in values}}
            judged_run = replace(judged_run, parts=parts)
        filled.append(judged_run)
    return filled


def named_conditions(judged: Sequence[JudgedRun]) -> dict[str, list[JudgedRun]]:
    """Return name → the runs of one condition: the doctor's name, and the differences from its other conditions."""
    of_doctor: dict[str, dict[tuple[str, ...], list[JudgedRun]]] = defaultdict(dict)
    for judged_run in judged:
        of_doctor[judged_run.run.doctor].setdefault(judged_run.key, []).append(judged_run)
    conditions: dict[str, list[JudgedRun]] = {}
    for doctor, groups in of_doctor.items():
        complete = [members[0] for members in groups.values() if members[0].partly is None]
        for members in groups.values():
            first = members[0]
            study = first.run.study
            order = first.parts.get("order", ("", ""))[1]
            words = [study, order, *_differences(first, [other for other in complete if other.run.study == study])]
            if first.partly:
                covered, answers = (
                    sum(getattr(judged_run, name) for judged_run in members) for name in ("covered", "answers")
                )
                whole = first.partly[1].accepting and covered == answers
                words.append(_partly(*first.partly) + ("" if whole else f" ({covered:,} of {answers:,} answers)"))
            conditions[_unique(SEPARATOR.join([doctor, *filter(None, words)]), conditions)] = members
    return conditions


def _partly(rule: Rule, judge: RunJudge) -> str:
    if rule == "mcq_strict":
        return f"choice reader {judge.prompts}"
    # a grader that counts accepted answers judges each question type as a condition of its own
    about = f" to {rule}" if judge.accepting and rule != "frq" else ""
    return f"grader {_with_accepted(judge)}{about}"


def _with_accepted(judge: RunJudge) -> str:
    return f"{judge.grader} with accepted answers" if judge.accepting else judge.grader


def _differences(judged_run: JudgedRun, others: Sequence[JudgedRun]) -> list[str]:
    """Return words for the parts in which a run differs from its doctor's other runs.

    After the data set and the framework only runs that share it are compared: frameworks differ in prompts, caps and
    seats by design, so that their name says enough. Served names are compared only between equal models.
    """
    words: list[str] = []
    compared = list(others)
    for part in PARTS:
        judging = ("grader", "reader", "grader_served")
        if part not in judged_run.parts or part in ("study", "order") or (judged_run.partly and part in judging):
            continue
        key, text = judged_run.parts[part]
        model = _SERVED.get(part)
        values = dict(
            other.parts[part] for other in compared if not model or other.parts[model] == judged_run.parts[model]
        )
        if part == "belief":  # whether a doctor is asked for beliefs changes no answer
            values = {value: other for value, other in values.items() if value and key}
        if any(value != key for value in values):
            ambiguous = sum(other == text for other in values.values()) > 1
            words.append(f"{text} {key.partition(' ')[0][:_HASH]}" if text and ambiguous else text)
        if part in ("data_set", "framework"):
            compared = [other for other in compared if other.parts[part][0] == key]
    return words


def pooled(judged: Sequence[JudgedRun]) -> dict[str, list[JudgedRun]]:
    """Return name → all runs of a doctor on one data set; the name says how many conditions are pooled.

    People who saw the choices before they wrote their own words are never pooled with those who did not.
    """
    data_sets = {judged_run.run.data_set for judged_run in judged}
    conditions: dict[str, list[JudgedRun]] = {}
    groups: dict[tuple[str, str, str, str], list[JudgedRun]] = defaultdict(list)
    for judged_run in judged:
        if judged_run.partly is None:
            groups[
                judged_run.run.doctor,
                judged_run.run.study,
                READERS["order"](judged_run.run)[1],
                judged_run.run.data_set,
            ].append(judged_run)
    for (doctor, study, order, data_set), members in groups.items():
        count = len({judged_run.key for judged_run in members})
        several = f"{count} conditions combined" if count > 1 else ""
        words = [doctor, study, order, data_set if len(data_sets) > 1 else "", several]
        conditions[SEPARATOR.join(filter(None, words))] = members
    return conditions


def _unique(name: str, taken: Mapping[str, object]) -> str:
    candidates = (name, *(f"{name} ({n})" for n in range(2, len(taken) + 3)))
    return next(candidate for candidate in candidates if candidate not in taken)


def condition_of(name: str, members: Sequence[JudgedRun], repeats: int = 0) -> Condition:
    """Return the condition of runs with equal parts; ``repeats`` of their trials are left out."""
    newest = max(members, key=lambda judged_run: judged_run.run.created_at)
    in_order = sorted(members, key=lambda judged_run: judged_run.run.created_at)
    judge = newest.graders[0].grader if newest.graders else ""
    return Condition(
        name,
        newest.run.doctor,
        {part: words for part, (_, words) in newest.parts.items()},
        tuple(sorted({judged_run.run.run_id for judged_run in members})),
        newest.run,
        remarks(newest.run.doctor, {**other_seats(newest.run), "grader": judge}),
        covered=sum(judged_run.covered for judged_run in members),
        answers=sum(judged_run.answers for judged_run in members),
        seats={
            role: " / ".join(names)
            for role, names in _merged(
                [{role: (name,) for role, name in seats_of(judged_run).items()} for judged_run in in_order]
            )
        },
        served=dict(_merged([judged_run.served for judged_run in in_order])),
        addresses=dict(
            _merged(
                [
                    addresses_of(judged_run.run, [judge.grader for judge in judged_run.graders])
                    for judged_run in in_order
                ]
            )
        ),
        repeats=repeats,
        keys={part: key for part, (key, _) in newest.parts.items()},
        accepting=any(judge.accepting for judge in newest.graders),
    )


def comparable(first: Condition, second: Condition) -> bool:
    """Return whether a comparison of two conditions is about the tested model or its settings alone.

    They share an arm and all parts except ``UNDER_TEST``; a seat that only one of them uses is no difference.
    """
    return (
        first.name != second.name
        and not (first.incomplete or second.incomplete)
        and not set(first.newest.arms).isdisjoint(second.newest.arms)
        and not differing_parts(first.keys, second.keys)
    )


def differing_parts(
    first: Mapping[ConditionPart, str],
    second: Mapping[ConditionPart, str],
    under_test: Collection[ConditionPart] = UNDER_TEST,
) -> tuple[ConditionPart, ...]:
    """Return the parts, except those ``under_test``, in which two conditions differ; arguments are their ``keys``.

    A seat that only one of them uses is no difference.
    """
    return tuple(
        part
        for part in PARTS
        if part not in under_test
        and first.get(part, "") != second.get(part, "")
        and not (part in _MAY_LACK and not (first.get(part) and second.get(part)))
    )


def seats_of(judged: JudgedRun) -> dict[str, str]:
    """Return role → model of a run without the doctor; the graders, with prompts, are those whose verdicts count."""
    seats = {**other_seats(judged.run), "grader": " and ".join(map(_with_prompts, judged.graders))}
    return {role: name for role, name in seats.items() if name}


def _with_prompts(judge: RunJudge) -> str:
    if judge.accepting:
        return f"{_with_accepted(judge)} (prompts {judge.prompts.removeprefix(ACCEPTED)[:_HASH]})"
    return judge.grader if judge.prompts in ("", _OWN) else f"{judge.grader} (prompts {judge.prompts[:_HASH]})"


def _merged(by_role: Sequence[Mapping[str, tuple[str, ...]]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each role with its distinct values in several mappings, in their order."""
    for role in dict.fromkeys(role for values in by_role for role in values):
        yield role, tuple(dict.fromkeys(value for values in by_role for value in values.get(role, ())))
