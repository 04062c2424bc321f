"""Arms, models and versions compared case by case: difference of means, outcomes, which cases changed.

Only cases that count on both sides are compared; how many count on one side alone is said. A difference is always the
second side minus the first. Test and interval: ``core.stats.differences``. A step from one version of a model to the
next is such a comparison (Johri et al. 2025, monitoring of model versions).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.accuracy import By, Group, group_of_score, read_scores
from core.measures.base import Asked, Columns, Row, metric
from core.measures.provenance import differing, graders, side_by_side, side_of
from core.models.registry import load_registry
from core.stats.corrections import Correction, adjusted
from core.stats.differences import PairedCounts, bootstrap_difference, paired_difference
from core.stats.intervals import t_interval
from core.store.conditions import SEPARATOR, doctor_of
from core.store.queries.answers import CaseScore
from core.store.queries.calls import served_since
from core.store.queries.runs import run_records
from core.store.selection import conditions

Cases = Mapping[str, CaseScore]
"""The scores of one arm of one model, by the key of the case."""
ArmOf = tuple[str, Format, QuestionType]
Outcome = Literal["both", "first_only", "second_only", "neither"]
OUTCOMES: tuple[Outcome, ...] = ("both", "first_only", "second_only", "neither")
DifferenceInterval = Literal["smoothed", "bootstrap", "normal"]
BASELINE: Format = "vignette"
"""What every other format is compared with, declared before looking at any figure."""


class PairedCase(NamedTuple):
    """A case with its scores (0 to 1) on both sides; ``change`` is 1, 0 or −1 as it improved, stayed or regressed."""

    case_key: str
    dataset: str | None
    specialty: str | None
    first: float
    second: float
    change: int
    outcome: Outcome


@dataclass(frozen=True)
class Comparison:
    """What became of the cases that both sides count.

    ``difference`` is second mean − first mean with its 95 % interval; p is two-sided, by sign flips; NaN
    with fewer than two cases. ``counts`` are cases right on both sides, the first alone, the second alone, neither.
    ``first_alone`` and ``second_alone`` count the cases left out because the other side has no counted trial.
    """

    n: int
    first_mean: float
    second_mean: float
    difference: float
    ci_low: float
    ci_high: float
    p: float
    counts: PairedCounts
    improved: int
    regressed: int
    equal: int
    first_alone: int
    second_alone: int
    rules: tuple[str, ...] = ()
    """By which the answers of both sides count; one where both count by the same."""

    @property
    def mixed(self) -> bool:
        """Whether the same kind of answer counts by another rule on each side, so that the difference may be theirs."""
        return {"mcq_loose", "mcq_strict"} <= set(self.rules)


@dataclass(frozen=True)
class FormatPair:
    """A format against the vignette of the same model, question type and group of cases."""

    model: str
    question_type: QuestionType
    group: str | None
    format: Format
    result: Comparison


def is_right(score: CaseScore) -> bool:
    """Say whether a case counts as right as a whole: in at least half of its counted trials."""
    return score.counted > 0 and 2 * score.correct >= score.counted


def by_arm(scores: Iterable[CaseScore]) -> dict[ArmOf, dict[str, CaseScore]]:
    """Return (model, format, question type) → case key → score."""
    arms: dict[ArmOf, dict[str, CaseScore]] = {}
    for score in scores:
        arms.setdefault((score.model, score.format, score.question_type), {})[score.case_key] = score
    return arms


def paired_cases(first: Cases, second: Cases) -> list[PairedCase]:
    """Return the cases that count on both sides, in the order of the first."""
    found = []
    for a, b in ((a, second.get(key)) for key, a in first.items()):
        if b is not None and a.counted and b.counted:
            # whole numbers, so that two thirds here and two thirds there are never a change
            gain = b.correct * a.counted - a.correct * b.counted
            outcome = OUTCOMES[2 * (not is_right(a)) + (not is_right(b))]
            means = (a.correct / a.counted, b.correct / b.counted)
            found.append(PairedCase(a.case_key, a.dataset, a.specialty, *means, (gain > 0) - (gain < 0), outcome))
    return found


def compare(first: Cases, second: Cases, interval: DifferenceInterval = "smoothed") -> Comparison:
    """Compare two sides by case; ``interval`` is that of the difference: smoothed, percentiles or normal theory (t)."""
    pairs = paired_cases(first, second)
    a, b = (np.array([getattr(pair, side) for pair in pairs], dtype=np.float64) for side in ("first", "second"))
    found = paired_difference(b, a)
    if interval == "smoothed":
        bounds = found.interval
    else:
        bounds = bootstrap_difference(b, a).interval if interval == "bootstrap" else t_interval(b - a)
    outcomes = [pair.outcome for pair in pairs]
    changes = [pair.change for pair in pairs]
    return Comparison(
        n=len(pairs),
        first_mean=float(a.mean()) if pairs else float("nan"),
        second_mean=float(b.mean()) if pairs else float("nan"),
        difference=found.mean,
        ci_low=bounds.low,
        ci_high=bounds.high,
        p=found.p,
        counts=PairedCounts(*(outcomes.count(outcome) for outcome in OUTCOMES)),
        improved=changes.count(1),
        regressed=changes.count(-1),
        equal=changes.count(0),
        first_alone=sum(score.counted > 0 for score in first.values()) - len(pairs),
        second_alone=sum(score.counted > 0 for score in second.values()) - len(pairs),
        rules=tuple(dict.fromkeys(score.rule for side in (first, second) for score in side.values() if score.rule)),
    )


def adjusted_p(results: Sequence[Comparison], correction: Correction) -> list[float]:
    """Return the p-values of comparisons shown together, corrected over all of them."""
    return adjusted([result.p for result in results], correction)


def format_pairs(
    scores: Iterable[CaseScore], by: Group | None = None, interval: DifferenceInterval = "smoothed"
) -> list[FormatPair]:
    """Compare each format with the vignette of the same model, question type and group, paired by case.

    In the order of model, question type, group and format. Nothing if a model has no vignette answers, or if no case
    counts in both formats.
    """
    cells: dict[tuple[str, QuestionType, str | None], dict[Format, dict[str, CaseScore]]] = {}
    place: dict[str, int] = {}
    for score in scores:
        place.setdefault(score.model, len(place))
        group = group_of_score(score, by)
        formats = cells.setdefault((score.model, score.question_type, group), {})
        formats.setdefault(score.format, {})[score.case_key] = score
    ordered = sorted(cells, key=lambda cell: (place[cell[0]], QUESTION_TYPES.index(cell[1]), cell[2] or ""))
    return [
        FormatPair(*cell, format_, result)
        for cell in ordered
        if BASELINE in cells[cell]
        for format_ in FORMATS
        if format_ != BASELINE
        and format_ in cells[cell]
        and (result := compare(cells[cell][BASELINE], cells[cell][format_], interval)).n
    ]


Verdict = Literal["rose", "fell", "unclear"]
LEVEL = 0.05
"""A step counts as risen or fallen where its adjusted p-value is at most this."""


@dataclass(frozen=True)
class Step:
    """From one version to the next in one arm (and group): accuracy before and after, difference, adjusted p."""

    before: str
    after: str
    format: Format
    question_type: QuestionType
    group: str | None
    result: Comparison
    adjusted_p: float
    invalid_before: int
    invalid_after: int

    @property
    def verdict(self) -> Verdict:
        """Whether accuracy rose or fell beyond chance."""
        if not self.adjusted_p <= LEVEL:
            return "unclear"
        return "rose" if self.result.difference > 0 else "fell"


def steps(
    scores: Iterable[CaseScore], versions: Sequence[str], by: Group | None = None, correction: Correction = "holm"
) -> list[Step]:
    """Return every step between neighbouring versions, corrected over all that are returned.

    In the order of group, format, question type and step; an arm that either version lacks is left out. So is an arm in
    which the two share no case that counts: there is nothing to compare (``without_shared_cases``).
    """
    found: list[Step] = []
    groups: dict[str | None, list[CaseScore]] = {}
    for score in scores:
        groups.setdefault((group_of_score(score, by) or "unknown") if by else None, []).append(score)
    for group in sorted(groups, key=str):
        arms = by_arm(groups[group])
        for format_, question_type, (before, after) in product(FORMATS, QUESTION_TYPES, pairwise(versions)):
            first, second = (arms.get((version, format_, question_type)) for version in (before, after))
            if first and second and (result := compare(first, second)).n:
                invalid = (sum(sum(score.excluded.values()) for score in side.values()) for side in (first, second))
                found.append(Step(before, after, format_, question_type, group, result, 1.0, *invalid))
    return recorrected(found, correction)


def without_shared_cases(scores: Iterable[CaseScore], versions: Sequence[str]) -> list[tuple[ArmOf, ArmOf]]:
    """Return the pairs of neighbouring versions, arm by arm, that both have answers and no case that counts in both."""
    arms = by_arm(scores)
    pairs = [
        ((before, *arm), (after, *arm))
        for arm in product(FORMATS, QUESTION_TYPES)
        for before, after in pairwise(versions)
    ]
    return [
        (first, second)
        for first, second in pairs
        if first in arms and second in arms and not paired_cases(arms[first], arms[second])
    ]


def recorrected(found: Sequence[Step], correction: Correction) -> list[Step]:
    """Return the same steps with their p-values corrected another way: the comparisons are not done again."""
    p_values = adjusted_p([step.result for step in found], correction)
    return [replace(step, adjusted_p=p) for step, p in zip(found, p_values, strict=True)]


_CORRECTED = Annotated[Correction, "Correction over all tests that are printed."]
_DIFFERENCE = Columns("difference", n=None)


@metric(
    "pairs",
    "cases",
    "mcq_rule",
    empty="No model has answers on vignettes and in another format.",
    compared=False,
    page="accuracy",
)
def report_pairs(
    asked: Asked,
    by: By = None,
    models: Annotated[str | None, "Only these models, with commas."] = None,
    correction: _CORRECTED = "holm",
) -> Iterator[Row]:
    """Compare every format with the same model's vignette arm, paired by case (second minus first)."""
    scores = _scores(asked, by)
    if models is not None:
        named = {name for one in models.split(",") for name in _held(one, scores)}
        scores = [score for score in scores if score.model in named]
    pairs = format_pairs(scores, by)
    for pair, p in zip(pairs, adjusted_p([pair.result for pair in pairs], correction), strict=True):
        arm: dict[str, Any] = {"model": pair.model, "question_type": pair.question_type}
        group: dict[str, Any] = {by: pair.group} if by else {}
        yield _difference({**arm, **group, "first": "vignette", "second": pair.format}, pair.result, p)


