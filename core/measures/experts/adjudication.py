"""Figures of the experts' answers: shares, paired tests, and the error of a grader.

The experts' answer is that of the single annotator, that of both if they agree, or else that of the third
(``core.reviews.state.decided``). Items about one case are correlated: intervals resample cases with all their items
(``core.stats.smoothed``). Models' names are available only for unblinded reviews.

A grader of free responses is compared with experts answer by answer and count by count. Accuracies are corrected for
its error by the estimator of Rogan and Gladen (American Journal of Epidemiology 1978, 107:71), with 95 % intervals.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import UsageError
from core.events import COUNTED
from core.judging.form import Form, form_named
from core.judging.judgement import Judgement
from core.measures.base import Columns, Row
from core.reviews.exchange import IMPORTED, RELEASE
from core.reviews.state import TIED, About, ItemAnswers, ReviewState, about_items
from core.stats.differences import mcnemar, paired_counts
from core.stats.intervals import NOTHING, Interval, wilson_if_alike
from core.stats.ratios import percentiles, resampled_sums
from core.stats.smoothed import share_of
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.grades import free_verdicts
from core.store.queries.judgements import judgements
from core.store.review_records import Review, ReviewItem, ReviewPlan, parse_item, yes_no_questions
from core.store.tables import UnblindingRow

TIE_BREAKERS = ("d3", "release d3")
"""Names of the release's third annotator, in its workbooks and as imported."""


def review_of(
    form: Form, answers: Iterable[Judgement], about: Mapping[str, About], source: str = RELEASE
) -> ReviewState:
    """Return answers that are in no review, the oldest first, as a review that is unblinded.

    The annotators of a question about an item are the first two who answered it; the next person settles their tie.
    ``TIE_BREAKERS`` are never among these two.
    """
    newest: dict[tuple[str, str, str], Judgement] = {}
    people: dict[tuple[str, str], dict[str, None]] = {}
    for answer in answers:
        newest[answer.subject, answer.judge.name, answer.question] = answer
        people.setdefault((answer.subject, answer.question), {})[answer.judge.name] = None
    items = tuple(
        ReviewItem(item, number, tuple(name for name in names if name not in TIE_BREAKERS)[:2], (question,))
        for number, ((item, question), names) in enumerate(people.items(), start=1)
    )
    plan = ReviewPlan.model_construct(kind=form.name, number=len(items), annotators=(), form=form)
    ended = UnblindingRow(source, "", "", 0.0)
    return ReviewState(Review(source, plan, items, source, unblinded=ended), newest, about)


def imported_reviews(store: Store) -> list[ReviewState]:
    """Return the imported answers to questions of yes or no, for each form that asks them."""
    known = yes_no_questions()
    with store.read() as cursor:
        stored = [answer for source in (RELEASE, IMPORTED) for answer in judgements(cursor, review_id=source)]
        stored = [answer for answer in stored if answer.question in known and answer.value in ("yes", "no")]
        about = about_items(cursor, dict.fromkeys(answer.subject for answer in stored))
    answers = sorted(stored, key=lambda answer: answer.at)
    return [
        review_of(form, (answer for answer in answers if form.question(answer.question)), about, IMPORTED)
        for form in map(form_named, ("conversations", "answers"))
    ]


def decisions_of(state: ReviewState) -> list[ItemAnswers]:
    """Return the decisions of an unblinded review, by model; raise ``UsageError`` if it is blinded."""
    if not state.review.unblinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures by model.")
    known = yes_no_questions()
    decisions = [
        item
        for question in state.form.questions
        if question.id in known
        for item in state.judged(question)
        if item.judged or item.settled
    ]
    if state.review.review_id in (RELEASE, IMPORTED):
        return decisions  # the items of other reviews are shuffled
    return sorted(decisions, key=lambda decision: decision.model)


VALUE = Columns("value", "low", "high", "n")
"""Columns of the figures of ``report experts``."""


