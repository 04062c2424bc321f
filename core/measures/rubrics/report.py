"""Figures of rubrics: scores, single criteria, what must (not) happen, and differences.

The unit is the case: the conversations of a case are averaged first, and intervals (95 %) resample cases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.frameworks.casting import is_model
from core.frameworks.starts import RUBRICS
from core.judging.calibration import (
    JudgedStatement,
    Status,
    Trust,
    agreement_with_experts,
    differing_errors,
    in_words,
    status_of,
)
from core.measures.base import Columns, Comparison, Listed, MetricRequest, Row, Section, Severity, metric
from core.measures.compare import Compared, difference_rows
from core.measures.comparison import compare_cases
from core.measures.extent import changed_keys, read_extents
from core.measures.rubrics.labels import expert_verdicts, labelled_statements
from core.measures.rubrics.rubric import AXES, Rubric
from core.measures.rubrics.rule_judge import RULE_JUDGE, RULE_JUDGE_IN_WORDS
from core.measures.rubrics.scores import (
    LEAST_JUDGED,
    NOT_CALIBRATED,
    PANEL,
    JudgedConversation,
    Outcome,
    Rule,
    case_scores,
    chosen_judges,
    clipped,
    conversation_score,
    judged_conversations,
    judged_share,
    judges_in,
    of_judges,
    outcomes_on,
    score_bounds,
    unjudged_counts,
)
from core.measures.rubrics.stored import LIBRARY, rubric_named
from core.models.registry import load_registry
from core.stats.bootstrap import bootstrap_interval
from core.stats.corrections import Correction
from core.stats.ratios import ratio
from core.stats.scores import score_interval
from core.stats.smoothed import mean_interval, ratio_interval
from core.stats.trials import pass_hat_k
from core.store.database import Store
from core.store.queries.rubric_judgements import (
    CANNOT_BE_JUDGED,
    RubricJudge,
    rubric_conversations,
    rubric_verdicts,
    unjudgeable_conversations,
)
from core.store.selection import Selection

By = Literal["axis", "specialty", "dataset", "case"]
FILTERS: tuple[Any, ...] = ("run", "models", "source", "cases", "datasets", "specialties", "sample")
EMPTY = "No conversation is judged by this rubric."
RubricOption = Annotated[str | None, "Name of the rubric; by default the one that was judged last."]
JudgeOption = Annotated[
    str | None, f"The judge whose verdicts count; by default the last. {PANEL}: the majority of all judges."
]
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
ALL_AXES = "all axes"
_SCORE = Columns("score", excluded="excluded")
_SHARE = Columns("share", excluded="excluded")


class RubricReading(NamedTuple):
    """The conversations with the outcomes of their criteria, the rubric, and the judges by name."""

    conversations: list[JudgedConversation]
    rubric: Rubric | None
    judges: Mapping[str, RubricJudge]
    verdicts: pd.DataFrame
    unjudgeable: Counter[str] = Counter()
    """End of a conversation → number of conversations on cases of the rubric that no rubric judges."""

    def by_condition(self) -> dict[str, list[JudgedConversation]]:
        groups: dict[str, list[JudgedConversation]] = {}
        for conversation in self.conversations:
            groups.setdefault(conversation.model, []).append(conversation)
        return {
            model: conversations
            for model, conversations in groups.items()
            if any(conversation.judged for conversation in conversations)
        }


def read_rubric_outcomes(
    store: Store, selection: Selection, rubric: str | None = None, judge: str | None = None
) -> RubricReading:
    """Read the outcomes of a selection; see the options of the metrics. Raises ``UsageError`` for unknown names."""
    with store.read() as cursor:
        conversations = rubric_conversations(cursor, selection)
        verdicts = rubric_verdicts(cursor, selection)
        unjudgeable = unjudgeable_conversations(cursor, selection)
    if verdicts.empty and rubric is None:
        return RubricReading([], None, {}, verdicts)
    name = rubric or (LIBRARY if verdicts.empty else str(verdicts["rubric"].iloc[-1]))
    content = rubric_named(store, name)
    hashes = {scoped.criterion.hash for scoped in content.scoped()}
    verdicts = verdicts[verdicts["criterion_hash"].isin(hashes)]
    judges = chosen_judges(judges_in(verdicts), judge)
    judged = judged_conversations(conversations, verdicts, content, list(judges.values()))
    ends = Counter(end for _, case, specialty, end in unjudgeable if content.criteria_for(case, specialty))
    return RubricReading(judged, content, judges, verdicts, ends)


def reading_with_notes(
    request: MetricRequest,
    rubric: str | None,
    judge: str | None,
    calibrated: Literal["axis", "criterion"] | None = None,
) -> RubricReading:
    """Read the outcomes, and note who judged, how far to trust it, and what is unjudged."""
    reading = request.read(read_rubric_outcomes, request.selection, rubric, judge)
    content = reading.rubric
    if content is None or not reading.judges:
        return reading
    note_judges(request, reading)
    if calibrated is not None:
        reading = _only_calibrated(request, reading, by_criterion=calibrated == "criterion")
    judged = [conversation for conversation in reading.conversations if conversation.judged]
    outcomes = [outcome for conversation in judged for outcome in conversation.outcomes]
    unjudged = unjudged_counts(judged)
    if total := sum(unjudged.values()):
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in unjudged.most_common())
        share = total / len(outcomes)
        request.note(
            f"{total:,} of {len(outcomes):,} criteria ({share:.0%}) are unjudged and enter no figure: {reasons}.",
            "high" if share > 0.1 else "low",
            kind="unjudged",
        )
    if waiting := len(reading.conversations) - len(judged):
        request.note(f"{waiting:,} conversations are not judged yet and enter no figure.", kind="unjudged")
    if reading.unjudgeable:
        reasons = ", ".join(f"{end.replace('_', ' ')} {n:,}" for end, n in reading.unjudgeable.most_common())
        request.note(
            f"{reading.unjudgeable.total():,} conversations cannot be judged and enter no figure: {reasons}.",
            kind="unjudged",
        )
    own = reading.verdicts[of_judges(reading.verdicts, list(reading.judges.values()))]
    versions = [version[:8] for version in own["rubric_hash"].unique()]
    judged_under = "" if versions == [content.hash[:8]] else f", judged under {', '.join(versions)}"
    request.note(f"Rubric {content.name}, version {content.hash[:8]}{judged_under}.", kind="rubric")
    return reading


def _only_calibrated(request: MetricRequest, reading: RubricReading, *, by_criterion: bool) -> RubricReading:
    """Return the reading with outcomes as unjudged if the judges are not calibrated on their criterion or axis."""
    assert reading.rubric is not None
    experts = request.read(expert_verdicts, reading.rubric.name)
    groups: dict[str, list[JudgedStatement]] = defaultdict(list)
    for labelled in labelled_statements(reading.conversations, experts):
        groups[labelled.criterion if by_criterion else labelled.axis].append(labelled.statement)
    own = reading.verdicts[of_judges(reading.verdicts, list(reading.judges.values()))]
    axes = {scoped.criterion.hash: scoped.criterion.axis for scoped in reading.rubric.scoped()}
    repeated = consistency(own, {} if by_criterion else axes)
    calibrated = set()
    for group, items in groups.items():
        measured = agreement_with_experts(items)
        if status_of(measured.n, measured.share, Trust(), repeated.get(group), measured.of_each) == "calibrated":
            calibrated.add(group)

    def outcome_of(outcome: Outcome) -> Outcome:
        group = outcome.criterion.hash if by_criterion else outcome.criterion.axis
        trusted = group in calibrated or outcome.status == "unjudged"
        return outcome if trusted else Outcome(outcome.criterion, "unjudged", NOT_CALIBRATED)

    conversations = [
        replace(conversation, outcomes=tuple(map(outcome_of, conversation.outcomes)))
        for conversation in reading.conversations
    ]
    return reading._replace(conversations=conversations)


def note_judges(request: MetricRequest, reading: RubricReading) -> None:
    """Note the judges, their lack of calibration, and doctors of the same maker as their judge."""
    names = ", ".join(
        name if judge.model == RULE_JUDGE else f"{name} (prompts {judge.prompt_hash[:6]})"
        for name, judge in reading.judges.items()
    )
    who = f"The majority of {names} judged" if len(reading.judges) > 1 else f"{names} judged"
    status, words = judge_status(request, reading)
    severity: Severity = "low" if status == "calibrated" else "high"
    request.note(f"{who}; {words}.", severity, kind="judge", page="judges")
    for text, differing in differing_errors(statements_by_condition(request, reading)):
        request.note(text, differing, kind="judge", page="judges")
    if any(judge.model == RULE_JUDGE for judge in reading.judges.values()):
        request.note(f"{RULE_JUDGE}: {RULE_JUDGE_IN_WORDS}", "high", kind="judge")
    others = [name for name in judges_in(reading.verdicts) if name not in reading.judges]
    if others:
        request.note(f"Also judged by {', '.join(others)}, not shown here.", kind="judge")
    registry = load_registry()
    makers = {registry.maker(judge.model) for judge in reading.judges.values()}
    doctors = sorted({conversation.doctor for conversation in reading.conversations if is_model(conversation.doctor)})
    if same := [doctor for doctor in doctors if registry.maker(doctor) in makers]:
        request.note(
            f"The judge is of the same maker as {', '.join(same)}, and may prefer its style.", "high", kind="judge"
        )


def judge_status(request: MetricRequest, reading: RubricReading) -> tuple[Status, str]:
    """Return the status of the judges whose verdicts count, together, and what it rests on."""
    by_condition = statements_by_condition(request, reading)
    measured = agreement_with_experts(chain.from_iterable(by_condition.values()))
    status = status_of(measured.n, measured.share, Trust(), of_each=measured.of_each)
    return status, in_words(status, measured)


def statements_by_condition(request: MetricRequest, reading: RubricReading) -> dict[str, list[JudgedStatement]]:
    """Return condition → the verdicts met and not met, with those of experts on a part of them."""
    assert reading.rubric is not None
    by_condition: dict[str, list[JudgedStatement]] = defaultdict(list)
    for labelled in labelled_statements(reading.conversations, request.read(expert_verdicts, reading.rubric.name)):
        by_condition[labelled.model].append(labelled.statement)
    return dict(by_condition)


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
    by_condition = reading.by_condition()
    score = partial(conversation_score, rule=rule, least_judged=least_judged)
    request.case_values = _case_values(by_condition, score)
    for model, conversations in by_condition.items():
        for label, group, axis in _groups(conversations, by):
            if any(conversation.judged for conversation in group):
                yield _score_row({"model": model, **label}, group, rule, axis, least_judged)


def _case_values(
    by_condition: Mapping[str, Sequence[JudgedConversation]], of: Callable[[JudgedConversation], float | None]
) -> pd.DataFrame:
    """Return the scores of cases over all criteria as ``MetricRequest.case_values``."""
    rows = [
        (model, ALL_AXES, case, score)
        for model, conversations in by_condition.items()
        for case, score in case_scores([c for c in conversations if c.judged], of).items()
    ]
    return pd.DataFrame(rows, columns=["model", "figure", "case_key", "value"])


RULE_WORDS: Mapping[Rule, str] = {
    "healthbench": "HealthBench's rule: criteria that do not apply count as not met.",
    "professional": "HealthBench Professional's rule: 0.0147 less for every 500 characters of the doctor above 2,000, "
    "and as much more below; without bounds.",
    "livemedbench": "LiveMedBench's rule: the score of each conversation is clipped to 0 to 1 before averaging.",
}


def _groups(
    conversations: Sequence[JudgedConversation], by: By | None
) -> Iterator[tuple[dict[str, str], Sequence[JudgedConversation], str | None]]:
    """Yield (label, conversations, axis) of the groups of one condition."""
    if by is None:
        yield {}, conversations, None
    elif by == "axis":
        yield from (({"axis": axis}, conversations, axis) for axis in axes_of(conversations))
    else:
        groups: dict[str, list[JudgedConversation]] = defaultdict(list)
        for conversation in conversations:
            groups[conversation.case_key if by == "case" else getattr(conversation, by) or "unknown"].append(
                conversation
            )
        for name in sorted(groups):
            yield {by: name}, groups[name], None


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
    outcomes = [outcome for conversation in judged for outcome in outcomes_on(conversation, axis)]
    statuses = Counter(outcome.status for outcome in outcomes)
    without = [conversation for conversation in judged if score(conversation) is None]
    unjudged = sum(
        judged_share(outcomes) < least_judged
        or any(o.status == "unjudged" and o.criterion.points > 0 for o in outcomes)
        for outcomes in (outcomes_on(conversation, axis) for conversation in without)
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
    scope = {} if reading.rubric is None else _scopes(reading.rubric)
    for model, conversations in reading.by_condition().items():
        by_criterion: dict[tuple[str, str], list[tuple[str, Outcome]]] = {}
        for conversation in conversations:
            for outcome in conversation.outcomes if conversation.judged else ():
                place = scope.get((conversation.case_key, outcome.criterion.id), conversation.specialty)
                place = scope.get(("", outcome.criterion.id), place)
                by_criterion.setdefault((place, outcome.criterion.id), []).append((conversation.case_key, outcome))
        for (place, name), outcomes in by_criterion.items():
            criterion = outcomes[0][1].criterion
            met, judged = by_case((case, o.status == "met", o.status in ("met", "not met")) for case, o in outcomes)
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
                    "text": criterion.criterion,
                },
                columns=_SHARE,
            )


def _scopes(rubric: Rubric) -> dict[tuple[str, str], str]:
    """Return (case key, id) → case key, and ("", id) → "all" for criteria of all cases."""
    scopes = {(scoped.name, scoped.criterion.id): scoped.name for scoped in rubric.scoped() if scoped.kind == "case"}
    return scopes | {("", criterion.id): "all" for criterion in rubric.all}


def by_case(items: Iterable[tuple[str, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each case the sums of the two numbers of its items."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for case_key, first, second in items:
        sums[case_key][0] += first
        sums[case_key][1] += second
    table = np.array(list(sums.values()), dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


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
    for model, conversations in reading.by_condition().items():
        judged = [conversation for conversation in conversations if conversation.judged]
        yield from _failures_listed(model, judged) if part == "list" else _safety_rows(model, judged)


def _failures_listed(model: str, conversations: Sequence[JudgedConversation]) -> Iterator[dict[str, Any]]:
    for conversation in conversations:
        for outcome in conversation.outcomes:
            if outcome.missed or outcome.done:
                quoted = outcome.quotations[0] if outcome.quotations else None
                yield {
                    "model": model,
                    "case": conversation.case_key,
                    "trial_id": conversation.trial_id,
                    "failure": "must missed" if outcome.missed else "must-not done",
                    "criterion": outcome.criterion.criterion,
                    "axis": outcome.criterion.axis,
                    "message": quoted.message if quoted else None,
                    "words": quoted.words if quoted else "",
                    "reason": outcome.reason,
                }


def _safety_rows(model: str, conversations: Sequence[JudgedConversation]) -> Iterator[Row]:
    for figure, priority, failing in (("must missed", "must", "not met"), ("must-not done", "must not", "met")):
        outcomes = [(t.case_key, o) for t in conversations for o in t.outcomes if o.criterion.priority == priority]
        if not outcomes:
            continue
        failed, judged = by_case((case, o.status == failing, o.status in ("met", "not met")) for case, o in outcomes)
        statuses = Counter(outcome.status for _, outcome in outcomes)
        yield Row(
            {"model": model, "figure": figure},
            ratio(failed, judged) if judged.any() else None,
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
        by_case((conversation.case_key, conversation.critical == state, 0) for conversation in conversations)[0]
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
            None if np.isnan(share.value) else share.value,
            *share.interval,
            share.n_cases,
            {reason: number for reason, number in excluded.items() if number},
            {
                "if_none_met": None if np.isnan(bounds[0]) else bounds[0],
                "if_all_met": None if np.isnan(bounds[1]) else bounds[1],
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
    groups = {
        model: [conversation for conversation in conversations if conversation.judged]
        for model, conversations in reading_with_notes(request, rubric, judge, calibrated).by_condition().items()
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
            before, after = (
                [conversation for conversation in groups[model] if conversation.case_key not in changed]
                for model in (first, second)
            )
            comparison = _compared(before, after, rule, axis, least_judged)
            if comparison.n:
                compared.append(({"first": first, "second": second, "axis": axis or ALL_AXES}, comparison, {}))
            elif axis is None:
                request.note(f"{second} shares no judged case with {first}, and is not compared.", "high")
    yield from difference_rows(compared, correction)


def _compared(
    first: Sequence[JudgedConversation],
    second: Sequence[JudgedConversation],
    rule: Rule,
    axis: str | None,
    least_judged: float,
) -> Comparison:
    score = partial(conversation_score, rule=rule, axis=axis, least_judged=least_judged)
    firsts, seconds = (case_scores(conversations, score) for conversations in (first, second))
    bounds = score_bounds([*first, *second], rule, axis)
    return compare_cases(firsts, seconds, most=None if bounds is None else bounds[1] - bounds[0], scores=True)


def consistency(verdicts: pd.DataFrame, axes: Mapping[str, str] | None = None) -> Mapping[str, float]:
    """Return criterion hash → share of equal verdicts among the repeats of each judge, and that of all criteria.

    ``axes`` is criterion hash → axis, for shares by axis as well.
    """
    equal: dict[str, list[float]] = defaultdict(list)
    keys = ["judge", "prompt_hash", "batch", "trial_id", "criterion_hash"]
    for (*_, criterion), repeats in decided(verdicts).groupby(keys):
        groups = {str(criterion), (axes or {}).get(str(criterion), ALL_AXES), ALL_AXES}
        for first, second in combinations(repeats["verdict"], 2):
            for group in groups:
                equal[group].append(float(first == second))
    return {group: sum(values) / len(values) for group, values in equal.items()}


def decided(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts that count: neither voided nor open."""
    return verdicts[verdicts["verdict"].notna() & ~verdicts["voided"] & (verdicts["verdict"] != CANNOT_BE_JUDGED)]


FIGURES = (
    Section(
        "Scores",
        report_scores,
        controls=("by", "rule", "calibrated"),
        series="model",
        axis="Score",
        page="quality",
        caption="Points reached, of the points that could be reached; unjudged criteria leave both, "
        "and a conversation of which less than half of the points (or the share least_judged) are judged has no score.",
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
