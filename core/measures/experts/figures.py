"""Figures of the experts' answers: shares, paired tests, agreement, and how far a grader can be trusted.

What counts as the experts' answer: the one annotator's, both's where they agree, the third's where they do not. Items
about one case hang together: intervals resample cases with all their items. The shares of one item a case, as in the
authors' release, have Wilson's. Models' names are given only of a review that is unblinded.

A grader of free responses stands against experts answer by answer and count by count. What its measured error means for
an accuracy: the estimator of Rogan and Gladen (American Journal of Epidemiology 1978, 107:71), 95 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.events import COUNTED
from core.measures.experts.reviewing import ReviewState
from core.stats.agreement import Said, cohen_kappa, fleiss_kappa, gwet_ac, krippendorff_alpha, percent_agreement
from core.stats.agreement_resampled import agreement_by_case
from core.stats.intervals import NOTHING, Interval
from core.stats.mcnemar import McNemar, mcnemar, paired_counts
from core.stats.proportions import wilson_if_alike
from core.stats.ratios import percentiles, resampled_sums, share_interval
from core.store.database import Store
from core.store.queries import reviews as rows
from core.store.queries.accuracy import case_scores
from core.store.queries.reviews import Annotation, annotations_of
from core.store.review_records import ANSWERS, QUESTIONS, Answer, Item, Judgement, Question, parse_item
from core.store.selection import Selection

How = Literal["single", "agreed", "tie_broken", "open"]
TIE_BREAKER = "d3"
"""The third annotator of the release."""


@dataclass(frozen=True)
class Decision:
    """The answer on one question about one item and how it came about; ``None`` while a tie is open."""

    model: str
    case: str
    question: Question
    answer: Answer | None
    how: How
    said: dict[str, Answer] = field(default_factory=dict)
    """Annotator → what each of those said who did not know of a tie."""
    item: str = ""


def decide(judgements: Iterable[Judgement], tie_breaker: str = TIE_BREAKER) -> list[Decision]:
    """Return one decision for every model, case, item and question, in the order in which they first occur.

    A third judgement, or one of the annotator ``tie_breaker``, only counts where two others differ; of several the
    first.
    """
    said: dict[tuple[str, str, str, Question], dict[str, Answer]] = {}
    third: dict[tuple[str, str, str, Question], Answer] = {}
    for one in judgements:
        key = (one.model, one.case, one.item, one.question)
        first = said.setdefault(key, {})
        if one.third or one.annotator == tie_breaker:
            third.setdefault(key, one.answer)
        else:
            first[one.annotator] = one.answer
    return [_decision(key, answers, third.get(key)) for key, answers in said.items()]


def _decision(key: tuple[str, str, str, Question], said: dict[str, Answer], third: Answer | None) -> Decision:
    model, case, item, question = key
    how: How = "single" if len(said) == 1 else "agreed"
    answer: Answer | None = next(iter(said.values()), None)
    if len(set(said.values())) != 1:
        answer, how = third, "tie_broken" if third else "open"
    return Decision(model, case, question, answer, how, said, item)


@dataclass(frozen=True)
class Share:
    """How often the experts said yes of a model's items; ``open`` ties are not among ``n``."""

    model: str
    question: Question
    yes: int
    n: int
    open: int
    interval: Interval


@dataclass(frozen=True)
class Pair:
    """Two models judged on the same cases: exact two-sided McNemar test.

    Where a model has several items on a case, the first that was decided counts.
    """

    question: Question
    first: str
    second: str
    test: McNemar


@dataclass(frozen=True)
class Agreement:
    """How far two annotators agree on one question, over the ``n`` items that two judged who did not know of a tie.

    They are about ``n_cases`` cases.
    """

    question: Question
    measure: str
    value: float
    interval: Interval
    n: int
    n_cases: int


MEASURES: dict[str, Callable[[Said, Sequence[str]], float]] = {
    "percent agreement": percent_agreement,
    "Cohen's kappa": cohen_kappa,
    "Fleiss' kappa": fleiss_kappa,
    "Gwet's AC1": gwet_ac,
    "Krippendorff's alpha": krippendorff_alpha,
}
OF_TWO, OF_MANY = "Cohen's kappa", "Fleiss' kappa"


def shares(decisions: Iterable[Decision]) -> list[Share]:
    """Return the shares of yes by question and model."""
    groups: dict[tuple[Question, str], list[Decision]] = {}
    for one in decisions:
        groups.setdefault((one.question, one.model), []).append(one)
    return [_share(model, question, members) for (question, model), members in groups.items()]


