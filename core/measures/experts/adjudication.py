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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.events import COUNTED
from core.measures.base import Columns, Row
from core.reviews.reviewing import ReviewState
from core.stats.agreement import agreement_by_case
from core.stats.differences import mcnemar, paired_counts
from core.stats.intervals import NOTHING, Interval, wilson_if_alike
from core.stats.ratios import percentiles, ratio, resampled_sums
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.annotations import Annotation, annotations_of
from core.store.queries.answers import CaseScore, case_scores
from core.store.queries.grades import free_verdicts
from core.store.queries.trials import subjects
from core.store.review_records import ANSWERS, ASKED, QUESTIONS, Answer, Item, Judgement, Question, parse_item
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


VALUE = Columns("value", "low", "high", "n")
"""How the figures of ``report experts`` are printed."""
MEASURES = {
    "percent_agreement": "percent agreement",
    "cohen_kappa": "Cohen's kappa",
    "fleiss_kappa": "Fleiss' kappa",
    "gwet_ac": "Gwet's AC1",
    "krippendorff_alpha": "Krippendorff's alpha",
}
"""Coefficient, as ``core.stats.agreement`` calls it → its name in words."""


def shares(decisions: Iterable[Decision]) -> list[Row]:
    """Return how often the experts said yes, by question and model; ``open`` ties are not among the items counted."""
    groups: dict[tuple[Question, str], list[Decision]] = {}
    for decision in decisions:
        groups.setdefault((decision.question, decision.model), []).append(decision)
    rows = []
    for (question, model), members in groups.items():
        yes = Counter(decision.case for decision in members if decision.answer == "yes")
        n = Counter(decision.case for decision in members if decision.answer is not None)
        low, high = ratio_interval([yes[case] for case in n], list(n.values()))
        rows.append(
            Row(
                {"question": ASKED[question], "model": model},
                yes.total() / n.total() if n else None,
                low,
                high,
                n.total(),
                more={"yes": yes.total(), "open": len(members) - n.total()},
                unit="items",
                columns=VALUE._replace(estimate="share"),
            )
        )
    return rows


