"""Arms, models and versions compared case by case: difference of means, outcomes, which cases changed.

Only cases that count on both sides are compared; how many count on one side alone is said. A difference is always the
second side minus the first. Test and interval: ``core.stats.differences``. A step from one version of a model to the
next is such a comparison (Johri et al. 2025, monitoring of model versions).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Annotated, Any

from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.base import Asked, Columns, Comparison, Row, metric
from core.measures.comparison import corrected, verdict
from core.measures.paired import (
    BASELINE,
    ArmOf,
    By,
    Group,
    by_arm,
    compare,
    format_pairs,
    group_of_score,
    paired_cases,
    read_scores,
)
from core.measures.provenance import differing, graders, side_by_side, side_of
from core.models.registry import load_registry
from core.stats.corrections import Correction
from core.store.conditions import SEPARATOR, doctor_of
from core.store.queries.answers import CaseScore
from core.store.queries.calls import served_since
from core.store.queries.runs import run_records
from core.store.selection import conditions

Compared = tuple[dict[str, Any], Comparison, dict[str, Any]]
"""What is compared (a label with ``first`` and ``second``), how it came out, and what else belongs to it."""


def steps(scores: Iterable[CaseScore], versions: Sequence[str], by: Group | None = None) -> list[Compared]:
    """Return every step between neighbouring versions.

    In the order of group, format, question type and step; an arm that either version lacks is left out. So is an arm in
    which the two share no case that counts: there is nothing to compare (``without_shared_cases``).
    """
    compared: list[Compared] = []
    groups: dict[str | None, list[CaseScore]] = {}
    for score in scores:
        groups.setdefault((group_of_score(score, by) or "unknown") if by else None, []).append(score)
    for group in sorted(groups, key=str):
        arms = by_arm(groups[group])
        for format_, question_type, (before, after) in product(FORMATS, QUESTION_TYPES, pairwise(versions)):
            first, second = (arms.get((version, format_, question_type)) for version in (before, after))
            if first and second and (result := compare(first, second)).n:
                label = {"first": before, "second": after, "format": format_, "question_type": question_type}
                invalid = (sum(sum(score.excluded.values()) for score in side.values()) for side in (first, second))
                counts = dict(zip(("invalid_first", "invalid_second"), invalid, strict=True))
                compared.append(({**label, **({by: group} if by else {})}, result, counts))
    return compared


def difference_rows(compared: Sequence[Compared], correction: Correction, *, judged: bool = False) -> list[Row]:
    """Return a row for each difference, with p corrected over all; ``judged``: with the ``verdict`` on it."""
    rows = corrected([Row(label, None, comparison=result, more=more) for label, result, more in compared], correction)
    return [_difference(row, judged=judged) for row in rows]


def _difference(row: Row, *, judged: bool) -> Row:
    result = row.comparison
    assert result is not None
    return Row(
        {**row.label, "first_mean": result.first_mean, "second_mean": result.second_mean},
        result.difference,
        result.low,
        result.high,
        result.n,
        more={
            "p": result.p,
            "p_adjusted": result.adjusted_p,
            "n_cases": result.n,
            "n_first_only": result.first_alone,
            "n_second_only": result.second_alone,
            "improved": result.improved,
            "regressed": result.regressed,
            "equal": result.equal,
            **({"change": verdict(result)} if judged else {}),
            **row.more,
            "rule": " and ".join(result.rules),
        },
        columns=_DIFFERENCE,
        comparison=result,
    )


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


_CORRECTED = Annotated[Correction, "Correction over all tests that are printed."]
_DIFFERENCE = Columns("difference", n=None)


@metric(
    "pairs",
    "cases",
    "questions",
    "datasets",
    "specialties",
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
    compared: list[Compared] = []
    for (model, format_, question_type, group), result in format_pairs(scores, by).items():
        label: dict[str, Any] = {"model": model, "question_type": question_type, **({by: group} if by else {})}
        compared.append(({**label, "first": BASELINE, "second": format_}, result, {}))
    yield from difference_rows(compared, correction)


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
    compared_steps = steps(scores, order, by)
    if sentences and not compared_steps:
        raise AnamnesisError(" ".join(sentences))
    for sentence in sentences:
        asked.note(sentence)
    yield from difference_rows(compared_steps, correction, judged=True)
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
