"""The gate: whether a new run may replace a reference run, with the power that the comparison had.

The outcome is accuracy in one arm, compared case by case. ``pass`` and ``fail`` are decisions of a test with a margin
(``core.stats.margins``) or of a hard break; everything else is ``cannot say``: runs that are not comparable or not
finished, too few cases, too many excluded answers, an interval that contains the margin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from core.errors import UsageError
from core.events import GRADED_TYPES
from core.frameworks.base import frameworks, seats_at_work
from core.measures.base import Columns, Comparison, Note, Row
from core.measures.notes import Basis, in_order, notes_of, read_basis, sentences
from core.measures.paired import Cases, compare, paired_cases
from core.measures.provenance import differing, settings_side_by_side, side_of
from core.report.breaks import BREAKS, Breaks
from core.report.plan import Plan, lock_state
from core.report.planned import plan_items
from core.report.side import RunSide, arm_scores, excluded_answers, run_side
from core.stats.intervals import Interval
from core.stats.margin_power import cases_to_pass, chance_to_pass, observed_law, smallest_margin
from core.stats.margins import FEWEST_CASES, Kind, decide, margin_interval
from core.stats.smoothed import Floats
from core.store.condition_parts import PARTS, ConditionPart
from core.store.conditions import UNDER_TEST, Condition, differing_parts
from core.store.database import Store
from core.store.queries.cases import CaseTraits
from core.store.queries.run_cases import Extent
from core.store.queries.runs import run_records
from core.store.selection import McqRule, Selection

Verdict = Literal["pass", "fail", "cannot say"]
STATUS: Mapping[Verdict, int] = {"pass": 0, "fail": 1, "cannot say": 2}
"""Verdict → exit status."""
_SEAT_PARTS: Mapping[ConditionPart, str] = {
    "patient": "patient", "patient_served": "patient", "persona": "patient", "openings": "patient", "items": "patient",
    "summariser": "summariser", "summariser_served": "summariser", "solver": "solver", "solver_served": "solver",
    "staff": "staff", "staff_served": "staff", "grader": "grader", "grader_served": "grader",
}  # fmt: skip
"""Part of a condition → the seat that it belongs to."""


@dataclass(frozen=True)
class GateRule:
    """What a gate decides by; the fields are those of a ``Plan``. ``under_test`` are parts in which runs may differ."""

    arm: str
    kind: Kind = "noninferiority"
    margin: float = 0.05
    level: float = 0.05
    excluded: float = 0.1
    breaks: tuple[str, ...] = ()
    mcq_rule: McqRule = "usual"
    under_test: tuple[ConditionPart, ...] = UNDER_TEST


@dataclass(frozen=True)
class GateResult:
    """The verdict of a gate with its reason.

    ``interval`` is that of the difference in accuracy, new minus reference; each bound has the one-sided level of the
    rule. ``power`` is the chance to pass (``core.stats.margin_power``), ``smallest`` the smallest margin with a power
    of 80 %, ``needed`` the number of cases that this margin needs for it; all by the measured differences. They are
    ``None`` if nothing was compared, and ``needed`` also if over ten million cases would be needed. ``excluded`` is run
    → reason → number of answers; ``doctors`` are those of the new run and of the reference, ``judge`` is the grader or
    the rule whose verdicts count.
    """

    verdict: Verdict
    reason: str
    rule: GateRule
    new: str
    reference: str
    doctors: tuple[str, str]
    judge: str = ""
    comparison: Comparison | None = None
    interval: Interval | None = None
    power: float | None = None
    smallest: float | None = None
    needed: int | None = None
    excluded: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    breaks: Mapping[str, Breaks] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    plan: str = ""

    @property
    def status(self) -> int:
        return STATUS[self.verdict]

    @property
    def row(self) -> Row:
        """The comparison as a row, for tables and JSON."""
        compared = self.comparison
        low, high = self.interval or (None, None)
        rule = self.rule
        return Row(
            {"new": self.new, "reference": self.reference, "arm": rule.arm, "verdict": self.verdict},
            compared.difference if compared else None,
            low,
            high,
            compared.n if compared else None,
            more={
                "doctor_new": self.doctors[0],
                "doctor_reference": self.doctors[1],
                "judge": self.judge,
                "kind": rule.kind,
                "margin": rule.margin,
                "level": rule.level,
                "accuracy_new": compared.second_mean if compared else None,
                "accuracy_reference": compared.first_mean if compared else None,
                "improved": compared.improved if compared else None,
                "regressed": compared.regressed if compared else None,
                "power": self.power,
                "smallest_margin": self.smallest,
                "cases_needed": self.needed,
                "excluded_new": sum(self.excluded.get(self.new, {}).values()),
                "excluded_reference": sum(self.excluded.get(self.reference, {}).values()),
                "breaks": {name: len(breaks.failures) for name, breaks in self.breaks.items()},
            },
            columns=Columns("difference"),
            comparison=compared,
        )

    @property
    def markdown(self) -> str:
        """The verdict, with the severe notes, as one line of Markdown."""
        figures = ""
        if self.comparison and self.interval:
            low, high = self.interval
            figures = (
                f" Difference {self.comparison.difference:+.3f} ({low:+.3f} to {high:+.3f}), {self.rule.kind}, margin "
                f"{self.rule.margin:g}, {self.comparison.n:,} cases, power {self.power:.0%}."
            )
        new, reference = self.doctors
        runs = f"{new} (`{self.new}`) against {reference} (`{self.reference}`), {self.rule.arm}"
        severe = "".join(f" Note: {text}" for text in [sentences(self.notes, "high")] if text)
        text = f"**Gate: {self.verdict}.** {runs}. {self.reason}{figures}{severe}"
        return text.replace("\n", " ").replace("|", "\\|")


def rule_of_plan(plan: Plan) -> GateRule:
    """Return the rule of a plan; what its condition and reference differ in is under test."""
    if not plan.outcome.arm:
        raise UsageError(f"The outcome of {plan.name} is the metric {plan.outcome}: a gate needs an arm.")
    if not plan.reference:
        raise UsageError(f"The plan {plan.name} has no reference: a gate needs one.")
    planned = [part for part in PARTS if plan.condition.get(part) != plan.reference.get(part)]
    return GateRule(
        plan.outcome.arm,
        plan.kind,
        plan.margin,
        plan.level,
        plan.excluded,
        plan.breaks,
        plan.outcome.mcq_rule,
        tuple(dict.fromkeys([*UNDER_TEST, *planned])),
    )


def reference_run(store: Store, plan: Plan) -> str:
    """Return the run of a plan's reference: the named one, or the newest that has its condition and cases."""
    if "run" in plan.reference:
        return plan.reference["run"]
    with store.read() as cursor:
        runs = [run for run in run_records(cursor) if run.doctor == plan.reference["doctor"]]
    expected = {part: plan.reference[part] for part in PARTS if part in plan.reference}
    for run in runs:
        if run_side(store, run.run_id).keys == expected:
            return run.run_id
    raise UsageError(f"No stored run has the condition of the reference of {plan.name}: run it first.")


