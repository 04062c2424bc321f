"""Draws the Endings page: what is looked at, why conversations stopped, how long they were, and the what-if."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.measures.endings import RULES, STANDARD, Arm, EndingRow
from pages.parts.conditions import draw_conditions, draw_what_differs
from pages.parts.endings_charts import reasons_chart, turns_chart, what_if_chart
from pages.parts.endings_data import Scope, arms_held, rescored, turns
from pages.parts.endings_tables import endings_table, turns_table, what_if_table
from pages.parts.figure_controls import CHART, ask_several, dataset_name, keep_valid, unique_names
from pages.parts.figures import conditions, model_colours
from pages.parts.look import arm

_ARMS_AT_FIRST: list[Arm] = [("multi_turn", "mcq"), ("multi_turn", "frq")]
_RULES_AT_FIRST = ["no_diagnosis_excluded", "no_diagnosis_wrong", "cap_excluded", "strict", "excluded_wrong"]
_RULE = {rule.key: rule for rule in RULES}


def ask_scope(table: pd.DataFrame) -> tuple[Scope, dict[str, str]]:
    """Ask which conversations to look at; returns them with the names of all models."""
    sets = list(table["case_set"].value_counts().index)
    keep_valid("endings_cases", sets)
    columns = st.columns([2, 3, 3, 3], vertical_alignment="bottom")
    case_set = columns[0].selectbox(
        "Cases", sets, format_func=dataset_name, key="endings_cases", bind="query-params",
        help="Conversations on different cases are never mixed.",
    ) or sets[0]  # fmt: skip
    held = table[table["case_set"] == case_set]
    known = [one.name for one in conditions() if one.newest.data_set == case_set]
    names = unique_names([*known, *held["model"].unique()], case_set)
    models = ask_several(columns[1], "Models", "endings_models", list(names), names)
    datasets = sorted(held["dataset"].dropna().unique())
    chosen = ask_several(columns[2], "Data sets", "endings_datasets", datasets, {d: dataset_name(d) for d in datasets})
    specialties = sorted(held["specialty"].dropna().unique())
    wanted = ask_several(columns[3], "Specialties", "endings_specialties", specialties, {s: s for s in specialties})
    return Scope(case_set, models, chosen, wanted), names


def draw_reasons(rows: Sequence[EndingRow], names: Mapping[str, str], scope: Scope) -> None:
    """Draw why conversations stopped, with the numbers, and what else differs between the models."""
    st.subheader("Why conversations stopped", anchor=False)
    _figure(reasons_chart(rows, names, dark=_dark()), "endings_reasons", "Why conversations ended, by model")
    percent = st.column_config.NumberColumn(format="percent")
    heads = [h for h in endings_table(rows, names).columns if h not in _COUNTS]
    _table(
        endings_table(rows, names), "endings",
        {**dict.fromkeys(heads, percent), "Model": st.column_config.TextColumn(pinned=True), **_ENDING_HELP},
    )  # fmt: skip
    st.caption(
        "Final diagnosis: the doctor’s last message held “Final Diagnosis”. No question: it held neither that nor a "
        "question mark. Cap: the conversation had as many messages as its run allows. Broke off: a provider failed, "
        "or the record of a release stops after a question, before the cap."
    )
    _what_differs([row.model for row in rows], names)


def draw_turns(rows: Sequence[EndingRow], names: Mapping[str, str], scope: Scope) -> None:
    """Draw how many turns the doctor took."""
    st.subheader("How long the doctor asked", anchor=False)
    found = turns(scope)
    means = {row.model: row.turns_mean for row in rows}
    figure = turns_chart(found, means, names, model_colours(list(names)), dark=_dark())
    _figure(figure, "endings_turns", "Doctor turns of each model’s conversations")
    with st.expander("The figures as a table"):
        _table(turns_table(found, names), "doctor-turns", {"Share": st.column_config.NumberColumn(format="percent")})


def draw_what_if(names: Mapping[str, str], scope: Scope) -> None:
    """Ask for rules and arms, and draw what accuracy would be."""
    st.subheader("What if other rules had been used?", anchor=False)
    st.caption(
        "Accuracy re-scored from the stored answers; no model is asked again. However a conversation ended, the doctor "
        "was asked for its diagnosis afterwards, and by the standard rule that answer counts. Under another rule of "
        "stopping some conversations would have gone on: this shows what the rule of scoring does, not that."
    )
    held = [(f, q) for f in FORMATS for q in QUESTION_TYPES if (f, q) in set(arms_held(scope.case_set))]
    if not held:
        st.info("No answer to these conversations is stored yet.")
        return
    chosen, arms = _ask_rules(held)
    if not chosen or not arms:
        st.info("Choose at least one rule and one arm.")
        return
    rules = [STANDARD, *(_RULE[key] for key in chosen)]
    st.markdown("\n".join(f"- **{rule.label}.** {rule.words}" for rule in rules))
    keys = {rule.key for rule in rules}
    rows = [row for row in rescored(scope, arms) if row.rule in keys]
    colours = model_colours(list(names))
    top = min(1.02, math.ceil(10 * max((row.interval.high for row in rows if row.mean is not None), default=1)) / 10)
    columns = st.columns(2)
    for number, (f, q) in enumerate(arms):
        shown = [row for row in rows if (row.format, row.question_type) == (f, q)]
        with columns[number % 2]:
            st.markdown(f"**{arm(f, q)}**")
            figure = what_if_chart(shown, rules, names, colours, top=top, dark=_dark())
            _figure(figure, f"endings_what_if_{f}_{q}", f"Accuracy under each rule: {arm(f, q)}")
    table = what_if_table(rows, names)
    if table.empty:
        st.caption("None of these rules can change anything in these arms.")
        return
    _table(table, "what-if", _WHAT_IF_HELP)


def _ask_rules(held: list[Arm]) -> tuple[list[str], tuple[Arm, ...]]:
    chosen = st.pills(
        "Rules", list(_RULE), selection_mode="multi", default=_RULES_AT_FIRST, key="endings_rules",
        format_func=lambda key: _RULE[key].label, bind="query-params",
    )  # fmt: skip
    keep_valid("endings_arms", held)
    arms = st.multiselect(
        "Arms", held, default=[a for a in _ARMS_AT_FIRST if a in held], format_func=lambda a: arm(*a),
        key="endings_arms", bind="query-params",
        help="Rules on endings concern what is asked after the conversation: multi-turn and summarized.",
    )  # fmt: skip
    return list(chosen), tuple(arms)


def _what_differs(models: Sequence[str], names: Mapping[str, str]) -> None:
    shown = {model: names[model] for model in models}
    draw_what_differs(shown, conditions(), "these models")
    draw_conditions(shown, conditions())


def _figure(figure: object, key: str, alt: str) -> None:
    config = {**CHART, "toImageButtonOptions": {"format": "svg", "filename": key.replace("_", "-")}}
    st.plotly_chart(figure, key=key, config=config, alt=alt)


def _table(table: pd.DataFrame, name: str, config: Mapping[str, Any]) -> None:
    st.dataframe(table, hide_index=True, column_config=dict(config), key=f"endings_table_{name}")
    st.download_button(
        "Download as CSV", table.to_csv(index=False), f"{name}.csv", "text/csv", icon=":material/download:",
        key=f"endings_csv_{name}",
    )  # fmt: skip


def _dark() -> bool:
    return st.context.theme.type == "dark"


_COUNTS = ("Model", "Conversations", "Mean turns", "Median", "Most", "Cases", "No conversation")
_ENDING_HELP = {
    "No final diagnosis": st.column_config.NumberColumn(
        format="percent", help="Conversations whose last message does not hold the words “final diagnosis”."
    ),
    "Low": st.column_config.NumberColumn(format="percent", help="95 % interval of that share, cases resampled."),
    "High": st.column_config.NumberColumn(format="percent", help="95 % interval of that share, cases resampled."),
    "Mean turns": st.column_config.NumberColumn(help="The doctor’s messages after the greeting."),
    "No conversation": st.column_config.NumberColumn(help="Trials that held none; they are in no other number."),
}
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
    **{name: st.column_config.NumberColumn(format="%.3f") for name in ("Standard", "Accuracy", "Low", "High")},
}
