"""``report experts``: what experts said, by model, how far they agree, the grader, and their own answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from core.datasets import published as publications
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import released
from core.measures.accuracy import accuracy_of
from core.measures.base import Asked, Columns, Listed, Row, Section, metric
from core.measures.experts.adjudication import (
    Decision,
    JudgedAnswer,
    against_grader,
    agreement,
    case_counts,
    confusion,
    corrected_accuracies,
    count_agreement,
    decide,
    decisions_of,
    figure_of_grader,
    imported_judgements,
    pairs,
    shares,
)
from core.measures.experts.workbooks import HIDDEN, grader_of_release, release_decisions
from core.measures.graders.agreement import flip_rates
from core.reviews.reviewing import ReviewState, baseline_run, state_of, states
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.review_records import ASKED, QUESTIONS, Question
from core.store.selection import select

_PRINTED: dict[str, Question] = {
    "single_most_likely_diagnosis_reached": "single_diagnosis",
    "complete_medical_history_elicited": "complete_history",
    "stopped_when_single_most_likely_diagnosis_mcnemar_p": "single_diagnosis",
    "elicited_relevant_medical_history_mcnemar_p": "complete_history",
}
"""Figure of the paper → the question that it is about: shares of a model in %, and p of two."""


@metric(
    "experts", empty="There is nothing to report: nobody has answered yet, or only one model was judged.", page="judges"
)
def report(
    asked: Asked,
    part: Annotated[
        Literal["shares", "pairs", "agreement", "grader", "contradictions", "baseline"],
        "Shares by model, McNemar between models, the experts' agreement, the grader, what graders judged both ways, "
        "or the experts' own answers.",
    ] = "shares",
    review: Annotated[str | None, "An unblinded review by name; without it what the release's experts said."] = None,
    imported: Annotated[bool, "What annotations from files say, instead of the release's experts."] = False,
    published: Annotated[bool, "In a column of their own, the figures that the release's paper prints."] = False,
) -> Iterator[Listed]:
    """Report what experts said of conversations and free responses, ties broken by a third."""
    state = state_of(asked.store, review) if review else None
    if part == "baseline":
        yield from _baseline(asked, state)
    elif part == "contradictions":
        yield from _contradictions(asked)
    elif part == "grader":
        yield from _review_grader(asked, state) if state else _release_grader(asked)
    else:
        decisions = asked.read(read_decisions, review, imported)
        questions = [q for q in QUESTIONS if any(decision.question == q for decision in decisions)]
        rows: Sequence[Listed]
        if part == "shares":
            rows = shares(decisions)
        else:
            rows = pairs(decisions, questions) if part == "pairs" else agreement(decisions, questions)
        yield from map(_with_printed, rows) if published else rows


def read_decisions(store: Store, review: str | None = None, imported: bool = False) -> list[Decision]:
    """Return what the experts of a review decided, those of annotations from files, or those of the release.

    Raises ``UsageError`` while the review is blinded, ``AnamnesisError`` if the release is not here.
    """
    if review is not None:
        return decisions_of(store, state_of(store, review))
    return decide(imported_judgements(store), tie_breaker="") if imported else release_decisions(store)


def printed_figures() -> dict[str, dict[str, str]]:
    """Return figure → row, of what the release's paper prints on its experts."""
    return {row["metric"]: row for row in publications.rows(f"{released('experts').name}_expert")}


def _with_printed(row: Listed) -> Listed:
    """Return a row with what the paper prints of its question and its model, or its two models."""
    label: Mapping[str, Any] = row.label if isinstance(row, Row) else row
    models = {label[part] for part in ("model", "first", "second") if part in label}
    printed = {
        (ASKED[_PRINTED[line["metric"]]], frozenset(line["model"].split("_vs_"))): line["value"]
        for line in publications.rows(f"{released('experts').name}_expert")
        if line["metric"] in _PRINTED
    }
    value = printed.get((label["question"], frozenset(models)))
    if isinstance(row, Row):
        return replace(row, more={**row.more, "printed": value and f"{value} %"})
    return {**row, "printed": value}


def _baseline(asked: Asked, state: ReviewState | None) -> Iterator[Row]:
    """Yield the accuracy of experts on vignettes, and how they were asked, of one review or of all."""
    selection = asked.selection
    if state is not None:
        if state.review.plan.kind != "baseline":
            raise UsageError(f"The review {state.review.name} is not one of vignettes that experts answer themselves.")
        runs = [baseline_run(state.review, name) for name in state.review.plan.annotators]
        selection = replace(selection, runs=runs)
    with asked.store.read() as cursor:
        orders = {condition.name: condition.parts["order"] for condition in select(cursor, selection)}
        scores = case_scores(cursor, selection, "mcq_strict")
    for row in accuracy_of(score for score in scores if score.model.startswith("human/")):
        model = row.label["model"]
        label = {
            "expert": doctor_of(model).removeprefix("human/"),
            "asked": orders[model],
            "question_type": row.label["question_type"],
        }
        yield replace(row, label=label, more={}, columns=Columns("value", "low", "high", "n", "excluded"))


