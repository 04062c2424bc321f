"""Figures of the Monitoring page: accuracy of versions by arm, and what a step changed by specialty."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.events import FORMATS, Format, QuestionType
from core.measures.compare import Step
from pages.parts.look import FORMAT, QUESTION_TYPE

_HATCH = {"fgcolor": "white", "size": 6, "fillmode": "overlay", "solidity": 0.25}
_STEP_COLOUR = {"rose": "#009E73", "fell": "#D55E00", "unclear": "#8C8C8C"}


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


def versions_chart(bars: Sequence[Bar], names: dict[str, str], colours: dict[str, str]) -> go.Figure:
    """Return one panel a question type, formats on the x axis, a bar for each version; published ones are hatched."""
    types = list(dict.fromkeys(bar.question_type for bar in bars))
    figure = make_subplots(
        rows=1, cols=max(1, len(types)), shared_yaxes=True, horizontal_spacing=0.04,
        subplot_titles=[QUESTION_TYPE[t] for t in types],
    )  # fmt: skip
    for column, question_type in enumerate(types, start=1):
        for version in names:
            chosen = [b for b in bars if (b.version, b.question_type) == (version, question_type)]
            chosen.sort(key=lambda bar: FORMATS.index(bar.format))
            if chosen:
                trace = _trace(chosen, names[version], colours[version], legend=column == 1)
                figure.add_trace(trace, row=1, col=column)
    figure.update_yaxes(range=[0, 1.0], tickformat=".1f")
    figure.update_yaxes(title="Accuracy", row=1, col=1)
    figure.update_layout(
        barmode="group", height=400, margin={"l": 10, "r": 10, "t": 40, "b": 10},
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0},
    )  # fmt: skip
    return figure


def _trace(bars: Sequence[Bar], name: str, colour: str, *, legend: bool) -> go.Bar:
    whiskers = all(bar.low is not None and bar.high is not None for bar in bars)
    published = any(bar.published for bar in bars)
    return go.Bar(
        name=f"{name} (published)" if published else name,
        legendgroup=name, showlegend=legend,
        x=[FORMAT[bar.format] for bar in bars],
        y=[bar.mean for bar in bars],
        marker={"color": colour, "pattern": {**_HATCH, "shape": "/" if published else ""}},
        error_y={
            "type": "data", "symmetric": False, "thickness": 1.2, "width": 3, "visible": whiskers,
            "array": [(bar.high or bar.mean) - bar.mean for bar in bars],
            "arrayminus": [bar.mean - (bar.low or bar.mean) for bar in bars],
        },
        customdata=[(bar.low, bar.high) for bar in bars],
        hovertemplate="%{x}, %{fullData.name}<br>%{y:.3f} (%{customdata[0]:.3f} – %{customdata[1]:.3f})<extra></extra>",
    )  # fmt: skip


def groups_chart(steps: Sequence[Step]) -> go.Figure:
    """Return the difference of one step in one arm by group, as dots with 95 % intervals, the largest rise on top."""
    ordered = sorted(steps, key=lambda step: step.result.difference)
    results = [step.result for step in ordered]
    figure = go.Figure(
        go.Scatter(
            x=[r.difference for r in results],
            y=[step.group for step in ordered],
            mode="markers",
            marker={"size": 10, "color": [_STEP_COLOUR[step.verdict] for step in ordered]},
            error_x={
                "type": "data", "symmetric": False, "thickness": 1.4, "width": 4,
                "array": [r.ci_high - r.difference for r in results],
                "arrayminus": [r.difference - r.ci_low for r in results],
            },
            customdata=[(r.n, r.ci_low, r.ci_high, step.adjusted_p) for r, step in zip(results, ordered, strict=True)],
            hovertemplate="%{y}: %{x:+.3f} (%{customdata[1]:+.3f} – %{customdata[2]:+.3f})<br>"
            "%{customdata[0]} cases, adjusted p %{customdata[3]:.4f}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_vline(x=0, line={"width": 1, "dash": "dot"})
    figure.update_layout(
        height=90 + 28 * max(1, len(ordered)), margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis={"title": "Difference of accuracy", "tickformat": "+.2f"}, yaxis={"automargin": True},
    )  # fmt: skip
    return figure
