"""The outcomes of criteria in a selection under one judge or a panel, with notes on the judges and what is unjudged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain, combinations
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from core.frameworks.casting import is_model
from core.judging.calibration import (
    JudgedStatement,
    Status,
    Trust,
    agreement_with_experts,
    differing_errors,
    in_words,
    status_of,
)
from core.judging.check import FAILED_CHECK
from core.judging.form import CANNOT_JUDGE, RUBRIC
from core.judging.judgement import Judge
from core.judging.rubric import Rubric
from core.judging.words_rule import RULE_JUDGE, RULE_JUDGE_IN_WORDS
from core.measures.base import MetricRequest, Severity
from core.measures.rubrics.labels import expert_verdicts, labelled_statements
from core.measures.rubrics.scores import (
    JUDGE_COLUMNS,
    NOT_CALIBRATED,
    PANEL,
    JudgedConversation,
    Outcome,
    chosen_judges,
    judged_conversations,
    judges_in,
    of_judges,
    unjudged_counts,
)
from core.models.registry import load_registry
from core.reviews.rubrics import LIBRARY, rubric_named
from core.store.database import Store
from core.store.queries.judgements import failed_checks
from core.store.queries.rubrics import rubric_conversations, rubric_verdicts, saved_rubrics, unjudgeable_conversations
from core.store.selection import Selection

FILTERS: tuple[Any, ...] = ("run", "models", "source", "cases", "datasets", "specialties", "sample")
EMPTY = "No conversation is judged by this rubric."
RubricOption = Annotated[str | None, "Name of the rubric; by default the one that was judged last."]
JudgeOption = Annotated[
    str | None, f"The judge whose verdicts count; by default the last. {PANEL}: the majority of all judges."
]
ALL_AXES = "all axes"


class RubricReading(NamedTuple):
    """The conversations with the outcomes of their criteria, the rubric, and the judges by name."""

    conversations: list[JudgedConversation]
    rubric: Rubric | None
    judges: Mapping[str, Judge]
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
    with store.read() as cursor:
        failing = failed_checks(cursor, f"{RUBRIC}{name}")
    failed = {hash_ for hash_ in hashes if judges and all((judge, hash_) in failing for judge in judges.values())}
    judged = [
        _without_failed(conversation, failed)
        for conversation in judged_conversations(conversations, verdicts, content, list(judges.values()))
    ]
    ends = Counter(end for _, case, specialty, end in unjudgeable if content.criteria_for(case, specialty))
    return RubricReading(judged, content, judges, verdicts, ends)


def _without_failed(conversation: JudgedConversation, failed: Collection[str]) -> JudgedConversation:
    """Return a conversation with the criteria as unjudged on which every judge failed its check without labels."""

    def outcome_of(outcome: Outcome) -> Outcome:
        counts = outcome.status != "unjudged" and outcome.criterion.hash in failed
        return Outcome(outcome.criterion, "unjudged", FAILED_CHECK) if counts else outcome

    return replace(conversation, outcomes=tuple(map(outcome_of, conversation.outcomes))) if failed else conversation


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
    with request.store.read() as cursor:
        before = sum((own["judged_at"] < version.made_at).sum() for version in saved_rubrics(cursor, content.name))
    older = f", saved after {before:,} of its verdicts" if before else ""
    request.note(f"Rubric {content.name}, version {content.hash[:8]}{older}.", kind="rubric")
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
        name if judge.kind == "rule" else f"{name} (prompts {judge.prompt_hash[:6]})"
        for name, judge in reading.judges.items()
    )
    assert reading.rubric is not None
    request.judged_by(f"{RUBRIC}{reading.rubric.name}", reading.judges.values())
    who = f"The majority of {names} judged" if len(reading.judges) > 1 else f"{names} judged"
    status, words = judge_status(request, reading)
    severity: Severity = "low" if status == "calibrated" else "high"
    request.note(f"{who}; {words}.", severity, kind="judge", page="judges")
    for text, differing in differing_errors(statements_by_condition(request, reading)):
        request.note(text, differing, kind="judge", page="judges")
    if any(judge.name == RULE_JUDGE for judge in reading.judges.values()):
        request.note(f"{RULE_JUDGE}: {RULE_JUDGE_IN_WORDS}", "high", kind="judge")
    others = [name for name in judges_in(reading.verdicts) if name not in reading.judges]
    if others:
        request.note(f"Also judged by {', '.join(others)}, not shown here.", kind="judge")
    registry = load_registry()
    makers = {registry.maker(judge.name) for judge in reading.judges.values()}
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


def consistency(verdicts: pd.DataFrame, axes: Mapping[str, str] | None = None) -> Mapping[str, float]:
    """Return criterion hash → share of equal verdicts among the repeats of each judge, and that of all criteria.

    ``axes`` is criterion hash → axis, for shares by axis as well.
    """
    equal: dict[str, list[float]] = defaultdict(list)
    keys = [*JUDGE_COLUMNS, "trial_id", "criterion_hash"]
    for (*_, criterion), repeats in decided(verdicts).groupby(keys):
        groups = {str(criterion), (axes or {}).get(str(criterion), ALL_AXES), ALL_AXES}
        for first, second in combinations(repeats["verdict"], 2):
            for group in groups:
                equal[group].append(float(first == second))
    return {group: sum(values) / len(values) for group, values in equal.items()}


def decided(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts that count: neither voided nor open."""
    return verdicts[verdicts["verdict"].notna() & ~verdicts["voided"] & (verdicts["verdict"] != CANNOT_JUDGE)]
