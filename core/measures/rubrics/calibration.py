"""``report rubric_calibration``: judges of rubrics against experts, and scores that both give together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated, Literal

import pandas as pd

from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.calibration import (
    ENOUGH_AGREEMENT,
    ENOUGH_LABELS,
    JudgedStatement,
    Trust,
    agreement_with_experts,
    audit_rows,
    calibrated_rows,
    planned_rows,
    status_of,
)
from core.measures.rubrics.labels import expert_verdicts, labelled_statements
from core.measures.rubrics.report import (
    FILTERS,
    JudgeOption,
    RubricOption,
    RubricReading,
    decided,
    read_rubric_outcomes,
    reading_with_notes,
)
from core.measures.rubrics.scores import judged_talks, judges_in, of_judges
from core.store.queries.rubric_judgements import rubric_conversations

ALL_AXES = "all axes"


@metric(
    "rubric_calibration",
    *FILTERS,
    empty="No conversation is judged by this rubric, or experts judged none of the same criteria: plan a review of "
    "criteria on Judges, under Experts.",
    page="judges",
)
def report_calibration(
    request: MetricRequest,
    rubric: RubricOption = None,
    judge: JudgeOption = None,
    part: Annotated[
        Literal["scores", "judges", "criteria", "audit", "plan"],
        "Scores of judge and experts together, the status of each judge by axis or by criterion, whether the experts' "
        "items resemble the others, or how much more judgements narrow the interval.",
    ] = "scores",
    least_items: Annotated[int, "Criteria judged by people below which a judge is not calibrated."] = ENOUGH_LABELS,
    least_agreement: Annotated[
        float, "Share of verdicts equal to people's (0 to 1) below which it is not."
    ] = ENOUGH_AGREEMENT,
) -> Iterator[Row]:
    """Report how far judges of rubrics agree with experts, and the scores corrected by them.

    A judge is bound to its model and prompts. Its score and the experts' are combined without bias if the experts'
    items were drawn at random.
    """
    if part in ("judges", "criteria"):
        reading = request.read(read_rubric_outcomes, request.selection, rubric, None)
        if reading.rubric is not None:
            yield from _trust_rows(
                request, reading, Trust(least_items, least_agreement), by_criterion=part == "criteria"
            )
        return
    reading = reading_with_notes(request, rubric, judge)
    if reading.rubric is None:
        return
    experts = request.read(expert_verdicts, reading.rubric.name)
    if experts.selected:
        request.note(f"{experts.selected:,} verdicts on items that were not drawn at random are left out.", "low")
    by_model: dict[str, list[JudgedStatement]] = defaultdict(list)
    for labelled in labelled_statements(reading.talks, experts):
        by_model[labelled.model].append(labelled.statement)
    rows = {"scores": calibrated_rows, "audit": audit_rows, "plan": planned_rows}[part]
    for model, items in by_model.items():
        yield from rows({"model": model}, items)


def _trust_rows(request: MetricRequest, reading: RubricReading, trust: Trust, *, by_criterion: bool) -> Iterator[Row]:
    assert reading.rubric is not None
    experts = request.read(expert_verdicts, reading.rubric.name)
    with request.store.read() as cursor:
        conversations = rubric_conversations(cursor, request.selection)
    ids = {scoped.criterion.hash: scoped.criterion.id for scoped in reading.rubric.scoped()}
    for name, judge in judges_in(reading.verdicts).items():
        own = reading.verdicts[of_judges(reading.verdicts, [judge])]
        consistent = consistency(own)
        groups: dict[str, list[JudgedStatement]] = defaultdict(list)
        for labelled in labelled_statements(judged_talks(conversations, own, reading.rubric, [judge]), experts):
            groups[labelled.criterion if by_criterion else ALL_AXES].append(labelled.statement)
            if not by_criterion:
                groups[labelled.axis].append(labelled.statement)
        for group, items in groups.items():
            measured = agreement_with_experts(items)
            if by_criterion and not measured.n:
                continue
            repeated = consistent.get(group) if by_criterion else consistent.get(ALL_AXES)
            yield Row(
                {"judge": name, "criterion" if by_criterion else "axis": ids.get(group, group)},
                None if math.isnan(measured.share) else measured.share,
                *measured.interval,
                measured.n,
                {},
                {
                    "cohen_kappa": measured.kappa,
                    "sensitivity": measured.sensitivity,
                    "specificity": measured.specificity,
                    "repeats_equal": repeated,
                    "status": status_of(measured.n, measured.share, trust, repeated),
                },
                unit="verdicts",
                columns=Columns("agreement", "low", "high", "n"),
            )


def consistency(verdicts: pd.DataFrame) -> Mapping[str, float]:
    """Return criterion hash → share of equal verdicts among the repeats of one judge, and that of all criteria."""
    equal: dict[str, list[float]] = defaultdict(list)
    for (_, criterion), repeats in decided(verdicts).groupby(["trial_id", "criterion_hash"]):
        for first, second in combinations(repeats["verdict"], 2):
            for group in (str(criterion), ALL_AXES):
                equal[group].append(float(first == second))
    return {group: sum(values) / len(values) for group, values in equal.items()}


SECTIONS = (
    Section(
        "Judges of rubrics against experts",
        report_calibration,
        options={"part": "judges"},
        controls=("rubric", "least_items", "least_agreement"),
        kind="table",
        page="judges",
        caption="Share of equal verdicts on criteria that experts judged, too.",
    ),
    Section(
        "Scores of judge and experts together",
        report_calibration,
        controls=("rubric", "judge"),
        kind="dots",
        series="figure",
        place="model",
        axis="Score",
        page="judges",
    ),
    Section(
        "What more judgements would bring",
        report_calibration,
        options={"part": "plan"},
        controls=("rubric", "judge"),
        kind="table",
        folded=True,
        page="judges",
        caption="Half the width of the interval of the score, now and with experts' verdicts on more cases.",
    ),
    Section(
        "Do the experts' items resemble the others",
        report_calibration,
        options={"part": "audit"},
        controls=("rubric", "judge"),
        kind="table",
        folded=True,
        page="judges",
    ),
)
"""The sections, with the name of the page that draws them."""
