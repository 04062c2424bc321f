"""The outcomes of criteria in a selection under one judge or a panel, with notes on the judges and what is unjudged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from core.frameworks.casting import is_model
from core.judging.agreement import among
from core.judging.calibration import Trust, agreement_with_experts, differing_errors, in_words, status_of
from core.judging.check import FAILED_CHECK
from core.judging.form import RUBRIC, Form, FormQuestion
from core.judging.judgement import Judge, Judgement
from core.judging.rubric import name_of, version_of
from core.judging.words_rule import RULE_JUDGE, RULE_JUDGE_IN_WORDS
from core.measures.base import MetricRequest
from core.measures.conversations import by_condition
from core.measures.opinions import Opinions, judge_names, read_opinions, weighted
from core.measures.rubrics.scores import (
    NOT_CALIBRATED,
    PANEL,
    JudgedConversation,
    chosen_judges,
    judged_conversations,
    point_sums,
    unjudged_counts,
    without,
)
from core.models.registry import load_registry
from core.reviews.rubrics import any_form
from core.stats.calibrated import JudgedItem
from core.store.database import Store
from core.store.queries.judgements import failed_checks
from core.store.queries.rubrics import last_rubric, rubric_conversations, saved_rubrics, unjudgeable_conversations
from core.store.selection import Selection

FILTERS: tuple[Any, ...] = ("run", "models", "source", "cases", "datasets", "specialties", "sample")
EMPTY = "No conversation is judged by this rubric."
RubricOption = Annotated[str | None, "Name of the rubric; by default the one that was judged last."]
JudgeOption = Annotated[
    str | None, f"The judge whose verdicts count; by default the last. {PANEL}: the majority of all judges."
]
ALL_AXES = "all axes"


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

    @property
    def answers(self) -> Iterator[Judgement]:
        """Yield the answers of the judges that count, with their repeats."""
        for each in self.opinions:
            for judge in self.judges.values():
                yield from each.judges.get(judge, ())


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
    """Read the outcomes of the questions of any form about conversations; ``people``: with people's answers."""
    content = any_form(store, form)
    with store.read() as cursor:
        conversations = rubric_conversations(cursor, selection)
        unjudgeable = unjudgeable_conversations(cursor, selection)
        failing = failed_checks(cursor, form)
    subjects = {f"talk:{conversation['trial_id']}": conversation["trial_id"] for conversation in conversations}
    read = read_opinions(store, selection, form, people=people).opinions
    opinions = [each.only(subjects) for each in read if each.judges or each.decided]
    available = _judges_of(opinions)
    judges = chosen_judges(available, judge)
    answers: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for each in opinions:
        asked = each.question.hash
        given = [answer for of in judges.values() for answer in each.judges.get(of, ()) if answer.repeat == 1]
        for answer in sorted(given, key=lambda answer: answer.at):
            answers[subjects[answer.subject], asked].append(answer)
    only_rules = bool(judges) and all(of.kind == "rule" for of in judges.values())
    judged = judged_conversations(conversations, answers, content, only_rules=only_rules)
    if failing:
        judged = without(judged, lambda asked: all((of, asked.hash) in failing for of in judges.values()), FAILED_CHECK)
    ends = Counter(end for _, case, specialty, end in unjudgeable if content.questions_for(case, specialty))
    return RubricReading(judged, content, judges, available, opinions, ends)


def _judges_of(opinions: Iterable[Opinions]) -> dict[str, Judge]:
    """Return name → judge, the most recent first. One without any readable reply counts only if there is no other."""
    newest: dict[Judge, float] = defaultdict(float)
    readable = set()
    for each in opinions:
        for judge, answers in each.judges.items():
            for answer in answers:
                if answer.value is not None:
                    readable.add(judge)
                newest[judge] = max(newest[judge], answer.at if answer.value is not None else 0.0)
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
    with request.store.read() as cursor:
        saved = [version.made_at for version in saved_rubrics(cursor, name_of(content))]
    before = sum(answer.at < made_at for made_at in saved for answer in reading.answers)
    older = f", saved after {before:,} of its verdicts" if before else ""
    request.note(f"Rubric {name_of(content)}, version {version_of(content)[:8]}{older}.", kind="rubric")
    return reading


def _only_calibrated(reading: RubricReading, *, by_criterion: bool) -> RubricReading:
    """Return the reading with outcomes as unjudged if a judge is not calibrated on their criterion or axis."""

    def group_of(question: FormQuestion) -> str:
        return question.hash if by_criterion else question.axis

    groups: dict[str, list[JudgedItem]] = defaultdict(list)
    for labelled in labelled_statements(reading):
        groups[group_of(labelled.criterion)].append(labelled.statement)
    calibrated = set()
    for group, items in groups.items():
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
    statements = statements_by_condition(reading)
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


class LabelledStatement(NamedTuple):
    """A judge's verdict on a criterion of a conversation of a condition (``model``)."""

    model: str
    criterion: FormQuestion
    statement: JudgedItem


def statements_by_condition(reading: RubricReading) -> dict[str, list[JudgedItem]]:
    """Return condition → the verdicts met and not met, with those of people on a part of them."""
    statements: dict[str, list[JudgedItem]] = defaultdict(list)
    for labelled in labelled_statements(reading):
        statements[labelled.model].append(labelled.statement)
    return dict(statements)


def labelled_statements(reading: RubricReading) -> Iterator[LabelledStatement]:
    """Yield the criteria that the judges called met or not met, with people's verdict on a part of them.

    The worth of a criterion is its points over the attainable points of its conversation, times the criteria in a
    conversation of its condition on average: the mean over criteria is then the mean score of the conversations.
    """
    people = {
        (answer.subject, answer.against): [str(answer.value)]
        for each in reading.opinions
        for answer in each.decided
        if answer.value in each.question.values and answer.counts
    }
    for model, conversations in by_condition(reading.conversations).items():
        judged = [
            (played, [outcome for outcome in played.outcomes if outcome.status in ("met", "not met")])
            for played in conversations
            if point_sums(played.outcomes).attainable
        ]
        mean_size = sum(len(outcomes) for _, outcomes in judged) / max(1, len(judged))
        outcomes = [(played, outcome) for played, of_one in judged for outcome in of_one]
        verdicts = [((f"talk:{played.trial_id}", o.criterion.hash), o.status) for played, o in outcomes]
        statements = weighted(reading.opinions[0], verdicts, people) if verdicts else []
        for (played, outcome), statement in zip(outcomes, statements, strict=True):
            worth = outcome.points * mean_size / point_sums(played.outcomes).attainable
            features = {"points": outcome.points, "length of the doctor's messages": played.characters}
            yield LabelledStatement(model, outcome.criterion, statement._replace(worth=worth, features=features))