def _share(model: str, question: Question, members: Sequence[Decision]) -> Share:
    answered = [one for one in members if one.answer is not None]
    yes = Counter(one.case for one in answered if one.answer == "yes")
    n = Counter(one.case for one in answered)
    interval = share_interval([yes[case] for case in n], list(n.values()))
    return Share(model, question, yes.total(), n.total(), len(members) - len(answered), interval)


def pairs(decisions: Sequence[Decision], questions: Sequence[Question]) -> list[Pair]:
    """Return McNemar's test of every two models on the cases that both have an answer for."""
    answers: dict[tuple[Question, str], dict[str, bool]] = {}
    for one in decisions:
        if one.answer is not None:
            answers.setdefault((one.question, one.model), {}).setdefault(one.case, one.answer == "yes")
    found: list[Pair] = []
    for question in questions:
        models = [model for q, model in answers if q == question]
        for first, second in combinations(models, 2):
            left, right = answers[question, first], answers[question, second]
            shared = [case for case in left if case in right]
            if not shared:
                continue
            counts = paired_counts([left[case] for case in shared], [right[case] for case in shared])
            found.append(Pair(question, first, second, mcnemar(counts)))
    return found


def agreement(decisions: Iterable[Decision], questions: Sequence[Question]) -> list[Agreement]:
    """Return the measures for each question: Cohen's kappa where the same two judged all, else Fleiss'."""
    listed = list(decisions)
    found: list[Agreement] = []
    for question in questions:
        twice = [d for d in listed if d.question == question and len(d.said) == 2]
        judges = {who for d in twice for who in d.said}
        # in one order for all items, since Cohen's kappa tells the first judge from the second
        both = [[d.said[who] for who in sorted(d.said)] for d in twice]
        cases = {case: place for place, case in enumerate(dict.fromkeys(d.case for d in twice))}
        table = np.zeros((len(cases), len(ANSWERS), len(ANSWERS)))
        for one, (first, second) in zip(twice, both, strict=True):
            table[cases[one.case], ANSWERS.index(first), ANSWERS.index(second)] += 1
        (estimates,) = agreement_by_case([table])
        for name, measure in MEASURES.items():
            if name == (OF_MANY if len(judges) <= 2 else OF_TWO):
                continue
            value = measure(both, ANSWERS) if both else math.nan
            interval = estimates[measure.__name__].interval if both else NOTHING
            found.append(Agreement(question, name, value, interval, len(both), len(cases)))
    return found


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JudgedAnswer:
    """One free response that experts and a grader judged: whether it is right by either."""

    item: str
    model: str
    case: str
    grader: str
    expert_says: bool
    grader_says: bool


@dataclass(frozen=True)
class Rate:
    """``count`` of ``n`` with its interval; the value is NaN of none."""

    count: int
    n: int
    interval: Interval

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.count / self.n if self.n else math.nan


@dataclass(frozen=True)
class Confusion:
    """How many answers both call right, the grader alone, the experts alone, neither.

    ``agreement``: how often the two say the same; ``sensitivity``: how many of the answers that experts call right the
    grader calls right; ``specificity``: how many of those that experts call wrong it calls wrong.
    """

    both: int
    grader_only: int
    expert_only: int
    neither: int
    agreement: Rate
    sensitivity: Rate
    specificity: Rate

    @property
    def n(self) -> int:
        """All answers."""
        return self.both + self.grader_only + self.expert_only + self.neither


@dataclass(frozen=True)
class CaseCount:
    """How many of a case's ``trials`` the experts and the grader call right."""

    case: str
    expert: int
    grader: int
    trials: int


@dataclass(frozen=True)
class CountAgreement:
    """Counts of right trials compared over cases.

    ``agreement`` is 1 − mean |difference| / trials (Johri et al. 2025, Results), ``whole`` the share of cases with the
    same count, ``spearman`` the rank correlation of the counts; NaN where they are undefined.
    """

    n_cases: int
    agreement: float
    whole: float
    spearman: float


@dataclass(frozen=True)
class Corrected:
    """An accuracy as the grader has it, and corrected for the grader's error; ``None`` where it cannot be.

    ``clipped``: the estimate, or a bound of its 95 % interval, lay outside 0 to 1 and was set to the nearer of them.
    """

    model: str
    apparent: float
    value: float | None
    interval: Interval
    clipped: bool
    n_cases: int
    n_items: int


