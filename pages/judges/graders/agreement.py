"""Agreement on the part Graders: every two graders, their verdicts crossed, who judged what, and who wavers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import plotly.graph_objects as go
import streamlit as st

from core.figures.heat import AGREEMENT as SHADES
from core.figures.heat import Cell, heat
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
    "Percent agreement is what it says. Kappa and AC1 take off what chance alone would give: Cohen’s kappa falls where "
    "one verdict is rare although the graders rarely differ, Gwet’s AC1 does not. 1 is full agreement."
)
_FEW = 5
"""Graders up to which all of them together are named in words, in whatever order they were chosen."""
_ALL_ALIKE = "undefined: all say the same"
_BREAK_AT = 18
"""Characters of a name from which on it is broken over lines."""


def draw_agreement(selection: Selection, of: Graders, names: Mapping[str, str]) -> None:
    """Draw how far graders agree on the answers of one model, or how to get a second one."""
    graders_of: dict[str, set[int]] = {}
    for count in read(read_judged, None, selection).counts:
        graders_of.setdefault(count.model, set()).update(n for n, verdict in enumerate(count.verdicts) if verdict)
    models = sorted(graders_of, key=lambda model: -len(graders_of[model]))  # first one of which graders can be compared
    if len(models) > 1:
        words = unique_names(models, selection.case_sets[0] if selection.case_sets else None)
        model = choose("On the answers of", models, "graders_of", names=words)
        selection = replace(selection, conditions=(model,))
    _draw_pairs(selection, of, names)
    draw_section(
        JUDGED,
        Selection(),
        options={"graders": ",".join(of)},
        names={**names, "": "the run’s own, or none"},
        name="graders_held",
    )


def _draw_pairs(selection: Selection, of: Graders, names: Mapping[str, str]) -> None:
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
            help="Right or not: what accuracy is made of. All kinds: correct, incorrect, no diagnosis, several.",
        )

    def matrix(rows: Sequence[Row], _names: Mapping[str, str], dark: bool) -> go.Figure:
        return agreement_chart(_of_pairs(rows, measure, kinds, of), measure, names, dark=dark)

    left, right = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with left:
        result = draw_section(
            replace(
                AGREEMENT,
                title=f"{_MEASURES[measure].replace(chr(39), '’')} of every two graders",
                caption=f"Verdicts compared as: {KINDS[kinds].lower()}. {AGREEMENT.caption}",
            ),
            selection,
            options={"graders": ",".join(of)},
            charts={AGREEMENT.kind: matrix},
            names=_in_words(of, names),
            name="graders_agreement",
            titled=False,
        )
    if result is None:
        return
    with right:
        _say_agreement(result, kinds, of, names)
    _draw_crossed(selection, names, list(_of_pairs(result.figures, measure, kinds, of)))


def _in_words(of: Graders, names: Mapping[str, str]) -> dict[str, str]:
    """Return graders, two or all of them, as labels of rows name them → their names on the page."""
    several = [*permutations(of, 2), *permutations(of)] if len(of) <= _FEW else [*permutations(of, 2)]
    return {**names, **KINDS, **{graders_in_words(some): " · ".join(names[g] for g in some) for some in several}}


def _of_pairs(rows: Iterable[Row], measure: str, kinds: str, of: Graders) -> dict[tuple[str, str], Row]:
    """Return two graders → the row with a measure of their agreement."""
    pairs = {graders_in_words(pair): pair for pair in permutations(of, 2)}
    return {
        pairs[row.label["graders"]]: row
        for row in rows
        if row.label["measure"] == measure and row.label["verdicts"] == kinds and row.label["graders"] in pairs
    }


def _say_agreement(result: Result, kinds: str, of: Graders, names: Mapping[str, str]) -> None:
    """Say on how many answers few pairs differ, and how far all agree."""
    agreed = _of_pairs(result.figures, "percent agreement", kinds, of)
    for graders, row in agreed.items() if len(agreed) <= 3 else ():
        both = " and ".join(f"**{plain(names[g])}**" for g in graders)
        n, share = row.n or 0, row.estimate or 0.0
        st.markdown(f"{both} differ on {round(n * (1 - share)):,} of {n:,} answers to {row.more['n_cases']:,} cases.")
    for row in result.figures:
        if row.label["measure"] == "Fleiss' kappa" and row.label["verdicts"] == kinds and row.estimate is not None:
            words = f"{row.estimate:.3f} ({row.low:.3f} – {row.high:.3f})" if row.low is not None else _ALL_ALIKE
            count = row.label["graders"].count(",") + 1
            st.markdown(f"Fleiss’ kappa of all {count}: **{words}** on {row.n:,} answers that all judged.")


def agreement_chart(
    found: Mapping[tuple[str, str], Row], measure: str, names: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return a measure of agreement of every two graders as a matrix; pairs without a common answer stay empty."""
    who = [grader for grader in names if any(grader in pair for pair in found)]
    cells = [[Cell(None, "" if row == column else "–") for column in who] for row in who]
    for pair, row in found.items():
        value = row.estimate
        if value is not None and value == value:
            bounds = f" ({row.low:.3f} – {row.high:.3f})" if row.low is not None else ""
            words = f"{measure.capitalize()}: {value:.3f}{bounds}<br>{row.n:,} answers"
            first, second = (who.index(grader) for grader in pair)
            cells[first][second] = cells[second][first] = Cell(value, f"{value:.3f}", words)
    labels = [_broken(names[grader], _BREAK_AT) for grader in who]
    return heat(cells, labels, labels, SHADES, row=62, dark=dark)


def _draw_crossed(selection: Selection, names: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> None:
    st.markdown("**What one says where the other says something else**")
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

    def go_there() -> None:
        st.session_state["graders_tab"] = "Differences"
        st.session_state["graders_first"], st.session_state["graders_second"] = first, second

    st.button("Read where they differ", icon=":material/difference:", on_click=go_there, key="graders_to_differences")


def cross_chart(
    table: Sequence[Sequence[int]], verdicts: Sequence[str], first: str, second: str, *, dark: bool = False
) -> go.Figure:
    """Return the first grader's verdicts (rows) against the second's, coloured by the share of the row."""
    cells = [
        [
            Cell(n / sum(row) if sum(row) else None, f"{n:,}", f"{n:,} answers, {n / (sum(row) or 1):.1%} of the row")
            for n in row
        ]
        for row in table
    ]
    columns = [_broken(verdict, 9) for verdict in verdicts]
    return heat(cells, columns, verdicts, SHADES, across=second, down=first, row=48, dark=dark)


def _broken(name: str, at: int) -> str:
    """Break a long name over lines where it has a space or a slash."""
    if len(name) <= at:
        return name
    return name.replace("/", "/<br>", 1).replace(" [", "<br>[").replace(" ", "<br>", 1)


def draw_contradictions(selection: Selection, of: Graders, names: Mapping[str, str]) -> None:
    """Draw how often graders judged the same answers of a model both ways."""

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
        options={"graders": ",".join(of)},
        charts={CONTRADICTIONS.kind: rates},
        names={**names, **AGAIN},
        name="graders_flips",
    )