@metric("monitor", "cases", "mcq_rule", empty="These versions have no arm in common.", page="compare")
def report_monitor(
    asked: Asked,
    versions: Annotated[str, "Versions in order, with commas, such as mistral_v1_7b,mistral_v2_7b."],
    by: By = None,
    correction: _CORRECTED = "holm",
) -> Iterator[Row]:
    """Compare each version of a model with the one before it, arm by arm, paired by case.

    By served, the versions are the names by which the provider called these models, in the order in which they were
    first seen: one model is enough.
    """
    scores = _scores(asked, by)
    named = [_held(name, scores) for name in versions.split(",")]
    if by == "served":
        with asked.store.read() as cursor:
            since = served_since(cursor, asked.selection)
        scores, behind = served_versions(scores, [name for found in named for name in found], since)
        if len(behind) < 2:
            raise UsageError(f"{versions} was served under one name only, so there is no step between two.")
        order, by = list(behind), None
        compared = [name for names in behind.values() for name in names]
    else:
        for newest, *others in (found for found in named if len(found) > 1):
            asked.note(f"The newest condition is compared, {newest}; name another one for it: {'; '.join(others)}.")
        if len(named) < 2:
            raise UsageError("--versions needs at least two, the older one first.")
        order = compared = [found[0] for found in named]
    asked.shown = compared
    apart: dict[tuple[str, str], list[str]] = {}
    for (before, format_, question_type), (after, _, _) in without_shared_cases(scores, order):
        apart.setdefault((before, after), []).append(f"{format_}:{question_type}")
    sentences = [
        f"{before} and {after} share no case that counts in {', '.join(arms)}: they are not compared there."
        for (before, after), arms in apart.items()
    ]
    found_steps = steps(scores, order, by, correction)
    if sentences and not found_steps:
        raise AnamnesisError(" ".join(sentences))
    for sentence in sentences:
        asked.note(sentence)
    for step in found_steps:
        sides = {"first": step.before, "second": step.after}
        arm: dict[str, Any] = {**sides, "format": step.format, "question_type": step.question_type}
        invalid = {"invalid_first": step.invalid_before, "invalid_second": step.invalid_after}
        change = {"change": step.verdict, **invalid}
        yield _difference({**arm, **({by: step.group} if by else {})}, step.result, step.adjusted_p, change)
    _note_what_differs(asked, list(dict.fromkeys(compared)))