def confusion(judged: Iterable[JudgedAnswer]) -> Confusion:
    """Count answers by what experts and grader say."""
    table = np.array(list(_by_case(judged).values())).reshape(-1, 4)
    both, grader_only, expert_only, neither = table.T

    def share(hits: Floats, missed: Floats) -> Rate:
        return Rate(int(hits.sum()), int((hits + missed).sum()), share_interval(hits, hits + missed))

    agreement = share(both + neither, grader_only + expert_only)
    return Confusion(
        int(both.sum()), int(grader_only.sum()), int(expert_only.sum()), int(neither.sum()),
        agreement=agreement, sensitivity=share(both, expert_only), specificity=share(neither, grader_only),
    )  # fmt: skip


def _by_case(judged: Iterable[JudgedAnswer]) -> dict[str, Floats]:
    """Return case → how many of its answers both call right, the grader alone, the experts alone, neither."""
    found: dict[str, Floats] = {}
    for one in judged:
        found.setdefault(one.case, np.zeros(4))[2 * (not one.grader_says) + (not one.expert_says)] += 1
    return found


def case_counts(judged: Iterable[JudgedAnswer]) -> list[CaseCount]:
    """Return the counts of each model's answers on each case."""
    groups: dict[tuple[str, str], list[JudgedAnswer]] = {}
    for one in judged:
        groups.setdefault((one.model, one.case), []).append(one)
    return [
        CaseCount(case, sum(o.expert_says for o in held), sum(o.grader_says for o in held), len(held))
        for (_, case), held in groups.items()
    ]  # fmt: skip


def count_agreement(counts: Sequence[CaseCount]) -> CountAgreement:
    """Compare the counts of experts and grader over cases."""
    if not counts:
        return CountAgreement(0, math.nan, math.nan, math.nan)
    apart = [abs(one.expert - one.grader) / one.trials for one in counts]
    same = sum(one.expert == one.grader for one in counts)
    return CountAgreement(len(counts), 1 - sum(apart) / len(counts), same / len(counts), _spearman(counts))


def _spearman(counts: Sequence[CaseCount]) -> float:
    expert, grader = [one.expert for one in counts], [one.grader for one in counts]
    if len(set(expert)) < 2 or len(set(grader)) < 2:
        return math.nan
    from scipy import stats  # type: ignore[import-untyped]  # slow to load

    return float(stats.spearmanr(expert, grader).statistic)


def rogan_gladen(apparent: ArrayLike, sensitivity: ArrayLike, specificity: ArrayLike) -> Floats:
    """Return (apparent + specificity − 1) / (sensitivity + specificity − 1), unclipped, of numbers or of arrays.

    NaN where the grader is no better than chance (sensitivity + specificity ≤ 1) or either is unknown.
    """
    missed = 1 - np.asarray(specificity, dtype=np.float64)
    informed = np.asarray(sensitivity, dtype=np.float64) - missed
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(informed > 0, (np.asarray(apparent, dtype=np.float64) - missed) / informed, np.nan)


def corrected(model: str, scores: Mapping[str, float], judged: Sequence[JudgedAnswer]) -> Corrected:
    """Correct the mean of a model's ``scores``, by case, by the grader's error, as the judged items show it.

    The interval resamples cases with their score and with all of their judged items; resamples in which the correction
    is undefined are left out.
    """
    cells = _by_case(judged)
    cases = list(dict.fromkeys([*scores, *cells]))
    none = np.zeros(4)
    table = np.array([[scores.get(case, 0.0), case in scores, *cells.get(case, none)] for case in cases]).reshape(-1, 6)
    apparent, estimate = (float(found[0]) for found in _estimates(table.sum(axis=0)[None]))
    n_items = int(table[:, 2:].sum())
    if math.isnan(estimate):
        return Corrected(model, apparent, None, NOTHING, False, len(scores), n_items)
    _, drawn = _estimates(resampled_sums(table))
    fewer = min(len(scores), len(cells))
    low, high = wilson_if_alike(percentiles(drawn, fewer), min(1.0, max(0.0, estimate)), fewer)
    kept = [min(1.0, max(0.0, one)) for one in (estimate, low, high)]
    return Corrected(
        model, apparent, kept[0], Interval(kept[1], kept[2]), kept != [estimate, low, high], len(scores), n_items
    )  # fmt: skip


def _estimates(sums: Floats) -> tuple[Floats, Floats]:
    """Return the accuracy as graded and corrected, of sums of scores, scored cases and the four kinds of item."""
    score, scored, both, grader_only, expert_only, neither = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        apparent = score / scored
        return apparent, rogan_gladen(apparent, both / (both + expert_only), neither / (neither + grader_only))


