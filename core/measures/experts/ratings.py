"""``report ratings``: the answers to any form of a review: shares, means of scales, agreement, preferences, time.

An item's answer to a question is that of all its annotators if they agree. Otherwise it is decided as the form says: by
a third annotator, by the majority, or as the mean of a scale. Items without a decision are counted with the reason.
Intervals are over cases, because items about one case are correlated. Answers of models (``job ratings``) are never
among those of people; they have figures of their own.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from core.judging.form import FormQuestion
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.calibration import ENOUGH_AGREEMENT, ENOUGH_LABELS, Trust
from core.measures.experts.completeness import completeness_rows
from core.measures.experts.judged import JudgedItem, judged_items, read_review
from core.measures.experts.model_raters import note_calibration, rated_items, rater_rows
from core.reviews.state import ReviewState
from core.stats.agreement import many_judges_by_case
from core.stats.choices import Choice, abilities
from core.stats.scores import score_interval
from core.stats.smoothed import ratio_interval

VALUE = Columns("value", "low", "high", "n", "excluded")
_FIRST, _SECOND, _EQUAL = "first", "second", "equal"
"""Values of the question of a form about pairs that says which of the two is better."""


@metric("ratings", empty="This review has no such answers yet.", page="judges", noted=False)
def report(
    request: MetricRequest,
    review: Annotated[str | None, "An unblinded review by name; without one, the newest."] = None,
    part: Annotated[
        Literal["shares", "means", "agreement", "models", "preferences", "time", "words", "completeness"],
        "Shares of answers, means of scales, agreement of the annotators, agreement of model raters with them, "
        "abilities from choices between two conversations, time per item, answers in words, or diagnoses after "
        "complete and incomplete histories (`imported` instead of a review: annotations from files).",
    ] = "shares",
    hourly_rate: Annotated[float | None, "Cost of an hour of an annotator, for the cost of a hundred items."] = None,
    rater: Annotated[str | None, "Shares and means of a model's answers (`job ratings`), not of people's."] = None,
    least_items: Annotated[int, "Items judged by people below which a model rater is not calibrated."] = ENOUGH_LABELS,
    least_agreement: Annotated[
        float, "Percent agreement with people (0 to 1) below which it is not."
    ] = ENOUGH_AGREEMENT,
    arm: Annotated[str, "The arm whose diagnosis counts after a complete history, or not."] = "multi_turn:frq",
) -> Iterator[Listed]:
    """Report the answers to the form of a review. Answers of models are never counted among those of people."""
    if part == "completeness":
        yield from completeness_rows(request, review, arm)
        return
    state = request.read(read_review, review)
    if part == "models" or rater:
        trust = Trust(least_items, least_agreement)
        agreement = list(rater_rows(request.store, state, trust))
        note_calibration(request, [row for row in agreement if rater is None or rater.startswith(row.label["rater"])])
        if part == "models":
            yield from agreement
            return

    def items_about(question: FormQuestion) -> list[JudgedItem]:
        if rater:
            return rated_items(request.store, state, question, rater)
        return judged_items(request.store, state, question.id)

    scales = [question for question in state.form.questions if question.kind == "scale"]
    choices = [question for question in state.form.questions if question.values and question.kind == "choice"]
    if part == "shares":
        for question in choices:
            yield from _shares(items_about(question), state, question)
    elif part == "means":
        for question in scales:
            yield from mean_rows(items_about(question), question)
    elif part == "agreement":
        for question in [*choices, *scales]:
            yield from agreement_rows(question, judged_items(request.store, state, question.id))
    elif part == "preferences":
        yield from _preferences(request, state, choices)
    elif part == "time":
        yield from _times(state, hourly_rate)
    else:
        yield from _words(state)


def _by_models(items: Iterable[JudgedItem]) -> dict[str, list[JudgedItem]]:
    groups: dict[str, list[JudgedItem]] = {}
    for item in items:
        groups.setdefault(" and ".join(sorted(item.models)), []).append(item)
    return groups


def _shares(judged: Iterable[JudgedItem], state: ReviewState, question: FormQuestion) -> Iterator[Row]:
    """Yield the share (0 to 1) of each answer among the decided items of a model."""
    for model, items in _by_models(judged).items():
        decisions = [(item, *item.decided(state.form)) for item in items]
        excluded = Counter(reason for _, _, reason in decisions if reason)
        decided = Counter(item.case for item, value, _ in decisions if value is not None)
        for option in question.options:
            chosen = Counter(item.case for item, value, _ in decisions if value == option.value)
            n = decided.total()
            low, high = ratio_interval([chosen[case] for case in decided], list(decided.values()))
            yield Row(
                {"question": question.title, "model": model, "answer": option.label},
                chosen.total() / n if n else None,
                low,
                high,
                n,
                dict(excluded),
                unit="items",
                columns=VALUE._replace(estimate="share"),
            )


def mean_rows(judged: Iterable[JudgedItem], question: FormQuestion) -> Iterator[Row]:
    """Yield the mean of a scale for each model: of an item over its annotators, then of a case, then over cases."""
    lowest, highest = float(question.values[0]), float(question.values[-1])
    for model, items in _by_models(judged).items():
        by_case: dict[str, list[float]] = defaultdict(list)
        for item in items:
            if item.judged:
                by_case[item.case].append(statistics.fmean(map(float, item.judged)))
        means = [statistics.fmean(values) for values in by_case.values()]
        trials = [len(values) for values in by_case.values()]
        low, high = score_interval(means, trials=trials, low=lowest, high=highest)
        yield Row(
            {"question": question.title, "model": model},
            statistics.fmean(means) if means else None,
            low,
            high,
            sum(len(values) for values in by_case.values()),
            {"not judged": sum(not item.judged for item in items)},
            more={"of": question.values[-1]},
            unit="items",
            columns=VALUE._replace(estimate="mean"),
        )


_COEFFICIENTS = {"percent_agreement": "percent agreement", "fleiss_kappa": "Fleiss' kappa", "gwet_ac": "Gwet's AC1"}


def agreement_rows(question: FormQuestion, items: Sequence[JudgedItem], values: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the agreement of the annotators on the items that at least two of them judged.

    On a scale, neighbouring points agree in part (ordinal weights), which makes Gwet's coefficient AC2. ``values``
    replaces the categories, as the question's ``yes`` against the rest.
    """
    categories = list(values or question.values)
    counts: dict[tuple[str, tuple[int, ...]], int] = Counter()
    for item in items:
        judged = [value for value in item.judged if value in categories]
        if len(judged) >= 2:
            counts[item.case, tuple(judged.count(category) for category in categories)] += 1
    if not counts:
        return
    cases, patterns = (list(dict.fromkeys(part)) for part in zip(*counts, strict=True))
    table = np.zeros((len(cases), len(patterns)))
    for (case, pattern), number in counts.items():
        table[cases.index(case), patterns.index(pattern)] = number
    ordered = question.kind == "scale"
    for name, coefficient in many_judges_by_case(patterns, table, ordered).items():
        words = "Gwet's AC2" if ordered and name == "gwet_ac" else _COEFFICIENTS[name]
        label = {"question": question.title, "measure": words}
        low, high = coefficient.interval
        yield Row(label, coefficient.value, low, high, int(table.sum()), unit="items", columns=VALUE)


