"""Why conversations stopped, how long they were, and what accuracy would be under other rules."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES, EndReason
from core.figures.curves import Point, curves
from core.figures.marks import Mark, dots
from core.figures.shares import Segment, stacked
from core.figures.style import Axis
from core.measures.base import Row
from core.measures.endings import END_REASONS, RULES, STANDARD, Arm, Rule, chosen_rows, endings, rescore, turn_rows
from core.store.queries.answers import conversation_endings, ending_outcomes
from core.store.selection import Selection
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import in_transcripts
from pages.kit.controls import choose_several
from pages.kit.figures import draw_conditions, draw_figure, draw_what_differs
from pages.kit.look import END_SHORT, REASON_COLOUR, arm
from pages.kit.names import dataset_name, model_colours
from pages.kit.navigation import lead_to
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.page import say_how_to_begin
from pages.kit.stored import conditions, runs_behind
from pages.kit.tables import draw_as_table, draw_table, percents
from pages.kit.view import Offer, View, ask_view, in_order

_ARMS_AT_FIRST: list[Arm] = [("multi_turn", "mcq"), ("multi_turn", "frq")]
_RULES_AT_FIRST = ("no_diagnosis_excluded", "no_diagnosis_wrong", "cap_excluded", "strict", "excluded_wrong")
_RULE = {rule.key: rule for rule in (STANDARD, *RULES)}


def draw_endings() -> None:
    """Draw the page, or what to do where nothing is stored."""
    table = ask(conversation_endings)
    if not table["end_reason"].notna().any():
        say_how_to_begin("No conversation is stored yet.", icon="forum")
        return
    offers = {}
    for name in table["case_set"].value_counts().index:
        held = table[table["case_set"] == name]
        known = [one.name for one in conditions() if one.newest.data_set == name]
        models = tuple(dict.fromkeys([*known, *held["model"].unique()]))
        sets, specialties = (held[part].dropna().unique() for part in ("dataset", "specialty"))
        offers[name] = Offer(models, datasets=tuple(sorted(sets)), specialties=in_order(specialties))
    view = ask_view(offers, "models", "datasets", "specialties")
    found, turns = _ended(view)
    rows = [row for row in found if row["conversations"]]
    if not rows:
        st.info("No conversation fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    notes = notes_on(basis(Selection()), {row["model"]: view.names[row["model"]] for row in rows})
    draw_notes(notes, "accuracy")
    _draw_reasons(rows, view)
    st.subheader("How long the doctor asked", anchor=False)
    draw_figure(
        lambda dark: turns_chart(turns, rows, view.names, dark=dark),
        "endings_turns",
        "Doctor’s turns",
        _rests_on(rows, view),
    )
    shares = pd.DataFrame(
        [
            {
                "Model": view.names[r["model"]],
                "Doctor’s turns": r["turns"],
                "Conversations": r["conversations"],
                "Share": r["share"],
            }
            for r in turns
        ]
    )
    draw_as_table(shares, "doctor_turns", percents("Share"))
    _draw_what_if(view)


@cached_query(entries=64)
def _ended(view: View) -> tuple[list[Row], list[dict[str, Any]]]:
    rows = _viewed(ask(conversation_endings), view)
    return endings(rows), turn_rows(rows)


@cached_query(entries=256)
def _rescored(view: View, arm: Arm) -> list[Row]:
    return rescore(_viewed(ask(ending_outcomes), view), RULES, [arm])


def _viewed(table: pd.DataFrame, view: View) -> pd.DataFrame:
    sets, models, specialties = (view.case_set,), view.models, view.specialties
    return chosen_rows(table, case_sets=sets, models=models, datasets=view.datasets, specialties=specialties)


def _rests_on(rows: Sequence[Row], view: View) -> str:
    parts = [dataset_name(view.case_set), *map(dataset_name, view.datasets), *view.specialties]
    n = ", ".join(f"{view.names[row['model']]} {row['conversations']:,}" for row in rows)
    return f"{', '.join(parts)}. Conversations: {n}."


def _draw_reasons(rows: Sequence[Row], view: View) -> None:
    """Draw why conversations stopped, with the numbers, and what else differs between the models."""
    st.subheader("Why conversations stopped", anchor=False)

    def read(model: str, *reasons: EndReason) -> None:
        """Lead to the conversations of a model, that ended for some reason."""
        runs = in_transcripts(runs_behind(conditions(), model))
        lead_to(
            "transcripts",
            **runs,
            transcripts_ends=[END_SHORT[reason] for reason in reasons],
            transcripts_specialties=view.specialties,
            transcripts_datasets=[dataset_name(name) for name in view.datasets],
        )

    draw_figure(
        lambda dark: reasons_chart(rows, view.names, dark=dark),
        "endings_reasons",
        "Why conversations ended, by model",
        _rests_on(rows, view),
        on_point=lambda point: read(*point[1:]),
        titled=False,
    )
    st.caption("Click a part of a bar, or a row, to read its conversations.")
    held = [reason for reason in END_REASONS if any(row["reasons"].get(reason) for row in rows)]
    table = pd.DataFrame(
        [
            {
                "Model": view.names[row["model"]],
                "Conversations": row["conversations"],
                **{END_SHORT[r]: row["reasons"].get(r, 0) / max(1, row["conversations"]) for r in held},
                "No final diagnosis": row.estimate,
                "Low": row.low,
                "High": row.high,
                "Mean turns": round(row["turns_mean"], 2),
                "Median": row["turns_median"],
                "Most": row["turns_most"],
                "Cases": row.n,
                "No conversation": row.excluded["no conversation"],
            }
            for row in rows
        ]
    )
    number = st.column_config.NumberColumn
    interval = number(format="percent", help="95 % interval of that share, cases resampled.")
    columns = {
        **percents(*(END_SHORT[reason] for reason in held)),
        "Model": st.column_config.TextColumn(pinned=True),
        "No final diagnosis": number(
            format="percent", help="Conversations whose last message does not hold the words “final diagnosis”."
        ),
        "Low": interval,
        "High": interval,
        "Mean turns": number(help="The doctor’s messages after the greeting."),
        "No conversation": number(help="Trials that held none; they are in no other number."),
    }
    draw_table(table, "endings", columns, on_row=lambda row: read(rows[row]["model"]))
    st.caption(
        "Final diagnosis: the doctor’s last message held “Final Diagnosis”. No question: it held neither that nor a "
        "question mark. Cap: the conversation had as many messages as its run allows. Broke off: a provider failed, "
        "or the record of a release stops after a question, before the cap."
    )
    shown = {row["model"]: view.names[row["model"]] for row in rows}
    draw_what_differs(shown, conditions(), "these models")
    draw_conditions(shown, conditions())


def reasons_chart(rows: Sequence[Row], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a bar for each model, made of the shares of why its conversations ended."""
    labels = [f"{names[row['model']]}<br>n = {row['conversations']:,}" for row in rows]
    segments = [
        Segment(
            END_SHORT[reason],
            *REASON_COLOUR[reason],
            [row["reasons"].get(reason, 0) / max(1, row["conversations"]) for row in rows],
            [row["reasons"].get(reason, 0) for row in rows],
            [(row["model"], reason) for row in rows],
        )
        for reason in END_REASONS
    ]
    return stacked(labels, segments, "Share of conversations", "conversations", percent=True, dark=dark)


