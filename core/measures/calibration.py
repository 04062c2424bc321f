"""``report calibration``: figures that a judge and experts give together, for any question of any form.

They are prediction-powered means (``core.stats.calibrated``), with the estimator of Rogan and Gladen as the second
line: that one assumes that the judge's error rates on the experts' items hold for all items.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np

from core.judging.calibration import rogan_gladen_mean
from core.judging.check import FAILED_CHECK
from core.judging.form import RUBRIC
from core.measures.base import Columns, MetricRequest, Row, Section
from core.measures.opinions import FormOption, Opinions, labelled, metric_of_opinions, read_opinions
from core.measures.rubrics.reading import reading_with_notes, statements_by
from core.reviews.state import states
from core.stats.calibrated import (
    FEWEST,
    CalibratedMean,
    JudgedItem,
    calibrated_difference,
    calibrated_mean,
    resemblance,
)
from core.stats.differences import changes
from core.stats.intervals import NOTHING

_STEPS = (10, 25, 50, 100, 200)
Part = Literal["figures", "differences", "audit", "plan"]


@metric_of_opinions("calibration", empty="No judge answered a question of which people answered a part.")
def report(
    request: MetricRequest,
    form: FormOption = None,
    part: Annotated[
        Part,
        "Figures of judge and experts together; their differences from the first condition that experts judged; "
        "whether the experts' items resemble the others; what more judgements would bring.",
    ] = "figures",
    judge: Annotated[str | None, "Only this judge; of a rubric by default the last one, or panel."] = None,
) -> Iterator[Row]:
    """Report shares of yes, means of scales and scores of rubrics by a judge, corrected by people's answers on a part.

    They are unbiased if the experts' items were drawn at random. Accuracies by grader and experts are in ``report
    graders --part accuracy``: of free responses only those are read here that people judged.
    """
    excluded = Counter[str]()
    rubrics = dict[str, None]()
    for opinions in request.read(read_opinions, request.selection, form).opinions:
        if opinions.form.startswith(RUBRIC):
            rubrics |= dict.fromkeys([opinions.form] if opinions.judges and opinions.decided else [])
        elif opinions.question.id != "equivalent" and (opinions.ordered or opinions.question.yes):
            request.judged_by(opinions.form, opinions.judges)
            yield from _of_question(opinions.drawn_fairly, part, judge, excluded)
    if excluded:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in excluded.items())
        request.note(f"Answers that enter no figure: {reasons}.", kind="excluded")
    for rubric in [form] if form and form.startswith(RUBRIC) else rubrics:
        yield from _of_rubric(request, rubric, part, judge if form else None)


def _of_rubric(request: MetricRequest, form: str, part: Part, judge: str | None) -> Iterator[Row]:
    """Yield the figures of the score of a rubric: its criteria with their points."""
    reading = reading_with_notes(request, form.removeprefix(RUBRIC), judge)
    if reading.rubric is None:
        return
    decided = [answer for each in reading.opinions for answer in each.decided]
    if undecided := sum(not answer.counts and answer.failure != "unanswered" for answer in decided):
        request.note(f"{undecided:,} items have no verdict of people: tied, does not apply, or cannot be judged.")
    hashes = {question.hash for question in reading.rubric.questions}
    for state in (state for state in request.read(states) if not state.blinded and state.form.name.startswith(RUBRIC)):
        review = state.review
        if review.plan.drawn_from and hashes & {question.hash for question in state.form.questions}:
            request.note(
                f"The items of the review {review.name} were drawn from {review.plan.drawn_from} only: choose these "
                "conversations, or the judge must err alike on the others.",
                "high",
            )
    label = {"judge": ", ".join(reading.judges), "prompts": "", "form": form, "question": "score"}
    yield from _rows_of(part, label, statements_by(reading))


def _rows_of(part: Part, label: Mapping[str, Any], by_condition: Mapping[str, Sequence[JudgedItem]]) -> Iterator[Row]:
    if part == "differences":
        yield from calibrated_differences(by_condition, label)
        return
    for model, items in by_condition.items():
        yield from _ROWS[part]({"model": model, **label}, items)


def _of_question(opinions: Opinions, part: Part, only: str | None, excluded: Counter[str]) -> Iterator[Row]:
    for judge in (judge for judge in opinions.judges if only in (None, judge.name)):
        if judge in opinions.failing:
            excluded[FAILED_CHECK] += len(opinions.once(judge))
            continue
        by_condition, left_out = labelled(opinions, judge)
        by_people = {name: items for name, items in by_condition.items() if any(i.expert is not None for i in items)}
        if not by_people:
            continue
        excluded.update(left_out)
        label = {
            "judge": judge.name,
            "prompts": judge.prompt_hash,
            "form": opinions.form,
            "question": opinions.question.title,
        }
        yield from _rows_of(part, label, by_condition if part == "differences" else by_people)


SCORES = Columns("value", "low", "high", "n")
_METHODS = ("judge and experts (PPI++)", "corrected (Rogan and Gladen)", "experts alone", "judge alone")


def calibrated_rows(label: Mapping[str, Any], items: Sequence[JudgedItem]) -> Iterator[Row]:
    """Yield the mean worth of the items in four ways: judge and experts together, corrected, and each alone.

    Means and bounds are shown within the scale, 0 to 1 for yes or no. n is the number of items behind each: all, or
    those that experts judged. ``lambda`` is the weight of the judge. Without experts there is the judge alone.
    """
    if not items:
        return
    result = calibrated_mean(items)
    corrected, interval = rogan_gladen_mean(items) if items[0].yes_or_no else (None, NOTHING)
    figures = (
        (result.estimate if result.labelled_cases >= FEWEST else None, result.interval, result.items),
        (corrected, interval, result.items),
        (result.experts if result.labelled else None, result.experts_interval, result.labelled),
        (result.judge, result.judge_interval, result.items),
    )
    for method, (value, (low, high), n) in zip(_METHODS, figures, strict=True):
        if (mean := _number(value)) is not None:
            more = {
                "unclipped": mean,
                "n_labelled": result.labelled,
                "lambda": result.tuning if method == _METHODS[0] else None,
            }
            shown, lowest, highest = np.clip([mean, low, high], items[0].least, items[0].most).tolist()
            yield Row({**label, "figure": method}, shown, lowest, highest, n, more=more, unit="items", columns=SCORES)


def calibrated_differences(
    by_condition: Mapping[str, Sequence[JudgedItem]], label: Mapping[str, Any] | None = None
) -> Iterator[Row]:
    """Yield differences in the mean worth of items: by judge and experts together, and by the judge alone.

    Every condition is compared with the first that experts judged. n is the number of items of both sides that experts
    judged. Each side is corrected by its own experts' verdicts.
    """
    by_experts = (name for name, items in by_condition.items() if any(item.expert is not None for item in items))
    first = next(by_experts, None)
    if first is None:
        return
    for second in (name for name in by_condition if name != first):
        sides = by_condition[first], by_condition[second]
        value, interval = calibrated_difference(*sides)
        judge = [calibrated_mean(side).judge for side in sides]
        labelled = [sum(item.expert is not None for item in side) for side in sides]
        yield Row(
            {**(label or {}), "first": first, "second": second},
            _number(value),
            *interval,
            sum(labelled),
            more={"by_judge": float(changes(judge[1], judge[0])), "n_first": labelled[0], "n_second": labelled[1]},
            unit="items",
            columns=Columns("difference", "low", "high", "n"),
        )


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def planned_rows(label: Mapping[str, Any], items: Sequence[JudgedItem]) -> Iterator[Row]:
    """Yield half the width of the interval now, and with experts' verdicts on the items of more cases."""
    result: CalibratedMean = calibrated_mean(items)
    if result.labelled_cases < FEWEST:
        return
    total = len({item.case for item in items})
    left = total - result.labelled_cases
    per_case = result.labelled / result.labelled_cases
    for more in (0, *(step for step in _STEPS if step < left), *([left] if left else [])):
        half = result.half_width(more)
        figures = {"more_judgements": round(more * per_case), "of_cases": total}
        yield Row(
            {**label, "more_cases": more}, half, None, None, result.labelled, more=figures, unit="items",
            columns=Columns("half_width", "low", "high", "n_labelled"),
        )  # fmt: skip


