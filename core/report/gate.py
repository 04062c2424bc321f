"""The gate: whether a new run may replace a reference run, with the power that the comparison had.

The outcome is accuracy in one arm, or the score by a rubric, compared case by case. ``pass`` and ``fail`` are decisions
of a test of non-inferiority with a margin (``core.stats.margins``) or of a hard break; everything else is ``cannot
say``: runs that are not comparable or not finished, too few cases, too many excluded answers, an interval that contains
the margin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple, cast

from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Format, QuestionType
from core.frameworks.base import frameworks, seats_at_work
from core.journal import RUBRIC_SCORES, USUAL_MARGIN, StatedJudge
from core.measures.base import Comparison, Note
from core.measures.comparison import compare_cases
from core.measures.condition_notes import Basis, in_order, notes_of, read_basis
from core.measures.paired import read_scores
from core.measures.provenance import differing, settings_side_by_side, side_of
from core.measures.rubrics.reading import RubricReading, clipped, conversation_score
from core.report.breaks import BREAKS, Breaks, Uncomparable, find_breaks, rubric_readings
from core.stats.differences import changes
from core.stats.intervals import Interval
from core.stats.margin_power import cases_to_pass, chance_to_pass, observed_law, smallest_margin
from core.stats.margins import FEWEST_CASES, decide, margin_fault, margin_interval
from core.store.condition_parts import ConditionPart
from core.store.conditions import UNDER_TEST, Condition, differing_parts
from core.store.database import Store
from core.store.queries.cases import CaseTraits
from core.store.queries.run_cases import Extent
from core.store.queries.runs import RunProgress, run
from core.store.selection import McqRule, Selection, select

Verdict = Literal["pass", "fail", "cannot say"]
CaseTotals = Mapping[str, tuple[float, int]]
"""Case → the sum of the scores of its trials (0 to 1 each), and how many count."""
STATUS: Mapping[Verdict, int] = {"pass": 0, "fail": 1, "cannot say": 2}
"""Verdict → exit status."""
LEVEL = 0.05
"""One-sided error rate."""
MOST_EXCLUDED = 0.1
"""Largest share of a side's answers that may usually be excluded."""
_SEAT_PARTS: Mapping[ConditionPart, str] = {
    "patient": "patient", "patient_served": "patient", "persona": "patient", "openings": "patient", "items": "patient",
    "summariser": "summariser", "summariser_served": "summariser", "solver": "solver", "solver_served": "solver",
    "staff": "staff", "staff_served": "staff", "grader": "grader", "grader_served": "grader",
}  # fmt: skip
"""Part of a condition → the seat that it belongs to."""


@dataclass(frozen=True)
class GateRule:
    """What a gate decides by.

    ``outcome`` is an arm ("format:question_type") or ``RUBRIC_SCORES``, by the ``judge`` or by the last one;
    ``margin`` is the accepted loss, up to 0.5; ``under_test`` are parts in which the runs may differ;
    ``most_excluded`` is the largest share of a side's answers that may be excluded.
    """

    outcome: str
    margin: float = USUAL_MARGIN
    breaks: tuple[str, ...] = ()
    under_test: tuple[ConditionPart, ...] = UNDER_TEST
    judge: StatedJudge | None = None
    most_excluded: float = MOST_EXCLUDED

    @property
    def format_and_type(self) -> tuple[str, str]:
        format_, _, question_type = self.outcome.partition(":")
        return format_, question_type


@dataclass(frozen=True)
class RunSide:
    """A run with the condition of the graders whose verdicts count, read without any other run.

    Read alone, two runs of one condition stay apart, and no trial is a repeat of the other run's.
    """

    run: RunProgress
    condition: Condition

    @property
    def arms(self) -> list[str]:
        return [":".join(arm) for arm in self.run.arms]


def run_side(store: Store, run_id: str) -> RunSide:
    """Return the side of a stored run; raises ``AnamnesisError`` if it has no condition."""
    selection = Selection(runs=[run_id])
    with store.read() as cursor:
        stored = run(cursor, run_id)
        main = [condition for condition in select(cursor, selection) if not condition.partial]
    if stored is None or not main:
        raise AnamnesisError(f"Run {run_id} has no answers of a doctor.")
    return RunSide(stored, main[0])


