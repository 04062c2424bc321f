"""The charts that only CARE has: a part by data set, and conversational against static accuracy with fitted lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import plotly.graph_objects as go

from core.figures.report import chart_of
from core.figures.scatter import Spot, StraightLine, scatter, scatter_panels
from core.figures.style import Axis
from core.measures.base import Row
from pages.kit.names import model_colours

LinesBy = Literal["all", "group", "dataset"]


def part_chart(rows: Sequence[Row], *, names: Mapping[str, str], colours: Mapping[str, str], dark: bool) -> go.Figure:
    axis = names[rows[0].label["measure"]]
    return chart_of(
        rows, kind="dots", series="model", place="dataset", axis=axis, names=names, colours=colours, dark=dark
    )


def scatter_chart(
    rows: Sequence[Row],
    *,
    names: Mapping[str, str],
    colours: Mapping[str, str],
    dark: bool,
    fits: Sequence[Row],
    by: LinesBy,
) -> go.Figure:
    """Return accuracy after the conversation against static accuracy, with ``fits`` as lines.

    ``by``: one line, a line for each group of models, or a panel with a line for each data set.
    """
    series = "group" if by == "group" else "model"
    values = sorted({row.label[series] for row in rows}, key=list(names).index if by != "group" else None)
    series_names = {value: value if by == "group" else names[value] for value in values}
    colours = colours if by != "group" else model_colours(values)
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