def shares(decisions: Iterable[ItemAnswers]) -> list[Row]:
    """Return the share (0 to 1) of yes by question and model; ties that are not settled are excluded."""
    groups: dict[tuple[str, str], list[ItemAnswers]] = {}
    for decision in decisions:
        groups.setdefault((decision.question, decision.model), []).append(decision)
    rows = []
    for (question, model), members in groups.items():
        decided = [(decision.case, decision.answer == "yes") for decision in members if decision.answer is not None]
        rows.append(
            Row(
                {"question": yes_no_questions()[question], "model": model},
                *share_of(decided),
                {TIED: len(members) - len(decided)},
                more={"yes": sum(yes for _, yes in decided)},
                unit="items",
                columns=Columns("share", "low", "high", "n", "excluded"),
            )
        )
    return rows


def pairs(decisions: Sequence[ItemAnswers], questions: Sequence[str]) -> list[dict[str, Any]]:
    """Return the exact two-sided McNemar test of every two models on the cases with an answer for both.

    If a model has several items on a case, the first decided item counts.
    """
    answers: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for decision in decisions:
        if decision.answer is not None:
            answers[decision.question, decision.model].setdefault(decision.case, decision.answer == "yes")
    lines = []
    for question in questions:
        for first, second in combinations([model for q, model in answers if q == question], 2):
            sides = answers[question, first], answers[question, second]
            shared = [case for case in sides[0] if case in sides[1]]
            if not shared:
                continue
            counts = paired_counts(*([side[case] for case in shared] for side in sides))
            lines.append(
                {
                    "question": yes_no_questions()[question],
                    "first": first,
                    "second": second,
                    "first_only": counts.first_only,
                    "second_only": counts.second_only,
                    "n": len(shared),
                    "p": mcnemar(counts).p,
                }
            )
    return lines


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JudgedAnswer:
    """One free response that experts and a grader judged: whether it is right by each of them."""

    item: str
    model: str
    case: str
    grader: str
    expert_says: bool
    grader_says: bool


Counts = tuple[int, int, int]
"""Numbers of a model's trials on a case: right by the experts, right by the grader, and in total."""
CONFUSION = ("both say right", "grader alone", "experts alone", "both say wrong")


def confusion(grader: str, judged: Iterable[JudgedAnswer]) -> list[Row]:
    """Return the counts of ``CONFUSION``, and the grader's agreement, sensitivity and specificity (0 to 1).

    ``agreement``: the share of equal verdicts; ``sensitivity``: the share that the grader calls right among the answers
    that experts call right; ``specificity``: the share that it calls wrong among those that experts call wrong.
    """
    answers = list(judged)
    counts = Counter((answer.grader_says, answer.expert_says) for answer in answers)
    rows = [
        figure_of_grader(grader, name, counts[says], len(answers))
        for name, says in zip(CONFUSION, product((True, False), (True, False)), strict=True)
    ]
    shares = {
        "agreement": ((answer.case, answer.grader_says == answer.expert_says) for answer in answers),
        "sensitivity": ((answer.case, answer.grader_says) for answer in answers if answer.expert_says),
        "specificity": ((answer.case, not answer.grader_says) for answer in answers if not answer.expert_says),
    }
    for name, hits in shares.items():
        share, low, high, n = share_of(hits)
        rows.append(figure_of_grader(grader, name, share, n, Interval(low, high)))
    return rows


def figure_of_grader(grader: str, figure: str, value: float | None, n: int, interval: Interval = NOTHING) -> Row:
    label = {"grader": grader, "figure": figure}
    return Row(label, value, interval.low, interval.high, n, unit="items", columns=VALUE)


def case_counts(judged: Iterable[JudgedAnswer]) -> dict[tuple[str, str], Counts]:
    groups: dict[tuple[str, str], list[JudgedAnswer]] = {}
    for answer in judged:
        groups.setdefault((answer.model, answer.case), []).append(answer)
    return {
        place: (sum(a.expert_says for a in answers), sum(a.grader_says for a in answers), len(answers))
        for place, answers in groups.items()
    }