def rule_of(
    new: RunSide,
    reference: RunSide,
    outcome: str | None = None,
    margin: float | None = None,
    judge: StatedJudge | None = None,
    **more: Any,
) -> GateRule:
    """Return the rule with what is given, else with what the new run states, else with what is usual.

    Raises ``UsageError`` as ``shared_arm`` does.
    """
    stated = new.run.hypothesis
    return GateRule(
        outcome or shared_arm(new, reference),
        margin if margin is not None else stated.margin if stated else USUAL_MARGIN,
        judge=judge or (stated.judge if stated else None),
        **more,
    )


def shared_arm(new: RunSide, reference: RunSide) -> str:
    """Return the arm that the new run states as primary, or the only arm that both runs have.

    Raises ``UsageError`` if there are several, or none.
    """
    stated = new.run.hypothesis.primary if new.run.hypothesis else ""
    shared = [arm for arm in new.arms if arm in reference.arms]
    if stated or len(shared) == 1:
        return stated or shared[0]
    none = f"they share none ({', '.join(new.arms)} against {', '.join(reference.arms)})"
    choices = f"choose --arm, one of {', '.join(shared)}" if shared else none
    raise UsageError(f"A gate compares one arm of two runs: {choices}.")


@dataclass(frozen=True)
class GateResult:
    """The verdict of a gate with its reason.

    ``interval`` is that of the difference, new minus reference; each bound has the one-sided level ``LEVEL``. ``power``
    is the chance to pass (``core.stats.margin_power``), ``smallest`` the smallest margin with a power of 80 %,
    ``needed`` the number of cases that this margin needs for it; all by the measured differences. They are ``None`` if
    nothing was compared, and ``needed`` also if over ten million cases would be needed. ``excluded`` is run → reason →
    number of answers; ``doctors`` and ``totals`` are those of the new run and of the reference, ``judge`` is the judge
    or the rule whose verdicts count.
    """

    verdict: Verdict
    reason: str
    rule: GateRule
    new: str
    reference: str
    doctors: tuple[str, str]
    judge: str = ""
    comparison: Comparison | None = None
    totals: tuple[CaseTotals, ...] = ()
    interval: Interval | None = None
    power: float | None = None
    smallest: float | None = None
    needed: int | None = None
    excluded: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    breaks: Mapping[str, Breaks] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def status(self) -> int:
        return STATUS[self.verdict]


def gate(store: Store, new: RunSide, reference: RunSide, rule: GateRule) -> GateResult:
    """Compare a new run with a reference run."""
    notes = [*_notes(store, new, reference, rule), *_hypothesis_notes(new, rule), *_order_notes(new, reference)]
    result = GateResult(
        "cannot say",
        "",
        rule,
        new.run.run_id,
        reference.run.run_id,
        (new.run.doctor, reference.run.doctor),
        notes=in_order(notes),
    )
    if obstacles := list(_obstacles(new, reference, rule)):
        return replace(result, reason=" ".join(obstacles))
    try:
        compared = _scores_of(store, new, reference, rule)
    except Uncomparable as error:
        return replace(result, reason=f"The runs are not comparable: {error}.")
    breaks = {name: find_breaks(name, store, result.new, result.reference, rule.judge) for name in rule.breaks}
    graded = rule.format_and_type[1] in GRADED_TYPES
    result = _with_comparison(result, compared, new.condition.seats.get("grader", "") if graded else "")
    result = replace(result, breaks=breaks)
    if failures := [failure for outcome in breaks.values() for failure in outcome.failures]:
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        return replace(result, verdict="fail", reason=f"A new critical failure: {failures[0]}{more}.")
    if open_questions := [*_uncountable(result), *_undecided(breaks)]:
        return replace(result, reason=" ".join(open_questions))
    interval = result.interval
    assert interval is not None
    verdict, reason = _decided(interval, compared.comparison, rule)
    result = replace(result, verdict=verdict, reason=reason)
    if verdict == "pass" and interval.high < 0:
        worse = Note("worse", "The new run is worse than the reference, by less than the margin.", "high")
        result = replace(result, notes=in_order([worse, *result.notes]))
    return replace(result, notes=in_order([*result.notes, *_strict_notes(store, new, reference, result)]))


