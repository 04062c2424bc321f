"""``report rubric_calibration``: judges of rubrics against experts, and scores that both give together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Literal

from core.frameworks.starts import REVIEW, RUBRICS
from core.judging.calibration import (
    ENOUGH_AGREEMENT,
    ENOUGH_LABELS,
    JudgedStatement,
    Trust,
    agreement_with_experts,
    status_of,
)
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.calibration import audit_rows, calibrated_differences, calibrated_rows, planned_rows
from core.measures.rubrics.labels import expert_verdicts, labelled_statements
from core.measures.rubrics.reading import (
    ALL_AXES,
    FILTERS,
    JudgeOption,
    RubricOption,
    RubricReading,
    consistency,
    read_rubric_outcomes,
    reading_with_notes,
    statements_by_condition,
)
from core.measures.rubrics.scores import judged_conversations, judges_in, of_judges
from core.store.queries.rubrics import rubric_conversations


@metric(
    "rubric_calibration",
    *FILTERS,
    empty="No conversation is judged by this rubric, or experts judged none of the same criteria.",
    starts=(RUBRICS, REVIEW),
    page="judges",
)
def report_calibration(
    request: MetricRequest,
    rubric: RubricOption = None,
    judge: JudgeOption = None,
    part: Annotated[
        Literal["scores", "differences", "judges", "criteria", "conditions", "audit", "plan"],
        "Scores of judge and experts together, or their differences from the first condition that experts judged; the "
        "status of each judge by axis, criterion or condition; whether the experts' items resemble the others; what "
        "more judgements would bring.",
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
    if part in ("judges", "criteria", "conditions"):
        reading = request.read(read_rubric_outcomes, request.selection, rubric, None)
        if reading.rubric is not None:
            yield from _trust_rows(request, reading, Trust(least_items, least_agreement), part)
        return
    reading = reading_with_notes(request, rubric, judge)
    if reading.rubric is None:
        return
    experts = request.read(expert_verdicts, reading.rubric.name)
    if experts.undecided:
        request.note(
            f"{experts.undecided:,} items have no verdict of people: tied, does not apply, or cannot be judged."
        )
    for review, drawn_from in experts.restricted.items():
        request.note(
            f"The items of the review {review} were drawn from {drawn_from} only: choose these conversations, or the "
            "judge must err alike on the others.",
            "high",
        )
    by_model = statements_by_condition(request, reading)
    if part == "differences":
        yield from calibrated_differences(by_model)
        return
    rows = {"scores": calibrated_rows, "audit": audit_rows, "plan": planned_rows}[part]
    for model, items in by_model.items():
        yield from rows({"model": model}, items)


def _trust_rows(
    request: MetricRequest, reading: RubricReading, trust: Trust, part: Literal["judges", "criteria", "conditions"]
) -> Iterator[Row]:
    assert reading.rubric is not None
    experts = request.read(expert_verdicts, reading.rubric.name)
    with request.store.read() as cursor:
        conversations = rubric_conversations(cursor, request.selection)
    ids = {scoped.criterion.hash: scoped.criterion.id for scoped in reading.rubric.scoped()}
    group_name = {"judges": "axis", "criteria": "criterion", "conditions": "model"}[part]
    for name, judge in judges_in(reading.verdicts).items():
        own = reading.verdicts[of_judges(reading.verdicts, [judge])]
        consistent = consistency(own)
        groups: dict[str, list[JudgedStatement]] = defaultdict(list)
        for labelled in labelled_statements(judged_conversations(conversations, own, reading.rubric, [judge]), experts):
            if part == "judges":
                groups[ALL_AXES].append(labelled.statement)
            groups[getattr(labelled, group_name)].append(labelled.statement)
        for group, items in groups.items():
            measured = agreement_with_experts(items)
            if part == "criteria" and not measured.n:
                continue
            repeated = consistent.get(group if part == "criteria" else ALL_AXES)
            excess = dict(
                zip(("excess", "excess_low", "excess_high"), (measured.excess, *measured.excess_interval), strict=True)
            )
            yield Row(
                {"judge": name, group_name: ids.get(group, group)},
                _defined(measured.share),
                *measured.interval,
                measured.n,
                {},
                {
                    "cohen_kappa": _defined(measured.kappa),
                    "sensitivity": _defined(measured.sensitivity),
                    "specificity": _defined(measured.specificity),
                    **({name: _defined(value) for name, value in excess.items()} if part == "conditions" else {}),
                    "repeats_equal": repeated,
                    "status": status_of(measured.n, measured.share, trust, repeated, measured.of_each),
                },
                unit="verdicts",
                columns=Columns("agreement", "low", "high", "n"),
            )


def _defined(figure: float) -> float | None:
    return None if math.isnan(figure) else figure


AGAINST_EXPERTS = Section(
    "Judges against experts",
    report_calibration,
    {"part": "judges"},
    kind="table",
    heads={
        "agreement": "Equal verdicts",
        "n": "By people",
        "cohen_kappa": "Cohen’s kappa",
        "repeats_equal": "Repeats equal",
    },
    help="Criteria that people judged, too, in unblinded reviews. A judge is calibrated if people judged at least 50 "
    "of the same criteria, and 85 % of the verdicts are equal: half of the met and of the not met at least.",
    page="judges",
)
BY_CONDITION = Section(
    "Errors of judges by condition",
    report_calibration,
    {"part": "conditions"},
    kind="table",
    folded=True,
    heads={
        "agreement": "Equal verdicts",
        "n": "By people",
        "cohen_kappa": "Cohen’s kappa",
        "excess": "Met: judge − people",
        "excess_low": "From",
        "excess_high": "To",
        "repeats_equal": "Repeats equal",
    },
    help="The share that the judge calls met minus the share that people do. If it differs between conditions, so do "
    "their scores by the judge alone.",
    page="judges",
)
TOGETHER = Section(
    "Scores of judge and experts together",
    report_calibration,
    kind="dots",
    series="figure",
    place="model",
    axis="Score",
    heads={"n": "Criteria", "n_labelled": "By people", "lambda": "λ"},
    help="Judge and experts: a prediction-powered mean (PPI++) with weight λ of the judge, unbiased for any judge if "
    "the experts’ items were drawn at random. Corrected: by Rogan and Gladen, if the judge’s errors on these items are "
    "those on all.",
    page="judges",
)
DIFFERENCES = Section(
    "Differences by judge and experts together",
    report_calibration,
    {"part": "differences"},
    kind="table",
    folded=True,
    heads={"difference": "Difference", "n": "By people", "by_judge": "By the judge alone"},
    help="Each condition minus the first that experts judged. Each is corrected by experts’ verdicts on its own "
    "conversations, so that the judge may err differently.",
    page="judges",
)
FORECAST = Section(
    "What more judgements would bring",
    report_calibration,
    {"part": "plan"},
    kind="table",
    folded=True,
    heads={
        "more_cases": "Further cases",
        "half_width": "Interval ±",
        "n_labelled": "By people now",
        "more_judgements": "Further judgements",
        "of_cases": "Of cases",
    },
    help="Half the width of the interval of the score with experts’ verdicts on further cases: a forecast.",
    page="judges",
)
AUDIT = Section(
    "Do the experts’ items resemble the others?",
    report_calibration,
    {"part": "audit"},
    kind="table",
    folded=True,
    heads={"difference": "Difference", "n": "By people"},
    help="Differences of the experts’ items from the others in standard deviations. Shifted: at least 0.25, and the "
    "interval excludes 0, so that the items are no random sample; alike: the whole interval is within 0.25.",
    page="judges",
)
SECTIONS = (AGAINST_EXPERTS, BY_CONDITION, TOGETHER, DIFFERENCES, FORECAST, AUDIT)
"""The sections in the order of the page Judges."""
