"""What doctors never ask: topics × models, with intervals; and what patients invented, withheld and gave away."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.measures.ledger.kept import TalkRow
from core.measures.ledger.marks import TopicRow
from core.store.queries.facts import Judge
from pages.parts.case_facts import measured_words
from pages.parts.facts_judging import ask_judge, judge_words, people_words
from pages.parts.failures_data import talk_figures, topic_figures
from pages.parts.failures_filters import Scope
from pages.parts.failures_show import bounds, is_dark, percents, show_figure, show_table, three
from pages.parts.failures_topics_charts import QUANTITY, Quantity, faults_chart, topics_chart
from pages.parts.figures import model_colours
from pages.parts.look import plain

_MEANING: dict[Quantity, str] = {
    "never_elicited": "Never told in the conversation, neither asked for nor by itself.",
    "asked": "Told because the doctor’s question before it asked for it.",
    "volunteered": "Told by the patient without being asked.",
}


def draw_topics(scope: Scope, names: Mapping[str, str]) -> None:
    """Draw what became of the facts by topic, and what the patients made up."""
    judge = ask_judge()
    talks = [row for row in talk_figures(scope, judge) if row.model in names]
    if not any(row.conversations for row in talks):
        st.info(
            "No marked conversation fits these filters. Mark the conversations above, or take a filter away; where "
            "there is none at all, start a campaign with a multi-turn arm.", icon=":material/fact_check:",
        )  # fmt: skip
        return
    rows = topic_figures(scope)
    quantity = _ask_quantity()
    left, right = st.columns([5, 6], gap="medium")
    with left:
        st.markdown(f"**Share of facts: {QUANTITY[quantity].lower()}**")
        show_figure(
            topics_chart(rows, names, quantity, dark=is_dark()), f"facts_{quantity}",
            f"Share of facts by topic and model: {QUANTITY[quantity].lower()}",
        )  # fmt: skip
        st.caption(_MEANING[quantity])
    with right:
        st.markdown("**With 95 % intervals, cases resampled**")
        show_table(
            topics_table(rows, names, quantity), f"facts_{quantity}", percents("Share", "Low", "High"), height=430
        )  # fmt: skip
    st.caption(
        f"Only facts that a patient can tell; what examination and tests show is left out. {measured_words()} The mean "
        f"over a case’s facts and conversations, then over cases. {_counts(talks, names)}"
    )
    _draw_faults(talks, names, judge)


def _ask_quantity() -> Quantity:
    return st.segmented_control(
        "Facts that were", list(QUANTITY), default="never_elicited", required=True, format_func=QUANTITY.__getitem__,
        key="failures_facts", bind="query-params",
    ) or "never_elicited"  # fmt: skip


def _counts(talks: Sequence[TalkRow], names: Mapping[str, str]) -> str:
    words = ", ".join(f"{plain(names[r.model])} {r.conversations:,}" for r in talks if r.conversations)
    broken, missing = sum(row.broken for row in talks), sum(row.missing for row in talks)
    left_out = f"{broken:,} conversations that broke off" + (f" and {missing:,} not marked yet" if missing else "")
    return f"Conversations: {words}; left out: {left_out}."


def _draw_faults(talks: Sequence[TalkRow], names: Mapping[str, str], judge: Judge | None) -> None:
    st.subheader("What the patient invented, withheld and gave away", anchor=False)
    if judge is None or not any(row.judged for row in talks):
        st.markdown(
            ":gray-badge[:material/gavel: Not judged] What patients withhold and invent no rule decides. Have a model "
            "judge it under **Causes**, or every conversation: `python -m core judge-facts --all --model MODEL`."
        )
        show_table(talks_table(talks, names), "faults", three("Mean", "Low", "High"))
        return
    left, right = st.columns([5, 6], gap="medium")
    with left:
        show_figure(
            faults_chart(talks, names, model_colours(list(names)), dark=is_dark()), "faults",
            "Share of judged conversations in which the patient invented or withheld something, by model",
        )  # fmt: skip
    with right:
        show_table(talks_table(talks, names), "faults", three("Mean", "Low", "High"))
    st.caption(
        f"Invented and withheld: judged by {judge_words(judge)}, with a quotation for each. {people_words(judge)} The "
        "shares are of the conversations that were judged: those with a wrong answer after them, unless all were. Gave "
        "away: the patient named the diagnosis though the vignette does not, by rule, in all marked conversations."
    )


def topics_table(rows: Mapping[str, Sequence[TopicRow]], names: Mapping[str, str], quantity: Quantity) -> pd.DataFrame:
    """Return a quantity by topic and model with its interval."""
    return pd.DataFrame(
        [
            {
                "Topic": row.topic.capitalize(), "Model": names[model], "Share": getattr(row, quantity).value,
                **bounds(getattr(row, quantity).interval), "Cases": row.cases, "Facts": row.facts,
            }
            for model in names for row in rows.get(model, ())
        ]
    )  # fmt: skip


def talks_table(rows: Sequence[TalkRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return what the patients of each model did, as shares of conversations; what nobody judged is left out."""
    return pd.DataFrame(
        [
            {"Model": names[row.model], "What": what, "By": by, "Mean": share.value, **bounds(share.interval),
             "n": n}
            for model in names for row in rows if row.model == model
            for what, by, share, n in (
                ("Something invented", "a model", row.with_invented, row.judged),
                ("A fact withheld to the end", "a model", row.with_withheld, row.judged),
                ("Diagnosis given away", "rule", row.with_leaked, row.conversations),
            )
            if n
        ]
    )  # fmt: skip
