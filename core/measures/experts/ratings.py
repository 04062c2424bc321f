"""``report ratings``: the answers to any form of a review: shares, means of scales, agreement, preferences, time.

An item's answer to a question is that of all its annotators if they agree. Otherwise it is decided as the form says: by
a third annotator, by the majority, or as the mean of a scale. Items without a decision are counted with the reason.
Intervals are over cases, because items about one case are correlated.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from core.errors import UsageError
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.reviews.reviewing import ReviewState, state_of, states
from core.stats.agreement import many_judges_by_case
from core.stats.choices import Choice, abilities
from core.stats.smoothed import mean_interval, ratio_interval
from core.store.database import Store
from core.store.queries.trials import trial_origins
from core.store.review_kinds import CANNOT_JUDGE, FormQuestion, ReviewForm
from core.store.review_records import parse_item

VALUE = Columns("value", "low", "high", "n", "excluded")
_FIRST, _SECOND, _EQUAL = "first", "second", "equal"
"""Values of the question of a form about pairs that says which of the two is better."""


@dataclass(frozen=True)
class JudgedItem:
    """An item with the answers to one question: annotator → value, of its annotators and of a third one.

    ``models`` are those of its conversations, in the order in which annotators see them; empty for a case.
    """

    item: str
    case: str
    models: tuple[str, ...]
    answers: Mapping[str, str]
    third: str | None = None

    @property
    def judged(self) -> tuple[str, ...]:
        """The answers of the item's annotators, without those who could not judge."""
        return tuple(value for value in self.answers.values() if value != CANNOT_JUDGE)

    def decided(self, form: ReviewForm) -> tuple[str | None, str]:
        """Return the answer and an empty reason, or ``None`` and the reason why there is none."""
        if not self.answers:
            return None, "unanswered"
        if not self.judged:
            return None, "cannot be judged"
        counts = Counter(self.judged).most_common()
        if len(counts) == 1 or (form.decision == "majority" and counts[0][1] > counts[1][1]):
            return counts[0][0], ""
        if form.decision == "third" and self.third not in (None, CANNOT_JUDGE):
            return self.third, ""
        return None, "tied"


def judged_items(store: Store, state: ReviewState, question: str) -> list[JudgedItem]:
    """Return the items of a review with the answers to a question; an item whose trial is not stored has no model."""
    parsed = {item.item: parse_item(item.item) for item in state.items}
    with store.read() as cursor:
        origins = trial_origins(cursor, [trial for item in parsed.values() for trial in item.trials])
    listed = []
    for item in state.items:
        about = parsed[item.item]
        known = [origins[trial] for trial in about.trials if trial in origins]
        answers = {name: state.value(item.item, name, question) for name in item.annotators}
        others = [
            annotation
            for (name, person, asked), annotation in state.newest.items()
            if (name, asked) == (item.item, question) and person not in item.annotators and annotation.value
        ]
        listed.append(
            JudgedItem(
                item.item,
                about.case_key or next((origin.case_key for origin in known), item.item),
                tuple(origin.model for origin in known),
                {name: value for name, value in answers.items() if value is not None},
                min(others, key=lambda annotation: annotation.annotated_at).value if others else None,
            )
        )
    return listed


@metric("ratings", empty="This review has no such answers yet.", page="judges", noted=False)
def report(
    request: MetricRequest,
    review: Annotated[str | None, "An unblinded review by name; without one, the newest."] = None,
    part: Annotated[
        Literal["shares", "means", "agreement", "preferences", "time", "words"],
        "Shares of answers, means of scales, agreement of the annotators, abilities from choices between two "
        "conversations, time per item, or answers in words.",
    ] = "shares",
    hourly_rate: Annotated[float | None, "Cost of an hour of an annotator, for the cost of a hundred items."] = None,
) -> Iterator[Listed]:
    """Report the answers to the form of a review."""
    state = request.read(read_review, review)
    scales = [question for question in state.form.questions if question.form == "scale"]
    choices = [question for question in state.form.questions if question.values and question.form == "choice"]
    if part == "shares":
        for question in choices:
            yield from _shares(request.store, state, question)
    elif part == "means":
        for question in scales:
            yield from _means(request.store, state, question)
    elif part == "agreement":
        for question in [*choices, *scales]:
            yield from agreement_rows(question, judged_items(request.store, state, question.id))
    elif part == "preferences":
        yield from _preferences(request, state, choices)
    elif part == "time":
        yield from _times(state, hourly_rate)
    else:
        yield from _words(state)


