"""Accuracy by grader on the part Graders: bars by grader and panel, one arm at a time, and the corrected figures."""

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
from pages.kit.look import arm
from pages.kit.navigation import link
from pages.kit.section import draw_section

_PANEL_HELP = (
    "The panel calls an answer right where more than half of its members do. Answers that not all of them have judged, "
    "and ties, are left out and counted: never wrong."
)


def draw_accuracy(selection: Selection, of: Graders, names: Mapping[str, str]) -> None:
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
    asked = {(count.format, count.question_type) for count in read(read_judged, None, selection).counts}
    arms = {f"{f}:{q}": (f, q) for q in QUESTION_TYPES for f in FORMATS if (f, q) in asked}
    if not arms:
        st.info("No answer fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    chosen = choose("Arm", list(arms), "graders_arm", names=lambda one: arm(*arms[one]), shape="segments")
    format_, question_type = arms[chosen]
    result = draw_section(
        replace(ACCURACY, title=f"Accuracy by grader: {arm(format_, question_type)}"),
        replace(selection, formats=(format_,), question_types=(question_type,)),
        options={"graders": ",".join(of), "panel": ",".join(panel) or None, "common": common},
        names={**names, PANEL: "Panel (majority)"},
        name="graders_accuracy",
        titled=False,
    )
    if result is not None and not any("corrected" in row.more for row in result.figures):
        link("experts", "Plan a review", "diversity_3", experts_tab="Plan a review")