RELEASE, IMPORTED = "release", "imported"
"""Under which name annotations of the authors' release, and those of a file, are kept in place of a review's."""
RELEASE_THIRD = "release d3"


@dataclass(frozen=True)
class AgainstGrader:
    """A review's free responses as experts and each grader judged them; ``excluded`` have no verdict that counts."""

    judged: Sequence[JudgedAnswer]
    excluded: int
    undecided: int


def judgements_of(store: Store, state: ReviewState) -> list[Judgement]:
    """Return what was said in an unblinded review; raise ``UsageError`` while it is blinded."""
    if not state.review.unblinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures by model.")
    asked = {one.item: one.annotators for one in state.items}
    ordered = sorted(state.said.values(), key=lambda one: one.annotated_at)
    return _judgements(store, ordered, lambda one: one.annotator not in asked.get(one.item, ()))


def imported_judgements(store: Store) -> list[Judgement]:
    """Return what the imported annotations say; of three on one question, the one that came last breaks a tie."""
    with store.read() as cursor:
        held = [one for source in (RELEASE, IMPORTED) for one in annotations_of(cursor, review_id=source)]
    heard: dict[tuple[str, str], list[str]] = {}
    for one in sorted(held, key=lambda one: one.annotated_at):
        heard.setdefault((one.item, one.question), []).append(one.annotator)

    def third(one: Annotation) -> bool:
        return one.annotator == RELEASE_THIRD or one.annotator in heard[one.item, one.question][2:]

    return _judgements(store, held, third)


def decisions_of(store: Store, state: ReviewState) -> list[Decision]:
    """Return the decisions of an unblinded review, by model."""
    return sorted(decide(judgements_of(store, state), tie_breaker=""), key=lambda one: one.model)


def against_grader(store: Store, decisions: Iterable[Decision]) -> AgainstGrader:
    """Put every grader's newest verdict on a free response beside the experts' decision on it."""
    asked = [one for one in decisions if one.question == "equivalent"]
    items = {one.item: parse_item(one.item) for one in asked}
    with store.read() as cursor:
        verdicts = rows.free_verdicts(cursor, [item.trial_id for item in items.values()])
    judged: list[JudgedAnswer] = []
    excluded = 0
    for one in asked:
        item = items[one.item]
        held = verdicts.get((item.trial_id, item.format), [])
        excluded += not any(verdict in COUNTED for _, verdict in held)
        judged += [
            JudgedAnswer(one.item, one.model, one.case, grader, one.answer == "yes", verdict == "correct")
            for grader, verdict in held
            if one.answer is not None and verdict in COUNTED
        ]
    return AgainstGrader(judged, excluded, sum(one.answer is None for one in asked))


def corrected_accuracies(store: Store, state: ReviewState, judged: Sequence[JudgedAnswer]) -> list[Corrected]:
    """Return the accuracy of every model of the review in its format, corrected for the grader's error.

    Raises ``UsageError`` where the items do not stand for all answers, being drawn for disagreement.
    """
    plan = state.review.plan
    if plan.sampling == "disagreement":
        raise UsageError(
            "These items were drawn because graders or rules disagree on them: the grader's error on them is not its "
            "error on all answers, so no accuracy is corrected by it."
        )
    with store.read() as cursor:
        known = rows.subjects(cursor, [parse_item(one.item).trial_id for one in judged])
        runs = sorted({subject.run_id for subject in known.values()})
        selection = Selection(
            runs=runs, datasets=plan.datasets or None, specialties=plan.specialties or None, formats=[plan.format],
            question_types=["frq"],
        )  # fmt: skip
        held = case_scores(cursor, selection)
    scores: dict[str, dict[str, float]] = {}
    for one in held:
        if one.score is not None:
            scores.setdefault(one.model, {})[one.case_key] = one.score
    return [corrected(model, found, judged) for model, found in scores.items()]


def _judgements(store: Store, said: Sequence[Annotation], third: Callable[[Annotation], bool]) -> list[Judgement]:
    answers = [one for one in said if one.question in QUESTIONS and one.value in ("yes", "no")]
    items = {one.item: parse_item(one.item) for one in answers}
    with store.read() as cursor:
        known = rows.subjects(cursor, [item.trial_id for item in items.values() if item.trial_id])

    def whose(item: Item) -> tuple[str, str]:
        subject = known.get(item.trial_id)
        return (subject.model, subject.case_key) if subject else (item.model or "unknown", item.case_key or "unknown")

    return [
        Judgement(*whose(items[one.item]), one.question, one.annotator, one.value, one.item, third(one))  # type: ignore[arg-type]
        for one in answers
    ]  # fmt: skip
