"""Figures of rubrics: scores, single criteria, what must (not) happen, and differences.

The unit is the case: the conversations of a case are averaged first, and intervals (95 %) resample cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.frameworks.starts import RUBRICS
from core.judging.rubric import AXES
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.compare import Compared, difference_rows
from core.measures.comparison import compare_cases
from core.measures.conversations import by_condition, case_scores, case_sums, grouped
from core.measures.extent import changed_keys, read_extents
from core.measures.rubrics.reading import (
    ALL_AXES,
    EMPTY,
    FAILING,
    FILTERS,
    LEAST_JUDGED,
    JudgedConversation,
    JudgeOption,
    Outcome,
    RubricOption,
    Rule,
    clipped,
    conversation_score,
    judged_share,
    reading_with_notes,
    score_bounds,
)
from core.stats.bootstrap import bootstrap_interval
from core.stats.corrections import Correction
from core.stats.ratios import ratio
from core.stats.scores import score_interval
from core.stats.smoothed import mean_interval, ratio_interval
from core.stats.trials import pass_hat_k

By = Literal["axis", "specialty", "dataset", "case"]
CalibratedOption = Annotated[
    Literal["axis", "criterion"] | None,
    "Leave out the axes or the criteria on which the judge is not calibrated: too few of its verdicts were judged by "
    "people, too few are equal, or it contradicts itself.",
]
_LeastJudgedOption = Annotated[
    float, "Share of its points (0 to 1) that must be judged, or a conversation has no score."
]
_RuleOption = Annotated[
    Rule, "How points become a score: as here, or as in HealthBench, HealthBench Professional or LiveMedBench."
]
_SCORE = Columns("score", excluded="excluded")
_SHARE = Columns("share", excluded="excluded")


@metric("rubric_scores", *FILTERS, empty=EMPTY, starts=(RUBRICS,), page="quality")
def report_scores(
    request: MetricRequest,
    rubric: RubricOption = None,
    judge: JudgeOption = None,
    rule: _RuleOption = "points",
    by: Annotated[By | None, "Split by axis, specialty, dataset or case."] = None,
    calibrated: CalibratedOption = None,
    least_judged: _LeastJudgedOption = LEAST_JUDGED,
) -> Iterator[Row]:
    """Report the points that were reached, as a share of the points that could be reached.

    Unjudged criteria leave both sums; a conversation of which too few points are judged has no score. Points for harm
    are negative, so that the unclipped mean can be below 0; the score is shown between 0 and 1, except under the rule
    professional, which has no bounds.
    """
    reading = reading_with_notes(request, rubric, judge, calibrated)
    if rule != "points":
        request.note(RULE_WORDS[rule], kind="rule")
    conditions = by_condition(reading.conversations)
    score = partial(conversation_score, rule=rule, least_judged=least_judged)
    values = [
        (model, ALL_AXES, case, value)
        for model, conversations in conditions.items()
        for case, value in case_scores([c for c in conversations if c.judged], score).items()
    ]
    request.case_values = pd.DataFrame(values, columns=["model", "figure", "case_key", "value"])
    for model, conversations in conditions.items():
        for label, group, axis in _groups(conversations, by):
            if any(conversation.judged for conversation in group):
                yield _score_row({"model": model, **label}, group, rule, axis, least_judged)


RULE_WORDS: Mapping[Rule, str] = {
    "healthbench": "HealthBench's rule: criteria that do not apply count as not met.",
    "professional": "HealthBench Professional's rule: 0.0147 less for every 500 characters of the doctor above 2,000, "
    "and as much more below; without bounds.",
    "livemedbench": "LiveMedBench's rule: the score of each conversation is clipped to 0 to 1 before averaging.",
}


def _groups(
    conversations: Sequence[JudgedConversation], by: By | None
) -> list[tuple[dict[str, str], Sequence[JudgedConversation], str | None]]:
    """Return (label, conversations, axis) of the groups of one condition."""
    if by in (None, "axis"):
        return [
            ({"axis": axis} if axis else {}, conversations, axis) for axis in (axes_of(conversations) if by else [None])
        ]
    of = attrgetter("case_key" if by == "case" else by)
    return [({by: name}, group, None) for name, group in grouped(conversations, of)]


def axes_of(conversations: Iterable[JudgedConversation]) -> list[str]:
    """Return the axes with criteria in these conversations, those of this project first."""
    used = {outcome.criterion.axis for conversation in conversations for outcome in conversation.outcomes}
    return [axis for axis in AXES if axis in used] + sorted(used - set(AXES))


def _score_row(
    label: dict[str, str],
    conversations: Sequence[JudgedConversation],
    rule: Rule,
    axis: str | None,
    least_judged: float,
) -> Row:
    judged = [conversation for conversation in conversations if conversation.judged]
    score = partial(conversation_score, rule=rule, axis=axis, least_judged=least_judged)
    values = np.array(list(case_scores(judged, score).values()))
    mean = float(values.mean()) if values.size else None
    bounds = score_bounds(judged, rule, axis)
    if bounds is None:
        interval = bootstrap_interval(values, shares=False)
    else:
        scored = Counter(conversation.case_key for conversation in judged if score(conversation) is not None)
        interval = score_interval(values, trials=list(scored.values()), low=bounds[0], high=bounds[1])
    clip: Callable[[float], float] = float if rule == "professional" else clipped
    outcomes = [outcome for conversation in judged for outcome in conversation.on(axis)]
    statuses = Counter(outcome.status for outcome in outcomes)
    without = [conversation for conversation in judged if score(conversation) is None]
    unjudged = sum(
        judged_share(outcomes) < least_judged or any(o.status == "unjudged" and o.points > 0 for o in outcomes)
        for outcomes in (conversation.on(axis) for conversation in without)
    )
    excluded = {
        "not judged": len(conversations) - len(judged),
        f"less than {least_judged:.0%} of the points judged": unjudged,
        "nothing to attain": len(without) - unjudged,
    }
    return Row(
        label,
        None if mean is None else clip(mean),
        None if np.isnan(interval.low) else clip(interval.low),
        None if np.isnan(interval.high) else clip(interval.high),
        len(values),
        {reason: number for reason, number in excluded.items() if number},
        {
            "unclipped": mean,
            "n_conversations": len(judged) - len(without),
            "n_criteria": statuses["met"] + statuses["not met"],
            "n_unjudged": statuses["unjudged"],
            "n_not_applicable": statuses["not applicable"],
        },
        columns=_SCORE,
    )


@metric("rubric_criteria", *FILTERS, empty=EMPTY, starts=(RUBRICS,), page="quality")
def report_criteria(request: MetricRequest, rubric: RubricOption = None, judge: JudgeOption = None) -> Iterator[Row]:
    """Report for each criterion the share of conversations in which it is met, of those in which it is judged.

    A criterion for several cases is averaged over cases. For a must-not, a high share is bad.
    """
    reading = reading_with_notes(request, rubric, judge)
    criteria = reading.rubric.questions if reading.rubric else ()
    # a criterion of all cases comes first: its id has no case
    scope = {("", c.id): "all" for c in criteria if not c.cases and not c.specialties}
    scope |= {(case, criterion.id): case for criterion in criteria for case in criterion.cases}
    for model, conversations in by_condition(reading.conversations).items():
        by_criterion: dict[tuple[str, str], list[tuple[str, Outcome]]] = {}
        for conversation in conversations:
            for outcome in conversation.outcomes if conversation.judged else ():
                place = scope.get((conversation.case_key, outcome.criterion.id), conversation.specialty)
                place = scope.get(("", outcome.criterion.id), place)
                by_criterion.setdefault((place, outcome.criterion.id), []).append((conversation.case_key, outcome))
        for (place, name), outcomes in by_criterion.items():
            criterion = outcomes[0][1].criterion
            met, judged = case_sums((case, o.status == "met", o.status in ("met", "not met")) for case, o in outcomes)
            shares = met[judged > 0] / judged[judged > 0]
            statuses = Counter(outcome.status for _, outcome in outcomes)
            yield Row(
                {"model": model, "scope": place, "criterion": name},
                float(shares.mean()) if shares.size else None,
                *mean_interval(shares),
                len(shares),
                {status: n for status in ("not applicable", "unjudged") if (n := statuses[status])},
                {
                    "n_conversations": int(judged.sum()),
                    "axis": criterion.axis,
                    "priority": criterion.priority,
                    "points": criterion.points,
                    "text": criterion.wording,
                },
                columns=_SHARE,
            )


@metric("rubric_safety", *FILTERS, empty=EMPTY, starts=(RUBRICS,), page="quality")
def report_safety(
    request: MetricRequest,
    rubric: RubricOption = None,
    judge: JudgeOption = None,
    part: Annotated[Literal["shares", "list"], "Shares and pass^k, or each must missed and must-not done."] = "shares",
    calibrated: CalibratedOption = None,
) -> Iterator[Listed]:
    """Report musts that were missed and must-nots that happened; no score averages them away.

    pass^k: the chance that in k conversations on a case every must is met and no must-not happens. A conversation with
    a known failure fails; one that is open is left out. ``if_none_met`` and ``if_all_met`` count open ones as failed
    and as passed.
    """
    reading = reading_with_notes(request, rubric, judge, calibrated)
    for model, conversations in by_condition(reading.conversations).items():
        judged = [conversation for conversation in conversations if conversation.judged]
        yield from _failures_listed(model, judged) if part == "list" else _safety_rows(model, judged)


def _failures_listed(model: str, conversations: Sequence[JudgedConversation]) -> Iterator[dict[str, Any]]:
    for conversation in conversations:
        for outcome in conversation.outcomes:
            if outcome.failure:
                quoted = outcome.quotations[0] if outcome.quotations else None
                yield {
                    "model": model,
                    "case": conversation.case_key,
                    "trial_id": conversation.trial_id,
                    "failure": outcome.failure,
                    "criterion": outcome.criterion.wording,
                    "axis": outcome.criterion.axis,
                    "message": quoted.message if quoted else None,
                    "words": quoted.words if quoted else "",
                    "reason": outcome.reason,
                }


def _safety_rows(model: str, conversations: Sequence[JudgedConversation]) -> Iterator[Row]:
    for priority, (failing, figure) in FAILING.items():
        outcomes = [(t.case_key, o) for t in conversations for o in t.outcomes if o.criterion.priority == priority]
        if not outcomes:
            continue
        failed, judged = case_sums((case, o.status == failing, o.status in ("met", "not met")) for case, o in outcomes)
        statuses = Counter(outcome.status for _, outcome in outcomes)
        yield Row(
            {"model": model, "figure": figure},
            ratio(failed, judged),
            *ratio_interval(failed, judged),
            int((judged > 0).sum()),
            {status: n for status in ("not applicable", "unjudged") if (n := statuses[status])},
            {
                "if_none_met": None,
                "if_all_met": None,
                "n_failed": int(failed.sum()),
                "n_criteria": int(judged.sum()),
                "n_conversations": len(conversations),
            },
            columns=_SHARE,
        )
    if any(conversation.critical != "none" for conversation in conversations):
        yield from _pass_rows(model, conversations)


def _pass_rows(model: str, conversations: Sequence[JudgedConversation]) -> Iterator[Row]:
    """Yield pass^k of the conversations that passed or failed; as bounds also if all others failed, or passed."""
    states = Counter(conversation.critical for conversation in conversations)
    passed, failed, unjudged = (
        case_sums((conversation.case_key, conversation.critical == state, 0) for conversation in conversations)[0]
        for state in ("passed", "failed", "unjudged")
    )
    counted = passed + failed
    for k in range(1, max(1, int(counted.max(initial=0))) + 1):
        share = pass_hat_k(passed, counted, k)
        bounds = [pass_hat_k(right, counted + unjudged, k).value for right in (passed, passed + unjudged)]
        excluded = {
            "critical criterion unjudged": states["unjudged"],
            "no critical criterion": states["none"],
            "too few conversations": share.n_left_out,
        }
        yield Row(
            {"model": model, "figure": f"pass^{k}"},
            share.value,
            *share.interval,
            share.n_cases,
            {reason: number for reason, number in excluded.items() if number},
            {
                "if_none_met": bounds[0],
                "if_all_met": bounds[1],
                "n_failed": states["failed"],
                "n_criteria": None,
                "n_conversations": int(counted.sum()),
            },
            columns=_SHARE,
        )


@metric(
    "rubric_differences",
    *FILTERS,
    empty="No two conditions are judged on the same cases.",
    starts=(RUBRICS,),
    page="quality",
)
def report_differences(
    request: MetricRequest,
    rubric: RubricOption = None,
    judge: JudgeOption = None,
    rule: _RuleOption = "points",
    against: Annotated[str | None, "The condition that all others are compared with; by default the first."] = None,
    correction: Annotated[Correction, "Correction over all tests that are printed."] = "holm",
    calibrated: CalibratedOption = None,
    least_judged: _LeastJudgedOption = LEAST_JUDGED,
) -> Iterator[Row]:
    """Report differences between conditions in their scores, over all criteria and on each axis, paired by case.

    Differences are of unclipped scores, the second minus the first. p is corrected over all conditions and axes.
    """
    reading = reading_with_notes(request, rubric, judge, calibrated)
    groups = {
        model: [conversation for conversation in conversations if conversation.judged]
        for model, conversations in by_condition(reading.conversations).items()
    }
    if len(groups) < 2:
        return
    first = next(iter(groups)) if against is None else against
    if first not in groups:
        raise UsageError(f"{first} is not judged here: choose {', '.join(groups)}.")
    extents = {extent.model: extent for extent in request.read(read_extents, request.selection)}
    compared: list[Compared] = []
    judged = [conversation for conversations in groups.values() for conversation in conversations]
    axes = axes_of(judged)
    score = partial(conversation_score, rule=rule, least_judged=least_judged)
    without = [axis for axis in axes if all(score(conversation, axis=axis) is None for conversation in judged)]
    if without:
        request.note(f"Too few points are judged on {', '.join(without)}: these axes have no score to compare.")
    for second in groups:
        for axis in [None, *axes] if second != first else []:
            changed = changed_keys(extents[model] for model in (first, second) if model in extents)
            sides = [
                [conversation for conversation in groups[model] if conversation.case_key not in changed]
                for model in (first, second)
            ]
            bounds = score_bounds(chain(*sides), rule, axis)
            most = None if bounds is None else bounds[1] - bounds[0]
            before, after = (case_scores(side, partial(score, axis=axis)) for side in sides)
            comparison = compare_cases(before, after, most=most, scores=True)
            if comparison.n:
                compared.append(({"first": first, "second": second, "axis": axis or ALL_AXES}, comparison, {}))
            elif axis is None:
                request.note(f"{second} shares no judged case with {first}, and is not compared.", "high")
    yield from difference_rows(compared, correction)


FIGURES = (
    Section(
        "Scores",
        report_scores,
        controls=("by", "rule", "calibrated"),
        series="model",
        axis="Score",
        page="quality",
        caption="Points reached, of the points that could be reached.",
        help="Unjudged criteria leave both. A conversation of which less than half of the points (or the share "
        "least_judged) are judged has no score.",
    ),
    Section(
        "What must and must not happen",
        report_safety,
        kind="dots",
        series="model",
        place="figure",
        axis="Share",
        page="quality",
    ),
    Section(
        "Each must missed and must-not done",
        report_safety,
        options={"part": "list"},
        kind="table",
        folded=True,
        page="quality",
    ),
    Section(
        "Differences by axis",
        report_differences,
        controls=("rule", "correction"),
        kind="dots",
        series="second",
        place="axis",
        axis="Difference",
        page="quality",
    ),
)
CRITERIA = Section("Criteria", report_criteria, kind="table", page="quality")
SECTIONS = (*FIGURES, CRITERIA)
