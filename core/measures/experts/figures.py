"""Figures of the experts' answers: shares by model, paired tests between models, agreement of the annotators.

Items about one case hang together: intervals resample cases with all their items. The shares of one item a case, as in
the CRAFT-MD release, have Wilson's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from core.measures.experts.deciding import Decision
from core.stats.agreement import (
    Said,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    percent_agreement,
)
from core.stats.agreement_resampled import agreement_by_case
from core.stats.intervals import NOTHING, Interval
from core.stats.mcnemar import McNemar, mcnemar, paired_counts
from core.stats.ratios import share_interval
from core.store.review_records import ANSWERS, Question


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
