"""The outcomes of criteria in a selection under one judge or a panel, the scores that follow, and notes on both.

The score of a conversation is the sum of the points of the criteria that are met, divided by the sum of all positive
points. Criteria without a verdict that counts leave both sums and are counted, and so do criteria that do not apply.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from core.errors import UsageError
from core.frameworks.casting import is_model
from core.judging.agreement import among
from core.judging.calibration import Trust, agreement_with_experts, differing_errors, in_words, status_of
from core.judging.check import FAILED_CHECK
from core.judging.form import CANNOT_JUDGE, RUBRIC, Form, FormQuestion
from core.judging.judgement import Judge, Judgement, Quotation
from core.judging.rubric import name_of, version_of
from core.judging.rules import RULE_JUDGE, RULE_JUDGE_IN_WORDS, is_checkable
from core.measures.base import MetricRequest
from core.measures.conversations import ScoredConversation, by_condition
from core.measures.opinions import Opinions, judge_names, read_opinions, weighted
from core.models.registry import load_registry
from core.reviews.rubrics import any_form
from core.stats.calibrated import JudgedItem
from core.store.database import Store
from core.store.queries.judgements import failed_checks
from core.store.queries.rubrics import last_rubric, rubric_conversations, saved_rubrics, unjudgeable_conversations
from core.store.selection import Selection

FILTERS: tuple[Any, ...] = ("run", "models", "source", "cases", "datasets", "specialties", "sample")
EMPTY = "No conversation is judged by this rubric."
PANEL = "panel"
"""The name of all judges together: the majority of their verdicts."""
RubricOption = Annotated[str | None, "Name of the rubric; by default the one that was judged last."]
JudgeOption = Annotated[
    str | None, f"The judge whose verdicts count; by default the last. {PANEL}: the majority of all judges."
]
ALL_AXES = "all axes"
Rule = Literal["points", "healthbench", "professional", "livemedbench"]
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


FAILING: Mapping[str, tuple[str, str]] = {
    "must": ("not met", "must missed"), "must not": ("met", "must-not done"),
}  # fmt: skip
"""Priority → the verdict that is a failure, and its name."""


_STATUS = {
    "met": "✓ Met", "not met": "✗ Not met", "not applicable": "– Does not apply", "unjudged": "? Unjudged",
}  # fmt: skip
_MUST_NOT = {"met": "✗ Happened", "not met": "✓ Did not happen"}


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
    def failure(self) -> str:
        """Of a must that is not met, or a must-not that happened, which of these it is; otherwise empty."""
        failing, words = FAILING.get(self.criterion.priority or "", ("", ""))
        return words if self.status == failing else ""


@dataclass(frozen=True)
class JudgedConversation(ScoredConversation):
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
        if any(outcome.failure for outcome in outcomes):
            return "failed"
        if any(outcome.status == "unjudged" for outcome in outcomes):
            return "unjudged"
        return "passed" if any(outcome.status != "not applicable" for outcome in outcomes) else "none"

    def on(self, axis: str | None) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if axis in (None, outcome.criterion.axis)]

    def points(self, rule: Rule = "points", axis: str | None = None) -> PointSums:
        """Return the points under a rule, on one axis or all.

        Only under the rule of this project criteria that do not apply are left out; otherwise they are not met.
        """
        counted = {"met", "not met"} if rule == "points" else {"met", "not met", "not applicable"}
        counting = [outcome for outcome in self.on(axis) if outcome.status in counted]
        return PointSums(
            sum((outcome.points for outcome in counting if outcome.status == "met"), 0.0),
            sum(max(0.0, outcome.points) for outcome in counting),
            sum(min(0.0, outcome.points) for outcome in counting),
        )


class PointSums(NamedTuple):
    """Points of the criteria that are met; positive and negative points of all criteria that count."""

    reached: float
    attainable: float
    harm: float


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
    reached, attainable, _ = conversation.points(rule, axis)
    if not attainable or judged_share(conversation.on(axis)) < least_judged:
        return None
    score = reached / attainable
    if rule == "professional":
        return score - LENGTH_PENALTY * (conversation.characters - LENGTH_CENTRE) / LENGTH_STEP
    return clipped(score) if rule == "livemedbench" else score


def score_bounds(
    conversations: Iterable[JudgedConversation], rule: Rule, axis: str | None = None
) -> tuple[float, float] | None:
    """Return the lowest and highest possible score in these conversations; ``None`` if the rule has no bounds."""
    sums = (conversation.points(rule, axis) for conversation in conversations)
    lowest = min((harm / attainable for _, attainable, harm in sums if attainable), default=0.0)
    return {"professional": None, "livemedbench": (0.0, 1.0)}.get(rule, (lowest, 1.0))


def clipped(value: float) -> float:
    return min(1.0, max(0.0, value))


class RubricReading(NamedTuple):
    """The conversations with the outcomes of their criteria under the ``judges``, by name; the rubric; all answers.

    ``available`` are all judges, the most recent first. ``unjudgeable`` counts the conversations on cases of the rubric
    that no rubric judges, by their end.
    """

    conversations: list[JudgedConversation]
    rubric: Form | None
    judges: Mapping[str, Judge] = {}
    available: Mapping[str, Judge] = {}
    opinions: Sequence[Opinions] = ()
    unjudgeable: Counter[str] = Counter()


def read_rubric_outcomes(
    store: Store, selection: Selection, rubric: str | None = None, judge: str | None = None
) -> RubricReading:
    """Read the outcomes of a selection; see the options of the metrics. Raises ``UsageError`` for unknown names."""
    with store.read() as cursor:
        name = rubric or last_rubric(cursor, selection)
    return read_outcomes(store, selection, f"{RUBRIC}{name}", judge) if name else RubricReading([], None)


def read_outcomes(
    store: Store, selection: Selection, form: str, judge: str | None = None, *, people: bool = True
) -> RubricReading:
    """Read the outcomes of the questions of any form about conversations; ``people``: with people's answers.

    Of several judges the majority counts; a tie leaves the criterion unjudged.
    """
    content = any_form(store, form)
    with store.read() as cursor:
        conversations = rubric_conversations(cursor, selection)
        unjudgeable = unjudgeable_conversations(cursor, selection)
        failing = failed_checks(cursor, form)
    subjects = {f"talk:{conversation['trial_id']}": conversation["trial_id"] for conversation in conversations}
    read = read_opinions(store, selection, form, people=people).opinions
    opinions = [each.only(subjects) for each in read if each.judges or each.decided]
    available = _judges_of(opinions)
    judges = _chosen_judges(available, judge)
    answers: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for each in opinions:
        asked = each.question.hash
        given = [answer for of in judges.values() for answer in each.judges.get(of, ()) if answer.repeat == 1]
        for answer in sorted(given, key=lambda answer: answer.at):
            answers[subjects[answer.subject], asked].append(answer)
    only_rules = bool(judges) and all(of.kind == "rule" for of in judges.values())
    judged = [
        JudgedConversation(
            **conversation,
            outcomes=tuple(
                _pooled(asked, answers.get((conversation["trial_id"], asked.hash), ()), only_rules)
                for asked in asked_about
            ),
        )
        for conversation in conversations
        if (asked_about := content.questions_for(conversation["case_key"], conversation["specialty"]))
    ]
    if failing:
        judged = without(judged, lambda asked: all((of, asked.hash) in failing for of in judges.values()), FAILED_CHECK)
    ends = Counter(end for _, case, specialty, end in unjudgeable if content.questions_for(case, specialty))
    return RubricReading(judged, content, judges, available, opinions, ends)


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


def _chosen_judges(judges: Mapping[str, Judge], name: str | None) -> dict[str, Judge]:
    """Return the judges of this name: by default the first, for ``panel`` the first of each model.

    Raises ``UsageError`` if no judge has the name.
    """
    firsts: dict[str, str] = {}  # model → the name of its first judge
    for shown, judge in judges.items():
        firsts.setdefault(judge.name, shown)
    if name == PANEL or not judges:
        return {shown: judges[shown] for shown in firsts.values()}
    wanted = next(iter(judges)) if name is None else name if name in judges else firsts.get(name)
    if wanted is None:
        raise UsageError(f"{name} has judged none of these conversations; choose {', '.join(judges)} or {PANEL}.")
    return {wanted: judges[wanted]}


def _judges_of(opinions: Iterable[Opinions]) -> dict[str, Judge]:
    """Return name → judge, the most recent first. One without any readable reply counts only if there is no other."""
    newest: dict[Judge, float] = {}  # the time of the last readable reply; -1: there is none
    for judge, answers in chain.from_iterable(each.judges.items() for each in opinions):
        if answers:
            read_at = (answer.at for answer in answers if answer.value is not None)
            newest[judge] = max(newest.get(judge, -1.0), *read_at, -1.0)
    readable = {judge for judge, at in newest.items() if at >= 0}
    judges = sorted(readable or newest, key=lambda judge: (-newest[judge], judge))
    return {name: judge for judge, name in judge_names(judges).items()}


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
    _note_judges(request, reading)
    if calibrated is not None:
        reading = _only_calibrated(reading, by_criterion=calibrated == "criterion")
    judged = [conversation for conversation in reading.conversations if conversation.judged]
    outcomes = [outcome for conversation in judged for outcome in conversation.outcomes]
    unjudged = Counter(outcome.why for outcome in outcomes if outcome.status == "unjudged")
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
    with request.store.read() as cursor:
        saved = [version.made_at for version in saved_rubrics(cursor, name_of(content))]
    answers = (a for each in reading.opinions for of in reading.judges.values() for a in each.judges.get(of, ()))
    before = sum(answer.at < made_at for answer in answers for made_at in saved)
    older = f", saved after {before:,} of its verdicts" if before else ""
    request.note(f"Rubric {name_of(content)}, version {version_of(content)[:8]}{older}.", kind="rubric")
    return reading


def _only_calibrated(reading: RubricReading, *, by_criterion: bool) -> RubricReading:
    """Return the reading with outcomes as unjudged if a judge is not calibrated on their criterion or axis."""

    def group_of(question: FormQuestion) -> str:
        return question.hash if by_criterion else question.axis

    calibrated = set()
    for group, items in statements_by(reading, lambda model, asked: group_of(asked)).items():
        measured = agreement_with_experts(items)
        own = [each for each in reading.opinions if group_of(each.question) == group]
        repeated = (
            among((a for each in own for a in each.judges.get(judge, ())), own[0].question.values, own[0].case)
            for judge in reading.judges.values()
        )
        consistency = [found.coefficients["percent_agreement"].value for found in repeated if found.items]
        lowest = min(consistency, default=None)
        if status_of(measured.n, measured.share, Trust(), lowest, measured.of_each) == "calibrated":
            calibrated.add(group)
    trusted = without(reading.conversations, lambda asked: group_of(asked) not in calibrated, NOT_CALIBRATED)
    return reading._replace(conversations=trusted)


def _note_judges(request: MetricRequest, reading: RubricReading) -> None:
    """Note the judges, their lack of calibration, and doctors of the same maker as their judge."""
    names = ", ".join(
        name if judge.kind == "rule" else f"{name} (prompts {judge.prompt_hash[:6]})"
        for name, judge in reading.judges.items()
    )
    assert reading.rubric is not None
    request.judged_by(reading.rubric.name, reading.judges.values())
    who = f"The majority of {names} judged" if len(reading.judges) > 1 else f"{names} judged"
    statements = statements_by(reading)
    measured = agreement_with_experts(chain.from_iterable(statements.values()))
    status = status_of(measured.n, measured.share, Trust(), of_each=measured.of_each)
    severity: Literal["low", "high"] = "low" if status == "calibrated" else "high"
    request.note(f"{who}; {in_words(status, measured)}.", severity, kind="judge", page="trust")
    for text, differing in differing_errors(statements):
        request.note(text, differing, kind="judge", page="trust")
    if any(judge.name == RULE_JUDGE for judge in reading.judges.values()):
        request.note(f"{RULE_JUDGE}: {RULE_JUDGE_IN_WORDS}", "high", kind="judge")
    if others := [name for name in reading.available if name not in reading.judges]:
        request.note(f"Also judged by {', '.join(others)}, not shown here.", kind="judge")
    registry = load_registry()
    makers = {registry.maker(judge.name) for judge in reading.judges.values()}
    doctors = sorted({conversation.doctor for conversation in reading.conversations if is_model(conversation.doctor)})
    if same := [doctor for doctor in doctors if registry.maker(doctor) in makers]:
        request.note(
            f"The judge is of the same maker as {', '.join(same)}, and may prefer its style.", "high", kind="judge"
        )


def statements_by(
    reading: RubricReading, group: Callable[[str, FormQuestion], str] = lambda model, asked: model
) -> dict[str, list[JudgedItem]]:
    """Return the criteria that the judges called met or not met, with people's verdict on a part of them.

    They are grouped by condition, or by another function of condition and criterion. The worth of a criterion is its
    points over the attainable points of its conversation, times the criteria in a conversation of its condition on
    average: the mean over criteria is then the mean score of the conversations.
    """
    people = {
        (answer.subject, answer.against): [str(answer.value)]
        for each in reading.opinions
        for answer in each.decided
        if answer.value in each.question.values and answer.counts
    }
    groups: dict[str, list[JudgedItem]] = defaultdict(list)
    for model, conversations in by_condition(reading.conversations).items():
        attainable = {played.trial_id: played.points().attainable for played in conversations}
        judged = [played for played in conversations if attainable[played.trial_id]]
        outcomes = [(played, o) for played in judged for o in played.outcomes if o.status in ("met", "not met")]
        mean_size = len(outcomes) / max(1, len(judged))
        verdicts = [((f"talk:{played.trial_id}", o.criterion.hash), o.status) for played, o in outcomes]
        statements = weighted(reading.opinions[0], verdicts, people) if verdicts else []
        for (played, outcome), statement in zip(outcomes, statements, strict=True):
            worth = outcome.points * mean_size / attainable[played.trial_id]
            features = {"points": outcome.points, "length of the doctor's messages": played.characters}
            groups[group(model, outcome.criterion)].append(statement._replace(worth=worth, features=features))
    return dict(groups)


def status_words(question: FormQuestion, status: str) -> str:
    if question.priority == "must not" and status in _MUST_NOT:
        return _MUST_NOT[status]
    labels = {option.value: option.label.partition(". ")[0] for option in question.options}
    return _STATUS.get(status) or labels.get(status, status)


def met_of_judged(outcomes: Sequence[Outcome]) -> str:
    """Return how many are met of those that are judged, and how many are not judged: ``1 of 2, 3 not judged``."""
    judged = [outcome for outcome in outcomes if outcome.status in ("met", "not met")]
    unjudged = sum(outcome.status == "unjudged" for outcome in outcomes)
    words = f"{sum(outcome.status == 'met' for outcome in judged)} of {len(judged)}" if judged else "–"
    return f"{words}, {unjudged} not judged" if unjudged else words
