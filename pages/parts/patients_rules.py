"""The rules of the Patients page in words, with how often the hits of a sample were right."""

import streamlit as st

from core.measures.patients.rules import ABOUT, RULES
from pages.parts.history_shown import offer_csv
from pages.parts.patients_data import View
from pages.parts.patients_tables import read_right, rules_table


def draw_rules(view: View) -> None:
    """Draw what each rule says; the same whatever is filtered."""
    st.caption(
        f"Version {RULES} of the rules. Right of those read: hits drawn at random from GPT-4’s patient in the public "
        "release and read one by one, 20 of each kind or all where there are fewer; drawn anew after the rules were "
        "mended once, for each of two readers. How: docs/patient_reliability.md."
    )
    columns = st.columns(2)
    for number, about in enumerate(ABOUT.values()):
        with columns[number % 2].container(border=True, gap="small"):
            st.markdown(f"**{about.name}**: {read_right(about)}")
            st.markdown(about.rule)
            before = f" In the first sample {about.first[0]} of {about.first[1]} were right." if about.first else ""
            st.caption(f"{'False alarms: ' if about.second else ''}{about.false_alarms}{before}")
    offer_csv(rules_table(), "patients-rules")
