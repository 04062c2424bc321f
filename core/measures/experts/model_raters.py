"""Model raters against people: agreement on the items of a review that both judged, and whether it is enough.

On a choice the people's answer is their decision. On a scale a model is compared with every person of an item, and an
item counts once: such agreement is comparable with that of two persons, which no comparison with a mean is.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from core.errors import UsageError
from core.judging.form import CANNOT_JUDGE, FormQuestion
from core.judging.judgement import Judgement
from core.measures.base import Columns, MetricRequest, Row
from core.measures.calibration import Trust, status_of
from core.measures.experts.judged import JudgedItem, cases_and_models, judged_items
from core.reviews.drawing import pool_of
from core.reviews.state import ReviewState
from core.stats.agreement import Coefficient, agreement_by_case, many_judges_by_case
from core.stats.intervals import NOTHING
from core.store.database import Store
from core.store.queries.judgements import judgements

_COLUMNS = Columns("value", "low", "high", "n", "excluded")
_OF_CHOICES = {"percent_agreement": "percent agreement", "cohen_kappa": "Cohen's kappa", "gwet_ac": "Gwet's AC1"}
_OF_SCALES = {"percent_agreement": "percent agreement", "gwet_ac": "Gwet's AC2"}


def rater_rows(store: Store, state: ReviewState, trust: Trust) -> Iterator[Row]:
    """Yield the coefficients of each model and prompt for each question of a review, on the items that people judged.

    ``excluded`` are the items that the model rated and that do not enter, by reason.
    """
    with store.read() as cursor:
        answers = judgements(
            cursor, [state.form.name], subjects=[item.item for item in state.items], kinds=("model", "rule")
        )
    by_rater: dict[tuple[str, str, str], dict[str, Judgement]] = defaultdict(dict)
    for answer in answers:
        by_rater[answer.judge.name, answer.judge.prompt_hash, answer.question].setdefault(answer.subject, answer)
    questions = [question for question in state.form.questions if question.values]
    judged = {question.id: judged_items(store, state, question.id) for question in questions}
    for model, prompt_hash in dict.fromkeys(key[:2] for key in by_rater):
        for question in questions:
            rated = by_rater[model, prompt_hash, question.id]
            label = {"rater": model, "prompts": prompt_hash, "question": question.title}
            yield from _rows(label, question, _pairs(state, question, judged[question.id], rated), trust)


class _Pairs(NamedTuple):
    """(case, person's answer, model's answer) → the weight of such pairs, with the number of items and exclusions."""

    weights: Mapping[tuple[str, str, str], float]
    items: int
    excluded: Mapping[str, int]


def _pairs(
    state: ReviewState, question: FormQuestion, judged: Sequence[JudgedItem], rated: Mapping[str, Judgement]
) -> _Pairs:
    weights: dict[tuple[str, str, str], float] = defaultdict(float)
    excluded: Counter[str] = Counter()
    items = 0
    for item in judged:
        rating = rated.get(item.item)
        if rating is None:
            continue
        if question.kind == "scale":
            people, reason = item.judged, "not judged by people"
        else:
            decision, reason = item.decided(state.form)
            people = () if decision is None else (decision,)
        people = tuple(value for value in people if value in question.values)
        if rating.value is None or rating.void:
            excluded["void"] += 1
        elif rating.value == CANNOT_JUDGE:
            excluded["the model cannot judge"] += 1
        elif not people or rating.value not in question.values:
            excluded[reason or "other options"] += 1
        else:
            items += 1
            for value in people:
                weights[item.case, value, rating.value] += 1 / len(people)
    return _Pairs(weights, items, excluded)


def _rows(label: Mapping[str, str], question: FormQuestion, pairs: _Pairs, trust: Trust) -> Iterator[Row]:
    names = _OF_SCALES if question.kind == "scale" else _OF_CHOICES
    coefficients = _coefficients(question, pairs) if pairs.items else {}
    for name, words in names.items():
        coefficient = coefficients.get(name)
        agreement = coefficients["percent_agreement"].value if coefficients else math.nan
        status = status_of(pairs.items, agreement, trust)
        yield Row(
            {**label, "measure": words},
            None if coefficient is None or np.isnan(coefficient.value) else coefficient.value,
            *(coefficient.interval if coefficient else NOTHING),
            pairs.items,
            dict(pairs.excluded),
            more={"status": status},
            unit="items",
            columns=_COLUMNS,
        )


def _coefficients(question: FormQuestion, pairs: _Pairs) -> dict[str, Coefficient]:
    cases = list(dict.fromkeys(case for case, _, _ in pairs.weights))
    kinds = len(question.values)
    table = np.zeros((len(cases), kinds, kinds))
    for (case, person, model), weight in pairs.weights.items():
        table[cases.index(case), question.values.index(person), question.values.index(model)] = weight
    if question.kind != "scale":
        return agreement_by_case([table])[0]
    unit = np.eye(kinds)
    patterns = [unit[person] + unit[model] for person, model in product(range(kinds), repeat=2)]
    return many_judges_by_case(patterns, table.reshape(len(cases), kinds * kinds), ordered=True)


def note_calibration(request: MetricRequest, rows: Sequence[Row]) -> None:
    """Add a high note for each model rater that is not calibrated on some questions."""
    lacking: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.more["status"] == "not calibrated" and row.label["measure"] == "percent agreement":
            agreement = "" if row.estimate is None else f", agreement {row.estimate:.2f}"
            lacking[row.label["rater"]].append(f"{row.label['question']} (n = {row.n}{agreement})")
    for model, questions in lacking.items():
        request.note(f"{model} is not calibrated as a rater: {'; '.join(questions)}.", "high", kind="calibration")


def rated_items(store: Store, state: ReviewState, question: FormQuestion, rater: str) -> list[JudgedItem]:
    """Return the items that a model rated by the form, with its answer in place of those of people.

    These are the items of the review and those that it could have drawn. ``rater`` is a model, or a model and the hash
    of its prompt. Raises ``UsageError`` if several prompts of the model would be pooled, or if there is no rating.
    """
    model, _, prompt = rater.partition(" ")
    with store.read() as cursor:
        pool = [candidate.item for candidate in pool_of(cursor, state.review.plan)]
        names = dict.fromkeys([*(item.item for item in state.items), *pool])
        about_form = judgements(cursor, [state.form.name], subjects=names, kinds=("model", "rule"))
        stored = [answer for answer in about_form if (answer.judge.name, answer.question) == (model, question.id)]
        prompts = {answer.judge.prompt_hash for answer in stored if prompt in ("", answer.judge.prompt_hash)}
        if len(prompts) != 1:
            raise UsageError(
                f"{rater} has rated under several prompts: name one, as in {model!r} {min(prompts)}."
                if prompts
                else f"{rater} has rated no item of {state.review.name}: `job judge` asks it."
            )
        ratings = {answer.subject: answer for answer in stored if answer.judge.prompt_hash in prompts}
        about = cases_and_models(cursor, list(ratings))
    return [
        JudgedItem(
            item, *about[item], {model: answer.value if answer.value is not None and not answer.void else CANNOT_JUDGE}
        )
        for item, answer in ratings.items()
    ]
