"""Verdicts of experts on criteria, matched with those of judges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.judging.calibration import JudgedStatement
from core.judging.form import RUBRIC
from core.measures.rubrics.scores import JudgedConversation, Outcome, point_sums
from core.reviews.rubrics import rubric_named
from core.reviews.state import states
from core.store.database import Store
from core.store.review_records import parse_item

_VALUES = {"met": True, "not met": False}
Place = tuple[str, str]
"""A conversation and the hash of a criterion."""


class ExpertVerdicts(NamedTuple):
    """The experts' verdicts by conversation and criterion, and how their items were drawn.

    Attributes:
        verdicts: Whether a criterion is met in a conversation. Of several reviews the newest counts.
        strata: The places whose items were drawn by group → ``specialty`` or ``dataset``.
        undecided: Number of answered items without such a verdict: tied, not applicable, or experts cannot judge.
        restricted: Review → what its items were drawn from, if only from a part of the conversations.
    """

    verdicts: Mapping[Place, bool]
    strata: Mapping[Place, str]
    undecided: int = 0
    restricted: Mapping[str, str] = {}


def expert_verdicts(store: Store, rubric: str) -> ExpertVerdicts:
    """Return the decided verdicts of all unblinded reviews on the criteria of a rubric, in their present wording."""
    hashes = {scoped.criterion.hash for scoped in rubric_named(store, rubric).scoped()}
    verdicts: dict[Place, bool] = {}
    strata: dict[Place, str] = {}
    undecided = 0
    restricted = {}
    for state in states(store):  # the newest first
        asked = [question for question in state.form.questions if question.hash in hashes]
        if not state.form.name.startswith(RUBRIC) or state.blinded or not asked:
            continue
        plan = state.review.plan
        for question in asked:
            for item in state.judged(question):
                place = (parse_item(item.item).trial_id, question.hash)
                if place in verdicts:
                    continue
                met = _VALUES.get(item.decided(state.form)[0] or "")
                if met is None:
                    undecided += bool(item.answers)
                    continue
                verdicts[place] = met
                if plan.sampling in ("specialty", "dataset"):
                    strata[place] = plan.sampling
        parts = [*plan.specialties, *plan.datasets, *(f"{field} {value}" for field, value in plan.where)]
        if parts:
            restricted[state.review.name] = ", ".join(parts)
    return ExpertVerdicts(verdicts, strata, undecided, restricted)


class LabelledStatement(NamedTuple):
    """A judge's verdict on a criterion of a conversation, with what it is grouped by."""

    model: str
    axis: str
    criterion: str
    statement: JudgedStatement


def labelled_statements(
    conversations: Sequence[JudgedConversation], experts: ExpertVerdicts
) -> list[LabelledStatement]:
    """Return the criteria that a judge called met or not met, with the experts' verdict on a part of them.

    The worth of a criterion is its points over the attainable points of its conversation, times the criteria in a
    conversation of its condition on average: the mean over criteria is then the mean score of the conversations.
    """
    judged = [
        (conversation, [outcome for outcome in conversation.outcomes if outcome.status in _VALUES])
        for conversation in conversations
        if conversation.judged
    ]
    judged = [(conversation, outcomes) for conversation, outcomes in judged if point_sums(outcomes).attainable]
    sizes: dict[str, list[int]] = defaultdict(list)
    for conversation, outcomes in judged:
        sizes[conversation.model].append(len(outcomes))
    weights = _weights(judged, experts)
    statements = []
    for conversation, outcomes in judged:
        share = sum(sizes[conversation.model]) / len(sizes[conversation.model]) / point_sums(outcomes).attainable
        for outcome in outcomes:
            place = (conversation.trial_id, outcome.criterion.hash)
            statement = JudgedStatement(
                conversation.case_key,
                _VALUES[outcome.status],
                experts.verdicts.get(place),
                outcome.criterion.points * share,
                weights.get(place, 1.0),
                {"points": outcome.criterion.points, "length of the doctor's messages": conversation.characters},
            )
            statements.append(
                LabelledStatement(conversation.model, outcome.criterion.axis, outcome.criterion.hash, statement)
            )
    return statements


def _weights(
    judged: Sequence[tuple[JudgedConversation, Sequence[Outcome]]], experts: ExpertVerdicts
) -> dict[Place, float]:
    """Return, for items drawn by model and group, how many judged items each stands for; others weigh the same."""
    groups: dict[Place, tuple[str, ...]] = {}
    sizes: Counter[tuple[str, ...]] = Counter()
    for conversation, outcomes in judged:
        for outcome in outcomes:
            place = (conversation.trial_id, outcome.criterion.hash)
            for sampling, group in (("specialty", conversation.specialty), ("dataset", conversation.dataset)):
                stratum = (sampling, conversation.doctor, group)
                sizes[stratum] += 1
                if experts.strata.get(place) == sampling:
                    groups[place] = stratum
    labelled = Counter(groups.values())
    total, drawn = sum(len(outcomes) for _, outcomes in judged), max(1, len(experts.verdicts))
    weights = {place: sizes[stratum] / labelled[stratum] for place, stratum in groups.items()}
    return {place: weights.get(place, total / drawn) for place in experts.verdicts}