def shared_arm(new: RunSide, reference: RunSide) -> str:
    """Return the only arm that both runs have; raises ``UsageError`` if there are several, or none."""
    arms_new, arms_reference = ([":".join(arm) for arm in side.run.arms] for side in (new, reference))
    shared = [arm for arm in arms_new if arm in arms_reference]
    if len(shared) != 1:
        none = f"they share none ({', '.join(arms_new)} against {', '.join(arms_reference)})"
        choices = f"choose --arm, one of {', '.join(shared)}" if shared else none
        raise UsageError(f"A gate compares one arm of two runs: {choices}.")
    return shared[0]


def gate(store: Store, new: RunSide, reference: RunSide, rule: GateRule, plan: Plan | None = None) -> GateResult:
    """Compare a new run with a reference run; with a plan, also with what was planned."""
    notes = [*_notes(store, new, reference, rule), *_plan_notes(store, plan), *_rule_notes(new, reference, rule, plan)]
    result = GateResult(
        "cannot say",
        "",
        rule,
        new.run.run_id,
        reference.run.run_id,
        (new.run.doctor, reference.run.doctor),
        notes=in_order(notes),
        plan=plan.name if plan else "",
    )
    obstacles = [*_obstacles(new, reference, rule), *_plan_obstacles(store, plan, new, reference)]
    if obstacles:
        return replace(result, reason=" ".join(obstacles))
    result = _compared(store, new, reference, result)
    breaks = {name: BREAKS[name].find(store, new, reference) for name in rule.breaks}
    result = replace(result, breaks=breaks)
    if failures := [failure for outcome in breaks.values() for failure in outcome.failures]:
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        return replace(result, verdict="fail", reason=f"A new critical failure: {failures[0]}{more}.")
    if open_questions := [*_uncountable(result), *_undecided(breaks, rule)]:
        return replace(result, reason=" ".join(open_questions))
    verdict, reason = _decided(result)
    if verdict == "pass" and result.interval is not None and result.interval.high < 0:
        worse = Note("worse", "The new run is worse than the reference, by less than the margin.", "high")
        result = replace(result, notes=in_order([worse, *result.notes]))
    result = replace(result, verdict=verdict, reason=reason)
    return replace(result, notes=in_order([*result.notes, *_strict_notes(store, new, reference, result)]))


