"""Arms, models and versions compared case by case: difference of means, outcomes, which cases changed.

Only cases that count on both sides are compared; the number that counts on one side only is reported. A difference is
always the second side minus the first. Test and interval: ``core.stats.differences``. A step from one version of a
model to the next is such a comparison (Johri et al. 2025, monitoring of model versions).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Annotated, Any

from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.frameworks.starts import CAMPAIGN
from core.measures.accuracy import AccuracySplit, group_of, published_in, published_label, scores_behind
from core.measures.base import Columns, Comparison, Counted, DifferenceTest, MetricRequest, Row, Section, Side, metric
from core.measures.comparison import TESTS, corrected, verdict
from core.measures.paired import (
    Against,
    Arm,
    ArmOf,
    By,
    Group,
    arm_pairs,
    by_arm,
    compare,
    group_of_score,
    pairs_of,
    read_scores,
    share_cases,
)
from core.measures.provenance import differing, graders, settings_side_by_side, side_of
from core.models.registry import load_registry
from core.stats.corrections import Correction
from core.stats.differences import changes
from core.store.conditions import SEPARATOR, doctor_of
from core.store.queries.answers import CaseScore
from core.store.queries.calls import served_since
from core.store.queries.runs import run_records
from core.store.selection import conditions

UNKNOWN = "unknown"
"""Group of the cases without the property by which rows are split."""
Compared = tuple[dict[str, Any], Comparison, dict[str, Any]]
"""A label with ``first`` and ``second``, the comparison of the two, and further columns."""


def steps(scores: Iterable[CaseScore], versions: Sequence[str], by: Group | None = None) -> list[Compared]:
    """Return every step between neighbouring versions, in the order of group, format, question type and step.

    An arm is left out if either version lacks it, or if the two share no case that counts (``without_shared_cases``).
    """
    compared: list[Compared] = []
    groups: dict[str | None, list[CaseScore]] = {}
    for score in scores:
        groups.setdefault((group_of_score(score, by) or UNKNOWN) if by else None, []).append(score)
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
    """Return a row for each difference, with p corrected over all rows; ``judged`` adds the ``verdict``."""
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
            "n_changed": result.changed,
            "improved": result.improved,
            "regressed": result.regressed,
            "equal": result.equal,
            **({"change": verdict(result)} if judged else {}),
            **row.more,
            "rule": " and ".join(result.rules),
            "test": result.test,
        },
        columns=_DIFFERENCE,
        comparison=result,
    )


def without_shared_cases(scores: Iterable[CaseScore], versions: Sequence[str]) -> list[tuple[ArmOf, ArmOf]]:
    """Return the pairs of neighbouring versions, arm by arm, that have answers but share no case that counts."""
    arms = by_arm(scores)
    pairs = [
        ((before, *arm), (after, *arm))
        for arm in product(FORMATS, QUESTION_TYPES)
        for before, after in pairwise(versions)
    ]
    return [
        (first, second)
        for first, second in pairs
        if first in arms and second in arms and not share_cases(arms[first], arms[second])
    ]


_CorrectionOption = Annotated[Correction, "Correction over all tests that are printed."]
_DIFFERENCE = Columns("difference", n=None)


@metric(
    "pairs",
    "cases",
    "formats",
    "questions",
    "datasets",
    "specialties",
    "mcq_rule",
    empty="No model has answers in two such formats on the same cases.",
    starts=(CAMPAIGN,),
    compared=False,
    page="accuracy",
)
def report_pairs(
    request: MetricRequest,
    against: Annotated[
        Against,
        "vignette: each format with the vignette. all: every two formats. question: every two question types of a "
        "format, such as choices and free response. both: all and question in one family.",
    ] = "vignette",
    by: Annotated[
        AccuracySplit | None,
        "Split by specialty, dataset, or served: the model name that the provider reported. dermatology and single: "
        "dermatology cases by data set, all or those with one single diagnosis.",
    ] = None,
    whole: Annotated[bool, "With a split: also all cases together, in the same family."] = False,
    models: Annotated[str | None, "Only these models, with commas."] = None,
    test: Annotated[
        DifferenceTest,
        "sign_flip: exact, paired by case. paired_bootstrap: the paper's. unpaired_bootstrap: the preprint's, which "
        "resamples the two arms independently. Bootstraps have their own intervals.",
    ] = "sign_flip",
    correction: _CorrectionOption = "holm",
    published: Annotated[bool, "Add differences of published means that no condition here covers."] = False,
) -> Iterator[Row]:
    """Compare arms of the same model, case by case (second minus first); p is corrected over all rows.

    The rows of the tests of Johri et al. 2025: tables 2 and 5 (all), 3 (question), 7 and 9 (all, by specialty), 11 and
    13 (all, by dermatology), 15 and 17 (all, by single).
    """
    scores = scores_behind(request, by)
    if not published and not scores and not _scores(request):
        return
    if models is not None:
        selected = {condition for name in models.split(",") for condition in _conditions_named(name, scores)}
        scores = [score for score in scores if score.model in selected]
    groups = [None, group_of(by)] if whole and by else [group_of(by)]
    compared: list[Compared] = []
    counts: list[Counted | None] = []
    for group in groups:
        for pair in arm_pairs(scores, against, group, test=test):
            label = _pair_label(pair.model, pair.first, pair.second, against)
            if by:
                label[by] = (pair.group or UNKNOWN) if group else _ALL_CASES
            first, second = pair.names
            compared.append((label, pair.comparison, {"first": first, "second": second}))
            sides = (Side(pair.model, pair.first), Side(pair.model, pair.second))
            # trials of one case are split by served model
            counts.append(None if by == "served" else Counted(sides, by, (pair.group or "") if group else None))
    rows = difference_rows(compared, correction)
    yield from (replace(row, counts=of_row) for row, of_row in zip(rows, counts, strict=True))
    if published:
        covered = {published_label(row.label["model"]) for row in rows}
        anyones = replace(request.selection, origins=None)  # the filter on who made the runs is not about print
        printed = published_in(anyones, anyones.formats, by)
        yield from _printed_pairs([row for row in printed if row.label["model"] not in covered], against, by)
    if rows and (result := rows[0].comparison):
        request.note(f"p by the {TESTS[test]}, adjusted by {result.family}: all rows.", kind="test")


def _pair_label(model: str, first: Arm, second: Arm, against: Against) -> dict[str, Any]:
    of_formats = first[1] == second[1]
    part = 0 if of_formats else 1
    label: dict[str, Any] = {"model": model, "pair": f"{first[part]} → {second[part]}"}
    if against != "question":
        label["question_type"] = first[1] if of_formats else None
    if against in ("question", "both"):
        label["format"] = None if of_formats else first[0]
    return label


def _printed_pairs(printed: Iterable[Row], against: Against, by: AccuracySplit | None) -> Iterator[Row]:
    """Yield the differences of printed means; they have neither interval nor p, which need the cases."""
    means: dict[tuple[str, str | None], dict[Arm, Row]] = {}
    for row in printed:
        arms = means.setdefault((row.label["model"], row.label.get("group")), {})
        arms[row.label["format"], row.label["question_type"]] = row
    for (model, group), arms in means.items():
        for first, second in pairs_of(arms, against):
            before, after = arms[first], arms[second]
            label = _pair_label(model, first, second, against)
            if by:
                label[by] = group
            label |= {"first_mean": before.estimate, "second_mean": after.estimate}
            if before.estimate is not None and after.estimate is not None:
                change = float(changes(after.estimate, before.estimate))
                yield Row(label, change, columns=_DIFFERENCE, source=after.source)


_ALL_CASES = "All cases"
LOSSES = Section(
    "Lost from vignette to conversation",
    report_pairs,
    {"against": "vignette", "published": True},
    kind="dots",
    series="pair",
    place="model",
    axis="Difference",
    by_size=True,
    columns=(
        "model", "question_type", "specialty", "first_mean", "second_mean", "difference", "ci_low", "ci_high", "p",
        "p_adjusted", "n_cases",
    ),
    heads={"first_mean": "Vignette", "second_mean": "Conversation", "n_cases": "Cases"},
    words={"vignette → multi_turn": "Vignette → Multi-turn"},
    caption="Conversation minus vignette, paired by case, the largest loss first. Filled: adjusted p ≤ .05.",
    page="accuracy",
)  # fmt: skip
TESTED_PAIRS = Section(
    "Differences between formats and questions",
    report_pairs,
    kind="dots",
    series="model",
    place="pair",
    axis="Difference",
    columns=(
        "model", "question_type", "format", "specialty", "dataset", "dermatology", "single", "first", "second",
        "first_mean", "second_mean", "difference", "ci_low", "ci_high", "p", "p_adjusted", "n_cases", "n_first_only",
        "n_second_only", "n_changed",
    ),
    heads={
        "first_mean": "First: mean", "second_mean": "Second: mean", "n_first_only": "In the first only",
        "n_second_only": "In the second only", "n_changed": "Changed cases",
        "dermatology": "Dermatology of", "single": "Dermatology of",
    },
    caption="Second minus first, on the cases that count in both; filled: adjusted p ≤ .05.",
    page="compare",
)  # fmt: skip


@metric(
    "monitor", "cases", "mcq_rule", empty="These versions have no format in common.", page="compare", starts=(CAMPAIGN,)
)
def report_monitor(
    request: MetricRequest,
    versions: Annotated[
        str, "Versions in order, with commas, such as mistral_v1_7b,mistral_v2_7b; by default the selected conditions."
    ] = "",
    by: By = None,
    correction: _CorrectionOption = "holm",
) -> Iterator[Row]:
    """Compare each version of a model with the previous one, arm by arm, paired by case.

    By served, the versions are the model names that the provider reported, in the order in which they were first seen:
    one model is enough.
    """
    scores = _scores(request, by)
    named = versions.split(",") if versions else request.selection.conditions or ()
    conditions_of = [_conditions_named(name, scores) for name in named]
    served = by == "served"
    if served:
        with request.store.read() as cursor:
            since = served_since(cursor, request.selection)
        scores, behind = served_versions(scores, [name for names in conditions_of for name in names], since)
        if len(behind) < 2:
            raise UsageError(f"{', '.join(named)} was served under one name only, so there are no two versions.")
        order, by = list(behind), None
        compared = [name for names in behind.values() for name in names]
    else:
        for newest, *others in (names for names in conditions_of if len(names) > 1):
            request.note(f"The newest condition is compared: {newest}. Others can be named: {'; '.join(others)}.")
        if len(conditions_of) < 2:
            raise UsageError("--versions needs at least two versions, the oldest first.")
        order = compared = [names[0] for names in conditions_of]
        if same := next((first for first, second in pairwise(order) if first == second), None):
            raise UsageError(f"{same} is compared with itself: name two versions.")
    request.conditions = compared
    unshared: dict[tuple[str, str], list[str]] = {}
    for (before, format_, question_type), (after, _, _) in without_shared_cases(scores, order):
        unshared.setdefault((before, after), []).append(f"{format_}:{question_type}")
    sentences = [
        f"{request.name(before)} and {request.name(after)} share no case that counts in {', '.join(arms)}: they are "
        "not compared there."
        for (before, after), arms in unshared.items()
    ]
    compared_steps = steps(scores, order, by)
    if sentences and not compared_steps:
        raise AnamnesisError(" ".join(sentences))
    for sentence in sentences:
        request.note(sentence)
    for row in difference_rows(compared_steps, correction, judged=True):
        label = row.label
        first, second = (Side(label[side], (label["format"], label["question_type"])) for side in ("first", "second"))
        group = label[by] if by else None
        counts = Counted((first, second), by, "" if group == UNKNOWN else group)
        yield row if served else replace(row, counts=counts)  # served models split the trials of one case
    _note_what_differs(request, list(dict.fromkeys(compared)))


def served_versions(
    scores: Iterable[CaseScore], models: Sequence[str], since: Mapping[tuple[str, str | None], float]
) -> tuple[list[CaseScore], dict[str, list[str]]]:
    """Return scores by served model, and the name of each served model → its conditions.

    ``scores`` are split by served model. Conditions that differ in nothing but the served model are merged. Served
    models are in the order in which they were first seen: ``since`` is (condition, served model) → time.
    """
    selected = [score for score in scores if score.model in models]
    names = {key: _as_served(*key) for key in {(score.model, score.served) for score in selected}}
    first: dict[str, float] = {}
    behind: dict[str, list[str]] = {}
    for key in sorted(names, key=lambda key: models.index(key[0])):
        name = names[key]
        first[name] = min(first.get(name, float("inf")), since.get(key, float("inf")))
        behind.setdefault(name, []).append(key[0])
    merged: dict[tuple[str, Format, QuestionType, str], CaseScore] = {}
    for score in selected:
        renamed = score._replace(model=names[score.model, score.served])
        other = merged.get(renamed[:4])
        merged[renamed[:4]] = renamed if other is None else _sum_of(other, renamed)
    return list(merged.values()), {name: behind[name] for name in sorted(behind, key=lambda n: (first[n], n))}


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


def _note_what_differs(request: MetricRequest, names: Sequence[str]) -> None:
    """Note whose verdicts count on each side, and the differences between neighbouring sides other than the doctor."""
    behind = {condition.name: condition for condition in conditions(request.store, request.selection)}
    with request.store.read() as cursor:
        runs = run_records(cursor, [run_id for name in names for run_id in behind[name].runs])
    sides = {name: side_of(behind[name], runs) for name in names}
    judged_by = zip(names, graders(list(sides.values())), strict=True)
    named = (f"{request.name(name)}: {request.name(grader)}" for name, grader in judged_by)
    request.note(f"Graders whose verdicts count: {'; '.join(named)}.")
    for first, second in pairwise(names):
        settings = differing(settings_side_by_side([sides[first], sides[second]]))
        if settings:
            words = "; ".join(f"{each.name}: {' against '.join(map(request.name, each.values))}" for each in settings)
            sides_named = " and ".join(map(request.name, (first, second)))
            request.note(f"What else differs between {sides_named}: {words}.")


def _scores(request: MetricRequest, by: Group | None = None) -> list[CaseScore]:
    scores = request.read(read_scores, request.selection, request.selection.mcq_rule, by_served=by == "served")
    if not scores:
        raise AnamnesisError("There is nothing to report yet: run a campaign, or import the authors' release.")
    return scores


def _conditions_named(name: str, scores: Sequence[CaseScore]) -> list[str]:
    """Return the conditions of a name, the newest first: the condition of this name, or all of a model or alias."""
    stored = dict.fromkeys(score.model for score in scores)
    plain = name.strip()
    full = {alias.lower(): target for alias, target in load_registry().aliases.items()}.get(plain.lower(), plain)
    if plain in stored:
        return [plain]
    matching = [condition for condition in stored if doctor_of(condition) in (plain, full)]
    if not matching:
        raise UsageError(f"There are no stored answers of {plain!r}; there are answers of {', '.join(sorted(stored))}.")
    return matching
