"""Two models, versions, runs or arms compared case by case, with both transcripts of any case side by side."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.compare_case import draw_cases
from pages.parts.compare_data import everyone
from pages.parts.compare_setup import ask
from pages.parts.compare_view import draw_differences, draw_outcomes, draw_overview, results_of, side_name
from pages.parts.figure_controls import IMPORT_COMMAND, keep_valid
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app

require_app()
_PILLS = {"models": "Arm", "arms": "Second arm", "personas": "Persona"}


def draw_comparison() -> None:
    """Ask what to compare, then draw all arms, one arm by its cases, one case by its transcripts."""
    names = everyone()
    if not names:
        _say_what_is_needed()
        return
    asked = ask(names)
    if asked is None:
        return
    if not asked.pairs:
        st.info("The two have no arm in common: there is nothing to compare.")
        return
    found, adjusted = results_of(asked)
    draw_overview(asked, found, adjusted)
    by_name = {name: number for number, name in enumerate(asked.rows)}
    st.subheader("One persona, case by case" if asked.what == "personas" else "One arm, case by case", anchor=False)
    keep_valid("cmp_arm", by_name)
    chosen = st.pills(
        _PILLS[asked.what], list(by_name), default=next(iter(by_name)), required=True,
        key="cmp_arm", bind="query-params",
    ) or next(iter(by_name))  # fmt: skip
    number = by_name[chosen]
    first, second = asked.pairs[number]
    if not found[number].n:
        st.info("No case counts on both sides here: choose another arm, specialty or rule.")
        return
    labels = (side_name(first, asked), side_name(second, asked))
    draw_outcomes(*labels, found[number], adjusted[number], asked.correction)
    draw_differences((first.who, second.who), labels)
    draw_cases(first, second, asked.scope, labels)


def _say_what_is_needed() -> None:
    st.info(
        "Nothing to compare yet. Import the authors’ public release "
        f"(`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository), or run two campaigns on the "
        "same cases, for example with two models or two prompt packs.",
        icon=":material/compare_arrows:",
    )
    st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")


st.title("Compare", anchor=False)
try:
    draw_comparison()
except AnamnesisError as error:
    st.error(plain(str(error)))