def turns_chart(
    rows: Sequence[Mapping[str, Any]], models: Sequence[Row], names: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return a curve for each model: which share of its conversations had so many doctor turns."""
    most = max((row["turns"] for row in rows), default=0)
    held = {(row["model"], row["turns"]): row for row in rows}
    points = [
        Point(
            model,
            n,
            one["share"] if (one := held.get((model, n))) else 0.0,
            words=f"{one['conversations'] if one else 0:,} conversations",
        )
        for model in dict.fromkeys(row["model"] for row in rows)
        for n in range(most + 1)
    ]
    means = {row["model"]: row["turns_mean"] for row in models}
    shown = {model: f"{name}, mean {means[model]:.1f}" for model, name in names.items() if model in means}
    colours = model_colours(names)
    along = Axis("Doctor’s messages after the greeting", (-0.02 * most, 1.02 * most or 1), "~g", None, ".0f")
    return curves(
        points, shown, colours, along, Axis("Share of conversations", None, ".0%", None, ".1%"), height=340, dark=dark
    )


def _draw_what_if(view: View) -> None:
    """Ask for rules and arms, and draw what accuracy would be."""
    st.subheader("What if other rules had been used?", anchor=False)
    st.caption(
        "Accuracy re-scored from the stored answers; no model is asked again. However a conversation ended, the doctor "
        "was asked for its diagnosis afterwards, and by the standard rule that answer counts. Under another rule of "
        "stopping some conversations would have gone on: this shows what the rule of scoring does, not that."
    )
    outcomes = ask(ending_outcomes)
    outcomes = outcomes[outcomes["case_set"] == view.case_set]
    kinds = outcomes[["format", "question_type"]].drop_duplicates().astype(str)
    stored = set(kinds.itertuples(index=False, name=None))
    held: list[Arm] = [(f, q) for f in FORMATS for q in QUESTION_TYPES if (f, q) in stored]
    if not held:
        st.info("No answer to these conversations is stored yet.")
        return
    chosen = choose_several(
        "Rules",
        [rule.key for rule in RULES],
        "endings_rules",
        names=lambda key: _RULE[key].label,
        default=_RULES_AT_FIRST,
        placeholder="None",
    )
    arms = choose_several(
        "Arms",
        held,
        "endings_arms",
        names=lambda one: arm(*one),
        default=_ARMS_AT_FIRST,
        placeholder="None",
        help="Rules on endings concern what is asked after the conversation: multi-turn and summarized.",
    )
    if not chosen or not arms:
        st.info("Choose at least one rule and one arm.")
        return
    rules = [STANDARD, *(_RULE[key] for key in chosen)]
    st.markdown("\n".join(f"- **{rule.label}.** {rule.words}" for rule in rules))
    keys = {rule.key for rule in rules}
    rows = [row for one in arms for row in _rescored(view, one) if row["rule"] in keys]
    top = min(1.02, math.ceil(10 * max((row["ci_high"] for row in rows if row.estimate is not None), default=1)) / 10)
    columns = st.columns(2)
    for number, one in enumerate(arms):
        shown = [row for row in rows if (row["format"], row["question_type"]) == one]

        def make(dark: bool, shown: Sequence[Row] = tuple(shown)) -> go.Figure:
            return what_if_chart(shown, rules, view.names, model_colours(view.names), top=top, dark=dark)

        n = max((row["n_cases"] for row in shown), default=0)
        rests = f"{dataset_name(view.case_set)}, up to {n:,} cases a model; 95 % intervals, cases resampled. Dotted: "
        with columns[number % 2]:
            draw_figure(make, f"endings_what_if_{one[0]}_{one[1]}", arm(*one), f"{rests}the standard rule.")
    standard = {(r["model"], r["format"], r["question_type"]): r.estimate for r in rows if r["rule"] == STANDARD.key}
    table = pd.DataFrame(
        [
            {
                "Model": view.names[r["model"]],
                "Arm": arm(r["format"], r["question_type"]),
                "Rule": _RULE[r["rule"]].label,
                "Standard": (before := standard[r["model"], r["format"], r["question_type"]]),
                "Accuracy": r.estimate,
                "Low": r.low,
                "High": r.high,
                "Change": None if r.estimate is None or before is None else r.estimate - before,
                "On the same cases": r["same_cases"],
                "Same, low": r["same_cases_low"],
                "Same, high": r["same_cases_high"],
                "Concerned": r["concerned"],
                "Changed": r["changed"],
                "Answers": r["n_answers"],
                "Excluded": r["n_excluded"],
                "Cases": r.n,
            }
            for r in rows
            if r["rule"] != STANDARD.key
        ]
    ).round(4)
    if table.empty:
        st.caption("None of these rules can change anything in these arms.")
        return
    draw_table(table, "what_if", _WHAT_IF_HELP)


def what_if_chart(
    rows: Sequence[Row],
    rules: Sequence[Rule],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    top: float = 1.0,
    dark: bool = False,
) -> go.Figure:
    """Return the accuracies of one arm: a row for each rule, a dot with its interval for each model.

    A dotted line marks what a model has under the standard rule. ``top`` is where the axis ends.
    """
    shown = [rule for rule in rules if any(row["rule"] == rule.key for row in rows)]
    standard = {row["model"]: row.estimate for row in rows if row["rule"] == STANDARD.key}
    marks = [
        Mark(
            row["rule"],
            row.estimate,
            row.low,
            row.high,
            row["model"],
            words=f"{row.estimate - (standard[row['model']] or 0.0):+.3f} to the standard rule<br>{row.n:,} cases, "
            f"{row['n_answers']:,} answers; the rule concerns {row['concerned']:,}",
        )
        for row in rows
        if row.estimate is not None
    ]
    labels = {rule.key: rule.label.replace(": ", ":<br>") for rule in shown}
    axis = Axis("Accuracy", (0, top), ".1f", 0.1 if top < 0.7 else 0.2)
    figure = dots(marks, names, colours, axis, places=labels, legend=True, dark=dark)
    for mark in marks:
        if mark.place == STANDARD.key:
            line = {"color": colours[mark.series], "width": 1, "dash": "dot"}
            figure.add_vline(mark.estimate, line=line, opacity=0.6)
    return figure


_WHAT_IF_HELP = {
    "Change": st.column_config.NumberColumn(format="%+.3f", help="Accuracy minus the standard rule’s."),
    "On the same cases": st.column_config.NumberColumn(
        format="%+.3f",
        help="The change on the cases that both rules keep: leaving conversations out also leaves out cases.",
    ),
    "Same, low": st.column_config.NumberColumn(format="%+.3f", help="95 % interval, cases resampled in pairs."),
    "Same, high": st.column_config.NumberColumn(format="%+.3f", help="95 % interval, cases resampled in pairs."),
    "Concerned": st.column_config.NumberColumn(help="Answers that fall under the rule."),
    "Changed": st.column_config.NumberColumn(help="Answers that count otherwise than by the standard rule."),
    "Answers": st.column_config.NumberColumn(help="Answers that count."),
    "Excluded": st.column_config.NumberColumn(help="Answers that do not count, by the rule or because invalid."),
}