def choices_of(items: Iterable[JudgedItem]) -> list[Choice]:
    """Return a choice for every annotator's answer about a pair; annotators who could not judge are left out."""
    share = {_FIRST: 1.0, _SECOND: 0.0, _EQUAL: 0.5}
    return [
        Choice(*item.models, share[value], item.case)
        for item in items
        if len(item.models) == 2
        for value in item.judged
        if value in share
    ]


def _preferences(request: MetricRequest, state: ReviewState, choices: Sequence[FormQuestion]) -> Iterator[Row]:
    if state.form.about != "pair":
        return
    for question in choices:
        if not {_FIRST, _SECOND} <= set(question.values):
            continue
        judged = choices_of(judged_items(request.store, state, question.id))
        wins: dict[str, float] = defaultdict(float)
        comparisons: Counter[str] = Counter()
        for choice in judged:
            wins[choice.first] += choice.share
            wins[choice.second] += 1 - choice.share
            comparisons.update((choice.first, choice.second))
        fitted = abilities(judged)
        if fitted and any(np.isnan(ability.value) for ability in fitted.values()):
            request.note(
                "Abilities are not determined: a model is always or never chosen, or two groups of models were never "
                "compared.",
                "high",
            )
        for model, ability in fitted.items():
            yield Row(
                {"question": question.title, "model": model},
                None if np.isnan(ability.value) else ability.value,
                ability.interval.low,
                ability.interval.high,
                comparisons[model],
                more={"chosen": wins[model] / comparisons[model]},
                unit="comparisons",
                columns=VALUE._replace(estimate="ability", excluded=None),
            )


def _times(state: ReviewState, hourly_rate: float | None) -> Iterator[Mapping[str, Any]]:
    """Yield the median minutes per complete item of each annotator, and the cost of a hundred items."""
    seconds: dict[str, list[float]] = {}
    for item in state.items:
        for name in item.annotators:
            saved = [
                answer.seconds
                for (about, person, _), answer in state.newest.items()
                if (about, person) == (item.item, name) and answer.seconds is not None
            ]
            if saved and state.complete(item, name):
                seconds.setdefault(name, []).append(max(saved))
    if len(seconds) > 1:
        seconds["all annotators"] = [value for values in seconds.values() for value in values]
    for name, values in seconds.items():
        minutes = statistics.median(values) / 60
        cost = {} if hourly_rate is None else {"cost_of_100_items": round(100 * minutes / 60 * hourly_rate, 2)}
        yield {"annotator": name, "median_minutes": round(minutes, 2), "items": len(values), **cost}


