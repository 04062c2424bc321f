"""What doctors believed on the way: when the right diagnosis led, whether they stopped too early, how calibrated."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.measures.belief import CLOSURE, SETTLED, BeliefRow, Calibration, CurvePoint, Mean, When
from pages.parts.failures_belief_charts import curve_chart, reliability_chart
from pages.parts.failures_data import beliefs
from pages.parts.failures_filters import Scope
from pages.parts.failures_show import bounds, download, is_dark, show_figure, show_table, three
from pages.parts.figures import model_colours

_MEASURES = {
    "ever_led": "Ever led", "leads_at_end": "Leads at the end", "lost": "Led and lost again",
    "premature": "Premature closure", "over_asked": "Needless questions",
}  # fmt: skip
_WHEN: dict[When, str] = {"at the end": "At the end", "every probe": "After every reply"}
_HELP = f"""
- **Ever led, leads at the end, led and lost again**: shares of conversations in which the right diagnosis did.
- **Premature closure**: the doctor concluded, or asked no more, while facts that the patient could tell were
  left and by its own belief the leading diagnosis was wrong or less likely than {CLOSURE:.0%}.
- **Needless questions** (over-asking): those answered after the right diagnosis had settled at {SETTLED:.0%} or more.
- **Brier score**: mean squared distance of the leading diagnosis’s probability from 1 where it is right and 0 where
  not; 0 is best. **ECE**, the expected calibration error: the mean distance between what was believed and how often it
  was right, over ten bins of probability.
"""


def draw_belief(scope: Scope, names: Mapping[str, str]) -> None:
    """Draw what the probed conversations say, or how to get some."""
    found = beliefs(scope)
    if not found.rows:
        st.info(
            "No belief is stored for these cases and models. Ask doctors what they hold likeliest after every reply, "
            "unseen by the patient and costed apart: `python -m core run --doctor MODEL --probe`. The reference doctor "
            "shows its belief in every run.", icon=":material/psychology:",
        )  # fmt: skip
        return
    colours = model_colours(list(names))
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**The right diagnosis in the course of the conversation**")
        show_figure(curve_chart(found.curves, names, colours, dark=is_dark()), "belief_course",
                    "Mean probability of the right diagnosis over the share of the dialogue")  # fmt: skip
        download(curve_table(found.curves, names), "belief_course")
    with right:
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.markdown("**Is it right as often as believed?**", width="content")
            when = _ask_when()
        shown = [one for one in found.calibrations if one.when == when]
        show_figure(reliability_chart(shown, names, colours, dark=is_dark()), "reliability",
                    "Share of leading diagnoses that are right, by their probability")  # fmt: skip
        download(bins_table(shown, names), "reliability")
    st.caption(
        "Means over a case’s conversations, then over cases, with 95 % intervals, cases resampled. Conversations "
        "without a probe are left out. Larger marks stand for more beliefs."
    )
    table = belief_table(found.rows, found.calibrations, names)
    show_table(table, "belief", three("Mean", "Low", "High"))
    with st.expander("What these mean", icon=":material/help:"):
        st.markdown(_HELP)


def _ask_when() -> When:
    return st.segmented_control(
        "When", list(_WHEN), default="at the end", required=True, format_func=_WHEN.__getitem__, key="failures_when",
        bind="query-params", label_visibility="collapsed",
    ) or "at the end"  # fmt: skip


def belief_table(
    rows: Sequence[BeliefRow], found: Sequence[Calibration], names: Mapping[str, str]
) -> pd.DataFrame:  # fmt: skip
    """Return every measure of belief by model, with its interval."""
    listed = []
    for row in rows:
        listed += [
            {"Model": names.get(row.model, row.model), "What": words, **_mean(getattr(row, name))}
            for name, words in _MEASURES.items()
        ]
        listed.append({"Model": names.get(row.model, row.model), "What": "First led after message", **_led(row)})
        listed += [
            {"Model": names.get(row.model, row.model), **score, "Conversations": row.ever_led.n_conversations}
            for one in found if one.model == row.model for score in _scores(one)
        ]  # fmt: skip
    return pd.DataFrame(listed)


def _mean(mean: Mean) -> dict[str, float]:
    return {"Mean": mean.value, **bounds(mean.interval), "Cases": mean.n_cases, "Conversations": mean.n_conversations}


def _led(row: BeliefRow) -> dict[str, float]:
    """Return when the right diagnosis first led; messages are counted from 1."""
    found = _mean(row.first_led)
    return {**found, **{name: found[name] + 1 for name in ("Mean", "Low", "High")}}


def _scores(one: Calibration) -> list[dict[str, object]]:
    when = _WHEN[one.when].lower()
    return [
        {"What": f"Brier score, {when}", "Mean": one.brier, **bounds(one.brier_interval), "Cases": one.n_cases},
        {"What": f"ECE, {when}", "Mean": one.ece, **bounds(one.ece_interval), "Cases": one.n_cases},
    ]


def curve_table(points: Sequence[CurvePoint], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the points of the mean curves."""
    return pd.DataFrame(
        [
            {"Model": names.get(p.model, p.model), "Quantity": p.quantity, "Per cent of replies": p.per_cent,
             **_mean(p.mean)}
            for p in points
        ]
    )  # fmt: skip


def bins_table(found: Sequence[Calibration], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the bins of the reliability diagram."""
    return pd.DataFrame(
        [
            {
                "Model": names.get(one.model, one.model), "From": b.low, "To": b.high, "Believed": b.probability,
                "Right": b.right, **bounds(b.interval), "Cases": b.n_cases, "Beliefs": b.n_probes,
            }
            for one in found for b in one.bins if b.n_probes
        ]
    )  # fmt: skip
