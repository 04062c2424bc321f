"""How soon doctors say that the patient must be seen, against the level of the case."""

import streamlit as st

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.measures.urgency import FORCED, IN_WORDS, OF_CHOICE, WORDS
from pages.kit.empty import draw_empty
from pages.kit.jobs import ask_budget, draw_job, draw_judging, draw_start
from pages.kit.section import draw_section
from pages.kit.view import FilterRow, ask_selection, offered


def draw_urgency() -> None:
    offers = offered()
    if not offers:
        draw_empty("No answer is stored yet.", CAMPAIGN, RELEASE, icon="troubleshoot")
        return
    row = FilterRow()
    selection = ask_selection(offers, "models", "datasets", "specialties", row=row)
    shares, *rests = OF_CHOICE
    if draw_section(shares, selection, name="urgency_shares", titled=False, controls=row.popover()):
        for section in rests:
            draw_section(section, selection, name=f"urgency_{section.options['part']}")
    asking = Judging(FORCED, conversations=selection.of_conversations)
    if not draw_job(Judging, "urgency", asking.instance):
        with st.expander("Ask the doctors’ models how urgent they are", icon=":material/e911_emergency:"):
            budget = ask_budget("urgency_budget")
            draw_start(asking, "Ask", "e911_emergency", "urgency_go", budget)
    draw_section(IN_WORDS, selection, name=WORDS, controls=row.popover())
    with st.expander("Have a model read what the doctors advised in their own words", icon=":material/gavel:"):
        draw_judging(Judging(WORDS, conversations=selection.of_conversations), WORDS)
