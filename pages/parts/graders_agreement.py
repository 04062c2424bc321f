"""Agreement on the Graders page: a matrix of every two graders, their verdicts crossed, who judged what."""

from typing import Any

import streamlit as st

from core.events import COUNTED
from core.measures.graders.agreement import OF_TWO, GraderAgreement
from pages.parts.accuracy_view import is_dark
from pages.parts.figure_controls import keep_valid
from pages.parts.graders_charts import agreement_chart, cross_chart
from pages.parts.graders_data import View, agreements, crossed, graders
from pages.parts.graders_tables import KINDS, agreement_table, held_table
from pages.parts.history_shown import draw_as_table, draw_figure, draw_table
from pages.parts.look import VERDICT, plain

_MEASURES = {name: name[0].upper() + name[1:] for name in OF_TWO.values()}
_HELP = (
    "Percent agreement is what it says. Kappa and AC1 take off what chance alone would give: Cohen’s kappa falls where "
    "one verdict is rare although the graders rarely differ, Gwet’s AC1 does not. 1 is full agreement."
)
COUNTS: dict[str, Any] = {
    name: st.column_config.NumberColumn(format="localized")
    for name in ("Answers", "Cases", "Not judged by all", "Answers judged", "Verdicts", "Excluded", "Of pairs",
                 "Judged both ways")
}  # fmt: skip


def draw_agreement(view: View) -> None:
    """Draw how far the graders of a view agree, or how to get a second one."""
    pairs, common = agreements(view)
    if not pairs:
        _say_how_to_compare(view)
    else:
        _draw_matrix(view, pairs, common)
        _draw_crossed(view, pairs)
        rows = [*pairs, *common]
        draw_as_table(agreement_table(rows, view.names), "graders-agreement", COUNTS)
    st.markdown("**Who judged what** :gray[· over all cases and models]")
    held = held_table([one for one in graders() if one.grader in view.graders], view.names)
    draw_table(held, "graders-held", {
        **COUNTS, "Last verdict": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        "Prompts": st.column_config.TextColumn(help="Hashes of the two prompts under which a model judged again."),
    })  # fmt: skip


def _draw_matrix(view: View, pairs: list[GraderAgreement], common: list[GraderAgreement]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        measure = st.segmented_control(
            "Measure", list(_MEASURES), default="Cohen's kappa", required=True, key="graders_measure",
            format_func=lambda name: _MEASURES[name].replace("'", "’"), bind="query-params", help=_HELP,
        )  # fmt: skip
        kinds = st.segmented_control(
            "Verdicts compared as", list(KINDS), default="right or not", required=True, key="graders_kinds",
            format_func=KINDS.__getitem__, bind="query-params",
            help="Right or not: what accuracy is made of. All kinds: correct, incorrect, no diagnosis, several.",
        )  # fmt: skip
    shown = [one for one in pairs if one.kinds == kinds]
    left, right = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with left:
        chart = agreement_chart(shown, measure or "Cohen's kappa", view.names, dark=is_dark())
        draw_figure(chart, "graders_agreement", "Agreement of every two graders")
    with right:
        for one in shown[:3] if len(shown) <= 3 else []:
            _say_pair(view, one)
        for one in common:
            if one.kinds == kinds:
                _say_all(one)
        st.caption(
            "Of each grader the newest verdict on an answer counts. 95 % intervals resample cases with all their "
            "answers."
        )


def _say_pair(view: View, one: GraderAgreement) -> None:
    share = one.measures["percent agreement"]
    names = " and ".join(f"**{plain(view.names[g])}**" for g in one.graders)
    differ = round(one.n * (1 - share.value))
    st.markdown(f"{names} differ on {differ:,} of {one.n:,} answers to {one.n_cases:,} cases.")


def _say_all(one: GraderAgreement) -> None:
    kappa = one.measures["Fleiss' kappa"]
    words = "undefined: all say the same" if kappa.value != kappa.value else (
        f"{kappa.value:.3f} ({kappa.interval.low:.3f} – {kappa.interval.high:.3f})"
    )  # fmt: skip
    st.markdown(f"Fleiss’ kappa of all {len(one.graders)}: **{words}** on {one.n:,} answers that all judged.")


def _draw_crossed(view: View, pairs: list[GraderAgreement]) -> None:
    options = list(dict.fromkeys(one.graders for one in pairs))
    labels = {"|".join(pair): " against ".join(view.names[g] for g in pair) for pair in options}
    keep_valid("graders_crossed", labels)
    st.markdown("**What one says where the other says something else**")
    chosen = st.selectbox("Two graders", list(labels), format_func=labels.__getitem__, key="graders_crossed",
                          bind="query-params", label_visibility="collapsed")  # fmt: skip
    first, second = next(pair for pair in options if "|".join(pair) == (chosen or next(iter(labels))))
    verdicts = [VERDICT[verdict][0] for verdict in COUNTED]
    chart = cross_chart(
        crossed(view, first, second), verdicts, view.names[first], view.names[second], dark=is_dark()
    )  # fmt: skip
    draw_figure(chart, "graders_crossed_chart", "Verdicts of one grader against those of another")
    st.button(
        "Read where they differ", icon=":material/difference:", on_click=_to_differences, args=(first, second),
        key="graders_to_differences",
    )  # fmt: skip


def _to_differences(first: str, second: str) -> None:
    st.session_state["graders_tab"] = "Differences"
    st.session_state["graders_first"], st.session_state["graders_second"] = first, second


def _say_how_to_compare(view: View) -> None:
    who = ", ".join(plain(view.names.get(g, g)) for g in view.graders)
    st.info(
        f"No answer of these was judged by two graders; {who} judged them. Let another judge a run’s answers, such as "
        "the reference grader, which needs no key: here under **Grade again**, or by "
        "`python -m core regrade RUN --grader reference/names`, where RUN is its id on the page Runs.",
        icon=":material/group_add:",
    )
