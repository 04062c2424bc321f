"""Agreement of graders: every pair, the cross table of two, who judged what, and contradictions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import plotly.graph_objects as go
import streamlit as st

from core.figures.heat import AGREEMENT as SHADES
from core.figures.heat import HeatCell, heat
from core.figures.marks import Mark, bars
from core.figures.style import Axis
from core.measures.base import Result, Row
from core.measures.graders.agreement import KINDS_OF_VERDICT, OF_TWO, cross_table, graders_in_words, read_judged
from core.measures.graders.report import AGREEMENT, CONTRADICTIONS, JUDGED
from core.store.selection import Selection
from pages.judges.graders.data import Graders
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import VERDICT, plain
from pages.kit.names import model_colours, unique_names
from pages.kit.section import draw_section
from pages.kit.view import in_words

KINDS = {"right or not": "Right or not", "all kinds": "All kinds"}
AGAIN = {
    "the same response": "The same response",
    "the same diagnosis": "The same diagnosis read out",
    "the same answer": "One answer, judged again",
}
_MEASURES = {name: name[0].upper() + name[1:] for name in OF_TWO.values()}
_KAPPA = "Cohen's kappa"
_HELP = (
    "1 is full agreement. Kappa and AC1 subtract agreement by chance; if one verdict is rare, Cohen’s kappa is low "
    "even for graders who rarely differ, and Gwet’s AC1 is not."
)
_ALL_ORDERS = 5
"""Up to this many graders every order of all of them gets a label; the number of orders grows fast."""
_UNDEFINED = "undefined: all verdicts are the same"
_BREAK_AT = 18
"""A longer name is broken over lines (characters)."""


def draw_agreement(selection: Selection, graders: Graders, names: Mapping[str, str]) -> None:
    graders_of: dict[str, set[int]] = {}
    for count in read(read_judged, None, selection).counts:
        graders_of.setdefault(count.model, set()).update(n for n, verdict in enumerate(count.verdicts) if verdict)
    models = sorted(graders_of, key=lambda model: -len(graders_of[model]))  # a model with several graders first
    if len(models) > 1:
        model_names = unique_names(models, selection.case_sets[0] if selection.case_sets else None)
        model = choose("On the answers of", models, "graders_of", names=model_names)
        selection = replace(selection, conditions=(model,))
    _draw_pairs(selection, graders, names)
    draw_section(
        JUDGED,
        Selection(),
        options={"graders": ",".join(graders)},
        names={**names, "": "the run’s own, or none"},
        name="graders_held",
    )


def _draw_pairs(selection: Selection, graders: Graders, names: Mapping[str, str]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        measure = choose(
            "Measure",
            list(_MEASURES),
            "graders_measure",
            default=_KAPPA,
            names=lambda name: _MEASURES[name].replace("'", "’"),
            shape="segments",
            help=_HELP,
        )
        kinds = choose(
            "Verdicts compared as",
            list(KINDS),
            "graders_kinds",
            names=KINDS,
            shape="segments",
            help="Right or not: as accuracy counts. All kinds: correct, incorrect, no diagnosis, several.",
        )

    def matrix(rows: Sequence[Row], _names: Mapping[str, str], dark: bool) -> go.Figure:
        return agreement_chart(_of_pairs(rows, measure, kinds, graders), measure, names, dark=dark)

    left, right = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with left:
        result = draw_section(
            replace(
                AGREEMENT,
                title=f"{_MEASURES[measure].replace(chr(39), '’')} of every two graders",
                caption=f"Verdicts compared as: {KINDS[kinds].lower()}. {AGREEMENT.caption}",
            ),
            selection,
            options={"graders": ",".join(graders)},
            charts={AGREEMENT.kind: matrix},
            names=_labels(graders, names),
            name="graders_agreement",
            titled=False,
        )
    if result is None:
        return
    with right:
        _draw_agreement_words(result, kinds, graders, names)
    _draw_crossed(selection, names, list(_of_pairs(result.figures, measure, kinds, graders)))


def _labels(graders: Graders, names: Mapping[str, str]) -> dict[str, str]:
    """Return labels of graders, pairs and (up to ``_ALL_ORDERS``) all of them → names on the page."""
    groups = (
        [*permutations(graders, 2), *permutations(graders)]
        if len(graders) <= _ALL_ORDERS
        else [*permutations(graders, 2)]
    )
    return {**names, **KINDS, **{graders_in_words(group): " · ".join(names[g] for g in group) for group in groups}}


def _of_pairs(rows: Iterable[Row], measure: str, kinds: str, graders: Graders) -> dict[tuple[str, str], Row]:
    """Return (grader, grader) → the row with this measure of their agreement."""
    pairs = {graders_in_words(pair): pair for pair in permutations(graders, 2)}
    return {
        pairs[row.label["graders"]]: row
        for row in rows
        if row.label["measure"] == measure and row.label["verdicts"] == kinds and row.label["graders"] in pairs
    }


def _draw_agreement_words(result: Result, kinds: str, graders: Graders, names: Mapping[str, str]) -> None:
    """Write how many answers each pair differs on, if there are at most 3 pairs, and Fleiss’ kappa of all."""
    agreed = _of_pairs(result.figures, "percent agreement", kinds, graders)
    for pair, row in agreed.items() if len(agreed) <= 3 else ():
        pair_names = " and ".join(f"**{plain(names[g])}**" for g in pair)
        n, share = row.n or 0, row.estimate or 0.0
        st.markdown(
            f"{pair_names} differ on {round(n * (1 - share)):,} of {n:,} answers to {row.more['n_cases']:,} cases."
        )
    for row in result.figures:
        if row.label["measure"] == "Fleiss' kappa" and row.label["verdicts"] == kinds and row.estimate is not None:
            words = f"{row.estimate:.3f} ({row.low:.3f} – {row.high:.3f})" if row.low is not None else _UNDEFINED
            count = row.label["graders"].count(",") + 1
            st.markdown(f"Fleiss’ kappa of all {count}: **{words}** on {row.n:,} answers that all judged.")


def agreement_chart(
    rows: Mapping[tuple[str, str], Row], measure: str, names: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return a matrix of agreement of every pair; pairs without a common answer stay empty."""
    graders = [grader for grader in names if any(grader in pair for pair in rows)]
    cells = [[HeatCell(None, "" if row == column else "–") for column in graders] for row in graders]
    for pair, row in rows.items():
        value = row.estimate
        if value is not None and value == value:
            bounds = f" ({row.low:.3f} – {row.high:.3f})" if row.low is not None else ""
            words = f"{measure.capitalize()}: {value:.3f}{bounds}<br>{row.n:,} answers"
            first, second = (graders.index(grader) for grader in pair)
            cells[first][second] = cells[second][first] = HeatCell(value, f"{value:.3f}", words)
    labels = [_broken(names[grader], _BREAK_AT) for grader in graders]
    return heat(cells, labels, labels, SHADES, row=62, dark=dark)


