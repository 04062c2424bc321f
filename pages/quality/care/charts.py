"""The charts that only CARE has: shares, the radar of the four parts, static against conversational accuracy."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.marks import Mark
from core.figures.radar import radar
from core.figures.scatter import Spot, StraightLine, scatter
from core.figures.shares import Segment, stacked
from core.figures.style import Axis
from core.frameworks.automedic.measures.profile import PARTS
from core.measures.base import Row
from pages.kit.names import model_colours

Look = tuple[str, str, str]
"""Name of a value, its colour, and the colour of text on it."""
_LINE_CHARS = 24
"""Longer names take two lines (characters)."""
_AXIS_MARGIN = 1.06
"""Length of an axis relative to the farthest whisker."""


def two_lines(name: str) -> str:
    """Return a name for an axis; a long name is broken before its last part."""
    for mark, end in ((" · ", ""), ("/", "/")):
        head, separator, tail = name.rpartition(mark)
        if separator and len(name) > _LINE_CHARS:
            return f"{head}{end}<br>{tail}"
    return name


def shares_chart(
    rows: Sequence[Row],
    names: Mapping[str, str],
    dark: bool,
    *,
    part: str,
    looks: Mapping[object, Look],
    axis: str,
    count: str = "count",
    whole: bool = True,
) -> go.Figure:
    """Return a bar for each model, made of the shares of the values of label field ``part``.

    ``looks`` are the values in order. ``count`` names the column with the numbers behind the shares. ``whole``: the
    shares add up to 1. A click returns the number of the row.
    """
    number = {(row.label["model"], row.label[part]): place for place, row in enumerate(rows)}
    n = {row.label["model"]: row.n or 0 for row in rows}
    unit = rows[0].unit
    segments = []
    for value, look in looks.items():
        places = [number.get((model, value)) for model in n]
        shares = [0.0 if place is None else rows[place].estimate or 0.0 for place in places]
        counts = [0 if place is None else rows[place][count] for place in places]
        segments.append(Segment(*look, shares, counts, [(str(place),) for place in places]))
    labels = [
        f"{two_lines(names[model])}<br>{f'n = {size:,}' if whole else f'{size:,} {unit}'}" for model, size in n.items()
    ]
    return stacked(labels, segments, axis, "messages" if unit == "queries" else unit, whole=whole, dark=dark)


def radar_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    marks = [
        Mark(
            row.label["measure"],
            row.estimate,
            row.low,
            row.high,
            row.label["model"],
            words=f"published, {row.source}" if row.source else f"{row.n:,} cases",
            published=bool(row.source),
        )
        for row in rows
        if row.estimate is not None
    ]
    most = max((mark.high or mark.estimate or 0 for mark in marks if mark.place == "efficiency"), default=0) or 1
    axes = {str(part): Axis("", (0, 1)) for part in PARTS} | {
        "efficiency": Axis("", (0, float(f"{_AXIS_MARGIN * most:.2g}")))
    }
    models = {mark.series: names[mark.series] for mark in marks}
    spokes: dict[str, str] = {part: names[part].replace(" and ", "<br>and ") for part in PARTS}
    return radar(marks, models, model_colours(list(models)), spokes, axes=axes, dark=dark)


def scatter_chart(
    rows: Sequence[Row], names: Mapping[str, str], dark: bool, *, fits: Sequence[Row], by_group: bool
) -> go.Figure:
    """Return accuracy after the conversation against static accuracy, with ``fits`` as lines."""
    series = "group" if by_group else "model"
    values = sorted({row.label[series] for row in rows}, key=list(names).index if not by_group else None)
    series_names = {value: value if by_group else names[value] for value in values}
    colours = model_colours(values)
    spots = [
        Spot(
            row.label[series],
            row.estimate or 0.0,
            row["static"],
            kind=row.label["dataset"],
            label=names[row.label["model"]] if by_group else "",
            words=f"{names[row.label['dataset']]}, {row.n:,} cases",
        )
        for row in rows
    ]
    lines = [StraightLine("No drop", 1.0, dotted=True)]
    for row in fits:
        if row["slope"] is not None:
            group = row.label["group"]
            r = "" if row.estimate is None else f", r = {row.estimate:.2f}"
            name = "All models" if group == "all" else group
            lines.append(
                StraightLine(
                    f"{name}: fitted line{r}", row["slope"], row["intercept"], colours.get(group, ""), series=group
                )
            )
    along = Axis("Static accuracy: the whole question at once", (0, 1.02), ".1f", 0.2)
    up = Axis("Conversational accuracy", (0, 1.02), ".1f", 0.2)
    kinds = {dataset: names[dataset] for dataset in sorted({row.label["dataset"] for row in rows})}
    return scatter(spots, series_names, colours, along, up, kinds=kinds, lines=lines, dark=dark)
