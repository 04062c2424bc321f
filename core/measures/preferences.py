"""``report preferences``: which of two conversations is better, by the choices of people, models or rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from core.judging.form import Form, FormQuestion
from core.judging.judgement import Judge, Judgement
from core.measures.base import Columns, MetricRequest, Row, Section
from core.measures.opinions import PEOPLE, FormOption, Opinions, ReviewOption, metric_of_opinions, read_opinions
from core.stats.choices import Choice, abilities

SHARES: Final = {"first": 1.0, "second": 0.0, "equal": 0.5}
"""Answer to the question which of a pair is better → how often the first is chosen."""


@metric_of_opinions("preferences", empty="Nobody chose between two conversations.")
def report(request: MetricRequest, form: FormOption = None, review: ReviewOption = None) -> Iterator[Row]:
    """Report abilities in log-odds from choices between two conversations (Bradley and Terry), for each judge."""
    for opinions in request.read(read_opinions, request.selection, form, review).opinions:
        if asks_for_the_better(opinions.question):
            request.judged_by(opinions.form, opinions.judges)
            yield from _abilities(request, opinions, PEOPLE, opinions.people)
            for judge in opinions.judges:
                yield from _abilities(request, opinions, judge, opinions.once(judge))


def asks_for_the_better(question: FormQuestion) -> bool:
    return {"first", "second"} <= set(question.values)


def question_of(form: Form) -> str:
    """Return the question of a form that asks which of a pair is better; empty if there is none."""
    asked = (question.id for question in form.questions if asks_for_the_better(question))
    return next(asked, "") if form.about == "pair" else ""


def choices_of(opinions: Opinions, answers: Iterable[Judgement]) -> list[Choice]:
    """Return a choice for every answer about a pair; answers that choose nothing are left out."""
    chosen = []
    for answer in answers:
        item = opinions.items[answer.subject]
        if answer.counts and answer.value in SHARES and len(item.models) == 2:
            chosen.append(Choice(*item.models, SHARES[answer.value], item.case))
    return chosen


def _abilities(request: MetricRequest, opinions: Opinions, judge: Judge, answers: Iterable[Judgement]) -> Iterator[Row]:
    judged = choices_of(opinions, answers)
    wins: dict[str, float] = defaultdict(float)
    comparisons: Counter[str] = Counter()
    for choice in judged:
        wins[choice.first] += choice.share
        wins[choice.second] += 1 - choice.share
        comparisons.update((choice.first, choice.second))
    fitted = abilities(judged)
    if fitted and any(np.isnan(ability.value) for ability in fitted.values()):
        request.note(
            f"Abilities by {judge.name} are not determined: a model is always or never chosen, or two groups of models "
            "were never compared.",
            "high",
        )
    for model, ability in fitted.items():
        yield Row(
            {"form": opinions.form, "question": opinions.question.title, "judge": judge.name, "model": model},
            None if np.isnan(ability.value) else ability.value,
            ability.interval.low,
            ability.interval.high,
            comparisons[model],
            more={"prompts": judge.prompt_hash, "chosen": wins[model] / comparisons[model]},
            unit="comparisons",
            columns=Columns("ability", "low", "high", "n"),
        )


PREFERENCES = Section(
    "Which conversation is better",
    report,
    kind="table",
    heads={"n": "Comparisons"},
    help="Bradley and Terry’s abilities in log-odds, with mean 0; 95 % intervals are clustered by case.",
    page="trust",
)
SECTIONS = (PREFERENCES,)
