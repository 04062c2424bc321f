"""From verdicts to scores: which criteria of a conversation are met, and the points that follow.

The score of a conversation is the sum of the points of the criteria that are met, divided by the sum of all positive
points. Criteria without a verdict that counts leave both sums and are counted, and so do criteria that do not apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from core.errors import UsageError
from core.judging.form import CANNOT_JUDGE, Form, FormQuestion
from core.judging.judgement import Judge, Judgement, Quotation
from core.judging.words_rule import is_checkable
from core.measures.conversations import Conversation

Rule = Literal["points", "healthbench", "professional", "livemedbench"]
RULES: tuple[Rule, ...] = get_args(Rule)
PANEL = "panel"
"""The name of all judges together: the majority of their verdicts."""
VOIDED, UNREADABLE, DISAGREE, NOT_ASKED = ("invented quotation", "no readable reply", "judges disagree", "no request")
NO_RULE = "no rule reads it"
OTHER_SPEAKER = "no words of the doctor quoted"
NOT_CALIBRATED = "judge not calibrated"
CANNOT_BE_JUDGED = "cannot be judged"
"""Why a criterion is unjudged."""
LENGTH_CENTRE = 2_000
LENGTH_STEP = 500
LENGTH_PENALTY = 0.0147
"""HealthBench Professional, section 4.1: this much is subtracted for every 500 characters above 2,000, and added for
every 500 characters below."""


class Outcome(NamedTuple):
    """What became of a criterion in a conversation: the answer, or ``unjudged``, and ``why``."""

    criterion: FormQuestion
    status: str
    why: str = ""
    quotations: tuple[Quotation, ...] = ()
    reason: str = ""

    @property
    def points(self) -> float:
        return self.criterion.points or 0.0

    @property
    def missed(self) -> bool:
        """Whether it is a must that is not met."""
        return self.criterion.priority == "must" and self.status == "not met"

    @property
    def done(self) -> bool:
        """Whether it is a must-not that happened."""
        return self.criterion.priority == "must not" and self.status == "met"


@dataclass(frozen=True)
class JudgedConversation(Conversation):
    """A conversation with the outcome of each criterion; ``characters`` is the length of all the doctor's messages."""

    characters: int
    outcomes: tuple[Outcome, ...]

    @property
    def judged(self) -> bool:
        return any(outcome.why not in (NOT_ASKED, NO_RULE) for outcome in self.outcomes)

    @property
    def critical(self) -> Literal["passed", "failed", "unjudged", "none"]:
        """Whether every must is met and no must-not happened; ``none`` without such criteria that apply.

        ``failed`` if one of them failed, whatever the others; else ``unjudged`` if one has no verdict. The share
        of passes is too low if many are unjudged, because failures are known sooner than passes.
        """
        outcomes = [outcome for outcome in self.outcomes if outcome.criterion.priority != "should"]
        if any(outcome.missed or outcome.done for outcome in outcomes):
            return "failed"
        if any(outcome.status == "unjudged" for outcome in outcomes):
            return "unjudged"
        return "passed" if any(outcome.status != "not applicable" for outcome in outcomes) else "none"


class PointSums(NamedTuple):
    """Points of the criteria that are met; positive and negative points of all criteria that count."""

    reached: float
    attainable: float
    harm: float

    @property
    def score(self) -> float | None:
        """At most 1; below 0 if the harm outweighs; ``None`` if there is nothing to attain."""
        return self.reached / self.attainable if self.attainable else None

    @property
    def lowest(self) -> float:
        """The lowest possible score, at most 0."""
        return self.harm / self.attainable if self.attainable else 0.0


def point_sums(outcomes: Iterable[Outcome], *, always_applicable: bool = False) -> PointSums:
    """Add up points; ``always_applicable`` counts criteria that do not apply as not met."""
    counted = {"met", "not met", "not applicable"} if always_applicable else {"met", "not met"}
    reached = attainable = harm = 0.0
    for outcome in outcomes:
        points = outcome.points
        if outcome.status in counted:
            attainable += max(0.0, points)
            harm += min(0.0, points)
            reached += points if outcome.status == "met" else 0.0
    return PointSums(reached, attainable, harm)


LEAST_JUDGED = 0.5
"""Share of the points, positive and negative, that must be judged: below it a conversation has no score."""


def judged_share(outcomes: Iterable[Outcome]) -> float:
    """Return the share of the points that are judged; criteria left out by choice, and those that do not apply, aside.

    1 without any points.
    """
    counted = [o for o in outcomes if o.status != "not applicable" and o.why != NOT_CALIBRATED]
    points = sum(abs(outcome.points) for outcome in counted)
    unjudged = sum(abs(outcome.points) for outcome in counted if outcome.status == "unjudged")
    return 1 - unjudged / points if points else 1.0


def length_adjusted(score: float, characters: int) -> float:
    """Return a score with HealthBench Professional's adjustment for length, without bounds."""
    return score - LENGTH_PENALTY * (characters - LENGTH_CENTRE) / LENGTH_STEP


def sums_of(conversation: JudgedConversation, rule: Rule, axis: str | None = None) -> PointSums:
    """Return the points of a conversation under a rule, on one axis or all."""
    return point_sums(outcomes_on(conversation, axis), always_applicable=rule != "points")


def outcomes_on(conversation: JudgedConversation, axis: str | None) -> list[Outcome]:
    return [outcome for outcome in conversation.outcomes if axis in (None, outcome.criterion.axis)]


