"""Bars made of shares, such as why conversations ended, one bar for each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from core.figures.style import FAINT, LAYOUT

_WRITTEN = 0.035
"""Share of the axis below which a segment is too narrow for a number."""
_AIR = 1.06
"""Length of the axis relative to the longest bar."""


@dataclass(frozen=True)
class Segment:
    """One colour of the bars: for each bar its share, its count, and the ``data`` that a click gives.

    ``ink`` is the colour of the numbers; ``words`` are added to the hover text.
    """

    name: str
    colour: str
    ink: str
    shares: Sequence[float]
    counts: Sequence[int]
    data: Sequence[tuple[str, ...]] = field(default_factory=tuple)
    words: Sequence[str] = field(default_factory=tuple)


def stacked(
    labels: Sequence[str],
    segments: Sequence[Segment],
    title: str,
    unit: str,
    *,
    whole: bool = True,
    percent: bool = False,
    row: int = 52,
    dark: bool = False,
) -> go.Figure:
    """Return a bar for each label, made of shares; segments without counts are omitted.

    ``unit`` is what is counted. ``whole``: the shares add up to 1. ``percent``: bars show shares instead of counts.
    ``row`` is the height of a bar with its gap, in pixels.
    """
    figure = go.Figure()
    end = 1.001 if whole else _AIR * max([sum(s.shares[n] for s in segments) for n in range(len(labels))] or [1])
    for segment in segments:
        if not any(segment.counts):
            continue
        data, words = segment.data or [()] * len(labels), segment.words or [""] * len(labels)
        hover_texts = [
            "<br>".join(filter(None, [label, f"{segment.name}: {n:,} {unit} ({share:.1%})", more]))
            for label, n, share, more in zip(labels, segment.counts, segment.shares, words, strict=True)
        ]
        figure.add_bar(
            name=segment.name,
            orientation="h",
            y=list(labels),
            x=list(segment.shares),
            marker={"color": segment.colour},
            text=[
                "" if share < _WRITTEN * end else f"{share:.0%}" if percent else f"{n:,}"
                for n, share in zip(segment.counts, segment.shares, strict=True)
            ],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": segment.ink},
            customdata=[(text, *click) for text, click in zip(hover_texts, data, strict=True)],
            hovertemplate="%{customdata[0]}<extra></extra>",
            unselected={"marker": {"opacity": 0.55}},
        )
    figure.update_layout(
        LAYOUT,
        barmode="stack",
        height=116 + row * len(labels) + 12 * max(0, len(figure.data) - 3),
        margin={"r": 28},
        bargap=0.33,
        showlegend=True,  # a single segment needs its name, too
        xaxis={
            "title": title,
            "range": [0, end or 1.0],
            "tickformat": ".0%",
            "nticks": 7,
            "ticklabeloverflow": "allow",
            "gridcolor": FAINT[dark],
        },
        yaxis={"autorange": "reversed", "automargin": True},
    )
    return figure
