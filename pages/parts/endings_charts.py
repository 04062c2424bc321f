"""Figures of the Endings page: reasons as stacked shares, doctor turns as curves, the what-if as dots."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.events import EndReason
from core.measures.endings import END_REASONS, STANDARD, EndingRow, Rescored, Rule, TurnRow
from pages.parts.accuracy_charts import FAINT

REASON: dict[EndReason, str] = {
    "final_diagnosis": "Final diagnosis",
    "no_question": "No question",
    "turn_cap": "Cap reached",
    "end_tag": "End tag",
    "no_tag": "No tag",
    "refusal": "Refused",
    "error": "Broke off",
}
REASON_COLOUR: dict[EndReason, tuple[str, str]] = {
    "final_diagnosis": ("#009E73", "white"), "no_question": ("#E69F00", "#1A2B2B"), "turn_cap": ("#D55E00", "white"),
    "end_tag": ("#56B4E9", "#1A2B2B"), "no_tag": ("#F0E442", "#1A2B2B"),
    "refusal": ("#CC79A7", "#1A2B2B"), "error": ("#8C8C8C", "white"),
}  # fmt: skip
_WRITTEN = 0.035
"""Shares below are too narrow for their number."""
_LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0, "traceorder": "normal"}
_MARGIN = {"l": 8, "r": 8, "t": 8, "b": 8}


def reasons_chart(rows: Sequence[EndingRow], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a bar for each model, made of the shares of why its conversations ended."""
    figure = go.Figure()
    labels = [f"{names[row.model]}<br>n = {row.conversations:,}" for row in rows]
    for reason in END_REASONS:
        counts = [row.reasons.get(reason, 0) for row in rows]
        if not any(counts):
            continue
        shares = [count / max(1, row.conversations) for count, row in zip(counts, rows, strict=True)]
        colour, ink = REASON_COLOUR[reason]
        figure.add_bar(
            name=REASON[reason], orientation="h", y=labels, x=shares, marker={"color": colour},
            text=[f"{share:.1%}" if share >= _WRITTEN else "" for share in shares], textposition="inside",
            insidetextanchor="middle", textfont={"color": ink}, textangle=0, customdata=counts,
            hovertemplate="%{y}<br>%{fullData.name}: %{x:.1%} (%{customdata:,} conversations)<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        barmode="stack", height=110 + 54 * len(rows), margin={**_MARGIN, "r": 28}, bargap=0.3,
        xaxis={
            "title": "Share of conversations", "range": [0, 1.001], "dtick": 0.2, "tickformat": ".0%",
            "ticklabeloverflow": "allow", "gridcolor": FAINT[dark],
        },
        yaxis={"autorange": "reversed", "automargin": True}, legend=_LEGEND,
    )  # fmt: skip
    return figure


def turns_chart(
    rows: Sequence[TurnRow], means: Mapping[str, float], names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a curve for each model: which share of its conversations had so many doctor turns."""
    figure = go.Figure()
    most = max((row.turns for row in rows), default=0)
    for model in dict.fromkeys(row.model for row in rows):
        found = {row.turns: row for row in rows if row.model == model}
        figure.add_scatter(
            name=f"{names[model]}, mean {means[model]:.1f}", mode="lines+markers", x=list(range(most + 1)),
            y=[found[n].share if n in found else 0.0 for n in range(most + 1)],
            customdata=[found[n].conversations if n in found else 0 for n in range(most + 1)],
            line={"color": colours[model], "width": 2}, marker={"size": 5},
            hovertemplate="%{fullData.name}<br>%{x} turns: %{y:.1%} (%{customdata:,} conversations)<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        height=340, margin=_MARGIN, legend=_LEGEND,
        xaxis={"title": "Doctor’s messages after the greeting", "gridcolor": FAINT[dark], "zeroline": False},
        yaxis={"title": "Share of conversations", "tickformat": ".0%", "rangemode": "tozero", "gridcolor": FAINT[dark]},
    )  # fmt: skip
    return figure


def what_if_chart(
    rows: Sequence[Rescored], rules: Sequence[Rule], names: Mapping[str, str], colours: Mapping[str, str],
    *, top: float = 1.0, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return the accuracies of one arm: a row for each rule, a dot with its interval for each model.

    A dotted line marks what a model has under the standard rule. ``top`` is where the axis ends.
    """
    shown = [rule for rule in rules if any(row.rule == rule.key for row in rows)]
    places = {rule.key: place for place, rule in enumerate(shown)}
    models = list(dict.fromkeys(row.model for row in rows))
    figure = go.Figure()
    for lane, model in enumerate(models):
        shift = 0.6 * ((lane + 0.5) / len(models) - 0.5)
        found = [row for row in rows if row.model == model and row.mean is not None and row.rule in places]
        _add_dots(figure, found, [places[row.rule] + shift for row in found], names[model], colours[model])
        for row in found:
            if row.rule == STANDARD.key:
                figure.add_vline(row.mean, line={"color": colours[model], "width": 1, "dash": "dot"}, opacity=0.6)
    figure.update_layout(
        height=110 + len(shown) * (26 + 12 * len(models)), margin=_MARGIN, hovermode="closest", legend=_LEGEND,
        xaxis={
            "title": "Accuracy", "range": [0, top], "tickformat": ".1f", "dtick": 0.1 if top < 0.7 else 0.2,
            "gridcolor": FAINT[dark], "zeroline": False,
        },
        yaxis={
            "range": [len(shown) - 0.5, -0.5], "tickvals": list(places.values()),
            "ticktext": [rule.label.replace(": ", ":<br>") for rule in shown], "automargin": True, "showgrid": False,
            "zeroline": False,
        },
        shapes=[*figure.layout.shapes, *(_separator(place, FAINT[dark]) for place in range(len(shown) - 1))],
    )  # fmt: skip
    return figure


def _separator(place: int, colour: str) -> dict[str, object]:
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": place + 0.5, "y1": place + 0.5, "layer": "below"}
    return {**line, "line": {"width": 1, "color": colour}}


def _add_dots(figure: go.Figure, rows: Sequence[Rescored], places: list[float], name: str, colour: str) -> None:
    figure.add_scatter(
        name=name, mode="markers", x=[row.mean for row in rows], y=places, marker={"color": colour, "size": 8},
        error_x={
            "type": "data", "symmetric": False, "thickness": 1.4, "width": 3, "color": colour,
            "array": [row.interval.high - (row.mean or 0.0) for row in rows],
            "arrayminus": [(row.mean or 0.0) - row.interval.low for row in rows],
        },
        customdata=[(*row.interval, row.n_cases, row.n_answers, row.concerned, row.delta or 0.0) for row in rows],
        hovertemplate="%{fullData.name}: %{x:.3f} (%{customdata[0]:.3f} – %{customdata[1]:.3f})<br>"
        "%{customdata[5]:+.3f} to the standard rule<br>%{customdata[2]:,} cases, %{customdata[3]:,} answers; "
        "the rule concerns %{customdata[4]:,}<extra></extra>",
    )  # fmt: skip