def _decided(interval: Interval, comparison: Comparison, rule: GateRule) -> tuple[Verdict, str]:
    decision = decide(interval, rule.margin)
    if decision == "unclear":
        return "cannot say", f"The interval contains −{rule.margin:g}: more cases would decide."
    words = no_sign_of_quality(comparison.second_mean, comparison.first_mean, rule.margin)
    if words and decision == "pass" and interval.low <= 0:
        return "cannot say", words
    side = "above" if decision == "pass" else "below"
    return decision, f"The interval lies {side} −{rule.margin:g}."


def no_sign_of_quality(new: float, reference: float, margin: float) -> str:
    """Return why it says nothing that a new run is within the margin; empty if it says something.

    ``new`` and ``reference`` are mean scores. A run without a right answer, or with a grader that finds none, must not
    be within the margin.
    """
    if new == reference == 0:
        return "Both score 0, as if the grader said No to everything: no difference is no sign of quality."
    if reference <= margin:
        return f"A score of 0 would be within the margin, too: the reference has {reference:.3f}."
    return ""


class _Scores(NamedTuple):
    """The scores of a run, and reason → number of the answers that do not count.

    ``rules`` are the rules for choices, or the judge, whose verdicts count.
    """

    totals: CaseTotals
    excluded: Counter[str]
    rules: tuple[str, ...]

    @property
    def by_case(self) -> Mapping[str, float]:
        return {case: total / counted for case, (total, counted) in self.totals.items()}

    @property
    def counted(self) -> int:
        return sum(counted for _, counted in self.totals.values())


class _Compared(NamedTuple):
    """Scores of the reference and of the new run, compared by case; ``notes`` are about their judge."""

    before: _Scores
    after: _Scores
    notes: tuple[Note, ...] = ()

    @property
    def comparison(self) -> Comparison:
        rules = tuple(dict.fromkeys([*self.before.rules, *self.after.rules]))
        return replace(compare_cases(self.before.by_case, self.after.by_case), rules=rules)

    @property
    def differences(self) -> list[float]:
        """The difference of each case with a score on both sides, from −1 to 1."""
        before, after = self.before.by_case, self.after.by_case
        shared = [case for case in before if case in after]
        by_case: list[float] = changes([after[case] for case in shared], [before[case] for case in shared]).tolist()
        return by_case


def _scores_of(
    store: Store, new: RunSide, reference: RunSide, rule: GateRule, mcq_rule: McqRule = "usual"
) -> _Compared:
    """Read the scores of both runs; raises ``Uncomparable`` for a rubric that no judge shares."""
    if rule.outcome != RUBRIC_SCORES:
        return _Compared(_arm_scores(store, reference, rule, mcq_rule), _arm_scores(store, new, rule, mcq_rule))
    before, after, notes = rubric_readings(store, new.run.run_id, reference.run.run_id, rule.judge)
    return _Compared(_rubric_scores(before), _rubric_scores(after), tuple(notes))


def _arm_scores(store: Store, side: RunSide, rule: GateRule, mcq_rule: McqRule) -> _Scores:
    format_, question_type = rule.format_and_type
    selection = Selection(
        runs=[side.run.run_id],
        conditions=[side.condition.name],
        formats=[cast(Format, format_)],
        question_types=[cast(QuestionType, question_type)],
    )
    scores = read_scores(store, selection, mcq_rule)
    excluded = Counter[str]()
    for score in scores:
        excluded.update(score.excluded)
    del excluded["not_applicable"]  # questions that a case does not allow
    return _Scores(
        {score.case_key: (float(score.correct), score.counted) for score in scores if score.counted},
        excluded,
        tuple(dict.fromkeys(score.rule for score in scores if score.rule)),
    )


