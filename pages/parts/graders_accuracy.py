"""Accuracy by grader on the Graders page: bars by grader and panel, one arm at a time, and the corrected figures."""

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.measures.graders.accuracy import NEEDED, JudgeAccuracy
from pages.parts.accuracy_view import is_dark
from pages.parts.figure_controls import keep_valid, unique_names
from pages.parts.graders_agreement import COUNTS
from pages.parts.graders_charts import accuracy_chart
from pages.parts.graders_controls import judge_colours, judge_names
from pages.parts.graders_data import View, accuracies, corrections, judged
from pages.parts.graders_tables import accuracy_table
from pages.parts.history_shown import draw_figure, draw_table
from pages.parts.look import arm
from pages.parts.navigation import EXPERTS

_PANEL_HELP = (
    "The panel calls an answer right where more than half of its members do. Answers that not all of them have judged, "
    "and ties, are left out and counted: never wrong."
)


def draw_accuracy(view: View) -> None:
    """Ask for a panel and an arm, and draw the accuracy that each judge gives."""
    panel, common = _ask(view)
    if len(panel) == 1:
        st.info("A panel needs two graders or more; three or another odd number cannot tie.")
        panel = ()
    shown = _ask_arm(view)
    if shown is None:
        st.info("No answer fits these filters: take one away.", icon=":material/filter_alt_off:")
        return
    rows = sorted(accuracies(shown, panel, common=common), key=lambda one: one.row.model)  # judges keep their order
    if not any(one.row.mean is not None for one in rows):
        st.info("No answer of this arm was judged by all of these graders: show every grader’s own answers instead.")
        return
    models, judges = unique_names(dict.fromkeys(one.row.model for one in rows)), judge_names(view)
    chart = accuracy_chart(rows, models, judges, judge_colours(view), dark=is_dark())
    draw_figure(chart, "graders_accuracy", "Accuracy by grader, with 95 % intervals")
    _say(rows, common=common)
    corrected = corrections(view.graders, panel)
    table = accuracy_table(rows, corrected, models, judges)
    draw_table(table, "graders-accuracy", {**COUNTS, "Answers": COUNTS["Answers"]})
    if corrected:
        reviews = ", ".join(dict.fromkeys(one.review for one in corrected))
        st.caption(
            f"Corrected by Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with each "
            f"grader’s sensitivity and specificity against the experts of {reviews}. A dash: no review of this format, "
            "or a grader that is no better than chance on its items."
        )
    else:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(NEEDED.replace("'", "’"))
            st.page_link(EXPERTS, label="Plan a review", icon=":material/diversity_3:",
                         query_params={"experts_tab": "Plan a review"})  # fmt: skip


def _ask(view: View) -> tuple[tuple[str, ...], bool]:
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    keep_valid("graders_panel", view.graders)
    chosen = left.multiselect(
        "Panel", list(view.graders), format_func=lambda g: view.names.get(g, g), key="graders_panel",
        bind="query-params", placeholder="Choose two graders or more to see what their majority says",
        help=_PANEL_HELP, disabled=len(view.graders) < 2,
    )  # fmt: skip
    common = right.toggle(
        "Only answers that all these graders judged", key="graders_common", bind="query-params",
        disabled=len(view.graders) < 2,
        help="Otherwise each grader’s bar is about the answers that it judged, which need not be the same.",
    )  # fmt: skip
    return tuple(chosen), bool(common)


def _ask_arm(view: View) -> View | None:
    """Return the view of one arm only, or ``None`` where there is none."""
    held = {(one.format, one.question_type) for one in judged(view).counts}
    arms = [f"{f}:{q}" for q in QUESTION_TYPES for f in FORMATS if (f, q) in held]
    if not arms:
        return None
    keep_valid("graders_arm", arms)
    chosen = st.segmented_control(
        "Arm", arms, default=arms[0], required=True, format_func=_arm_words, key="graders_arm", bind="query-params"
    )
    format_, _, question_type = (chosen or arms[0]).partition(":")
    return View(view.case_set, view.graders, view.models, (format_,), (question_type,), view.names)


def _arm_words(name: str) -> str:
    format_, _, question_type = name.partition(":")
    return arm(format_, question_type)  # type: ignore[arg-type]


def _say(rows: list[JudgeAccuracy], *, common: bool) -> None:
    notes = ["Mean over a case’s answers, then over cases; exact bootstrap, 95 %."]
    alike = all(
        len({one.row.n_trials for one in rows if one.row.model == model}) == 1
        for model in {one.row.model for one in rows}
    )
    if not alike and not common:
        notes.append("The bars do not rest on the same answers: see the table, or show common answers only.")
    ties = sum(one.ties for one in rows)
    if ties:
        notes.append(f"The panel tied on {ties:,} answers, which are left out.")
    st.caption(" ".join(notes))
