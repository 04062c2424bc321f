"""``report experts``: what experts said, by model, how far they agree, and the grader beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from core.cli.comparisons import Printed
from core.cli.folded import folded_store
from core.cli.report_failures import print_rows
from core.errors import AnamnesisError, UsageError
from core.measures.experts.deciding import Decision
from core.measures.experts.figures import agreement, pairs, shares
from core.measures.experts.grader import (
    Confusion,
    CountAgreement,
    JudgedAnswer,
    case_counts,
    confusion,
    count_agreement,
)
from core.measures.experts.release import grader_of_release, release_decisions
from core.measures.experts.results import against_grader, corrected_accuracies, decisions_of
from core.measures.experts.reviewing import ReviewState, state_of
from core.store.database import Store
from core.store.queries.graders import Flips, flips
from core.store.review_records import ASKED, QUESTIONS, Question

Part = Literal["shares", "pairs", "agreement", "grader"]
Row = dict[str, Any]


def report_experts(
    part: Annotated[
        Part, typer.Option(help="Shares by model, McNemar between models, the experts' agreement, or the grader.")
    ] = "shares",
    review: Annotated[
        str | None, typer.Option(help="An unblinded review by name; without it what the release's experts said.")
    ] = None,
    format_: Printed = "table",
) -> int:
    """Report what experts said of conversations and free responses, ties broken by a third."""
    store = folded_store()
    state = state_of(store, review) if review else None
    if part == "grader":
        rows = _review_grader(store, state) if state else _release_grader(store)
    else:
        decisions = decisions_of(store, state) if state else release_decisions(store)
        questions = [q for q in QUESTIONS if any(one.question == q for one in decisions)]
        parts: dict[str, Callable[[list[Decision], list[Question]], list[Row]]] = {
            "shares": _share_rows, "pairs": _pair_rows, "agreement": _agreement_rows,
        }  # fmt: skip
        rows = parts[part](decisions, questions)
    if not rows:
        raise AnamnesisError("There is nothing to report: nobody has answered yet, or only one model was judged.")
    print_rows(rows, format_)
    return 0


def _share_rows(decisions: list[Decision], questions: list[Question]) -> list[Row]:
    return [
        {
            "question": ASKED[one.question], "model": one.model, "yes": one.yes, "n": one.n, "open": one.open,
            "share": one.yes / one.n if one.n else None, "low": one.interval.low, "high": one.interval.high,
        }
        for one in shares(decisions)
    ]  # fmt: skip


def _pair_rows(decisions: list[Decision], questions: list[Question]) -> list[Row]:
    return [
        {
            "question": ASKED[one.question], "first": one.first, "second": one.second,
            "first_only": one.test.counts.first_only, "second_only": one.test.counts.second_only,
            "n": sum(one.test.counts), "p": one.test.p,
        }
        for one in pairs(decisions, questions)
    ]  # fmt: skip


def _agreement_rows(decisions: list[Decision], questions: list[Question]) -> list[Row]:
    return [
        {
            "question": ASKED[one.question], "measure": one.measure, "value": one.value, "low": one.interval.low,
            "high": one.interval.high, "n": one.n,
        }
        for one in agreement(decisions, questions)
    ]  # fmt: skip


def _release_grader(store: Store) -> list[Row]:
    rows = [
        _row(one.grader, f"judged the same {one.same} both ways", one.both / one.pairs, one.pairs)
        for one in _flips(store)
    ]
    try:
        release = grader_of_release(store)
    except AnamnesisError as error:  # the release's files are not here: what is known of graders is shown all the same
        print(str(error), file=sys.stderr)
        return rows
    if release.found is None:
        print(release.lacking, file=sys.stderr)
        return rows
    return [*rows, *_count_rows("gpt_4", release.found)]


def _flips(store: Store) -> list[Flips]:
    with store.read() as cursor:
        return flips(cursor)


def _review_grader(store: Store, state: ReviewState) -> list[Row]:
    if state.review.plan.kind != "answers":
        raise UsageError(f"The review {state.review.name} is not about free responses: no grader stands beside it.")
    beside = against_grader(store, decisions_of(store, state))
    rows: list[Row] = []
    for grader in dict.fromkeys(one.grader for one in beside.judged):
        judged = [one for one in beside.judged if one.grader == grader]
        rows += [
            *_confusion_rows(grader, confusion(judged)),
            *_count_rows(grader, count_agreement(case_counts(judged))),
        ]
        rows += _corrected_rows(store, state, grader, judged)
    return rows


def _confusion_rows(grader: str, table: Confusion) -> list[Row]:
    figures = {"agreement": table.agreement, "sensitivity": table.sensitivity, "specificity": table.specificity}
    counts = {"both say right": table.both, "grader alone": table.grader_only, "experts alone": table.expert_only,
              "both say wrong": table.neither}  # fmt: skip
    return [
        *(_row(grader, name, count, table.n) for name, count in counts.items()),
        *(_row(grader, name, one.value, one.n, *one.interval) for name, one in figures.items()),
    ]


def _count_rows(grader: str, found: CountAgreement) -> list[Row]:
    figures = {"agreement of counts": found.agreement, "same count": found.whole, "Spearman of counts": found.spearman}
    return [_row(grader, name, value, found.n_cases) for name, value in figures.items()]


def _corrected_rows(store: Store, state: ReviewState, grader: str, judged: list[JudgedAnswer]) -> list[Row]:
    try:
        found = corrected_accuracies(store, state, judged)
    except UsageError as error:
        print(str(error), file=sys.stderr)
        return []
    return [
        row
        for one in found
        for row in (
            _row(grader, f"accuracy of {one.model}", one.apparent, one.n_cases),
            _row(grader, f"the same, corrected{' (clipped)' if one.clipped else ''}", one.value, one.n_items,
                 *one.interval),
        )
    ]  # fmt: skip


def _row(
    grader: str, figure: str, value: float | None, n: int, low: float | None = None, high: float | None = None
) -> Row:
    return {"grader": grader, "figure": figure, "value": value, "low": low, "high": high, "n": n}