def audit_rows(label: Mapping[str, Any], items: Sequence[JudgedItem]) -> Iterator[Row]:
    """Yield, for each feature of the items, how those with an expert's verdict differ from the others.

    The unit is a standard deviation of the feature. *Shifted* means that the experts' items are no random sample.
    """
    if not any(item.expert is not None for item in items):
        return
    features: dict[str, list[float]] = {"judge's verdict": [float(item.judge) for item in items]}
    for name in (items[0].features or {}) if items else {}:
        features[name] = [float((item.features or {})[name]) for item in items]
    labelled = [item.expert is not None for item in items]
    for row in resemblance([item.case for item in items], labelled, features):
        yield Row(
            {**label, "feature": row.feature},
            _number(row.difference),
            *row.interval,
            sum(labelled),
            more={"verdict": row.verdict},
            unit="items",
            columns=Columns("difference", "low", "high", "n"),
        )


_ROWS: Mapping[str, Callable[[Mapping[str, Any], Sequence[JudgedItem]], Iterator[Row]]] = {
    "figures": calibrated_rows,
    "audit": audit_rows,
    "plan": planned_rows,
}
FIGURES = Section(
    "Figures by judge and people together",
    report,
    {"part": "figures"},
    kind="table",
    folded=True,
    heads={"value": "Value", "n": "Items", "n_labelled": "By people", "lambda": "λ"},
    help="Judge and experts: a prediction-powered mean (PPI++), unbiased for any judge if people’s items were drawn at "
    "random. Corrected: by Rogan and Gladen.",
    page="trust",
)
FORECAST = Section(
    "What more judgements would bring",
    report,
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
    help="Half the width of the interval with people’s answers on further cases: a forecast.",
    page="trust",
)
AUDIT = Section(
    "Do people’s items resemble the others?",
    report,
    {"part": "audit"},
    kind="table",
    folded=True,
    heads={"difference": "Difference", "n": "By people"},
    help="Differences of people’s items from the others in standard deviations. Shifted: at least 0.25, and the "
    "interval excludes 0, so that the items are no random sample; alike: the whole interval is within 0.25.",
    page="trust",
)
TOGETHER = replace(
    FIGURES,
    title="Scores of judge and experts together",
    kind="dots",
    series="figure",
    place="model",
    axis="Score",
    folded=False,
)
DIFFERENCES = Section(
    "Differences by judge and experts together",
    report,
    {"part": "differences"},
    kind="table",
    folded=True,
    heads={"difference": "Difference", "n": "By people", "by_judge": "By the judge alone"},
    help="Each condition minus the first that experts judged. Each is corrected by experts’ verdicts on its own "
    "conversations, so that the judge may err differently.",
    page="trust",
)
SECTIONS = (FIGURES, TOGETHER, DIFFERENCES, FORECAST, AUDIT)