def _rubric_scores(reading: RubricReading) -> _Scores:
    """Return the scores by a rubric; one below 0 counts as 0, because the test needs differences between −1 and 1."""
    judged = [conversation for conversation in reading.conversations if conversation.judged]
    totals: dict[str, tuple[float, int]] = {}
    excluded = Counter({"not judged": len(reading.conversations) - len(judged)})
    for conversation in judged:
        if (score := conversation_score(conversation)) is None:
            excluded["too few points judged, or none to attain"] += 1
        else:
            total, counted = totals.get(conversation.case_key, (0.0, 0))
            totals[conversation.case_key] = total + clipped(score), counted + 1
    return _Scores(totals, +excluded, tuple(judge.name for judge in reading.judges.values()))


def _with_comparison(result: GateResult, compared: _Compared, grader: str) -> GateResult:
    comparison, differences, margin = compared.comparison, compared.differences, result.rule.margin
    notes = [*result.notes, *compared.notes, *_score_notes(comparison, result.rule)]
    sides = {result.reference: compared.before, result.new: compared.after}
    for run_id, scores in sides.items():
        if total := scores.excluded.total():
            share = total / (total + scores.counted)
            words = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in scores.excluded.most_common())
            text = f"{run_id}: {share:.1%} of the answers are excluded, and not counted as wrong: {words}."
            too_many = share > result.rule.most_excluded
            notes.append(Note(TOO_MANY, text, "high") if too_many else Note("excluded", text))
    result = replace(
        result,
        judge=grader or " and ".join(comparison.rules),
        comparison=comparison,
        totals=(compared.after.totals, compared.before.totals),
        excluded={run_id: scores.excluded for run_id, scores in sides.items()},
        notes=in_order(notes),
    )
    n = len(differences)
    if n < 2:
        return result
    law = observed_law(differences)
    return replace(
        result,
        interval=margin_interval(differences, LEVEL),
        power=chance_to_pass(law, margin, n, LEVEL),
        smallest=smallest_margin(law, n, LEVEL),
        needed=cases_to_pass(law, margin, n, LEVEL),
    )


NO_SIGN = "no_sign_of_quality"
"""Kind of the note by ``no_sign_of_quality``."""
TOO_MANY = "too_many_excluded"
"""Kind of the note on more excluded answers than ``GateRule.most_excluded``."""


def _uncountable(result: GateResult) -> Iterator[str]:
    """Yield why the comparison has no valid test."""
    n = result.comparison.n if result.comparison else 0
    if n < FEWEST_CASES:
        yield f"Too few cases: {n:,} count on both sides, and error rates are measured from {FEWEST_CASES} on."
    yield from (f"Too many excluded answers. {note.text}" for note in result.notes if note.kind == TOO_MANY)


def _undecided(breaks: Mapping[str, Breaks]) -> Iterator[str]:
    for name, outcome in breaks.items():
        if outcome.problem:
            yield f"Break {name}: {outcome.problem}."
        elif outcome.undecided > MOST_EXCLUDED * outcome.compared:
            yield f"Break {name}: {outcome.undecided:,} of {outcome.compared:,} {BREAKS[name].items} have no verdict."


def _obstacles(new: RunSide, reference: RunSide, rule: GateRule) -> Iterator[str]:
    """Yield why two runs cannot be compared at all."""
    if new.run.run_id == reference.run.run_id:
        yield f"{new.run.run_id} is compared with itself."
        return
    if fault := margin_fault(rule.margin):
        yield fault
    for side in (new, reference):
        if rule.outcome != RUBRIC_SCORES and rule.outcome not in side.arms:
            yield f"{side.run.run_id} has no answers in {rule.outcome}."
        if side.run.planned is not None and side.run.done < side.run.planned:
            yield f"{side.run.run_id} is unfinished: {side.run.done:,} of {side.run.planned:,} trials."
    ignored = {*rule.under_test, *_idle_parts(new, rule)}
    first, second = new.condition.keys, reference.condition.keys
    if parts := differing_parts(first, second, ignored):
        words = "; ".join(
            f"{part.replace('_', ' ')} ({_short(first.get(part, ''))} against {_short(second.get(part, ''))})"
            for part in parts
        )
        yield f"The runs are not comparable, they differ in {words}."


def _short(key: str) -> str:
    return key.strip()[:60] or "none"