def served_versions(
    scores: Iterable[CaseScore], models: Sequence[str], since: Mapping[tuple[str, str | None], float]
) -> tuple[list[CaseScore], dict[str, list[str]]]:
    """Return the scores of conditions by served model, and the names of these → the conditions that they are of.

    ``scores`` are split by served model. Conditions that only their served models tell apart are put together, and the
    order is that in which these were first seen: ``since`` holds (condition, served model) → when.
    """
    found = [score for score in scores if score.model in models]
    names = {key: _as_served(*key) for key in {(score.model, score.served) for score in found}}
    first: dict[str, float] = {}
    behind: dict[str, list[str]] = {}
    for key in sorted(names, key=lambda key: models.index(key[0])):
        name = names[key]
        first[name] = min(first.get(name, float("inf")), since.get(key, float("inf")))
        behind.setdefault(name, []).append(key[0])
    put_together: dict[tuple[str, Format, QuestionType, str], CaseScore] = {}
    for score in found:
        renamed = score._replace(model=names[score.model, score.served])
        other = put_together.get(renamed[:4])
        put_together[renamed[:4]] = renamed if other is None else _sum_of(other, renamed)
    return list(put_together.values()), {name: behind[name] for name in sorted(behind, key=lambda n: (first[n], n))}


def _as_served(model: str, served: str | None) -> str:
    words = [part for part in model.split(SEPARATOR) if not part.startswith("served as ")]
    return SEPARATOR.join([*words, f"served as {served or 'an unknown model'}"])


