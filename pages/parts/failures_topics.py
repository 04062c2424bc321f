"""What doctors never ask: topics × models, with intervals; and what patients invent, withhold and give away."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.metrics.ledger.kept_figures import TalkRow
from core.metrics.ledger.overview import Share, TopicRow
from pages.parts.failures_data import talk_figures, topic_figures
from pages.parts.failures_filters import Scope
from pages.parts.failures_show import bounds, is_dark, percents, show_figure, show_table, three
from pages.parts.failures_topics_charts import QUANTITY, Quantity, invented_chart, topics_chart
from pages.parts.figures import model_colours
from pages.parts.look import plain

_MEANING: dict[Quantity, str] = {
    "never_elicited": "Never told in the conversation, neither asked for nor by itself.",
    "asked": "Told because the doctor’s question before it asked for it.",
    "volunteered": "Told by the patient without being asked.",
    "withheld": "Asked for, and the patient did not know or denied it; it may be told later.",
}


def draw_topics(scope: Scope, names: Mapping[str, str]) -> None:
    """Draw what became of the facts by topic, and what the patients made up."""
    talks = [row for row in talk_figures(scope) if row.model in names]
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
        "Only facts that a patient can tell; what examination and tests show is left out. Facts are marked by rules on "
        "words, which miss free paraphrase: what was never elicited is an upper bound, what was asked or volunteered a "
        f"lower one. The mean over a case’s facts and conversations, then over cases. {_counts(talks, names)}"
    )
    _draw_invented(talks, names)


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


def _draw_invented(talks: Sequence[TalkRow], names: Mapping[str, str]) -> None:
    st.subheader("What the patient invented, withheld and gave away", anchor=False)
    left, right = st.columns([5, 6], gap="medium")
    with left:
        show_figure(
            invented_chart(talks, names, model_colours(list(names)), dark=is_dark()), "inventions",
            "Statements a conversation that the case does not hold, by model",
        )  # fmt: skip
    with right:
        show_table(talks_table(talks, names), "inventions", three("Mean", "Low", "High"))
    st.caption(
        "Invented: a statement that contradicts a fact of the case, or that no fact of it supports. Plain denials of "
        "what the case is silent about are counted apart: harmless more often than not. Gave away: the patient named "
        "the diagnosis though the vignette does not. On free talk about one flag in three is right: read it first."
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
    """Return what the patients of each model did, as shares of conversations and as numbers a conversation."""
    return pd.DataFrame(
        [
            {"Model": names[row.model], "What": what, "Mean": share.value, **bounds(share.interval),
             "Cases": row.cases, "Conversations": row.conversations}
            for model in names for row in rows if row.model == model and row.conversations
            for what, share in _measures(row)
        ]
    )  # fmt: skip


def _measures(row: TalkRow) -> list[tuple[str, Share]]:
    return [
        ("Inventions a conversation", row.invented), ("Denials of the unknown a conversation", row.denials),
        ("Conversations with an invention", row.with_invented),
        ("Conversations with a fact withheld to the end", row.with_withheld),
        ("Conversations in which the diagnosis was given away", row.with_leaked),
    ]  # fmt: skip
