"""Figures of the Endings page: reasons as stacked shares, doctor turns as curves, the what-if as dots."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.events import EndReason
from core.figures.curves import Point, curves
from core.figures.marks import Mark, dots
from core.figures.shares import Segment, stacked
from core.figures.style import Axis
from core.measures.endings import END_REASONS, STANDARD, EndingRow, Rescored, Rule, TurnRow

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


def reasons_chart(rows: Sequence[EndingRow], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a bar for each model, made of the shares of why its conversations ended."""
    labels = [f"{names[row.model]}<br>n = {row.conversations:,}" for row in rows]
    segments = [
        Segment(
            REASON[reason], *REASON_COLOUR[reason],
            [row.reasons.get(reason, 0) / max(1, row.conversations) for row in rows],
            [row.reasons.get(reason, 0) for row in rows],
        )
        for reason in END_REASONS
    ]  # fmt: skip
    return stacked(labels, segments, "Share of conversations", "conversations", percent=True, dark=dark)


def turns_chart(
    rows: Sequence[TurnRow], means: Mapping[str, float], names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a curve for each model: which share of its conversations had so many doctor turns."""
    most = max((row.turns for row in rows), default=0)
    held = {(row.model, row.turns): row for row in rows}
    points = [
        Point(model, n, one.share if (one := held.get((model, n))) else 0.0,
              words=f"{one.conversations if one else 0:,} conversations")
        for model in dict.fromkeys(row.model for row in rows) for n in range(most + 1)
    ]  # fmt: skip
    shown = {model: f"{name}, mean {means[model]:.1f}" for model, name in names.items() if model in means}
    along = Axis("Doctor’s messages after the greeting", (-0.02 * most, 1.02 * most or 1), "~g", None, ".0f")
    return curves(points, shown, colours, along, Axis("Share of conversations", None, ".0%", None, ".1%"), height=340,
                  dark=dark)  # fmt: skip


def what_if_chart(
    rows: Sequence[Rescored], rules: Sequence[Rule], names: Mapping[str, str], colours: Mapping[str, str],
    *, top: float = 1.0, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return the accuracies of one arm: a row for each rule, a dot with its interval for each model.

    A dotted line marks what a model has under the standard rule. ``top`` is where the axis ends.
    """
    shown = [rule for rule in rules if any(row.rule == rule.key for row in rows)]
    marks = [
        Mark(
            row.rule, row.mean, *row.interval, row.model,
            words=f"{row.delta or 0.0:+.3f} to the standard rule<br>{row.n_cases:,} cases, {row.n_answers:,} answers; "
            f"the rule concerns {row.concerned:,}",
        )
        for row in rows if row.mean is not None
    ]  # fmt: skip
    labels = {rule.key: rule.label.replace(": ", ":<br>") for rule in shown}
    axis = Axis("Accuracy", (0, top), ".1f", 0.1 if top < 0.7 else 0.2)
    figure = dots(marks, names, colours, axis, places=labels, legend=True, dark=dark)
    for mark in marks:
        if mark.place == STANDARD.key:
            line = {"color": colours[mark.series], "width": 1, "dash": "dot"}
            figure.add_vline(mark.estimate, line=line, opacity=0.6)
    return figure