def _strict_notes(store: Store, new: RunSide, reference: RunSide, result: GateResult) -> Iterator[Note]:
    """Yield a note if the test ends differently by the strict rule for choices; the usual one accepts lists of them."""
    rule, comparison = result.rule, result.comparison
    if comparison is None or rule.mcq_rule != "usual" or "mcq_loose" not in comparison.rules:
        return
    before, after = (
        {score.case_key: score for score in arm_scores(store, side, rule.arm, "mcq_strict")}
        for side in (reference, new)
    )
    if (differences := _differences(before, after)).size < FEWEST_CASES:
        return
    decision = decide(margin_interval(differences, rule.level), rule.kind, rule.margin)
    verdict: Verdict = "cannot say" if decision == "unclear" else decision
    if verdict != result.verdict:
        strict = compare(before, after)
        means = f"{strict.second_mean:.3f} against {strict.first_mean:.3f}"
        yield Note("strict", f"By the strict rule for choices the verdict is {verdict}: {means}.", "high")


def _obstacles(new: RunSide, reference: RunSide, rule: GateRule) -> Iterator[str]:
    """Yield why two runs cannot be compared at all."""
    if new.run.run_id == reference.run.run_id:
        yield f"{new.run.run_id} is compared with itself."
        return
    for side in (new, reference):
        if rule.arm not in (f"{format_}:{question_type}" for format_, question_type in side.run.arms):
            yield f"{side.run.run_id} has no answers in {rule.arm}."
        if side.extent.done < side.extent.planned:
            yield f"{side.run.run_id} is unfinished: {side.extent.done:,} of {side.extent.planned:,} trials."
    ignored = {*rule.under_test, *_idle_parts(new, rule.arm)}
    first, second = new.condition, reference.condition
    if parts := differing_parts(first.keys, second.keys, ignored):
        words = "; ".join(
            f"{part.replace('_', ' ')} ({_short(first.keys.get(part, ''))} against {_short(second.keys.get(part, ''))})"
            for part in parts
        )
        yield f"The runs are not comparable, they differ in {words}."


def _short(key: str) -> str:
    return key.strip()[:60] or "none"


def _idle_parts(side: RunSide, arm: str) -> Iterator[ConditionPart]:
    """Yield the parts that cannot influence the answers or verdicts of an arm."""
    format_, _, question_type = arm.partition(":")
    framework = frameworks().get(side.run.protocol)
    if framework is None:
        return
    working = seats_at_work(framework, side.run.doctor, [(format_, question_type)])
    yield from (part for part, role in _SEAT_PARTS.items() if role not in working)
    if question_type in GRADED_TYPES:
        yield "reader"


