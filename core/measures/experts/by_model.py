"""``report agreement_by_model``: whether annotators agree less on the conversations of some models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from core.measures.base import MetricRequest, Row, Section, metric
from core.measures.experts.adjudication import Decision, agreement
from core.measures.experts.judged import judged_items, read_review
from core.measures.experts.ratings import agreement_rows, has_decisions
from core.measures.experts.report import read_decisions
from core.store.review_records import yes_no_questions


@metric("agreement_by_model", empty="No item of a model was judged by two annotators.", page="judges", noted=False)
def report(
    request: MetricRequest,
    review: Annotated[str | None, "An unblinded review by name; without it, the release's experts."] = None,
    imported: Annotated[bool, "Use annotations from files instead of the release's experts."] = False,
) -> Iterator[Row]:
    """Report the agreement of annotators for each model and question, over the items that two annotators judged."""
    state = request.read(read_review, review) if review else None
    if state is None or has_decisions(state):
        by_model: dict[str, list[Decision]] = {}
        for decision in request.read(read_decisions, review, imported):
            by_model.setdefault(decision.model, []).append(decision)
        for model, decisions in by_model.items():
            judged = {decision.question for decision in decisions if len(decision.answers) > 1}
            for row in agreement(decisions, [question for question in yes_no_questions() if question in judged]):
                yield _of_model(model, row)
        return
    for question in (question for question in state.form.questions if question.values):
        items = judged_items(request.store, state, question.id)
        for model in sorted({" and ".join(sorted(item.models)) for item in items}):
            of_model = [item for item in items if " and ".join(sorted(item.models)) == model]
            for row in agreement_rows(question, of_model):
                yield _of_model(model, row)


def _of_model(model: str, row: Row) -> Row:
    return replace(row, label={"model": model, **row.label})


BY_MODEL = Section(
    "Agreement by model",
    report,
    kind="table",
    heads={"n": "Items"},
    help="As above, on the items of each model. Few items make wide intervals.",
    page="judges",
)
SECTIONS = (BY_MODEL,)