def _contradictions(asked: Asked) -> list[Row]:
    """Return the shares of words that a grader judged both ways; of no model by name while a review is blinded."""
    rows = [row for row in asked.read(flip_rates) if row.label["judged_again"] != "the same answer"]
    if any(state.blinded for state in states(asked.store)):
        return [replace(row, label={**row.label, "model": HIDDEN}) for row in rows]
    return rows


def _release_grader(asked: Asked) -> Iterator[Row]:
    for row in _contradictions(asked):
        figure = f"judged {row.label['judged_again']} of {row.label['model']} both ways"
        yield figure_of_grader(row.label["grader"], figure, row.estimate, row.n or 0)
    try:
        rows, lacking = grader_of_release(asked.store)
    except AnamnesisError as error:  # the release's files are not here: what is known of graders is shown all the same
        asked.note(str(error))
        return
    if lacking:
        asked.note(lacking, kind="part")
    yield from rows


def _review_grader(asked: Asked, state: ReviewState) -> Iterator[Row]:
    if state.review.plan.kind != "answers":
        raise UsageError(f"The review {state.review.name} is not about free responses: no grader stands beside it.")
    answers, excluded = against_grader(asked.store, decisions_of(asked.store, state))
    for grader in dict.fromkeys(answer.grader for answer in answers):
        judged = [answer for answer in answers if answer.grader == grader]
        yield from confusion(grader, judged)
        yield from count_agreement(grader, case_counts(judged).values())
        yield from _corrected_rows(asked, state, grader, judged)
    if excluded:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in excluded.items())
        asked.note(f"Free responses that are left out: {reasons}.", kind="excluded")


def _corrected_rows(asked: Asked, state: ReviewState, grader: str, judged: Sequence[JudgedAnswer]) -> Iterator[Row]:
    try:
        rows = corrected_accuracies(asked.store, state, judged)
    except UsageError as error:
        asked.note(str(error), kind="excluded")
        return
    for row in rows:
        clipped = " (clipped)" if row.more["clipped"] else ""
        yield figure_of_grader(grader, f"accuracy of {row.label['model']}", row.more["apparent"], row.more["n_cases"])
        yield replace(row, label={"grader": grader, "figure": f"the same, corrected{clipped}"}, more={})


SHARES = Section(
    "Share of yes by question and model",
    report,
    {"part": "shares"},
    kind="dots",
    series="model",
    place="question",
    axis="Share of yes",
    heads={"n": "Of", "open": "Open ties"},
    caption="Cases are resampled; Wilson’s interval if each case has one item. Where two annotators differ the third’s "
    "word counts; open ties are left out.",
    page="judges",
)
PAIRS = Section(
    "Models against one another",
    report,
    {"part": "pairs"},
    kind="table",
    heads={
        "first_only": "Yes of the first only",
        "second_only": "Yes of the second only",
        "n": "Cases",
        "printed": "Printed p",
    },
    help="McNemar’s exact two-sided test on the cases that both have; p is not corrected for the number of tests.",
    page="judges",
)
AGREEMENT = Section(
    "Agreement of the annotators",
    report,
    {"part": "agreement"},
    kind="table",
    heads={"n": "Items"},
    help="Over the items that two annotators saw who did not know of a tie; 95 % intervals resample cases with all "
    "their items. Kappa, AC1 and alpha correct agreement for chance; where nearly all answers are the same, kappa and "
    "alpha can be low though people agree, and AC1 stays near the agreement. A dash: undefined, since all answers are "
    "the same.",
    page="judges",
)
GRADERS = Section(
    "Graders next to the experts",
    report,
    {"part": "grader"},
    kind="table",
    heads={"n": "Answers or cases"},
    help="Agreement of counts: 1 − mean |difference of the counts of right trials| / trials, over a model’s cases (the "
    "paper’s rule); same count: the share of a model’s cases with the same count; Spearman: the rank correlation of "
    "the counts over cases. Corrected by Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − "
    "1), with the grader’s sensitivity and specificity on all items of the review; intervals resample cases with all "
    "their items, 95 %, and what lies outside 0 to 1 is clipped. A dash: the grader is no better than chance on these "
    "items.",
    page="judges",
)
CONTRADICTIONS = Section(
    "The same words, judged again",
    report,
    {"part": "contradictions"},
    kind="table",
    heads={"judged_again": "Met again", "both_ways": "Judged both ways"},
    help="Pairs of a right answer with the same response, or with the same diagnosis read out of it, that a grader met "
    "more than once; judged both ways: right at one time and not at another. Verdicts that do not count are left out, "
    "letters’ case is ignored.",
    page="judges",
)
BASELINE = Section(
    "Experts’ own answers",
    report,
    {"part": "baseline"},
    kind="table",
    axis="Accuracy",
    heads={"n": "Vignettes"},
    help="All vignettes that these experts have answered, by the order in which they were asked; choices by the strict "
    "rule, diagnoses in own words by the reference grader. Where the choices were shown first, own words are not free "
    "of them.",
    page="judges",
)
SECTIONS = (SHARES, PAIRS, AGREEMENT, GRADERS, CONTRADICTIONS, BASELINE)