def _plan_obstacles(store: Store, plan: Plan | None, new: RunSide, reference: RunSide) -> Iterator[str]:
    for item in plan_items(store, plan, [new.run.run_id, reference.run.run_id]) if plan else ():
        if item.different and item.different != _NOT_LOCKED:
            yield f"Not as planned: {item.item}: {item.different}."


_NOT_LOCKED = "not locked"


def _plan_notes(store: Store, plan: Plan | None) -> Iterator[Note]:
    if plan is None:
        yield Note("plan", "Outcome and margin are from no locked plan: they may have been chosen after the runs.")
    elif lock_state(store, plan).problem == _NOT_LOCKED:
        yield Note("plan", f"The plan {plan.name} is not locked.", "high")


def _rule_notes(new: RunSide, reference: RunSide, rule: GateRule, plan: Plan | None) -> Iterator[Note]:
    """Yield notes on options that are probably a mistake, whatever the answers are."""
    if plan is None and new.run.created_at < reference.run.created_at:
        yield Note("order", "The new run was started before the reference: they may be the wrong way round.", "high")
    if rule.level > _USUAL_LEVEL:
        yield Note("level", f"A wrong pass has a chance of up to {rule.level:.0%}.", "high")
    same = (new.run.doctor, new.condition.keys) == (reference.run.doctor, reference.condition.keys)
    if same and new.run.run_id != reference.run.run_id:
        yield Note("condition", "Both runs have the same condition: only what it does not record can differ.")


_USUAL_LEVEL = 0.1
_TOO_MANY = "too_many_excluded"
"""Kind of the note on more excluded answers than the rule allows."""
_MANY_EXCLUDED = 0.1
"""Share of excluded answers from which on they are a severe note, whatever the rule allows."""


def _score_notes(comparison: Comparison, rule: GateRule) -> Iterator[Note]:
    """Yield notes on accuracies at which the test says little."""
    if not comparison.n:
        return
    means = {comparison.first_mean, comparison.second_mean}
    if means == {0.0}:
        yield Note("useless", "All answers of both runs are wrong: no difference is no sign of quality.", "high")
    elif rule.kind == "noninferiority" and rule.margin >= comparison.first_mean:
        text = (
            f"A run without a right answer would be within the margin: the reference has {comparison.first_mean:.3f}."
        )
        yield Note("margin", text, "high")
    elif means == {1.0}:
        yield Note("ceiling", "All answers of both runs are right: harder cases could tell the runs apart.")
    if comparison.mixed:
        yield Note("rules", "The runs count answers with choices by different rules.", "high")


def _compared(store: Store, new: RunSide, reference: RunSide, result: GateResult) -> GateResult:
    """Return the result with the comparison of the cases that count on both sides."""
    rule = result.rule
    sides = {side.run.run_id: arm_scores(store, side, rule.arm, rule.mcq_rule) for side in (reference, new)}
    before, after = ({score.case_key: score for score in scores} for scores in sides.values())
    comparison = compare(before, after)
    excluded = {run_id: excluded_answers(scores) for run_id, scores in sides.items()}
    notes = [*result.notes, *_score_notes(comparison, rule)]
    for run_id, scores in sides.items():
        notes += _excluded_notes(run_id, excluded[run_id], sum(score.counted for score in scores), rule)
    graded = rule.arm.partition(":")[2] in GRADED_TYPES
    result = replace(
        result,
        judge=new.condition.seats.get("grader", "") if graded else " and ".join(comparison.rules),
        comparison=comparison,
        excluded=excluded,
        notes=in_order(notes),
    )
    differences = _differences(before, after)
    n = differences.size
    if n < 2:
        return result
    law = observed_law(differences)
    return replace(
        result,
        interval=margin_interval(differences, rule.level),
        power=chance_to_pass(law, rule.kind, rule.margin, n, rule.level),
        smallest=smallest_margin(law, rule.kind, n, rule.level),
        needed=cases_to_pass(law, rule.kind, rule.margin, n, rule.level),
    )