def _words(state: ReviewState) -> Iterator[Mapping[str, Any]]:
    for question in state.form.questions:
        if question.kind in ("text", "span"):
            for (item, annotator, asked), answer in state.newest.items():
                if asked == question.id and answer.value:
                    comment = " | ".join(quoted.comment for quoted in answer.quotations if quoted.comment)
                    yield {
                        "question": question.title,
                        "item": item,
                        "annotator": annotator,
                        "words": answer.value,
                        "comment": comment,
                    }


SHARES = Section("Answers", report, {"part": "shares"}, kind="table", heads={"n": "Of"}, page="judges")
MEANS = Section(
    "Means of scales",
    report,
    {"part": "means"},
    kind="dots",
    series="model",
    place="question",
    axis="Mean",
    heads={"n": "Items"},
    caption="The mean over an item’s annotators, then over the items of a case, then over cases.",
    page="judges",
)
RATERS = Section(
    "Model raters",
    report,
    {"part": "models"},
    kind="table",
    heads={"n": "Items", "rater": "Model", "prompts": "Prompt"},
    help="Models that filled in the same form (job ratings), against people. On a choice: with their decision. "
    "On a scale: with single persons (ordinal weights), as the mean over the persons of an item; this compares with "
    "the agreement between two persons. 95 % intervals leave out one case at a time. Calibrated: people judged at "
    "least 50 of the items, and the percent agreement is at least 0.85.",
    page="judges",
)
AGREEMENT = Section(
    "Agreement of all annotators",
    report,
    {"part": "agreement"},
    kind="table",
    heads={"n": "Items"},
    help="Items that at least two annotators judged. On a scale, neighbouring points agree in part (ordinal weights). "
    "95 % intervals leave out one case at a time.",
    page="judges",
)
PREFERENCES = Section(
    "Which conversation is better",
    report,
    {"part": "preferences"},
    kind="table",
    heads={"n": "Comparisons"},
    help="Bradley and Terry’s abilities in log-odds, with mean 0; 95 % intervals are clustered by case.",
    page="judges",
)
TIMES = Section(
    "Time per item",
    report,
    {"part": "time"},
    controls=("hourly_rate",),
    kind="table",
    heads={"median_minutes": "Median minutes", "cost_of_100_items": "Cost of 100 items"},
    help="From opening an item to its last answer, for items that an annotator completed. The cost is that of one "
    "annotator.",
    page="judges",
)
WORDS = Section("Answers in words", report, {"part": "words"}, kind="table", page="judges")
COMPLETENESS = Section(
    "Complete history and correct diagnosis",
    report,
    {"part": "completeness"},
    controls=("arm",),
    kind="table",
    columns=("model", "history", "correct", "not_correct", "share_correct", "low", "high", "n", "p", "excluded"),
    heads={
        "not_correct": "Not correct", "share_correct": "Share correct", "n": "Conversations", "excluded": "Excluded",
    },
    help="Experts judge whether the history is complete. 95 % intervals resample cases; p: Fisher’s exact test of the "
    "four numbers of a model.",
    page="judges",
)  # fmt: skip
SECTIONS = (SHARES, MEANS, AGREEMENT, RATERS, PREFERENCES, TIMES, WORDS)


def sections_for(state: ReviewState) -> list[Section]:
    """Return the sections that can have rows for a review.

    Reviews of the release's kinds have shares and agreement of their own (``core.measures.experts.report``).
    """
    form, kinds = state.form, {question.kind for question in state.form.questions}
    answered = {question for (_, _, question), answer in state.newest.items() if answer.value}
    possible = {
        "shares": "choice" in kinds and not has_decisions(state),
        "means": "scale" in kinds,
        "agreement": not has_decisions(state) and any(len(item.annotators) > 1 for item in state.items),
        "models": form.about not in ("vignette", "criterion") and bool(kinds & {"choice", "scale"}),
        "preferences": form.about == "pair",
        "time": any(answer.seconds is not None for answer in state.newest.values()),
        "words": any(question.id in answered for question in form.questions if not question.values),
    }
    return [section for section in SECTIONS if possible[str(section.options["part"])]]


def has_decisions(state: ReviewState) -> bool:
    """Return whether the review asks the questions of the release's experts, of which ``report experts`` tells."""
    return state.review.plan.kind in ("conversations", "answers")