def _draw_crossed(selection: Selection, names: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> None:
    st.markdown("**Cross table of two graders**")
    by_name = {"|".join(pair): pair for pair in pairs}
    chosen = choose(
        "Two graders",
        list(by_name),
        "graders_crossed",
        names=lambda key: " against ".join(names[g] for g in by_name[key]),
        hidden=True,
    )
    first, second = by_name[chosen]
    table = [[int(n) for n in row] for row in cross_table(read(read_judged, None, selection), first, second)]
    draw_figure(
        lambda dark: cross_chart(
            table, [VERDICT[v][0] for v in KINDS_OF_VERDICT], names[first], names[second], dark=dark
        ),
        "graders_crossed_chart",
        "Verdicts of one grader against those of another",
        f"{in_words(selection)}. {sum(map(sum, table)):,} answers that both judged; coloured by the share of the row.",
        titled=False,
    )

    def open_differences() -> None:
        st.session_state["graders_tab"] = "Differences"
        st.session_state["graders_first"], st.session_state["graders_second"] = first, second

    st.button(
        "Read the differences", icon=":material/difference:", on_click=open_differences, key="graders_to_differences"
    )


def cross_chart(
    table: Sequence[Sequence[int]], verdicts: Sequence[str], first: str, second: str, *, dark: bool = False
) -> go.Figure:
    """Return the first grader's verdicts (rows) against the second's, coloured by the share of the row."""
    cells = [
        [
            HeatCell(
                n / sum(row) if sum(row) else None, f"{n:,}", f"{n:,} answers, {n / (sum(row) or 1):.1%} of the row"
            )
            for n in row
        ]
        for row in table
    ]
    columns = [_broken(verdict, 9) for verdict in verdicts]
    return heat(cells, columns, verdicts, SHADES, across=second, down=first, row=48, dark=dark)


def _broken(name: str, at: int) -> str:
    """Break a name longer than ``at`` characters at a space or a slash."""
    if len(name) <= at:
        return name
    return name.replace("/", "/<br>", 1).replace(" [", "<br>[").replace(" ", "<br>", 1)


def draw_contradictions(selection: Selection, graders: Graders, names: Mapping[str, str]) -> None:
    """Draw how often each grader gave two verdicts on the same answer."""

    def rates(rows: Sequence[Row], words: Mapping[str, str], dark: bool) -> go.Figure:
        marks = [
            Mark(
                AGAIN[row.label["judged_again"]],
                row.estimate,
                row.low,
                row.high,
                row.label["grader"],
                row.label["model"],
                f"{row.more['both_ways']:,} of {row.n:,} pairs",
            )
            for row in rows
        ]
        models = {row.label["model"]: words[row.label["model"]] for row in rows}
        axis = Axis("Judged both ways", None, ".0%", None, ".1%")
        return bars(marks, names, model_colours(names), axis, places=list(AGAIN.values()), panels=models, dark=dark)

    draw_section(
        CONTRADICTIONS,
        selection,
        options={"graders": ",".join(graders)},
        charts={CONTRADICTIONS.kind: rates},
        names={**names, **AGAIN},
        name="graders_flips",
    )
