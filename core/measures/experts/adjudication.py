"""Figures of the experts' answers: shares, paired tests, agreement, and how far a grader can be trusted.

What counts as the experts' answer: the one annotator's, both's where they agree, the third's where they do not. Items
about one case hang together: intervals resample cases with all their items (``core.stats.smoothed``). Models' names are
given only of a review that is unblinded.

A grader of free responses stands against experts answer by answer and count by count. What its measured error means for
an accuracy: the estimator of Rogan and Gladen (American Journal of Epidemiology 1978, 107:71), 95 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.events import COUNTED
from core.measures.experts.reviewing import ReviewState
from core.stats.agreement import agreement_by_case
from core.stats.differences import McNemar, PairedCounts, mcnemar, paired_counts
from core.stats.intervals import NOTHING, Interval, wilson_if_alike
from core.stats.ratios import percentiles, ratio, resampled_sums
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.annotations import Annotation, annotations_of
from core.store.queries.answers import CaseScore, case_scores
from core.store.queries.grades import free_verdicts
from core.store.queries.trials import subjects
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
    found = []
    for (model, case, item, question), answers in said.items():
        how: How = "single" if len(answers) == 1 else "agreed"
        answer: Answer | None = next(iter(answers.values()), None)
        if len(set(answers.values())) != 1:
            answer = third.get((model, case, item, question))
            how = "tie_broken" if answer else "open"
        found.append(Decision(model, case, question, answer, how, answers, item))
    return found


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


MEASURES = {
    "percent_agreement": "percent agreement",
    "cohen_kappa": "Cohen's kappa",
    "fleiss_kappa": "Fleiss' kappa",
    "gwet_ac": "Gwet's AC1",
    "krippendorff_alpha": "Krippendorff's alpha",
}
"""Coefficient, as ``core.stats.agreement`` calls it → its name in words."""


def shares(decisions: Iterable[Decision]) -> list[Share]:
    """Return the shares of yes by question and model."""
    groups: dict[tuple[Question, str], list[Decision]] = {}
    for one in decisions:
        groups.setdefault((one.question, one.model), []).append(one)
    found = []
    for (question, model), members in groups.items():
        yes = Counter(one.case for one in members if one.answer == "yes")
        n = Counter(one.case for one in members if one.answer is not None)
        interval = ratio_interval([yes[case] for case in n], list(n.values()))
        found.append(Share(model, question, yes.total(), n.total(), len(members) - n.total(), interval))
    return found


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
        cases = {case: place for place, case in enumerate(dict.fromkeys(d.case for d in twice))}
        table = np.zeros((len(cases), len(ANSWERS), len(ANSWERS)))
        for one in twice:
            # in one order for all items, since Cohen's kappa tells the first judge from the second
            first, second = (one.said[who] for who in sorted(one.said))
            table[cases[one.case], ANSWERS.index(first), ANSWERS.index(second)] += 1
        (estimates,) = agreement_by_case([table])
        left_out = "fleiss_kappa" if len(judges) <= 2 else "cohen_kappa"
        found += [
            Agreement(question, words, *estimates[name], len(twice), len(cases))
            for name, words in MEASURES.items()
            if name != left_out
        ]
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


class Rate(NamedTuple):
    """A share (0 to 1) of ``n`` answers with its interval; NaN of none."""

    value: float
    n: int
    interval: Interval


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


def confusion(judged: Iterable[JudgedAnswer]) -> tuple[PairedCounts, dict[str, Rate]]:
    """Return how many answers grader and experts call right, and how far the grader can be trusted, by name.

    ``agreement``: how often the two say the same; ``sensitivity``: how many of the answers that experts call right the
    grader calls right; ``specificity``: how many of those that experts call wrong it calls wrong.
    """
    table = np.array(list(_by_case(judged).values())).reshape(-1, 4)
    both, grader_only, expert_only, neither = table.T
    shares = {
        "agreement": (both + neither, grader_only + expert_only),
        "sensitivity": (both, expert_only),
        "specificity": (neither, grader_only),
    }
    rates = {
        name: Rate(ratio(hits, hits + missed), int((hits + missed).sum()), ratio_interval(hits, hits + missed))
        for name, (hits, missed) in shares.items()
    }
    return PairedCounts(*(int(n) for n in table.sum(axis=0))), rates


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
    ]


def count_agreement(counts: Sequence[CaseCount]) -> CountAgreement:
    """Compare the counts of experts and grader over cases."""
    if not counts:
        return CountAgreement(0, math.nan, math.nan, math.nan)
    apart = [abs(one.expert - one.grader) / one.trials for one in counts]
    same = sum(one.expert == one.grader for one in counts)
    expert, grader = [one.expert for one in counts], [one.grader for one in counts]
    spearman = math.nan
    if len(set(expert)) > 1 and len(set(grader)) > 1:
        from scipy import stats  # type: ignore[import-untyped]  # slow to load

        spearman = float(stats.spearmanr(expert, grader).statistic)
    return CountAgreement(len(counts), 1 - sum(apart) / len(counts), same / len(counts), spearman)


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
    )


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


def decisions_of(store: Store, state: ReviewState) -> list[Decision]:
    """Return the decisions of an unblinded review, by model; raise ``UsageError`` while it is blinded."""
    if not state.review.unblinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures by model.")
    asked = {one.item: one.annotators for one in state.items}
    ordered = sorted(state.said.values(), key=lambda one: one.annotated_at)
    said = _judgements(store, ordered, lambda one: one.annotator not in asked.get(one.item, ()))
    return sorted(decide(said, tie_breaker=""), key=lambda one: one.model)


def imported_judgements(store: Store) -> list[Judgement]:
    """Return what the imported annotations say; of three on one question, the one that came last breaks a tie."""
    with store.read() as cursor:
        held = [one for source in (RELEASE, IMPORTED) for one in annotations_of(cursor, source)]
    heard: dict[tuple[str, str], list[str]] = {}
    for one in sorted(held, key=lambda one: one.annotated_at):
        heard.setdefault((one.item, one.question), []).append(one.annotator)

    def third(one: Annotation) -> bool:
        return one.annotator == RELEASE_THIRD or one.annotator in heard[one.item, one.question][2:]

    return _judgements(store, held, third)


def against_grader(store: Store, decisions: Iterable[Decision]) -> AgainstGrader:
    """Put every grader's newest verdict on a free response beside the experts' decision on it."""
    asked = [one for one in decisions if one.question == "equivalent"]
    items = {one.item: parse_item(one.item) for one in asked}
    with store.read() as cursor:
        verdicts = free_verdicts(cursor, [item.trial_id for item in items.values()])
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
        known = subjects(cursor, [parse_item(one.item).trial_id for one in judged])
        runs = sorted({subject.run_id for subject in known.values()})
        selection = Selection(
            runs=runs,
            datasets=plan.datasets or None,
            specialties=plan.specialties or None,
            formats=[plan.format],
            question_types=["frq"],
        )
        scores = means_by_model(case_scores(cursor, selection))
    return [corrected(model, found, judged) for model, found in scores.items()]


def means_by_model(scores: Iterable[CaseScore]) -> dict[str, dict[str, float]]:
    """Return model → case → its score, without the cases of which nothing counts."""
    found: dict[str, dict[str, float]] = {}
    for one in scores:
        if one.score is not None:
            found.setdefault(one.model, {})[one.case_key] = one.score
    return found


def _judgements(store: Store, said: Sequence[Annotation], third: Callable[[Annotation], bool]) -> list[Judgement]:
    answers = [one for one in said if one.question in QUESTIONS and one.value in ("yes", "no")]
    items = {one.item: parse_item(one.item) for one in answers}
    with store.read() as cursor:
        known = subjects(cursor, [item.trial_id for item in items.values() if item.trial_id])

    def whose(item: Item) -> tuple[str, str]:
        subject = known.get(item.trial_id)
        return (subject.model, subject.case_key) if subject else (item.model or "unknown", item.case_key or "unknown")

    return [
        Judgement(*whose(items[one.item]), one.question, one.annotator, one.value, one.item, third(one))  # type: ignore[arg-type]
        for one in answers
    ]