def pairs(decisions: Sequence[Decision], questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return the exact two-sided McNemar test of every two models on the cases that both have an answer for.

    If a model has several items on a case, the first that was decided counts.
    """
    answers: dict[tuple[Question, str], dict[str, bool]] = {}
    for decision in decisions:
        if decision.answer is not None:
            by_case = answers.setdefault((decision.question, decision.model), {})
            by_case.setdefault(decision.case, decision.answer == "yes")
    lines = []
    for question in questions:
        models = [model for q, model in answers if q == question]
        for first, second in combinations(models, 2):
            left, right = answers[question, first], answers[question, second]
            shared = [case for case in left if case in right]
            if not shared:
                continue
            counts = paired_counts([left[case] for case in shared], [right[case] for case in shared])
            lines.append(
                {
                    "question": ASKED[question],
                    "first": first,
                    "second": second,
                    "first_only": counts.first_only,
                    "second_only": counts.second_only,
                    "n": len(shared),
                    "p": mcnemar(counts).p,
                }
            )
    return lines


def agreement(decisions: Iterable[Decision], questions: Sequence[Question]) -> list[Row]:
    """Return how far annotators agree on each question, over the items that two judged who did not know of a tie.

    Cohen's kappa if the same two judged all items, else Fleiss'.
    """
    listed = list(decisions)
    rows: list[Row] = []
    for question in questions:
        twice = [d for d in listed if d.question == question and len(d.said) == 2]
        judges = {who for d in twice for who in d.said}
        cases = {case: place for place, case in enumerate(dict.fromkeys(d.case for d in twice))}
        table = np.zeros((len(cases), len(ANSWERS), len(ANSWERS)))
        for decision in twice:
            # in one order for all items, since Cohen's kappa tells the first judge from the second
            first, second = (decision.said[who] for who in sorted(decision.said))
            table[cases[decision.case], ANSWERS.index(first), ANSWERS.index(second)] += 1
        (estimates,) = agreement_by_case([table])
        left_out = "fleiss_kappa" if len(judges) <= 2 else "cohen_kappa"
        for name, words in MEASURES.items():
            if name != left_out:
                value, (low, high) = estimates[name]
                label = {"question": ASKED[question], "measure": words}
                rows.append(Row(label, value, low, high, len(twice), unit="items", columns=VALUE))
    return rows


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


Counts = tuple[int, int, int]
"""Of a model's trials on a case: how many the experts call right, how many the grader, and how many there are."""
CONFUSION = ("both say right", "grader alone", "experts alone", "both say wrong")


def confusion(grader: str, judged: Iterable[JudgedAnswer]) -> list[Row]:
    """Return how many answers grader and experts call right, and how far the grader can be trusted.

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
    n = int(table.sum())
    rows = [
        figure_of_grader(grader, name, int(count), n) for name, count in zip(CONFUSION, table.sum(axis=0), strict=True)
    ]
    for name, (hits, missed) in shares.items():
        of = hits + missed
        rows.append(figure_of_grader(grader, name, ratio(hits, of), int(of.sum()), ratio_interval(hits, of)))
    return rows


def figure_of_grader(grader: str, figure: str, value: float | None, n: int, interval: Interval = NOTHING) -> Row:
    """Return a figure of a grader next to experts, on ``n`` items."""
    label = {"grader": grader, "figure": figure}
    return Row(label, value, interval.low, interval.high, n, unit="items", columns=VALUE)


def _by_case(judged: Iterable[JudgedAnswer]) -> dict[str, Floats]:
    """Return case → how many of its answers both call right, the grader alone, the experts alone, neither."""
    found: dict[str, Floats] = {}
    for one in judged:
        found.setdefault(one.case, np.zeros(4))[2 * (not one.grader_says) + (not one.expert_says)] += 1
    return found


def case_counts(judged: Iterable[JudgedAnswer]) -> dict[tuple[str, str], Counts]:
    """Return (model, case) → counts of its answers."""
    groups: dict[tuple[str, str], list[JudgedAnswer]] = {}
    for answer in judged:
        groups.setdefault((answer.model, answer.case), []).append(answer)
    return {
        place: (sum(a.expert_says for a in answers), sum(a.grader_says for a in answers), len(answers))
        for place, answers in groups.items()
    }


def count_agreement(grader: str, counts: Collection[Counts]) -> list[Row]:
    """Compare the counts of experts and grader over cases: three rows, NaN where they are undefined.

    ``agreement of counts`` is 1 − mean |difference| / trials (Johri et al. 2025, Results), ``same count`` the share of
    cases with the same count, ``Spearman of counts`` their rank correlation.
    """
    experts, graders, trials = np.array(list(counts), dtype=np.float64).reshape(-1, 3).T
    agreed, same, spearman = math.nan, math.nan, math.nan
    if counts:
        agreed = 1 - sum(np.abs(experts - graders) / trials) / len(counts)
        same = sum(experts == graders) / len(counts)
    if len(set(experts)) > 1 and len(set(graders)) > 1:
        from scipy import stats  # type: ignore[import-untyped]  # slow to load

        spearman = stats.spearmanr(experts, graders).statistic
    figures = {"agreement of counts": agreed, "same count": same, "Spearman of counts": spearman}
    return [figure_of_grader(grader, name, float(value), len(counts)) for name, value in figures.items()]


def rogan_gladen(apparent: ArrayLike, sensitivity: ArrayLike, specificity: ArrayLike) -> Floats:
    """Return (apparent + specificity − 1) / (sensitivity + specificity − 1), unclipped, of numbers or of arrays.

    NaN where the grader is no better than chance (sensitivity + specificity ≤ 1) or either is unknown.
    """
    missed = 1 - np.asarray(specificity, dtype=np.float64)
    informed = np.asarray(sensitivity, dtype=np.float64) - missed
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(informed > 0, (np.asarray(apparent, dtype=np.float64) - missed) / informed, np.nan)


def corrected(model: str, scores: Mapping[str, float], judged: Sequence[JudgedAnswer]) -> Row:
    """Correct the mean of a model's ``scores``, by case, by the grader's error, as the judged items show it.

    The row's estimate is the corrected accuracy over the judged items, ``None`` where it cannot be corrected;
    ``apparent`` the accuracy over ``n_cases`` as the grader has it. ``clipped``: the estimate, or a bound of its 95 %
    interval, lay outside 0 to 1 and was set to the nearer of them. The interval resamples cases with their score and
    with all of their judged items; resamples in which the correction is undefined are left out.
    """
    by_case = _by_case(judged)
    cases = list(dict.fromkeys([*scores, *by_case]))
    none = np.zeros(4)
    table = np.array([[scores.get(case, 0.0), case in scores, *by_case.get(case, none)] for case in cases])
    table = table.reshape(-1, 6)
    apparent, estimate = (float(found[0]) for found in _estimates(table.sum(axis=0)[None]))
    more = {"apparent": apparent, "n_cases": len(scores), "clipped": False}
    row = Row({"model": model}, None, n=int(table[:, 2:].sum()), more=more, unit="items", columns=VALUE)
    if math.isnan(estimate):
        return row
    _, drawn = _estimates(resampled_sums(table))
    fewer = min(len(scores), len(by_case))
    low, high = wilson_if_alike(percentiles(drawn, fewer), min(1.0, max(0.0, estimate)), fewer)
    inside = [min(1.0, max(0.0, value)) for value in (estimate, low, high)]
    more["clipped"] = inside != [estimate, low, high]
    return replace(row, estimate=inside[0], low=inside[1], high=inside[2], more=more)


def _estimates(sums: Floats) -> tuple[Floats, Floats]:
    """Return the accuracy as graded and corrected, of sums of scores, scored cases and the four kinds of item."""
    score, scored, both, grader_only, expert_only, neither = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        apparent = score / scored
        return apparent, rogan_gladen(apparent, both / (both + expert_only), neither / (neither + grader_only))


RELEASE, IMPORTED = "release", "imported"
"""Under which name annotations of the authors' release, and those of a file, are kept in place of a review's."""
RELEASE_THIRD = "release d3"


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


def against_grader(store: Store, decisions: Iterable[Decision]) -> tuple[list[JudgedAnswer], dict[str, int]]:
    """Put every grader's newest verdict on a free response next to the experts' decision on it.

    Returns the answers that experts and a grader judged, and reason → how many are left out.
    """
    about_answers = [decision for decision in decisions if decision.question == "equivalent"]
    items = {decision.item: parse_item(decision.item) for decision in about_answers}
    with store.read() as cursor:
        verdicts = free_verdicts(cursor, [item.trial_id for item in items.values()])
    judged: list[JudgedAnswer] = []
    excluded = {"without a verdict that counts": 0, "without the experts' answer": 0}
    for decision in about_answers:
        item = items[decision.item]
        by_grader = verdicts.get((item.trial_id, item.format), [])
        excluded["without a verdict that counts"] += not any(verdict in COUNTED for _, verdict in by_grader)
        excluded["without the experts' answer"] += decision.answer is None
        judged += [
            JudgedAnswer(
                decision.item, decision.model, decision.case, grader, decision.answer == "yes", verdict == "correct"
            )
            for grader, verdict in by_grader
            if decision.answer is not None and verdict in COUNTED
        ]
    return judged, {reason: n for reason, n in excluded.items() if n}


def corrected_accuracies(store: Store, state: ReviewState, judged: Sequence[JudgedAnswer]) -> list[Row]:
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
