"""Agreement on the part Graders: every two graders, their verdicts crossed, who judged what, and who wavers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.heat import AGREEMENT, Cell, heat
from core.figures.marks import Mark, bars
from core.figures.style import Axis
from core.measures.graders.agreement import KINDS_OF_VERDICT, OF_TWO, GraderAgreement, cross_table
from core.measures.graders.panels import PANEL
from pages.judges.graders.data import Graders, agreements, graders, judged, rates
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import VERDICT, plain
from pages.kit.names import model_colours, unique_names
from pages.kit.tables import draw_as_table, draw_table, percents
from pages.kit.view import View

KINDS = {"right or not": "Right or not", "all kinds": "All kinds"}
AGAIN = {
    "response": "The same response",
    "diagnosis": "The same diagnosis read out",
    "answer": "One answer, judged again",
}
_MEASURES = {name: name[0].upper() + name[1:] for name in OF_TWO.values()}
_KAPPA = "Cohen's kappa"
_HELP = (
    "Percent agreement is what it says. Kappa and AC1 take off what chance alone would give: Cohen’s kappa falls where "
    "one verdict is rare although the graders rarely differ, Gwet’s AC1 does not. 1 is full agreement."
)
_RESAMPLED = (
    "Of each grader the newest verdict on an answer counts. 95 % intervals resample cases with all their answers."
)
_BREAK_AT = 18
"""Characters of a name from which on it is broken over lines."""
COUNTS: dict[str, Any] = dict.fromkeys(
    ("Answers", "Cases", "Not judged by all", "Answers judged", "Verdicts", "Excluded", "Of pairs", "Judged both ways"),
    st.column_config.NumberColumn(format="localized"),
)


def draw_agreement(view: View, of: Graders, names: Mapping[str, str]) -> None:
    """Draw how far graders agree on the answers of one model, or how to get a second one."""
    models = list(dict.fromkeys(one.model for one in judged(view, of).counts))
    if len(models) > 1:
        words = unique_names(models, view.case_set or None)
        model = choose("On the answers of", models, "graders_of", names=words)
        view = replace(view, models=(model,))
    pairs, common = agreements(view, of)
    if pairs:
        _draw_matrix(view, names, pairs, common)
        _draw_crossed(view, of, names, pairs)
        measured = pd.DataFrame(
            {
                "Graders": " · ".join(names[g] for g in one.graders),
                "Verdicts": KINDS[one.kinds],
                "Measure": measure[0].upper() + measure[1:],
                "Value": value.value,
                "Low": value.interval.low,
                "High": value.interval.high,
                "Answers": one.n,
                "Cases": one.n_cases,
                "Not judged by all": one.left_out,
            }
            for one in [*pairs, *common]
            for measure, value in one.measures.items()
        )
        draw_as_table(measured, "graders_agreement", COUNTS)
    else:
        who = ", ".join(plain(names.get(g, g)) for g in of)
        st.info(
            f"No answer of these was judged by two graders; {who} judged them. Let another judge a run’s answers, such "
            "as the reference grader, which needs no key: here under **Grade again**, or by "
            "`python -m core job regrade --run RUN --grader reference/names`, where RUN is its id on the page Runs.",
            icon=":material/group_add:",
        )
    st.markdown("**Who judged what** :gray[· over all cases and models]")
    held = pd.DataFrame(
        {
            "Grader": names[one.grader],
            "Answers judged": one.answers,
            "Verdicts": one.verdicts,
            "Prompts": ", ".join(one.prompts) or "the run’s own, or none",
            "Last verdict": datetime.fromtimestamp(one.newest_at, UTC),
        }
        for one in graders()
        if one.grader in of
    )
    columns = {
        **COUNTS,
        "Last verdict": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        "Prompts": st.column_config.TextColumn(help="Hashes of the two prompts under which a model judged again."),
    }
    draw_table(held, "graders_held", columns)


def _draw_matrix(
    view: View, names: Mapping[str, str], pairs: Sequence[GraderAgreement], common: Sequence[GraderAgreement]
) -> None:
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
    shown = [one for one in pairs if one.kinds == kinds]
    left, right = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with left:
        draw_figure(
            lambda dark: agreement_chart(shown, measure, names, dark=dark),
            "graders_agreement",
            f"{_MEASURES[measure].replace(chr(39), '’')} of every two graders",
            f"{view.in_words()}. Verdicts compared as: {KINDS[kinds].lower()}. {_RESAMPLED}",
        )
    with right:
        for one in shown if len(shown) <= 3 else []:
            both = " and ".join(f"**{plain(names[g])}**" for g in one.graders)
            differ = round(one.n * (1 - one.measures["percent agreement"].value))
            st.markdown(f"{both} differ on {differ:,} of {one.n:,} answers to {one.n_cases:,} cases.")
        for one in common:
            if one.kinds == kinds:
                kappa = one.measures["Fleiss' kappa"]
                words = f"{kappa.value:.3f} ({kappa.interval.low:.3f} – {kappa.interval.high:.3f})"
                words = words if kappa.value == kappa.value else "undefined: all say the same"
                st.markdown(
                    f"Fleiss’ kappa of all {len(one.graders)}: **{words}** on {one.n:,} answers that all judged."
                )
        st.caption(_RESAMPLED)


def agreement_chart(
    found: Sequence[GraderAgreement], measure: str, names: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return a measure of agreement of every two graders as a matrix; pairs without a common answer stay empty."""
    who = [grader for grader in names if any(grader in one.graders for one in found)]
    cells = [[Cell(None, "" if row == column else "–") for column in who] for row in who]
    for one in found:
        value, (low, high) = one.measures[measure].value, one.measures[measure].interval
        if value == value:
            words = f"{measure.capitalize()}: {value:.3f} ({low:.3f} – {high:.3f})<br>{one.n:,} answers"
            first, second = (who.index(grader) for grader in one.graders)
            cells[first][second] = cells[second][first] = Cell(value, f"{value:.3f}", words)
    labels = [_broken(names[grader], _BREAK_AT) for grader in who]
    return heat(cells, labels, labels, AGREEMENT, row=62, dark=dark)