def count_agreement(grader: str, counts: Collection[Counts]) -> list[Row]:
    """Compare the counts of experts and grader over cases: three rows, NaN if undefined.

    ``agreement of counts`` is 1 − mean |difference| / trials (Johri et al. 2025, Results), ``same count`` the share of
    cases with the same count, ``Spearman of counts`` the rank correlation of the counts.
    """
    experts, graders, trials = np.array(list(counts), dtype=np.float64).reshape(-1, 3).T
    agreed, same, spearman = math.nan, math.nan, math.nan
    if counts:
        agreed = 1 - sum(np.abs(experts - graders) / trials) / len(counts)
        same = sum(experts == graders) / len(counts)
    if len(counts) > 2 and len(set(experts)) > 1 and len(set(graders)) > 1:  # of two cases it is always 1 or -1
        from scipy import stats  # type: ignore[import-untyped]  # slow to load

        spearman = stats.spearmanr(experts, graders).statistic
    figures = {"agreement of counts": agreed, "same count": same, "Spearman of counts": spearman}
    return [figure_of_grader(grader, name, float(value), len(counts)) for name, value in figures.items()]


def corrected(model: str, scores: Mapping[str, float], judged: Sequence[JudgedAnswer]) -> Row:
    """Correct the mean of a model's ``scores`` (by case) for the grader's error, measured on the judged items.

    The row's estimate is the corrected accuracy, ``None`` if it cannot be corrected, and its n the judged items;
    ``apparent`` is the accuracy over ``n_cases`` by the grader. ``clipped``: the estimate, or a bound of its 95 %
    interval, was outside 0 to 1 and was set to the nearer limit. The interval resamples cases with their score and all
    their judged items; resamples in which the correction is undefined are left out.
    """
    by_case: dict[str, Floats] = {}
    for answer in judged:
        by_case.setdefault(answer.case, np.zeros(4))[2 * (not answer.grader_says) + (not answer.expert_says)] += 1
    cases = list(dict.fromkeys([*scores, *by_case]))
    no_items = np.zeros(4)
    table = np.array([[scores.get(case, 0.0), case in scores, *by_case.get(case, no_items)] for case in cases])
    table = table.reshape(-1, 6)
    apparent, estimate = (float(values[0]) for values in _estimates(table.sum(axis=0)[None]))
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
    """Return the apparent and the corrected accuracy from sums of scores, scored cases and ``CONFUSION`` counts.

    The correction is (apparent + specificity − 1) / (sensitivity + specificity − 1), unclipped; NaN if the grader is
    no better than chance (sensitivity + specificity ≤ 1) or either is unknown.
    """
    score, scored, both, grader_only, expert_only, neither = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        apparent, false_positives = score / scored, grader_only / (grader_only + neither)
        youden = both / (both + expert_only) - false_positives
        return apparent, np.where(youden > 0, (apparent - false_positives) / youden, np.nan)


def against_grader(store: Store, decisions: Iterable[ItemAnswers]) -> tuple[list[JudgedAnswer], dict[str, int]]:
    """Match every grader's newest verdict on a free response with the experts' decision on it.

    Returns the answers that experts and a grader judged, and reason → number of excluded answers.
    """
    about_answers = [decision for decision in decisions if decision.question == "equivalent"]
    items = {decision.item: parse_item(decision.item) for decision in about_answers}
    with store.read() as cursor:
        verdicts = free_verdicts(cursor, [item.trial_id for item in items.values()])
    judged: list[JudgedAnswer] = []
    excluded = {"without a verdict that counts": 0, TIED: 0}
    for decision in about_answers:
        item = items[decision.item]
        by_grader = verdicts.get((item.trial_id, item.format), [])
        excluded["without a verdict that counts"] += not any(verdict in COUNTED for _, verdict in by_grader)
        excluded[TIED] += decision.answer is None
        judged += [
            JudgedAnswer(
                decision.item, decision.model, decision.case, grader, decision.answer == "yes", verdict == "correct"
            )
            for grader, verdict in by_grader
            if decision.answer is not None and verdict in COUNTED
        ]
    return judged, {reason: n for reason, n in excluded.items() if n}


def means_by_model(scores: Iterable[CaseScore]) -> dict[str, dict[str, float]]:
    """Return model → case → score, without cases that have no counted trial."""
    means: dict[str, dict[str, float]] = {}
    for score in scores:
        if score.score is not None:
            means.setdefault(score.model, {})[score.case_key] = score.score
    return means