def _idle_parts(side: RunSide, rule: GateRule) -> Iterator[ConditionPart]:
    """Yield the parts that cannot influence the answers or verdicts behind an outcome."""
    if rule.outcome == RUBRIC_SCORES:  # the judge of the rubric is checked with its verdicts
        yield from ("grader", "grader_served", "reader")
        return
    format_, question_type = rule.format_and_type
    framework = frameworks().get(side.run.protocol)
    if framework is None:
        return
    working = seats_at_work(framework, side.run.doctor, [(format_, question_type)])
    yield from (part for part, role in _SEAT_PARTS.items() if role not in working)
    if question_type in GRADED_TYPES:
        yield "reader"


def _hypothesis_notes(new: RunSide, rule: GateRule) -> Iterator[Note]:
    """Yield what the new run's journal states of outcome and margin, and where this gate differs from it."""
    stated = new.run.hypothesis
    if stated is None:
        text = "The run states no hypothesis: outcome and margin may have been chosen after it."
        yield Note("hypothesis", text)
        return
    differences = []
    if stated.primary != rule.outcome:
        differences.append(f"{rule.outcome} instead of {stated.primary}")
    if stated.margin != rule.margin:
        differences.append(f"margin {rule.margin:g} instead of {stated.margin:g}")
    by_rubric = rule.outcome == stated.primary == RUBRIC_SCORES
    if by_rubric and stated.judge and rule.judge != stated.judge:
        differences.append(f"the judge {rule.judge} instead of {stated.judge}")
    if by_rubric and not stated.judge:
        yield Note("judge", "The run states no judge: whoever judges it last by a rubric decides.", "high")
    if differences:
        yield Note("hypothesis", f"Not as the run states before its first call: {'; '.join(differences)}.", "high")
    else:
        yield Note("hypothesis", f"Outcome and margin are those that the run states before its first call: {stated}")


def _order_notes(new: RunSide, reference: RunSide) -> Iterator[Note]:
    if new.run.created_at < reference.run.created_at:
        yield Note("order", "The new run was started before the reference: they may be the wrong way round.", "high")
    same = (new.run.doctor, new.condition.keys) == (reference.run.doctor, reference.condition.keys)
    if same and new.run.run_id != reference.run.run_id:
        yield Note("condition", "Both runs have the same condition: only what it does not record can differ.")


def _score_notes(comparison: Comparison, rule: GateRule) -> Iterator[Note]:
    """Yield notes on scores at which the test says little."""
    if not comparison.n:
        return
    new, reference = comparison.second_mean, comparison.first_mean
    if words := no_sign_of_quality(new, reference, rule.margin):
        yield Note(NO_SIGN, words, "high")
    elif new == reference == 1:
        text = "Both score 1, as if the grader said Yes to everything: harder cases could tell the runs apart."
        yield Note("ceiling", text)
    if comparison.mixed:
        yield Note("rules", "The runs count answers with choices by different rules.", "high")


def _strict_notes(store: Store, new: RunSide, reference: RunSide, result: GateResult) -> Iterator[Note]:
    """Yield a note if the test ends differently by the strict rule for choices; the usual one accepts lists of them."""
    rule, comparison = result.rule, result.comparison
    if comparison is None or "mcq_loose" not in comparison.rules:
        return
    strict = _scores_of(store, new, reference, rule, "mcq_strict")
    if len(strict.differences) < FEWEST_CASES:
        return
    verdict, _ = _decided(margin_interval(strict.differences, LEVEL), strict.comparison, rule)
    if verdict != result.verdict:
        means = f"{strict.comparison.second_mean:.3f} against {strict.comparison.first_mean:.3f}"
        yield Note("strict", f"By the strict rule for choices the verdict is {verdict}: {means}.", "high")


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
    arms: Collection[Any] | None = None if rule.outcome == RUBRIC_SCORES else {rule.format_and_type}
    notes = list(notes_of(Basis(conditions, extents, traits, left_out), arms=arms))
    sides = [side_of(condition, [side.run]) for condition, side in zip(conditions, (new, reference), strict=True)]
    if settings := differing(settings_side_by_side(sides)):
        words = "; ".join(f"{setting.name}: {setting.values[0]} against {setting.values[1]}" for setting in settings)
        notes.append(Note("settings", f"What else differs, new run against reference: {words}."))
    return notes
