"""Accuracy by grader on the part Graders: bars by grader and panel, one arm at a time, and the corrected figures."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.figures.marks import Mark, bars
from core.measures.graders.panels import NEEDED, PANEL
from pages.judges.graders.agreement import COUNTS
from pages.judges.graders.data import Graders, accuracies, corrections, judged
from pages.kit.cases import excluded_in_words
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_figure
from pages.kit.look import FORMAT, QUESTION_TYPE, arm
from pages.kit.names import model_colours, unique_names
from pages.kit.navigation import link
from pages.kit.tables import draw_table
from pages.kit.view import View

_PANEL_HELP = (
    "The panel calls an answer right where more than half of its members do. Answers that not all of them have judged, "
    "and ties, are left out and counted: never wrong."
)


def draw_accuracy(view: View, of: Graders, names: Mapping[str, str]) -> None:
    """Ask for a panel and an arm, and draw the accuracy that each judge gives."""
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    panel = choose_several(
        "Panel",
        of,
        "graders_panel",
        names=names,
        where=left,
        help=_PANEL_HELP,
        placeholder="Choose two graders or more to see what their majority says",
        disabled=len(of) < 2,
    )
    common = right.toggle(
        "Only answers that all these graders judged",
        key="graders_common",
        bind="query-params",
        disabled=len(of) < 2,
        help="Otherwise each grader’s bar is about the answers that it judged, which need not be the same.",
    )
    if len(panel) == 1:
        st.info("A panel needs two graders or more; three or another odd number cannot tie.")
        panel = ()
    held = {(one.format, one.question_type) for one in judged(view, of).counts}
    arms = {f"{f}:{q}": (f, q) for q in QUESTION_TYPES for f in FORMATS if (f, q) in held}
    if not arms:
        st.info("No answer fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    format_, question_type = arms[
        choose("Arm", list(arms), "graders_arm", names=lambda one: arm(*arms[one]), shape="segments")
    ]
    shown = replace(view, formats=(format_,), questions=(question_type,))
    rows = sorted(
        accuracies(shown, of, panel, common=common), key=lambda one: one.row.label["model"]
    )  # judges keep their order
    if not any(one.row.estimate is not None for one in rows):
        st.info("No answer of this arm was judged by all of these graders: show every grader’s own answers instead.")
        return
    models = unique_names(dict.fromkeys(one.row.label["model"] for one in rows))
    judges = {**{g: names.get(g, g) for g in of}, PANEL: "Panel (majority)"}
    notes = ["Mean over a case’s answers, then over cases; smoothed bootstrap, 95 %."]
    answers: dict[str, set[int]] = {}
    for one in rows:
        answers.setdefault(one.row.label["model"], set()).add(one.row.more["n_trials"])
    if not common and any(len(numbers) > 1 for numbers in answers.values()):
        notes.append("The bars do not rest on the same answers: see the table, or show common answers only.")
    if ties := sum(one.ties for one in rows):
        notes.append(f"The panel tied on {ties:,} answers, which are left out.")
    words = " ".join(notes)
    marks = [
        Mark(
            models[one.row.label["model"]],
            one.row.estimate,
            one.row.low,
            one.row.high,
            one.judge,
            words=f"{one.row.n:,} cases, {one.row.more['n_trials']:,} answers, {one.row.more['n_excluded']:,} excluded",
        )
        for one in rows
    ]
    cases = [one.row.n or 0 for one in rows if one.row.estimate is not None]
    draw_figure(
        lambda dark: bars(marks, judges, model_colours([*names, PANEL]), places=list(models.values()), dark=dark),
        "graders_accuracy",
        f"Accuracy by grader: {arm(format_, question_type)}",
        f"{shown.in_words()}. {min(cases):,} to {max(cases):,} cases. {words}",
    )
    st.caption(words)
    corrected = corrections(of, panel)
    found = {(one.judge, one.found.model, one.format): one.found for one in corrected}
    lines = []
    for one in rows:
        beside = (
            found.get((one.judge, one.row.label["model"], one.row.label["format"])) if question_type == "frq" else None
        )
        more = {
            "Corrected": beside.value if beside else None,
            "Corrected, low": beside.interval.low if beside else None,
            "Corrected, high": beside.interval.high if beside else None,
        }
        lines.append(
            {
                "Model": models[one.row.label["model"]],
                "Format": FORMAT[one.row.label["format"]],
                "Question": QUESTION_TYPE[one.row.label["question_type"]],
                "Judged by": judges[one.judge],
                "Accuracy": one.row.estimate,
                "Low": one.row.low,
                "High": one.row.high,
                **(more if found else {}),
                "Cases": one.row.n,
                "Answers": one.row.more["n_trials"],
                "Excluded": one.row.more["n_excluded"],
                "Why excluded": excluded_in_words(one.row.excluded),
                **({"Ties": one.ties} if ties else {}),
            }
        )
    draw_table(pd.DataFrame(lines), "graders_accuracy", COUNTS)
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
            link("experts", "Plan a review", "diversity_3", experts_tab="Plan a review")