def read_review(store: Store, review: str | None) -> ReviewState:
    """Return an unblinded review, by name or the newest; raises ``UsageError`` if it is blinded or not there."""
    if review is None:
        unblinded = [state for state in states(store) if not state.blinded and state.form.questions]
        if not unblinded:
            raise UsageError("No review is unblinded yet: finish one and unblind it on Judges, under Experts.")
        return unblinded[0]
    state = state_of(store, review)
    if state.blinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures.")
    return state


def _by_models(items: Iterable[JudgedItem]) -> dict[str, list[JudgedItem]]:
    groups: dict[str, list[JudgedItem]] = {}
    for item in items:
        groups.setdefault(" and ".join(sorted(item.models)), []).append(item)
    return groups


def _shares(store: Store, state: ReviewState, question: FormQuestion) -> Iterator[Row]:
    """Yield the share (0 to 1) of each answer among the decided items of a model."""
    for model, items in _by_models(judged_items(store, state, question.id)).items():
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


def _means(store: Store, state: ReviewState, question: FormQuestion) -> Iterator[Row]:
    """Yield the mean of a scale for each model: of an item over its annotators, then of a case, then over cases."""
    lowest, highest = float(question.values[0]), float(question.values[-1])
    for model, items in _by_models(judged_items(store, state, question.id)).items():
        by_case: dict[str, list[float]] = defaultdict(list)
        for item in items:
            if item.judged:
                by_case[item.case].append(statistics.fmean(map(float, item.judged)))
        means = [statistics.fmean(values) for values in by_case.values()]
        low, high = mean_interval(means, low=lowest, high=highest)
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
    ordered = question.form == "scale"
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
    if state.form.subject != "pair":
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
                annotation.seconds
                for (about, person, _), annotation in state.newest.items()
                if (about, person) == (item.item, name) and annotation.seconds is not None
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
        if question.form in ("text", "span"):
            for (item, annotator, asked), annotation in state.newest.items():
                if asked == question.id and annotation.value:
                    comment = " | ".join(span.comment for span in annotation.spans if span.comment)
                    yield {
                        "question": question.title,
                        "item": item,
                        "annotator": annotator,
                        "words": annotation.value,
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
SECTIONS = (SHARES, MEANS, AGREEMENT, PREFERENCES, TIMES, WORDS)


def sections_for(state: ReviewState) -> list[Section]:
    """Return the sections that can have rows for a review.

    Reviews of the release's kinds have shares and agreement of their own (``core.measures.experts.report``).
    """
    form, kinds = state.form, {question.form for question in state.form.questions}
    answered = {question for (_, _, question), answer in state.newest.items() if answer.value}
    possible = {
        "shares": "choice" in kinds and not has_decisions(state),
        "means": "scale" in kinds,
        "agreement": not has_decisions(state) and any(len(item.annotators) > 1 for item in state.items),
        "preferences": form.subject == "pair",
        "time": any(answer.seconds is not None for answer in state.newest.values()),
        "words": any(question.id in answered for question in form.questions if not question.values),
    }
    return [section for section in SECTIONS if possible[str(section.options["part"])]]


def has_decisions(state: ReviewState) -> bool:
    """Return whether the review asks the questions of the release's experts, of which ``report experts`` tells."""
    return state.review.plan.kind in ("conversations", "answers")
