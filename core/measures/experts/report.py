"""``report experts``: the experts' answers by model, graders, and experts' accuracy on vignettes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from core.datasets import published as publications
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import released
from core.frameworks.starts import REVIEW
from core.measures.accuracy import accuracy_of
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.experts.adjudication import (
    against_grader,
    case_counts,
    confusion,
    count_agreement,
    decisions_of,
    figure_of_grader,
    pairs,
    shares,
)
from core.measures.experts.workbooks import grader_of_release, outside_reviews
from core.measures.graders.agreement import corrected_of_review, flip_rates
from core.reviews.baseline import baseline_run
from core.reviews.exchange import HIDDEN
from core.reviews.state import ItemAnswers, ReviewState, state_of, states
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.review_records import yes_no_questions
from core.store.selection import select

PRINTED_QUESTIONS: dict[str, str] = {
    "single_most_likely_diagnosis_reached": "single_diagnosis",
    "complete_medical_history_elicited": "complete_history",
    "stopped_when_single_most_likely_diagnosis_mcnemar_p": "single_diagnosis",
    "elicited_relevant_medical_history_mcnemar_p": "complete_history",
    "patient_ai_conversations_with_medical_language": "medical_terms",
}
"""Figure of the paper → its question; figures are shares of one model in %, and p of two models."""
DERMATOLOGISTS = "dermatologist_accuracy_"
"""The printed accuracies of dermatologists have names with this beginning and their question type."""


@metric(
    "experts",
    empty="There is nothing to report: no answers yet, or only one model was judged.",
    page="trust",
    starts=(REVIEW,),
)
def report(
    request: MetricRequest,
    part: Annotated[
        Literal["shares", "pairs", "grader", "baseline"],
        "Shares by model, McNemar between models, the grader, or the accuracy of experts on vignettes.",
    ] = "shares",
    review: Annotated[str | None, "An unblinded review by name; without it, the release's experts."] = None,
    imported: Annotated[bool, "Use annotations from files instead of the release's experts."] = False,
    published: Annotated[bool, "Add a column with the figures that the release's paper prints."] = False,
) -> Iterator[Listed]:
    """Report the experts' answers on conversations and free responses; a third expert breaks ties."""
    state = state_of(request.store, review) if review else None
    if part == "baseline":
        yield from _baseline(request, state, published=published)
    elif part == "grader":
        yield from _review_grader(request, state) if state else _release_grader(request)
    else:
        decisions = request.read(read_decisions, review, imported)
        questions = [q for q in yes_no_questions() if any(decision.question == q for decision in decisions)]
        rows: Sequence[Listed] = shares(decisions) if part == "shares" else pairs(decisions, questions)
        yield from map(_with_printed, rows) if published else rows


def read_decisions(store: Store, review: str | None = None, imported: bool = False) -> list[ItemAnswers]:
    """Return the decisions of a review, of annotations from files, or of the release.

    Raises ``UsageError`` if the review is blinded, ``AnamnesisError`` if the release is not imported.
    """
    if review is not None:
        return decisions_of(state_of(store, review))
    return [decision for state in outside_reviews(store, imported=imported) for decision in decisions_of(state)]


def printed_figures() -> dict[str, dict[str, str]]:
    """Return metric → row of the figures that the release's paper prints on its experts."""
    return {row["metric"]: row for row in publications.rows(f"{released('experts').name}_expert")}


def _with_printed(row: Listed) -> Listed:
    """Return a row with the printed figure of its question and its model or two models."""
    label: Mapping[str, Any] = row.label if isinstance(row, Row) else row
    models = {label[part] for part in ("model", "first", "second") if part in label}
    printed = {
        (yes_no_questions()[PRINTED_QUESTIONS[line["metric"]]], frozenset(line["model"].split("_vs_"))): line["value"]
        for line in publications.rows(f"{released('experts').name}_expert")
        if line["metric"] in PRINTED_QUESTIONS
    }
    value = printed.get((label["question"], frozenset(models)))
    if isinstance(row, Row):
        return replace(row, more={**row.more, "printed": value and f"{value} %"})
    return {**row, "printed": value}


