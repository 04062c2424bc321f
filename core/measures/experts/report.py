"""``report experts``: what experts said, by model, how far they agree, the grader, and their own answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Literal

from core.errors import AnamnesisError, UsageError
from core.measures.accuracy import accuracy_of
from core.measures.base import Asked, Columns, Listed, Row, metric
from core.measures.experts.adjudication import (
    CountAgreement,
    JudgedAnswer,
    against_grader,
    agreement,
    case_counts,
    confusion,
    corrected_accuracies,
    count_agreement,
    decisions_of,
    pairs,
    shares,
)
from core.measures.experts.reviewing import ReviewState, baseline_run, state_of, states
from core.measures.experts.workbooks import HIDDEN, grader_of_release, release_decisions
from core.measures.graders.agreement import flip_rates
from core.stats.intervals import Interval
from core.store.conditions import doctor_of
from core.store.queries.answers import case_scores
from core.store.review_records import ASKED, QUESTIONS
from core.store.selection import select

_VALUE = Columns("value", "low", "high", "n")


@metric(
    "experts", empty="There is nothing to report: nobody has answered yet, or only one model was judged.", page="judges"
)
def report(
    asked: Asked,
    part: Annotated[
        Literal["shares", "pairs", "agreement", "grader", "baseline"],
        "Shares by model, McNemar between models, the experts' agreement, the grader, or their own answers.",
    ] = "shares",
    review: Annotated[str | None, "An unblinded review by name; without it what the release's experts said."] = None,
) -> Iterator[Listed]:
    """Report what experts said of conversations and free responses, ties broken by a third."""
    state = state_of(asked.store, review) if review else None
    if part == "baseline":
        yield from _baseline(asked, state)
        return
    if part == "grader":
        yield from _review_grader(asked, state) if state else _release_grader(asked)
        return
    decisions = decisions_of(asked.store, state) if state else release_decisions(asked.store)
    questions = [q for q in QUESTIONS if any(one.question == q for one in decisions)]
    if part == "shares":
        for one in shares(decisions):
            yield Row(
                {"question": ASKED[one.question], "model": one.model, "yes": one.yes, "n": one.n, "open": one.open},
                one.yes / one.n if one.n else None,
                *one.interval,
                one.n,
                unit="items",
                columns=Columns("share", "low", "high", None),
            )
    elif part == "pairs":
        for pair in pairs(decisions, questions):
            counts = pair.test.counts
            yield {
                "question": ASKED[pair.question],
                "first": pair.first,
                "second": pair.second,
                "first_only": counts.first_only,
                "second_only": counts.second_only,
                "n": sum(counts),
                "p": pair.test.p,
            }
    else:
        for found in agreement(decisions, questions):
            label = {"question": ASKED[found.question], "measure": found.measure}
            yield Row(label, found.value, *found.interval, found.n, unit="items", columns=_VALUE)


def _baseline(asked: Asked, state: ReviewState | None) -> Iterator[Row]:
    """Yield the accuracy of experts on vignettes, and how they were asked, of one review or of all."""
    selection = asked.selection
    if state is not None:
        if state.review.plan.kind != "baseline":
            raise UsageError(f"The review {state.review.name} is not one of vignettes that experts answer themselves.")
        runs = [baseline_run(state.review, name) for name in state.review.plan.annotators]
        selection = replace(selection, runs=runs)
    with asked.store.read() as cursor:
        orders = {one.name: one.parts["order"] for one in select(cursor, selection)}
        scores = case_scores(cursor, selection, "mcq_strict")
    for row in accuracy_of(score for score in scores if score.model.startswith("human/")):
        expert = doctor_of(row["model"]).removeprefix("human/")
        label = {"expert": expert, "asked": orders[row["model"]], "question_type": row["question_type"]}
        yield Row(label, row.estimate, row.low, row.high, row.n, row.excluded, columns=_VALUE)


def _release_grader(asked: Asked) -> Iterator[Row]:
    blinded = any(one.blinded for one in states(asked.store))
    for one in flip_rates(asked.store):
        if one.same != "answer":
            yield _row(
                one.grader,
                f"judged the same {one.same} of {HIDDEN if blinded else one.model} both ways",
                one.share,
                one.pairs,
            )
    try:
        release = grader_of_release(asked.store)
    except AnamnesisError as error:  # the release's files are not here: what is known of graders is shown all the same
        asked.note(str(error))
        return
    if release.found is None:
        asked.note(release.lacking)
        return
    yield from _count_rows("gpt_4", release.found)


def _review_grader(asked: Asked, state: ReviewState) -> Iterator[Row]:
    if state.review.plan.kind != "answers":
        raise UsageError(f"The review {state.review.name} is not about free responses: no grader stands beside it.")
    beside = against_grader(asked.store, decisions_of(asked.store, state))
    for grader in dict.fromkeys(one.grader for one in beside.judged):
        judged = [one for one in beside.judged if one.grader == grader]
        table, rates = confusion(judged)
        names = ("both say right", "grader alone", "experts alone", "both say wrong")
        yield from (_row(grader, name, count, sum(table)) for name, count in zip(names, table, strict=True))
        yield from (_row(grader, name, one.value, one.n, one.interval) for name, one in rates.items())
        yield from _count_rows(grader, count_agreement(case_counts(judged)))
        yield from _corrected_rows(asked, state, grader, judged)


def _count_rows(grader: str, found: CountAgreement) -> Iterator[Row]:
    figures = {"agreement of counts": found.agreement, "same count": found.whole, "Spearman of counts": found.spearman}
    return (_row(grader, name, value, found.n_cases) for name, value in figures.items())


def _corrected_rows(asked: Asked, state: ReviewState, grader: str, judged: Iterable[JudgedAnswer]) -> Iterator[Row]:
    try:
        found = corrected_accuracies(asked.store, state, list(judged))
    except UsageError as error:
        asked.note(str(error))
        return
    for one in found:
        clipped = " (clipped)" if one.clipped else ""
        yield _row(grader, f"accuracy of {one.model}", one.apparent, one.n_cases)
        yield _row(grader, f"the same, corrected{clipped}", one.value, one.n_items, one.interval)


def _row(grader: str, figure: str, value: float | None, n: int, interval: Interval | None = None) -> Row:
    low, high = interval or (None, None)
    return Row({"grader": grader, "figure": figure}, value, low, high, n, unit="items", columns=_VALUE)
