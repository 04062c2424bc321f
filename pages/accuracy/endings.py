"""Why conversations ended, how long they were, and accuracy under other scoring rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.figures.curves import Point, curves
from core.figures.style import Axis
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import Result, Row
from core.measures.endings import REASONS, RULES, STANDARD, TURNS, WHAT_IF, WITHOUT_DIAGNOSIS, Arm, read_outcomes
from core.stats.differences import changes
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose_several
from pages.kit.empty import draw_empty
from pages.kit.figures import draw_conditions_behind
from pages.kit.look import END_SHORT, arm
from pages.kit.names import model_colours
from pages.kit.section import draw_result, draw_section, open_counted, section_result
from pages.kit.view import ask_selection, names_on, offered

_DEFAULT_ARMS: list[Arm] = [("multi_turn", "mcq"), ("multi_turn", "frq")]
_DEFAULT_RULES = ("no_diagnosis_excluded", "no_diagnosis_wrong", "cap_excluded", "strict", "excluded_wrong")
_RULE = {rule.key: rule for rule in (STANDARD, *RULES)}


def draw_endings() -> None:
    offers = offered()
    if not offers:
        draw_empty("No conversation is stored yet.", CAMPAIGN, RELEASE, icon="forum")
        return
    selection = ask_selection(offers, "models", "datasets", "specialties")
    opens = partial(open_counted, selection)
    reasons = draw_section(REASONS, selection, names=END_SHORT, name="endings_reasons", on_row=opens, titled=False)
    if reasons is None:
        return
    draw_section(WITHOUT_DIAGNOSIS, selection, name="endings")
    draw_conditions_behind({row["model"] for row in reasons.figures}, selection)
    draw_section(TURNS, selection, name="endings_turns", charts={"turns": turns_chart})
    _draw_what_if(selection)


def turns_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return for each model a curve of the share of conversations by number of doctor turns."""
    most = max(row["turns"] for row in rows)
    by_place = {(row["model"], row["turns"]): row for row in rows}
    models = [model for model in names if any(row["model"] == model for row in rows)]
    points = []
    for model in models:
        for n in range(most + 1):
            row = by_place.get((model, n))
            share, count = (row.estimate or 0.0, row["conversations"]) if row else (0.0, 0)
            points.append(Point(model, n, share, words=f"{count:,} conversations"))
    means = {
        model: sum(row["turns"] * (row.estimate or 0.0) for row in rows if row["model"] == model) for model in models
    }
    labels = {model: f"{names[model]}, mean {mean:.1f}" for model, mean in means.items()}
    turns_axis = Axis("Doctor’s messages after the greeting", (-0.02 * most, 1.02 * most or 1), "~g", None, ".0f")
    share_axis = Axis("Share of conversations", None, ".0%", None, ".1%")
    return curves(points, labels, model_colours(list(names)), turns_axis, share_axis, height=340, dark=dark)


def _draw_what_if(selection: Selection) -> None:
    st.header(WHAT_IF.title, anchor=False)
    stored = read(read_outcomes, selection)[["format", "question_type"]].drop_duplicates().astype(str)
    stored_arms = set(stored.itertuples(index=False, name=None))
    offers: list[Arm] = [(f, q) for f in FORMATS for q in QUESTION_TYPES if (f, q) in stored_arms]
    if not offers:
        st.info("No answer to these conversations is stored yet.")
        return
    with st.expander("Rules, formats and questions", icon=":material/rule:"):
        chosen = choose_several(
            "Rules",
            [rule.key for rule in RULES],
            "endings_rules",
            names=lambda key: _RULE[key].label,
            default=_DEFAULT_RULES,
            placeholder="None",
        )
        arms = choose_several(
            "Formats and questions",
            offers,
            "endings_arms",
            names=lambda key: arm(*key),
            default=_DEFAULT_ARMS,
            placeholder="None",
            help="Rules on endings affect answers after the conversation: multi-turn and summarized.",
        )
        rules = [STANDARD, *(_RULE[key] for key in chosen)]
        st.markdown("\n".join(f"- **{rule.label}.** {rule.words}" for rule in rules))
    if not chosen or not arms:
        st.info("Choose at least one rule, and one format with its question.")
        return
    keys = {rule.key for rule in rules}
    by_arm = [_rescored(selection, of) for of in arms]
    rows = [_next_to_standard(row, of_arm) for of_arm in by_arm for row in of_arm if row["rule"] in keys]
    if all(row["rule"] == STANDARD.key for row in rows):
        st.caption("None of these rules can change anything in these answers.")
        return
    names = {**names_on(selection), **{rule.key: rule.label for rule in rules}}
    result = Result(WHAT_IF.title, tuple(rows))
    draw_result(WHAT_IF, result, names, name="endings_what_if")


def _rescored(selection: Selection, chosen_arm: Arm) -> list[Row]:
    return section_result(WHAT_IF, replace(selection, formats=chosen_arm[:1], question_types=chosen_arm[1:])).figures


def _next_to_standard(row: Row, rows: Sequence[Row]) -> Row:
    """Return a row with its arm in words, and the model’s accuracy by the standard rule."""
    before = next(other.estimate for other in rows if (other["model"], other["rule"]) == (row["model"], STANDARD.key))
    change = None if row.estimate is None or before is None else float(changes(row.estimate, before))
    label = {"model": row["model"], "arm": arm(row["format"], row["question_type"]), "rule": row["rule"]}
    return replace(row, label=label, more={**row.more, "standard": before, "change": change})