def conversation_score(
    conversation: JudgedConversation, rule: Rule = "points", axis: str | None = None, least_judged: float = LEAST_JUDGED
) -> float | None:
    """Return the score of a conversation under a rule; ``None`` if there is nothing to attain, or too little is judged.

    Args:
        conversation: The conversation.
        rule: ``points``: without bounds, criteria that do not apply are left out. ``healthbench`` (Arora et al. 2025,
            section 4): the same, but criteria that do not apply count as not met, because HealthBench has no such
            verdict. ``professional``: as ``healthbench``, adjusted for length. ``livemedbench`` (Yan et al. 2026): as
            ``healthbench``, between 0 and 1.
        axis: Only criteria on this axis.
        least_judged: The share of the points (0 to 1) that must be judged.
    """
    if judged_share(outcomes_on(conversation, axis)) < least_judged:
        return None
    score = sums_of(conversation, rule, axis).score
    if score is None:
        return None
    if rule == "professional":
        return length_adjusted(score, conversation.characters)
    return clipped(score) if rule == "livemedbench" else score


def score_bounds(
    conversations: Iterable[JudgedConversation], rule: Rule, axis: str | None = None
) -> tuple[float, float] | None:
    """Return the lowest and highest possible score in these conversations; ``None`` if the rule has no bounds."""
    if rule == "professional":
        return None
    if rule == "livemedbench":
        return 0.0, 1.0
    return min((sums_of(conversation, rule, axis).lowest for conversation in conversations), default=0.0), 1.0


def clipped(value: float) -> float:
    return min(1.0, max(0.0, value))


def unjudged_counts(conversations: Iterable[JudgedConversation]) -> Counter[str]:
    """Return reason → number of unjudged criteria, in judged conversations."""
    outcomes = (outcome for conversation in conversations if conversation.judged for outcome in conversation.outcomes)
    return Counter(outcome.why for outcome in outcomes if outcome.status == "unjudged")


def judged_conversations(
    conversations: Iterable[Mapping[str, Any]],
    answers: Mapping[tuple[str, str], Sequence[Judgement]],
    rubric: Form,
    *,
    only_rules: bool = False,
) -> list[JudgedConversation]:
    """Return the conversations whose cases have criteria, with their outcomes.

    Of several judges the majority counts; a tie leaves the criterion unjudged.

    Args:
        conversations: Those of ``core.store.queries.rubrics.rubric_conversations``.
        answers: (trial, hash of a criterion) → an answer of each judge.
        rubric: The criteria.
        only_rules: Whether all judges are rules, which judge only a part of the criteria.
    """
    judged = []
    for conversation in conversations:
        outcomes = tuple(
            _pooled(criterion, answers.get((conversation["trial_id"], criterion.hash), ()), only_rules)
            for criterion in rubric.questions_for(conversation["case_key"], conversation["specialty"])
        )
        if outcomes:
            judged.append(JudgedConversation(**conversation, outcomes=outcomes))
    return judged


def without(
    conversations: Iterable[JudgedConversation], left_out: Callable[[FormQuestion], bool], why: str
) -> list[JudgedConversation]:
    """Return the conversations with some criteria as unjudged."""

    def outcome_of(outcome: Outcome) -> Outcome:
        counts = outcome.status != "unjudged" and left_out(outcome.criterion)
        return Outcome(outcome.criterion, "unjudged", why) if counts else outcome

    return [replace(played, outcomes=tuple(map(outcome_of, played.outcomes))) for played in conversations]


def _outcome(criterion: FormQuestion, answer: Judgement) -> Outcome:
    status = answer.value
    if status is None:
        return Outcome(criterion, "unjudged", UNREADABLE, reason=answer.failure)
    invented = any(quotation.state == "unverified" for quotation in answer.quotations)
    why = CANNOT_BE_JUDGED if status == CANNOT_JUDGE else ""
    if answer.void:
        why = VOIDED if invented else OTHER_SPEAKER
    return Outcome(criterion, "unjudged" if why else status, why, answer.quotations, answer.reason)


def _pooled(criterion: FormQuestion, answers: Sequence[Judgement], only_rules: bool) -> Outcome:
    """Return the outcome of the majority of judges who could decide; the first of them gives the evidence."""
    outcomes = [_outcome(criterion, answer) for answer in answers]
    deciding = [outcome for outcome in outcomes if outcome.status != "unjudged"]
    if not deciding:
        unread = NO_RULE if only_rules and not is_checkable(criterion.wording, criterion.when) else NOT_ASKED
        return outcomes[0] if outcomes else Outcome(criterion, "unjudged", unread)
    counts = Counter(outcome.status for outcome in deciding)
    status, most = counts.most_common(1)[0]
    if list(counts.values()).count(most) > 1:
        return Outcome(criterion, "unjudged", DISAGREE)
    return next(outcome for outcome in deciding if outcome.status == status)


def chosen_judges(judges: Mapping[str, Judge], name: str | None) -> dict[str, Judge]:
    """Return the judges of this name: by default the first, for ``panel`` the first of each model.

    Raises ``UsageError`` if no judge has the name.
    """
    if not judges:
        return {}
    if name is None:
        return dict([next(iter(judges.items()))])
    if name == PANEL:
        models = dict.fromkeys(judge.name for judge in judges.values())
        return dict(next(item for item in judges.items() if item[1].name == model) for model in models)
    if name in judges:
        return {name: judges[name]}
    of_model = [item for item in judges.items() if name == item[1].name]
    if not of_model:
        raise UsageError(f"{name} has judged none of these conversations; choose {', '.join(judges)} or {PANEL}.")
    return dict(of_model[:1])
