"""How far judges agree on the same questions about the same items: people, models and rules, whatever the form.

Two sides are compared on the items that both answered. A side can have several answers to a question about an item, of
several people or of one judge that was asked again; all pairs of both sides then count together as one item. Intervals
leave out one case at a time (``core.stats.agreement``).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from core.judging.judgement import Judgement
from core.stats.agreement import Coefficient, agreement_by_case, many_judges_by_case

COEFFICIENTS = {
    "percent_agreement": "percent agreement",
    "cohen_kappa": "Cohen's kappa",
    "fleiss_kappa": "Fleiss' kappa",
    "gwet_ac": "Gwet's AC1",
    "krippendorff_alpha": "Krippendorff's alpha",
}
"""Coefficient of ``core.stats.agreement`` → its name in words."""
ON_SCALES = {**COEFFICIENTS, "gwet_ac": "Gwet's AC2"}
"""The same on a scale, where neighbouring points agree in part."""
UNREADABLE, VOID = "unreadable", "void"
Place = tuple[str, str]
"""An item and the id of a question about it."""
CaseOf = Callable[[str], str]
"""Returns the case of an item."""
_TOKEN = re.compile(r"[^\W_]+")


class Agreement(NamedTuple):
    """Agreement on ``items`` of ``cases``, with the coefficients by name; none if there is no item.

    ``excluded`` counts the items that both judged and that do not enter, by reason.
    """

    items: int
    cases: int
    coefficients: Mapping[str, Coefficient]
    excluded: Mapping[str, int]


def place_of(judgement: Judgement) -> Place:
    return judgement.subject, judgement.question


def why_excluded(judgement: Judgement) -> str:
    """Return why an answer enters no figure; empty if it does."""
    if judgement.void:
        return VOID
    if judgement.value is None:
        return judgement.failure if judgement.judge.kind == "person" else UNREADABLE
    return "" if judgement.counts else judgement.value


def between(
    first: Iterable[Judgement],
    second: Iterable[Judgement],
    values: Sequence[str],
    case_of: CaseOf,
    *,
    ordered: bool = False,
) -> Agreement:
    """Return the agreement of two sides, on the answers among ``values``, of a scale in their order."""
    sides = _by_place(first), _by_place(second)
    weights: dict[tuple[str, int, int], float] = defaultdict(float)
    excluded: Counter[str] = Counter()
    for place in (place for place in sides[0] if place in sides[1]):
        given = [[values.index(str(a.value)) for a in side[place] if a.counts and a.value in values] for side in sides]
        if not all(given):
            without = next(side[place] for side, of in zip(sides, given, strict=True) if not of)
            excluded[_reason(without[0])] += 1
            continue
        for one, other in product(given[0], given[1]):
            weights[case_of(place[0]), one, other] += 1 / (len(given[0]) * len(given[1]))
    return of_two(weights, len(values), ordered=ordered)._replace(excluded=dict(excluded))


def among(
    judgements: Iterable[Judgement], values: Sequence[str], case_of: CaseOf, *, ordered: bool = False
) -> Agreement:
    """Return the agreement of all answers to a question about an item: of people, or of a judge that is asked again.

    Items with fewer than two answers that count are excluded; those with one answer are not compared at all.
    """
    counts: Counter[tuple[str, tuple[int, ...]]] = Counter()
    excluded: Counter[str] = Counter()
    for place, answers in _by_place(judgements).items():
        given = [answer.value for answer in answers if answer.counts and answer.value in values]
        if len(given) >= 2:
            counts[case_of(place[0]), tuple(given.count(value) for value in values)] += 1
        elif len(answers) >= 2:
            excluded[_reason(next(answer for answer in answers if answer.value not in given))] += 1
    return of_many(counts, ordered=ordered)._replace(excluded=dict(excluded))


def of_two(weights: Mapping[tuple[str, int, int], float], values: int, *, ordered: bool = False) -> Agreement:
    """Return the agreement of two judges from case, first's and second's answer (below ``values``) → number of items.

    The number of an item with several answers is divided among their pairs.
    """
    cases = {case: number for number, case in enumerate(dict.fromkeys(case for case, _, _ in weights))}
    table = np.zeros((len(cases), values, values))
    for (case, one, other), weight in weights.items():
        table[cases[case], one, other] = weight
    coefficients = agreement_by_case(table, ordered) if weights else {}
    return Agreement(round(table.sum()), len(cases), coefficients, {})


def of_many(numbers: Mapping[tuple[str, tuple[int, ...]], float], *, ordered: bool = False) -> Agreement:
    """Return the agreement of two judges or more from case and pattern → number of items.

    A pattern is how many judges gave each answer.
    """
    if not numbers:
        return Agreement(0, 0, {}, {})
    cases, patterns = ({part: n for n, part in enumerate(dict.fromkeys(parts))} for parts in zip(*numbers, strict=True))
    table = np.zeros((len(cases), len(patterns)))
    for (case, pattern), number in numbers.items():
        table[cases[case], patterns[pattern]] = number
    return Agreement(int(table.sum()), len(cases), many_judges_by_case(list(patterns), table, ordered), {})


def _by_place(judgements: Iterable[Judgement]) -> dict[Place, list[Judgement]]:
    places: dict[Place, list[Judgement]] = {}
    for judgement in judgements:
        places.setdefault(place_of(judgement), []).append(judgement)
    return places


def _reason(answer: Judgement) -> str:
    reason = why_excluded(answer) or "not among the answers"
    return f"people: {reason}" if answer.judge.kind == "person" else reason


def quoted_words(first: Iterable[Judgement], second: Iterable[Judgement]) -> list[tuple[str, int, int]]:
    """Return (item, tokens that both sides quote for a question about it, tokens that at least one of them quotes).

    Items enter if both sides quote words that were found. A token is a word of a message; that it stands there twice is
    not distinguished, since judges quote words and not places.
    """
    sides = _by_place(first), _by_place(second)
    overlaps = []
    for place in (place for place in sides[0] if place in sides[1]):
        one, other = (_tokens(side[place]) for side in sides)
        if one and other:
            overlaps.append((place[0], len(one & other), len(one | other)))
    return overlaps


def _tokens(answers: Iterable[Judgement]) -> set[tuple[int, str]]:
    return {
        (quoted.message, token)
        for answer in answers
        for quoted in answer.quotations
        if quoted.state != "unverified"
        for token in _TOKEN.findall(quoted.words.lower())
    }
