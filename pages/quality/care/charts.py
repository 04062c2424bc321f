"""The charts that only CARE has: shares, the radar of the four parts, static against conversational accuracy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import plotly.graph_objects as go

from core.figures.marks import Mark, dots
from core.figures.radar import radar
from core.figures.scatter import Spot, StraightLine, scatter, scatter_panels
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


def parts_by_dataset_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return a panel for each part, each with its own axis, and in it a row of dots for each data set."""
    marks = [
        Mark(
            row.label["dataset"],
            row.estimate,
            row.low,
            row.high,
            row.label["model"],
            row.label["measure"],
            f"published, {row.source}" if row.source else f"{row.n:,} cases",
            published=bool(row.source),
            data=(str(number),),
        )
        for number, row in enumerate(rows)
        if row.estimate is not None
    ]
    models = {model: names[model] for model in names if any(mark.series == model for mark in marks)}
    datasets = {dataset: two_lines(names[dataset]) for dataset in sorted({mark.place for mark in marks})}
    panels = {str(part): names[part] for part in PARTS}
    return dots(
        marks, models, model_colours(list(models)), Axis(), places=datasets, panels=panels, legend=True, dark=dark
    )


def scatter_chart(
    rows: Sequence[Row],
    names: Mapping[str, str],
    dark: bool,
    *,
    fits: Sequence[Row],
    by: Literal["all", "group", "dataset"],
) -> go.Figure:
    """Return accuracy after the conversation against static accuracy, with ``fits`` as lines.

    ``by``: one line, a line for each group of models, or a panel with a line for each data set.
    """
    series = "group" if by == "group" else "model"
    values = sorted({row.label[series] for row in rows}, key=list(names).index if by != "group" else None)
    series_names = {value: value if by == "group" else names[value] for value in values}
    colours = model_colours(values)
    spots = [
        Spot(
            row.label[series],
            row.estimate or 0.0,
            row["static"],
            kind=row.label["dataset"],
            label=names[row.label["model"]] if by == "group" else "",
            words=f"{names[row.label['dataset']]}, {row.n:,} cases",
        )
        for row in rows
    ]
    along = Axis("Static accuracy: the whole question at once", (0, 1.02), ".1f", 0.2)
    up = Axis("Conversational accuracy", (0, 1.02), ".1f", 0.2)
    datasets = sorted({row.label["dataset"] for row in rows})
    diagonal = StraightLine("No drop", 1.0, dotted=True)
    if by == "dataset":
        panels, lines = dict[str, list[Spot]](), dict[str, list[StraightLine]]()
        for dataset in datasets:
            fitted = [row for row in fits if row.label["dataset"] == dataset]
            r = "".join(f"<br>r = {row.estimate:.2f}" for row in fitted if row.estimate is not None)
            title = f"{names[dataset]}{r}"
            panels[title] = [spot for spot in spots if spot.kind == dataset]
            lines[title] = [diagonal, *_fitted_lines(fitted, lambda _: "Fitted line", {})]
        return scatter_panels(panels, series_names, colours, along, up, lines=lines, dark=dark)

    def line_name(row: Row) -> str:
        r = "" if row.estimate is None else f", r = {row.estimate:.2f}"
        return f"{'All models' if row.label['group'] == 'all' else row.label['group']}: fitted line{r}"

    kinds = {dataset: names[dataset] for dataset in datasets}
    lines_of_all = [diagonal, *_fitted_lines(fits, line_name, colours)]
    return scatter(spots, series_names, colours, along, up, kinds=kinds, lines=lines_of_all, dark=dark)


def _fitted_lines(
    fits: Sequence[Row], name: Callable[[Row], str], colours: Mapping[str, str]
) -> Iterator[StraightLine]:
    """Yield the lines of the fits that have one, in the colour of their group."""
    for row in fits:
        if row["slope"] is not None:
            group = row.label.get("group", "")
            yield StraightLine(name(row), row["slope"], row["intercept"], colours.get(group, ""), series=group)
