"""Why answers are wrong, what doctors never ask, and what they believed on the way."""

from collections.abc import Sequence
from itertools import groupby

import pandas as pd
import streamlit as st

from core.figures.curves import Point, curves
from core.figures.reliability import Bin, reliability
from core.figures.style import Axis
from core.measures.base import Row
from core.measures.belief import CLOSURE, SETTLED, Calibration, When
from core.measures.ledger.kept import LEDGER
from pages.failures.causes import draw_causes, draw_extract
from pages.failures.data import begin_marking, beliefs, believing, marking, talks
from pages.failures.topics import draw_topics
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.jobs import draw_missing
from pages.kit.names import model_colours
from pages.kit.notes import draw_view_notes
from pages.kit.page import draw_sections, say_how_to_begin, show
from pages.kit.stored import scores
from pages.kit.tables import draw_table, offer_csv
from pages.kit.view import View, ask_view, offers_of

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


def draw_belief(view: View) -> None:
    """Draw what the probed conversations say, or how to get some."""
    how = ("Reading beliefs", "Reading the probes…", "conversations", "Read the beliefs")
    read = draw_extract(believing(), "failures_belief", *how, believing)
    if read is None:
        return
    rows, points, calibrations = beliefs(view, read)
    if not rows:
        st.info(
            "No belief is stored for these cases and models. Ask doctors what they hold likeliest after every reply, "
            "unseen by the patient and costed apart: `python -m core run --doctor MODEL --probe`. The reference doctor "
            "shows its belief in every run.",
            icon=":material/psychology:",
        )
        return
    colours = model_colours(list(view.names))
    words = (
        "Means over a case’s conversations, then over cases, with 95 % intervals, cases resampled. Conversations "
        "without a probe are left out. Larger marks stand for more beliefs."
    )
    about = f"{view.in_words()}. {words}"
    left, right = st.columns(2, gap="medium")
    with left:
        likely = [point for point in points if point["quantity"] == "right"]
        cases = {point["model"]: point.n for point in reversed(likely)}
        heads = {m: f"{name}, n = {cases[m]:,} cases" for m, name in view.names.items() if m in cases}
        draw_figure(
            lambda dark: curves(
                [Point(p["model"], p["per_cent"] / 100, p["mean"], p.low, p.high) for p in likely],
                heads,
                colours,
                Axis("Share of the patient’s replies", (0.07, 1.03), ".0%", 0.1, ".0%"),
                Axis("Probability of the right diagnosis", (0, 1.02), ".0%", None, ".1%"),
                dark=dark,
            ),
            "belief_course",
            "The right diagnosis in the course of the conversation",
            about,
        )
        course = pd.DataFrame(
            {
                "Model": view.names.get(p["model"], p["model"]),
                "Quantity": p["quantity"],
                "Per cent of replies": p["per_cent"],
                **_mean(p),
            }
            for p in points
        )
        offer_csv(course, "belief_course")
    with right:
        when = choose("When", list(_WHEN), "failures_when", names=_WHEN, shape="segments", hidden=True)
        shown = [(row, bins) for row, bins in calibrations if row["when"] == when]
        heads_ = {row["model"]: row for row, _ in shown}
        scored = {
            model: f"{name}, Brier {heads_[model].estimate:.3f}, ECE {heads_[model]['ece']:.3f}"
            for model, name in view.names.items()
            if model in heads_
        }
        held = [b for _, bins in shown for b in bins if b["n_probes"]]
        marks = [
            Bin(
                b["model"],
                b["probability"],
                b["right"],
                b["ci_low"],
                b["ci_high"],
                b["n_probes"],
                f"{b.n:,} cases, {b['n_probes']:,} beliefs",
            )
            for b in held
        ]
        draw_figure(
            lambda dark: reliability(marks, scored, colours, dark=dark),
            "reliability",
            "Is it right as often as believed?",
            f"{_WHEN[when]}. {about}",
        )
        binned = pd.DataFrame(
            {
                "Model": view.names.get(b["model"], b["model"]),
                "From": b["from"],
                "To": b["to"],
                "Believed": b["probability"],
                "Right": b.estimate,
                "Low": b.low,
                "High": b.high,
                "Cases": b.n,
                "Beliefs": b["n_probes"],
            }
            for b in held
        )
        offer_csv(binned, "reliability")
    st.caption(words)
    columns = {"Model": st.column_config.TextColumn(pinned=True)}
    draw_table(belief_table(rows, calibrations, view), "belief", columns, height="auto")
    with st.expander("What these mean", icon=":material/help:"):
        st.markdown(_HELP)


def belief_table(rows: Sequence[Row], calibrations: Sequence[Calibration], view: View) -> pd.DataFrame:
    """Return every measure of belief by model, with its interval; messages are counted from 1."""
    listed: list[dict[str, object]] = []
    for model, own in groupby(rows, key=lambda row: str(row["model"])):
        name = {"Model": view.names.get(model, model)}
        by_figure = {row["figure"]: row for row in own}
        listed += [{**name, "What": what, **_mean(by_figure[figure])} for figure, what in _MEASURES.items()]
        listed.append({**name, "What": "First led after message", **_mean(by_figure["first_led"], 1)})
        counts = {"Conversations": by_figure["ever_led"]["n_conversations"]}
        for row, _ in calibrations:
            if row["model"] == model:
                for what, figure in (("Brier score", "brier"), ("ECE", "ece")):
                    bounds = {"Low": row[f"{figure}_low"], "High": row[f"{figure}_high"], "Cases": row.n}
                    words = f"{what}, {_WHEN[row['when']].lower()}"
                    listed.append({**name, "What": words, "Mean": row[figure], **bounds, **counts})
    return pd.DataFrame(listed)


def _mean(row: Row, more: int = 0) -> dict[str, object]:
    return {
        "Mean": None if row["mean"] is None else row["mean"] + more,
        "Low": None if row["ci_low"] is None else row["ci_low"] + more,
        "High": None if row["ci_high"] is None else row["ci_high"] + more,
        "Cases": row.n,
        "Conversations": row["n_conversations"],
    }


def draw_failures() -> None:
    """Draw the page, or what to do where nothing is stored."""
    offers = offers_of(scores())
    if not offers:
        say_how_to_begin("No answer is stored yet.", icon="troubleshoot")
        return
    view = ask_view(offers, "models", "datasets", "specialties")
    draw_view_notes(view.names, view.models)
    draw_missing(
        marking(),
        int(talks()["unmarked"].sum()),
        LEDGER,
        begin_marking,
        "failures_mark",
        explains="which facts were asked, volunteered or never elicited",
        verb="mark",
        icon="fact_check",
    )
    draw_sections({"Causes": draw_causes, "Never asked": draw_topics, "Belief": draw_belief}, "failures_tab", view)


if __name__ == "__main__":
    show(
        "Failures",
        draw_failures,
        "Why answers are wrong, by stated rules; what the doctor never asked; what it believed on the way.",
    )
