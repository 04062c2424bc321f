"""Figures of the Monitoring page: accuracy of versions by arm, and what a step changed by specialty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.events import FORMATS, Format, QuestionType
from core.figures.marks import Mark, bars, dots
from core.figures.style import FALL, GREY, Axis
from core.measures.compare import Step
from pages.parts.look import FORMAT, QUESTION_TYPE


@dataclass(frozen=True)
class Bar:
    """One bar: accuracy of a version in an arm with its interval; ``published`` where it is the paper's figure."""

    version: str
    format: Format
    question_type: QuestionType
    mean: float
    low: float | None
    high: float | None
    published: bool


_STEP_COLOUR = {"rose": "#009E73", "fell": FALL, "unclear": GREY}


def versions_chart(
    shown: Sequence[Bar], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return one panel a question type, formats on the x axis, a bar for each version; published ones are hatched."""
    marks = [
        Mark(FORMAT[b.format], b.mean, b.low, b.high, b.version, b.question_type, published=b.published) for b in shown
    ]  # fmt: skip
    return bars(marks, names, colours, places=[FORMAT[format_] for format_ in FORMATS], panels=QUESTION_TYPE, dark=dark)


def groups_chart(steps: Sequence[Step], *, dark: bool = False) -> go.Figure:
    """Return the difference of one step in one arm by group, as dots with 95 % intervals, the largest rise on top."""
    marks = [
        Mark(
            step.group or "", step.result.difference, step.result.ci_low, step.result.ci_high, "step",
            words=f"{step.result.n:,} cases, adjusted p {step.adjusted_p:.4f}", colour=_STEP_COLOUR[step.verdict],
        )
        for step in sorted(steps, key=lambda step: -step.result.difference)
    ]  # fmt: skip
    axis = Axis("Difference of accuracy", None, "+.2f", None, "+.3f", zero=True)
    return dots(marks, {"step": ""}, {}, axis, legend=False, dark=dark)
