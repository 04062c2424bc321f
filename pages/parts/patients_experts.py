"""The rule for medical terms beside the experts of the public release, on the conversations that they read."""

import streamlit as st

from core.errors import AnamnesisError
from core.measures.patients.figures import PAPER, TermsAgreement
from core.stats.intervals import Interval
from pages.parts.history_shown import draw_table
from pages.parts.look import plain
from pages.parts.patients_data import View, against_experts
from pages.parts.patients_tables import experts_table


def draw_experts(view: View) -> None:
    """Draw what the rule and the experts say of the same conversations, whatever is filtered, or how to get them."""
    try:
        rows = against_experts()
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/download:")
        return
    yes, n = PAPER
    st.caption(
        f"In the paper, experts found medical terms in the patient’s words in {yes} of {n} conversations "
        f"({yes / n:.2%}; Johri et al. 2025, Results). Here are the experts’ answers and the rule on the same "
        "conversations, whatever is chosen above. The rule counts every term of its lexicon, the experts judged a "
        "conversation as a whole: the rule finds more."
    )
    _draw_numbers(rows[0])
    shares = dict.fromkeys(("Precision", "Recall"), st.column_config.NumberColumn(format="percent"))
    draw_table(experts_table(rows), "patients-experts", shares)


def _draw_numbers(row: TermsAgreement) -> None:
    experts, rule = row.both + row.experts_only, row.both + row.rule_only
    boxes = (
        ("Experts found a term", f"{experts} of {row.n}", f"{row.experts:.1%}  \n{_span(row.experts_interval)}", ""),
        ("The rule found a term", f"{rule} of {row.n}", f"{row.rule:.1%}  \n{_span(row.rule_interval)}", ""),
        ("Precision", f"{row.precision:.1%}", f"{row.both} of {rule}  \n{_span(row.precision_interval)}",
         "Of the conversations in which the rule found a term, those in which the experts did."),
        ("Recall", f"{row.recall:.1%}", f"{row.both} of {experts}  \n{_span(row.recall_interval)}",
         "Of the conversations in which the experts found a term, those in which the rule did."),
        ("Cohen’s kappa", f"{row.kappa:.3f}", f"{row.both + row.neither} of {row.n} alike",
         "Agreement of rule and experts beyond chance; 1 is full agreement."),
    )  # fmt: skip
    with st.container(horizontal=True):
        for label, value, beside, help_ in boxes:
            with st.container(border=True, width=188, height="stretch", gap="xxsmall"):
                st.metric(label, value, help=help_ or None)
                st.caption(beside)


def _span(interval: Interval) -> str:
    return f"95 %: {interval.low:.1%} – {interval.high:.1%}"