def _sum_of(first: CaseScore, second: CaseScore) -> CaseScore:
    reasons = first.excluded.keys() | second.excluded.keys()
    return first._replace(
        correct=first.correct + second.correct,
        counted=first.counted + second.counted,
        excluded={reason: first.excluded.get(reason, 0) + second.excluded.get(reason, 0) for reason in reasons},
        refused_in_words=first.refused_in_words + second.refused_in_words,
        blank=first.blank + second.blank,
        rule=" + ".join(sorted({rule for score in (first, second) for rule in score.rule.split(" + ") if rule})),
        repeats=first.repeats + second.repeats,
    )


def _note_what_differs(asked: Asked, names: Sequence[str]) -> None:
    """Say whose verdicts count on each side, and in what neighbouring sides differ beside the doctor."""
    behind = {condition.name: condition for condition in conditions(asked.store, asked.selection)}
    with asked.store.read() as cursor:
        runs = run_records(cursor, [run_id for name in names for run_id in behind[name].runs])
    sides = {name: side_of(behind[name], runs) for name in names}
    judged_by = zip(names, graders(list(sides.values())), strict=True)
    asked.note(f"Graders whose verdicts count: {'; '.join(f'{name}: {grader}' for name, grader in judged_by)}.")
    for first, second in pairwise(names):
        apart = differing(side_by_side([sides[first], sides[second]]))
        if apart:
            words = "; ".join(f"{setting.name}: {setting.values[0]} against {setting.values[1]}" for setting in apart)
            asked.note(f"What else differs between {first} and {second}: {words}.")


def _scores(asked: Asked, by: Group | None = None) -> list[CaseScore]:
    scores = read_scores(asked.store, asked.selection, asked.selection.mcq_rule, by_served=by == "served")
    if not scores:
        raise AnamnesisError("There is nothing to report yet: run a campaign, or import the authors' release.")
    return scores


def _held(name: str, scores: Sequence[CaseScore]) -> list[str]:
    """Return the conditions that a name stands for, the newest first: one of them, or all of a model or alias."""
    held = dict.fromkeys(score.model for score in scores)
    plain = name.strip()
    full = {alias.lower(): target for alias, target in load_registry().aliases.items()}.get(plain.lower(), plain)
    found = [one for one in held if one == plain] or [one for one in held if doctor_of(one) in (plain, full)]
    if not found:
        raise UsageError(f"The database holds no answers of {plain!r}; it holds {', '.join(sorted(held))}.")
    return found


def _difference(
    label: dict[str, Any], found: Comparison, p: float, more: Mapping[str, Any] = MappingProxyType({})
) -> Row:
    means = {"first_mean": found.first_mean, "second_mean": found.second_mean}
    counts = {
        "n_cases": found.n,
        "n_first_only": found.first_alone,
        "n_second_only": found.second_alone,
        "improved": found.improved,
        "regressed": found.regressed,
        "equal": found.equal,
    }
    return Row(
        {**label, **means},
        found.difference,
        found.ci_low,
        found.ci_high,
        found.n,
        more={"p": found.p, "p_adjusted": p, **counts, **more, "rule": " and ".join(found.rules)},
        columns=_DIFFERENCE,
    )
