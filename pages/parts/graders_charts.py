"""Figures of the Graders page: agreement of every two graders, their verdicts crossed, and accuracy by grader."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.marks import Mark, bars
from core.figures.style import FAINT, INK, Axis
from core.measures.graders.accuracy import JudgeAccuracy
from core.measures.graders.agreement import FlipRate, GraderAgreement

_SCALE: dict[bool, tuple[str, str]] = {False: ("#FFFFFF", "#0B6E69"), True: ("#0E1718", "#5CC9C0")}
"""From the page's ground to strong."""
_STRONG = {False: 0.65, True: 0.62}
"""Share from which on a cell's text takes the colour of the page's ground."""
_MARGIN = {"l": 8, "r": 8, "t": 8, "b": 8}
_BREAK_AT = 18
"""Characters of a name from which on it is broken over lines."""


def agreement_chart(
    found: Sequence[GraderAgreement], measure: str, names: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return a measure of agreement of every two graders as a matrix; pairs without a common answer stay empty."""
    graders = [g for g in names if any(g in one.graders for one in found)]
    held = {frozenset(one.graders): one for one in found}
    pairs = [[held.get(frozenset((a, b))) for b in graders] for a in graders]
    values = [[_value(one, measure) for one in row] for row in pairs]
    labels = [_broken(names[g]) for g in graders]
    figure = _matrix(values, labels, labels, [[_agreement_words(one, measure) for one in row] for row in pairs], dark)
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = "" if x == y else "–" if value is None else f"{value:.3f}"
            _write(figure, x, y, text, value or 0.0, dark)
    figure.update_layout(height=90 + 62 * len(graders))
    return figure


def cross_chart(
    table: Sequence[Sequence[int]], verdicts: Sequence[str], first: str, second: str, *, dark: bool = False
) -> go.Figure:
    """Return the first grader's verdicts (rows) against the second's, coloured by the share of the row."""
    shares = [[n / sum(row) if sum(row) else None for n in row] for row in table]
    words = [
        [f"{n:,} answers, {share or 0:.1%} of the row" for n, share in zip(row, line, strict=True)]
        for row, line in zip(table, shares, strict=True)
    ]
    figure = _matrix(shares, [_broken(v, 9) for v in verdicts], list(verdicts), words, dark)
    for y, row in enumerate(table):
        for x, n in enumerate(row):
            _write(figure, x, y, f"{n:,}", shares[y][x] or 0.0, dark)
    figure.update_layout(
        height=120 + 44 * len(verdicts), xaxis={"title": second, "title_standoff": 8}, yaxis={"title": first}
    )
    return figure


def accuracy_chart(
    rows: Sequence[JudgeAccuracy], models: Mapping[str, str], judges: Mapping[str, str],
    colours: Mapping[str, str], *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return the accuracy of one arm: models side by side, a bar with its interval for each grader and the panel."""
    marks = [
        Mark(
            models[one.row.model], one.row.mean, one.row.ci_low, one.row.ci_high, one.judge,
            words=f"{one.row.n_cases:,} cases, {one.row.n_trials:,} answers, {one.row.n_excluded:,} excluded",
        )
        for one in rows
    ]  # fmt: skip
    return bars(marks, judges, colours, places=list(models.values()), dark=dark)


def flips_chart(
    found: Sequence[FlipRate], kinds: Mapping[str, str], names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return the share of pairs judged both ways: kinds of pairs side by side, a bar for each grader."""
    marks = [
        Mark(kinds[one.same], one.share, *one.interval, one.grader, words=f"{one.both:,} of {one.pairs:,} pairs")
        for one in found
    ]  # fmt: skip
    axis = Axis("Judged both ways", None, ".0%", None, ".1%")
    return bars(marks, names, colours, axis, places=list(kinds.values()), dark=dark)


def _matrix(
    values: Sequence[Sequence[float | None]], columns: Sequence[str], rows: Sequence[str],
    words: Sequence[Sequence[str]], dark: bool,
) -> go.Figure:  # fmt: skip
    figure = go.Figure()
    # places and not names on the axes: two graders may read alike
    figure.add_heatmap(
        z=values, zmin=0, zmax=1, showscale=False, colorscale=list(zip((0, 1), _SCALE[dark], strict=True)), xgap=2,
        ygap=2, customdata=words, hovertemplate="%{customdata}<extra></extra>", hoverongaps=False,
    )  # fmt: skip
    ticks = {"showgrid": False, "zeroline": False, "automargin": True, "linecolor": FAINT[dark]}
    figure.update_layout(
        margin=_MARGIN, font={"size": 13, "color": INK[dark]},
        xaxis={**ticks, "side": "top", "tickangle": 0, "tickvals": list(range(len(columns))), "ticktext": columns,
               "range": [-0.5, len(columns) - 0.5]},
        yaxis={**ticks, "range": [len(rows) - 0.5, -0.5], "tickvals": list(range(len(rows))), "ticktext": rows},
    )  # fmt: skip
    return figure


def _write(figure: go.Figure, x: int, y: int, text: str, share: float, dark: bool) -> None:
    colour = _SCALE[dark][0] if share >= _STRONG[dark] else INK[dark]
    figure.add_annotation(x=x, y=y, text=text, showarrow=False, font={"size": 14, "color": colour})


def _value(one: GraderAgreement | None, measure: str) -> float | None:
    value = one.measures[measure].value if one else None
    return None if value is None or value != value else value


def _agreement_words(one: GraderAgreement | None, measure: str) -> str:
    if one is None:
        return ""
    low, high = one.measures[measure].interval
    return f"{measure.capitalize()}: {one.measures[measure].value:.3f} ({low:.3f} – {high:.3f})<br>{one.n:,} answers"


def _broken(name: str, at: int = _BREAK_AT) -> str:
    """Break a long name over lines where it has a space or a slash."""
    if len(name) <= at:
        return name
    return name.replace("/", "/<br>", 1).replace(" [", "<br>[").replace(" ", "<br>", 1)