def _differences(before: Cases, after: Cases) -> Floats:
    """Return the difference of each case that counts on both sides, from −1 to 1."""
    return np.array([pair.second - pair.first for pair in paired_cases(before, after)], dtype=np.float64)


def _excluded_notes(run_id: str, excluded: Counter[str], counted: int, rule: GateRule) -> Iterator[Note]:
    if excluded:
        reasons = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in excluded.most_common())
        share = excluded.total() / (excluded.total() + counted)
        text = f"{run_id}: {share:.1%} of the answers are excluded, and not counted as wrong: {reasons}."
        if share > rule.excluded:
            yield Note(_TOO_MANY, text, "high")
        else:
            yield Note("excluded", text, "high" if share > _MANY_EXCLUDED else "low")


def _uncountable(result: GateResult) -> Iterator[str]:
    """Yield why the comparison has no valid test."""
    comparison = result.comparison
    n = comparison.n if comparison else 0
    if n < FEWEST_CASES:
        yield f"Too few cases: {n:,} count on both sides, and error rates are measured from {FEWEST_CASES} on."
    for note in result.notes:
        if note.kind == _TOO_MANY:
            yield f"Too many excluded answers. {note.text}"


def _undecided(breaks: Mapping[str, Breaks], rule: GateRule) -> Iterator[str]:
    for name, outcome in breaks.items():
        if outcome.problem:
            yield f"Break {name}: {outcome.problem}."
        elif outcome.undecided > rule.excluded * outcome.compared:
            yield f"Break {name}: {outcome.undecided:,} of {outcome.compared:,} {BREAKS[name].items} have no verdict."


def _decided(result: GateResult) -> tuple[Verdict, str]:
    rule = result.rule
    assert result.interval is not None
    decision = decide(result.interval, rule.kind, rule.margin)
    limit = {"noninferiority": f"−{rule.margin:g}", "superiority": "0", "equivalence": f"±{rule.margin:g}"}[rule.kind]
    if decision == "unclear":
        return "cannot say", f"The interval contains {limit}: more cases would decide."
    if rule.kind == "equivalence":
        return decision, f"The interval lies {'within' if decision == 'pass' else 'outside'} {limit}."
    return decision, f"The interval lies {'above' if decision == 'pass' else 'below'} {limit}."


def _notes(store: Store, new: RunSide, reference: RunSide, rule: GateRule) -> list[Note]:
    """Return the notes on the comparison of two runs, and what else differs between them."""

    @cache  # both runs have the same cases, as a rule
    def read(query: Any, *arguments: Any) -> Any:
        return query(store, *arguments)

    alike = new.condition.name == reference.condition.name
    conditions: list[Condition] = []
    extents: list[Extent] = []
    left_out: list[Extent] = []
    traits: dict[str, CaseTraits] = {}
    for side in (new, reference):
        name = side.run.run_id if alike else side.condition.name
        basis = read_basis(read, Selection(runs=(side.run.run_id,)))
        conditions.append(replace(side.condition, name=name))
        extents += [replace(e, model=name) for e in basis.extents if e.model == side.condition.name]
        left_out += [replace(e, model=name) for e in basis.left_out if e.model == side.condition.name]
        traits |= basis.traits
    format_, _, question_type = rule.arm.partition(":")
    arms: Collection[Any] = {(format_, question_type)}
    notes = list(notes_of(Basis(conditions, extents, traits, left_out), arms=arms))
    sides = [side_of(condition, [side.run]) for condition, side in zip(conditions, (new, reference), strict=True)]
    if settings := differing(settings_side_by_side(sides)):
        words = "; ".join(f"{setting.name}: {setting.values[0]} against {setting.values[1]}" for setting in settings)
        notes.append(Note("settings", f"What else differs, new run against reference: {words}."))
    return notes