def _baseline(request: MetricRequest, state: ReviewState | None, *, published: bool) -> Iterator[Row]:
    """Yield the accuracy of experts on vignettes, and the order of their questions, of one review or of all.

    ``published`` adds the printed accuracy of dermatologists on questions of the same type.
    """
    printed = {
        name.removeprefix(DERMATOLOGISTS): f"{line['value']} %"
        for name, line in printed_figures().items()
        if name.startswith(DERMATOLOGISTS)
    }
    selection = request.selection
    if state is not None:
        if not state.form.final:
            raise UsageError(f"In the review {state.review.name} experts do not answer vignettes.")
        runs = [baseline_run(state.review, name) for name in state.review.plan.annotators]
        selection = replace(selection, runs=runs)
    with request.store.read() as cursor:
        by_name = {condition.name: condition for condition in select(cursor, selection)}
        scores = case_scores(cursor, selection, "mcq_strict")
    for row in accuracy_of(score for score in scores if score.model.startswith("human/")):
        model = row.label["model"]
        label = {
            "expert": doctor_of(model).removeprefix("human/"),
            "asked": by_name[model].parts["order"],
            "question_type": row.label["question_type"],
        }
        more: dict[str, Any] = {}
        if not label["question_type"].startswith("mcq"):
            more["grader"] = by_name[model].seats.get("grader", "")
        more |= {"printed": printed.get(label["question_type"])} if published else {}
        yield replace(row, label=label, more=more, columns=Columns("value", "low", "high", "n", "excluded"))


def _contradictions(request: MetricRequest) -> list[Row]:
    """Return the shares of texts that a grader judged both ways; while a review is blinded, without models' names."""
    rows = [row for row in request.read(flip_rates) if row.label["judged_again"] != "the same answer"]
    if any(state.blinded and not state.form.final for state in states(request.store)):
        return [replace(row, label={**row.label, "model": HIDDEN}) for row in rows]
    return rows


def _release_grader(request: MetricRequest) -> Iterator[Row]:
    for row in _contradictions(request):
        figure = f"judged {row.label['judged_again']} of {row.label['model']} both ways"
        yield figure_of_grader(row.label["grader"], figure, row.estimate, row.n or 0)
    try:
        rows, lacking = grader_of_release(request.store)
    except AnamnesisError as error:  # the release's files are not imported: the other figures are still shown
        request.note(str(error))
        return
    if lacking:
        request.note(lacking, kind="part")
    yield from rows


def _review_grader(request: MetricRequest, state: ReviewState) -> Iterator[Row]:
    if state.review.plan.kind != "answers":
        raise UsageError(f"The review {state.review.name} is not about free responses, so it has no grader.")
    drawn_for_disagreement = state.review.plan.sampling == "disagreement"
    answers, excluded = against_grader(request.store, decisions_of(state))
    for grader in dict.fromkeys(answer.grader for answer in answers):
        judged = [answer for answer in answers if answer.grader == grader]
        rows = [*confusion(grader, judged), *count_agreement(grader, case_counts(judged).values())]
        rows += [] if drawn_for_disagreement else _corrected_rows(request, state, grader)
        for row in rows:
            yield replace(row, excluded=excluded, columns=Columns("value", "low", "high", "n", "excluded"))
    if drawn_for_disagreement:
        request.note(
            "These items were drawn because graders or rules disagree on them: the grader's error on them differs from "
            "its error on all answers, so no accuracy is corrected.",
            kind="excluded",
        )


def _corrected_rows(request: MetricRequest, state: ReviewState, grader: str) -> Iterator[Row]:
    for row in request.read(corrected_of_review, state, [grader]):
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
    heads={"n": "Of", "excluded": "Excluded"},
    caption="Share of the items to which people answer yes.",
    help="If two annotators differ, a third decides, or both together; ties that are not settled are excluded. 95 % "
    "intervals resample cases; they are Wilson’s if each case has one item.",
    page="trust",
)
PAIRS = Section(
    "Models compared",
    report,
    {"part": "pairs"},
    kind="table",
    heads={
        "first_only": "Yes of the first only",
        "second_only": "Yes of the second only",
        "n": "Cases",
        "printed": "Printed p",
    },
    help="McNemar’s exact two-sided test on the cases of both models; p is not corrected for the number of tests.",
    page="trust",
)
GRADERS = Section(
    "Graders next to the experts",
    report,
    {"part": "grader"},
    kind="table",
    heads={"n": "Answers or cases"},
    help="Agreement of counts: 1 − mean |difference of the counts of right trials| / trials, over a model’s cases "
    "(right: the response contains the choice). Same count: the share of cases with the same count. Spearman: the rank "
    "correlation of the counts over cases. Corrected by Rogan and Gladen: (accuracy + specificity − 1) / "
    "(sensitivity + specificity − 1), with the grader’s sensitivity and specificity on all items of the review. 95 % "
    "intervals resample cases with all their items; values outside 0 to 1 are clipped. A dash: the grader is "
    "no better than chance on these items.",
    page="trust",
)
BASELINE = Section(
    "Accuracy of experts",
    report,
    {"part": "baseline", "published": True},
    kind="table",
    axis="Accuracy",
    heads={"n": "Vignettes", "printed": "Printed, dermatologists"},
    help="All vignettes that these experts have answered, by the order of their questions: choices by the strict rule, "
    "diagnoses in their own words by the grader that is named. If the choices were shown first, they may have "
    "influenced the diagnosis.",
    page="trust",
)
SECTIONS = (SHARES, PAIRS, GRADERS, BASELINE)
