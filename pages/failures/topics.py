"""What doctors never ask: topics × models, with intervals; and what patients invented, withheld and gave away."""

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.heat import MANY, Cell, heat
from core.figures.marks import Mark, dots
from core.figures.style import Axis
from core.measures.base import Row
from core.measures.ledger.kept import TalkRow
from core.store.queries.fact_judgements import Judge
from pages.failures.data import talk_figures, topic_figures
from pages.kit.case.facts import ask_judge, judge_words, measured_words, people_words
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import plain
from pages.kit.names import model_colours
from pages.kit.tables import draw_table, percents
from pages.kit.view import View

Quantity = Literal["never_elicited", "asked", "volunteered"]
QUANTITY: dict[Quantity, str] = {"never_elicited": "Never elicited", "asked": "Asked", "volunteered": "Volunteered"}
_MEANING: dict[Quantity, str] = {
    "never_elicited": "Never told in the conversation, neither asked for nor by itself.",
    "asked": "Told because the doctor’s question before it asked for it.",
    "volunteered": "Told by the patient without being asked.",
}
_FIRST = st.column_config.TextColumn(pinned=True)


def draw_topics(view: View) -> None:
    """Draw what became of the facts by topic, and what the patients made up."""
    judge, names = ask_judge(), view.names
    talks = [row for row in talk_figures(view, judge) if row.model in names]
    if not any(row.conversations for row in talks):
        st.info(
            "No marked conversation fits these filters. Mark the conversations above, or remove a filter; where "
            "there is none at all, start a campaign with a multi-turn arm.",
            icon=":material/fact_check:",
        )
        return
    quantity = choose("Facts that were", list(QUANTITY), "failures_facts", names=QUANTITY, shape="segments")
    order = list(names)
    rows = [row for row in topic_figures(view) if row["mark"] == quantity and row["model"] in names]
    rows.sort(key=lambda row: order.index(row["model"]))
    counts = ", ".join(f"{names[r.model]} {r.conversations:,}" for r in talks if r.conversations)
    broken, missing = sum(row.broken for row in talks), sum(row.missing for row in talks)
    left_out = f"{broken:,} conversations that broke off" + (f" and {missing:,} not marked yet" if missing else "")
    words = (
        "Only facts that a patient can tell; what examination and tests show is left out. "
        f"{measured_words()} The mean over a case’s facts and conversations, then over cases. "
        f"Conversations: {counts}; left out: {left_out}."
    )
    beside = len({row["model"] for row in rows}) <= MANY
    left, right = st.columns([5, 6], gap="medium") if beside else (st.container(), st.container())
    with left:
        draw_figure(
            lambda dark: topics_chart(rows, names, dark=dark),
            f"facts_{quantity}",
            f"Share of facts: {QUANTITY[quantity].lower()}",
            f"{view.in_words()}. {_MEANING[quantity]} {words}",
        )
        st.caption(_MEANING[quantity])
    with right:
        st.markdown("**With 95 % intervals, cases resampled**")
        table = pd.DataFrame(
            {
                "Topic": row["topic"].capitalize(),
                "Model": names[row["model"]],
                "Share": row.estimate,
                "Low": row.low,
                "High": row.high,
                "Cases": row.n,
                "Facts": row["n_facts"],
            }
            for row in rows
        )
        columns = {"Topic": _FIRST, **percents("Share", "Low", "High")}
        draw_table(table, f"facts_{quantity}", columns, height=430)
    st.caption(plain(words))
    _draw_faults(talks, view, judge)


def topics_chart(rows: Sequence[Row], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return the share of facts of each topic that became one thing, such as never elicited, by model."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    topics = list(dict.fromkeys(row["topic"] for row in rows))
    cells = [[Cell(None, "") for _ in models] for _ in topics]
    for row in rows:
        words = (
            f"{row['topic'].capitalize()}, {names[row['model']]}<br>{row.estimate:.1%} ({row.low:.1%} – {row.high:.1%})"
            f"<br>{row.n:,} cases, {row['n_facts']:,} facts"
        )
        cells[topics.index(row["topic"])][models.index(row["model"])] = Cell(row.estimate, f"{row.estimate:.0%}", words)
    columns = [names[model].replace(" ", "<br>", 1) for model in models]
    return heat(cells, columns, [topic.capitalize() for topic in topics], dark=dark)


def _draw_faults(talks: Sequence[TalkRow], view: View, judge: Judge | None) -> None:
    st.subheader("What the patient invented, withheld and gave away", anchor=False)
    table = pd.DataFrame(
        {
            "Model": name,
            "What": what,
            "By": by,
            "Mean": share.value,
            "Low": share.interval.low,
            "High": share.interval.high,
            "n": n,
        }
        for model, name in view.names.items()
        for row in talks
        if row.model == model
        for what, by, share, n in (
            ("Something invented", "a model", row.with_invented, row.judged),
            ("A fact withheld to the end", "a model", row.with_withheld, row.judged),
            ("Diagnosis given away", "rule", row.with_leaked, row.conversations),
        )
        if n
    )
    if judge is None or not any(row.judged for row in talks):
        st.markdown(
            ":gray-badge[:material/gavel: Not judged] What patients withhold and invent no rule decides. Have a model "
            "judge it under **Causes**, or every conversation: `python -m core job facts --all --model MODEL`."
        )
        draw_table(table, "faults", {"Model": _FIRST}, height="auto")
        return
    words = (
        "The shares are of the conversations that were judged: those with a wrong answer after them, unless all were. "
        "Gave away: the patient named the diagnosis though the vignette does not, by rule, in all marked conversations."
    )
    left, right = st.columns([5, 6], gap="medium")
    with left:
        draw_figure(
            lambda dark: faults_chart(talks, view.names, dark=dark),
            "faults",
            "Conversations in which the patient invented or withheld something",
            f"{view.in_words()}. Judged by {judge.model} (prompts {judge.prompt_hash[:8]}). {words}",
        )
    with right:
        draw_table(table, "faults", {"Model": _FIRST}, height="auto")
    st.caption(
        f"Invented and withheld: judged by {judge_words(judge)}, with a quotation for each. {people_words(judge)} "
        f"{words}"
    )


def faults_chart(rows: Sequence[TalkRow], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return the share of judged conversations in which the patient invented or withheld something, by model."""
    judged = {row.model: row for row in rows if row.judged}
    marks = [
        Mark(words, share.value, *share.interval, row.model)
        for row in judged.values()
        for words, share in (("Invented", row.with_invented), ("Withheld", row.with_withheld))
    ]
    shown = {model: f"{name}, n = {judged[model].judged:,}" for model, name in names.items() if model in judged}
    axis = Axis("Share of judged conversations", (-0.02, 1.02), ".0%", None, ".1%")
    return dots(marks, shown, model_colours(list(names)), axis, legend=True, dark=dark)
