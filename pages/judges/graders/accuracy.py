"""Accuracy by grader and panel for one arm, and the accuracy corrected by expert reviews."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.measures.graders.agreement import read_judged
from core.measures.graders.panels import PANEL
from core.measures.graders.report import ACCURACY
from core.store.selection import Selection
from pages.judges.graders.data import Graders
from pages.kit.cached import read
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_no_match
from pages.kit.look import arm
from pages.kit.navigation import link
from pages.kit.section import draw_section

_PANEL_HELP = (
    "An answer is right if more than half of the panel say so. Ties and answers that not all members judged are "
    "excluded and counted."
)


def draw_accuracy(selection: Selection, graders: Graders, names: Mapping[str, str]) -> None:
    panel: tuple[str, ...] = ()
    common_only = False
    if len(graders) < 2:
        st.caption("A panel, and answers judged by all, need a second grader.")
    else:
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        panel = choose_several(
            "Panel",
            graders,
            "graders_panel",
            names=names,
            where=left,
            help=_PANEL_HELP,
            placeholder="Choose at least two graders",
        )
        common_only = right.toggle(
            "Only answers judged by all",
            key="graders_common",
            bind="query-params",
            help="Otherwise each bar is about the answers that its grader judged, which may differ.",
        )
    if len(panel) == 1:
        st.info("A panel needs at least two graders; an odd number cannot tie.")
        panel = ()
    judged_arms = {(count.format, count.question_type) for count in read(read_judged, None, selection).counts}
    arms = {f"{f}:{q}": (f, q) for q in QUESTION_TYPES for f in FORMATS if (f, q) in judged_arms}
    if not arms:
        draw_no_match("No answer fits these filters.")
        return
    chosen = choose("Arm", list(arms), "graders_arm", names=lambda key: arm(*arms[key]), shape="segments")
    format_, question_type = arms[chosen]
    result = draw_section(
        replace(ACCURACY, title=f"Accuracy by grader: {arm(format_, question_type)}"),
        replace(selection, formats=(format_,), question_types=(question_type,)),
        options={"graders": ",".join(graders), "panel": ",".join(panel) or None, "common": common_only},
        names={**names, PANEL: "Panel (majority)"},
        name="graders_accuracy",
        titled=False,
    )
    if result is not None and not any("corrected" in row.more for row in result.figures):
        link("experts", "Plan a review", "diversity_3", experts_tab="Plan a review")
