"""Charts that only History taking has."""

from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from core.figures.report import chart_of
from core.figures.scatter import Spot, scatter
from core.figures.style import GREY, Axis
from core.frameworks.consultation.measures.history_taking import LENGTHS
from core.frameworks.consultation.measures.sections import GROUPS
from core.measures.base import Row
from pages.kit.names import model_colours
from pages.kit.section import Chart

Names = Mapping[str, str]


def recall_chart(rows: Sequence[Row], names: Names, dark: bool) -> go.Figure:
    """Return accuracy against patient recall; a condition without recall is drawn as a line."""
    figures = {(row.label["model"], row.label["cases"], row.label["measure"]): row for row in rows}
    spots, sets = list[Spot](), dict[str, str]()
    for (model, cases, measure), accuracy in figures.items():
        recall = figures.get((model, cases, "patient_recall"))
        if measure != "accuracy" or recall is None or accuracy.estimate is None:
            continue
        y, x = accuracy.estimate, recall.estimate
        if accuracy.source:
            sets[cases] = cases
            spots.append(Spot(cases, y, x, label=names[model], published=True))
        elif x is not None or not any(recall.excluded.values()):
            bounds = (recall.low, recall.high), (accuracy.low, accuracy.high)
            spots.append(Spot(model, y, x, *bounds, words=f"{accuracy.n:,} cases"))
    models = _models(rows, names)
    colours = {**model_colours(models), **dict.fromkeys(sets, GREY)}
    across, up = Axis("Patient recall: what was uncovered"), Axis("Accuracy of the task", (0, 1.03), ".1f")
    return scatter(spots, {**models, **sets}, colours, across, up, height=430, dark=dark)


def groups_chart(measure: str) -> Chart:
    """Return the chart of one measure by group of cases."""

    def draw(rows: Sequence[Row], names: Names, dark: bool) -> go.Figure:
        groups = {str(row.label["group"]): _group_words(row.label) for row in rows}
        shown = [row for row in rows if row.label["measure"] == measure]
        models = model_colours(_models(rows, names))
        return chart_of(
            shown,
            kind="dots",
            series="model",
            place="group",
            axis=names[measure],
            names={**names, **groups},
            colours=models,
            dark=dark,
        )

    return draw


def _group_words(label: Mapping[str, int]) -> str:
    number, least, most = label["group"], label["least_items"], label["most_items"]
    return f"{GROUPS[number]}: {least if least == most else f'{least}–{most}'} items"


def differences_chart(rows: Sequence[Row], names: Names, dark: bool) -> go.Figure:
    """Return the differences of measures between 0 and 1, without lengths, on more than one case."""
    between = [row for row in rows if row.label["measure"] not in LENGTHS and (row.n or 0) > 1]
    return chart_of(between or rows, kind="dots", place="measure", axis="Difference", names=names, dark=dark)


def _models(rows: Iterable[Row], names: Names) -> dict[str, str]:
    """Return condition → name of the stored rows, in the order of names."""
    models = {row.label["model"] for row in rows if not row.source}
    return {model: name for model, name in names.items() if model in models}