def _draw_crossed(view: View, of: Graders, names: Mapping[str, str], pairs: Sequence[GraderAgreement]) -> None:
    st.markdown("**What one says where the other says something else**")
    by_name = {"|".join(one.graders): one.graders for one in pairs}
    chosen = choose(
        "Two graders",
        list(by_name),
        "graders_crossed",
        names=lambda key: " against ".join(names[g] for g in by_name[key]),
        hidden=True,
    )
    first, second = by_name[chosen]
    table = [[int(n) for n in row] for row in cross_table(judged(view, of), first, second)]
    draw_figure(
        lambda dark: cross_chart(
            table, [VERDICT[v][0] for v in KINDS_OF_VERDICT], names[first], names[second], dark=dark
        ),
        "graders_crossed_chart",
        "Verdicts of one grader against those of another",
        f"{view.in_words()}. {sum(map(sum, table)):,} answers that both judged; coloured by the share of the row.",
        titled=False,
    )

    def read() -> None:
        st.session_state["graders_tab"] = "Differences"
        st.session_state["graders_first"], st.session_state["graders_second"] = first, second

    st.button("Read where they differ", icon=":material/difference:", on_click=read, key="graders_to_differences")


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
    return heat(cells, columns, verdicts, AGREEMENT, across=second, down=first, row=48, dark=dark)


def _broken(name: str, at: int) -> str:
    """Break a long name over lines where it has a space or a slash."""
    if len(name) <= at:
        return name
    return name.replace("/", "/<br>", 1).replace(" [", "<br>[").replace(" ", "<br>", 1)


def draw_contradictions(view: View, of: Graders, names: Mapping[str, str]) -> None:
    """Draw how often graders judged the same answers of a model both ways."""
    order = list(AGAIN)
    found = sorted(
        (one for one in rates(view) if one.grader in of), key=lambda one: (order.index(one.same), of.index(one.grader))
    )
    if not found:
        st.info(
            "None of these graders has met the same response twice, or judged one answer again. Several trials of a "
            "case bring the same responses; `python -m core job regrade --run RUN --grader M --again` asks again.",
            icon=":material/repeat:",
        )
        return
    words = (
        "A pair is a right answer with the same response, or with the same diagnosis read out of it, that a grader met "
        "more than once under the same prompts; “one answer, judged again” is the very same answer. Judged both ways: "
        "right at one time and not at another. A verdict that was taken over from an earlier identical answer is not "
        "counted again. The answers of one model are looked at together, those of several never; 95 % intervals "
        "resample right answers."
    )
    marks = [
        Mark(
            AGAIN[one.same],
            one.share,
            *one.interval,
            one.grader,
            one.model,
            words=f"{one.both:,} of {one.pairs:,} pairs",
        )
        for one in found
    ]
    models = unique_names(dict.fromkeys(one.model for one in found), view.case_set or None)
    axis = Axis("Judged both ways", None, ".0%", None, ".1%")
    draw_figure(
        lambda dark: bars(
            marks, names, model_colours([*names, PANEL]), axis, places=list(AGAIN.values()), panels=models, dark=dark
        ),
        "graders_flips",
        "Share of pairs that a grader judged both ways",
        words,
    )
    table = pd.DataFrame(
        {
            "Grader": names.get(one.grader, one.grader),
            "Model": models[one.model],
            "Judged more than once": AGAIN[one.same],
            "Judged both ways": one.both,
            "Of pairs": one.pairs,
            "Share": one.share,
            "Low": one.interval.low,
            "High": one.interval.high,
            "Verdicts": one.verdicts,
        }
        for one in found
    )
    draw_table(table, "graders_flips", {**COUNTS, **percents("Share", "Low", "High")})
    st.caption(words)
