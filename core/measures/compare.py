"""Arms, models and versions compared case by case: difference of means, outcomes, which cases changed.

Only cases that count on both sides are compared; how many count on one side alone is said. A difference is always the
second side minus the first. Test and interval: ``core.stats.differences``. A step from one version of a model to the
next is such a comparison (Johri et al. 2025, monitoring of model versions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from core.datasets.published import AccuracyFigure, accuracy_figures
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.accuracy import By, Group, group_of_score, read_scores
from core.measures.base import Asked, Columns, Row, metric
from core.models.registry import load_registry
from core.stats.corrections import Correction, adjusted
from core.stats.differences import PairedCounts, bootstrap_difference, paired_difference
from core.stats.intervals import t_interval
from core.store.conditions import doctor_of
from core.store.queries.accuracy import CaseScore

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
    )


def adjusted_p(results: Sequence[Comparison], correction: Correction) -> list[float]:
    """Return the p-values of comparisons shown together, corrected over all of them."""
    return adjusted([result.p for result in results], correction)


def format_pairs(
    scores: Iterable[CaseScore], by: Group | None = None, interval: DifferenceInterval = "smoothed"
) -> list[FormatPair]:
    """Compare each format with the vignette of the same model, question type and group, paired by case.

    In the order of model, question type, group and format. Nothing where a model has no vignette answers.
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
        FormatPair(*cell, format_, compare(cells[cell][BASELINE], cells[cell][format_], interval))
        for cell in ordered
        if BASELINE in cells[cell]
        for format_ in FORMATS
        if format_ != BASELINE and format_ in cells[cell]
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

    In the order of group, format, question type and step; an arm that either version lacks is left out.
    """
    found: list[Step] = []
    groups: dict[str | None, list[CaseScore]] = {}
    for score in scores:
        groups.setdefault((group_of_score(score, by) or "unknown") if by else None, []).append(score)
    for group in sorted(groups, key=str):
        arms = by_arm(groups[group])
        for format_, question_type, (before, after) in product(FORMATS, QUESTION_TYPES, pairwise(versions)):
            first, second = (arms.get((version, format_, question_type)) for version in (before, after))
            if first and second:
                invalid = (sum(sum(score.excluded.values()) for score in side.values()) for side in (first, second))
                found.append(Step(before, after, format_, question_type, group, compare(first, second), 1.0, *invalid))
    return recorrected(found, correction)


def recorrected(found: Sequence[Step], correction: Correction) -> list[Step]:
    """Return the same steps with their p-values corrected another way: the comparisons are not done again."""
    p_values = adjusted_p([step.result for step in found], correction)
    return [replace(step, adjusted_p=p) for step, p in zip(found, p_values, strict=True)]


def published_versions(case_set: str, versions: Sequence[str], label_of: Callable[[str], str]) -> list[AccuracyFigure]:
    """Return the overall figures that are published of versions on a case set."""
    labels = {label_of(version) for version in versions}
    scopes = ("monitoring", "overall")
    found: dict[tuple[str, str, str], AccuracyFigure] = {}
    printed = (f for f in accuracy_figures(case_set) if f.scope in scopes and f.model in labels)
    for figure in sorted(printed, key=lambda f: scopes.index(f.scope)):
        found.setdefault((figure.model, figure.format, figure.question_type), figure)
    return list(found.values())


_CORRECTED = Annotated[Correction, "Correction over all tests that are printed."]
_DIFFERENCE = Columns("difference", n=None)


@metric("pairs", "cases", "mcq_rule", empty="No model has answers on vignettes and in another format.")
def report_pairs(
    asked: Asked,
    by: By = None,
    models: Annotated[str | None, "Only these models, with commas."] = None,
    correction: _CORRECTED = "holm",
) -> Iterator[Row]:
    """Compare every format with the same model's vignette arm, paired by case (second minus first)."""
    scores = _scores(asked)
    if models is not None:
        named = {name for one in models.split(",") for name in _held(one, scores)}
        scores = [score for score in scores if score.model in named]
    pairs = format_pairs(scores, by)
    for pair, p in zip(pairs, adjusted_p([pair.result for pair in pairs], correction), strict=True):
        arm: dict[str, Any] = {"model": pair.model, "question_type": pair.question_type}
        group: dict[str, Any] = {by: pair.group} if by else {}
        yield _difference({**arm, **group, "first": "vignette", "second": pair.format}, pair.result, p)


@metric("monitor", "cases", "mcq_rule", empty="These versions have no arm in common.")
def report_monitor(
    asked: Asked,
    versions: Annotated[str, "Versions in order, with commas, such as mistral_v1_7b,mistral_v2_7b."],
    by: By = None,
    correction: _CORRECTED = "holm",
) -> Iterator[Row]:
    """Compare each version of a model with the one before it, arm by arm, paired by case."""
    scores = _scores(asked)
    held = [_held(name, scores) for name in versions.split(",")]
    for found in (found for found in held if len(found) > 1):
        others = "; ".join(found[1:])
        asked.note(f"The newest condition is compared, {found[0]}; name another one for it: {others}.")
    if len(held) < 2:
        raise UsageError("--versions needs at least two, the older one first.")
    for step in steps(scores, [found[0] for found in held], by, correction):
        sides = {"first": step.before, "second": step.after}
        arm: dict[str, Any] = {**sides, "format": step.format, "question_type": step.question_type}
        invalid = {"invalid_first": step.invalid_before, "invalid_second": step.invalid_after}
        change = {"change": step.verdict, **invalid}
        yield _difference({**arm, **({by: step.group} if by else {})}, step.result, step.adjusted_p, change)


def _scores(asked: Asked) -> list[CaseScore]:
    scores = read_scores(asked.store, asked.selection, asked.selection.mcq_rule)
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
    counts = {"n_cases": found.n, "improved": found.improved, "regressed": found.regressed, "equal": found.equal}
    return Row(
        {**label, **means},
        found.difference,
        found.ci_low,
        found.ci_high,
        found.n,
        more={"p": found.p, "p_adjusted": p, **counts, **more},
        columns=_DIFFERENCE,
    )
